//! Memories as messages name them: for peers whose memory is not mapped here. Work is checked at the source before it goes,
//! and again at the target, which believes no message.

use super::mapped::{Payload, Signal, Span, copy};
use super::{Region, SIGNALS, Source, Work};
use crate::bail;
use crate::error::Result;

const VALUE: u64 = 1 << 32;
const SIGNAL: u64 = 1 << 33;
/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) struct Header {
    /// Payload bytes; 0 with a signal alone.
    pub bytes: u64,
    /// The payload stands in the header.
    pub value: Option<u64>,
    /// Key of the target memory, and where in it.
    pub target: (u64, u64),
    /// Byte offset in the target's signal memory and what to add.
    pub signal: Option<(u64, u64)>,
}

impl Header {
    pub fn encode(&self) -> [u64; 6] {
        let (at, add) = self.signal.unwrap_or_default();
        let flags = self.value.map_or(0, |_| VALUE) | self.signal.map_or(0, |_| SIGNAL);
        [self.bytes | flags, self.target.0, self.target.1, at, add, self.value.unwrap_or_default()]
    }

    /// None for what no sender of ours writes: `most` bytes go in one message.
    pub fn decode([first, name, offset, at, add, value]: [u64; 6], most: u64) -> Option<Self> {
        let bytes = first & u64::from(u32::MAX);
        let value = (first & VALUE != 0).then_some(value);
        let most = if value.is_some() { 8 } else { most };
        let known = first >> 34 == 0 && bytes <= most;
        known.then_some(Self { bytes, value, target: (name, offset), signal: (first & SIGNAL != 0).then_some((at, add)) })
    }
}

/// A header of a message, from words of a peer. What was understood is understood again from what is made of it.
#[doc(hidden)]
pub fn fuzz(words: [u64; 6], most: u64) {
    if let Some(header) = Header::decode(words, most) {
        let again = header.encode();
        assert!(header.bytes <= most.max(8) && Header::decode(again, most).map(|header| header.encode()) == Some(again));
    }
}

/// What messages may write to, by key. A rank's keys differ, and no peer chooses them, so each is its own hash: it leads to a place in a
/// table that is half full at most, and where another one has that, to the next. A `HashMap` with the same hash costs more (docs/measured/ofi.md).
struct Targets(Vec<Option<(u64, Span)>>);

impl Targets {
    fn of(all: impl Iterator<Item = (u64, Span)> + Clone) -> Self {
        let mut own = Self(vec![None; (2 * all.clone().count()).next_power_of_two()]);
        for (key, span) in all {
            let place = own.place(key);
            debug_assert!(own.0[place].is_none(), "two memories have key {key}");
            own.0[place] = Some((key, span));
        }
        own
    }

    /// The place that has `key`, or the free one at which looking for it ends.
    #[inline]
    fn place(&self, key: u64) -> usize {
        let last = self.0.len() - 1;
        let mut place = key as usize & last;
        while let Some((other, _)) = &self.0[place]
            && *other != key
        {
            place = (place + 1) & last;
        }
        place
    }

    #[inline]
    fn get(&self, key: u64) -> Option<Span> {
        self.0[self.place(key)].map(|(_, span)| span)
    }
}

/// A region of all ranks as its local part stands for it.
#[derive(Clone, Copy)]
struct Known {
    key: u64,
    bytes: u64,
    local: Span,
}

/// The regions that one transport knows.
pub(in crate::transport) struct Remote {
    transport: &'static str,
    /// By [`Region::id`].
    known: Vec<Option<Known>>,
    targets: Targets,
    signals: Option<Span>,
}

impl Remote {
    /// For messages of `transport`.
    pub fn new(transport: &'static str) -> Self {
        Self { transport, known: Vec::new(), targets: Targets::of(std::iter::empty()), signals: None }
    }

    /// From now on messages name this rank's part of `region` by `key`.
    pub fn register(&mut self, region: &Region, key: u64) -> Result<()> {
        let Some(local) = Span::new(region.local(), region.bytes()) else {
            bail!(InternalError, 37, "memory has no address | memory {} | {} | fix: report this", region.name, self.transport);
        };
        let id = region.id as usize;
        if self.known.len() <= id {
            self.known.resize(id + 1, None);
        }
        self.known[id] = Some(Known { key, bytes: region.bytes(), local });
        if region.id == SIGNALS {
            self.signals = Some(local);
        }
        self.open();
        Ok(())
    }

    pub fn deregister(&mut self, region: u32) {
        if region == SIGNALS {
            self.signals = None;
        }
        if self.known.get_mut(region as usize).is_some_and(|known| known.take().is_some()) {
            self.open();
        }
    }

    /// Opens what is known, and nothing else, to messages; signals are words that they add to.
    fn open(&mut self) {
        let known = self.known.iter().enumerate().filter(|(id, _)| *id as u32 != SIGNALS);
        self.targets = Targets::of(known.filter_map(|(_, known)| known.map(|known| (known.key, known.local))));
    }

    fn known(&self, region: u32) -> Option<Known> {
        *self.known.get(region as usize)?
    }

    /// This rank's key of `region`, by which staged messages name it on every rank.
    pub fn key(&self, region: u32) -> u64 {
        self.known(region).map_or(0, |known| known.key)
    }

    /// Checks `work` at its source, of which `most` bytes may go at once: where its payload is.
    pub fn outgoing(&self, work: &Work, most: u64) -> Result<Payload> {
        if let Some((offset, _)) = work.signal {
            let inside = self.signals.is_some_and(|signals| signals.at(offset, 8).is_some());
            if !inside || offset % 8 != 0 {
                return self.refuse(work, "signal");
            }
        }
        if work.bytes == 0 {
            return Ok(Payload::Nothing);
        }
        let (region, offset) = work.target;
        let fits = |known: Known| known.bytes >= work.bytes && offset <= known.bytes - work.bytes;
        if !self.known(region).is_some_and(fits) {
            return self.refuse(work, "target");
        }
        match work.source {
            Source::Inline(_) if work.bytes > 8 => self.refuse(work, "inline value"),
            Source::Inline(value) => Ok(Payload::Value(value)),
            Source::Region { .. } if work.bytes > most => self.refuse(work, "piece"),
            Source::Region { region, offset } => match self.known(region).and_then(|known| known.local.at(offset, work.bytes)) {
                Some(from) => Ok(Payload::Memory(from.cast_const())),
                None => self.refuse(work, "source"),
            },
        }
    }

    /// Checks a message at its target: where its `bytes` go, null for none, and the signal behind them. If not, why not.
    #[inline]
    pub fn incoming(
        &self,
        bytes: u64,
        (key, offset): (u64, u64),
        signal: Option<(u64, u64)>,
    ) -> std::result::Result<(*mut u8, Option<Signal>), String> {
        let signal = match signal {
            None => None,
            Some((at, add)) => match self.signals.and_then(|signals| Signal::at(signals, at, add)) {
                Some(signal) => Some(signal),
                None => return Err(no_signal(at)),
            },
        };
        if bytes == 0 {
            return Ok((std::ptr::null_mut(), signal));
        }
        match self.targets.get(key).and_then(|span| span.at(offset, bytes)) {
            Some(to) => Ok((to, signal)),
            None => Err(no_memory(bytes, key, offset)),
        }
    }

    /// Checks `work` at its source and copies its payload behind what stands in `into`; a value comes back.
    pub fn gather(&self, work: &Work, most: u64, into: &mut Vec<u8>) -> Result<Option<u64>> {
        match self.outgoing(work, most)? {
            Payload::Nothing => Ok(None),
            Payload::Value(value) => Ok(Some(value.to_le())),
            Payload::Memory(from) => {
                let (begin, bytes) = (into.len(), work.bytes as usize);
                into.resize(begin + bytes, 0);
                // SAFETY: the source was just checked to lie in a region of host memory, which stays mapped until it is
                // deregistered; the target is the vector's own. Kernels that write the source now break the API's contract.
                unsafe { std::ptr::copy(from, into[begin..].as_mut_ptr(), bytes) };
                Ok(None)
            }
        }
    }

    /// Lands a message: its payload, then its signal. Why not, if any of it lies outside: then nothing has moved.
    pub fn land(&self, header: &Header, payload: &[u8]) -> std::result::Result<(), String> {
        let value = header.value.map(u64::to_ne_bytes);
        let payload = value.as_ref().map_or(payload, |value| &value[..header.bytes as usize]);
        if payload.len() as u64 != header.bytes {
            return Err(format!("it says {} bytes and has {}", header.bytes, payload.len()));
        }
        let (to, signal) = self.incoming(header.bytes, header.target, header.signal)?;
        if !to.is_null() {
            // SAFETY: `incoming` checked that so many bytes from there lie in registered host memory of this rank.
            unsafe { copy(payload.as_ptr(), to, payload.len()) };
        }
        if let Some(signal) = signal {
            signal.raise();
        }
        Ok(())
    }

    #[cold]
    pub fn refuse<T>(&self, work: &Work, what: &str) -> Result<T> {
        bail!(
            InternalError,
            50,
            "{what} lies outside the registered memory | {}, to rank {} | {work:?} | fix: put only into registered windows",
            self.transport,
            work.peer
        )
    }
}

#[cold]
fn no_signal(at: u64) -> String {
    format!("there is no signal at {at:#x}")
}

#[cold]
fn no_memory(bytes: u64, key: u64, offset: u64) -> String {
    format!("bytes {offset:#x} to {offset:#x}+{bytes:#x} of memory {key} are not registered here")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECE: u64 = 64 << 10;

    proptest! {
        #[test]
        fn a_header_survives_the_way(
            bytes in 0..=PIECE, value: Option<u64>, name: u64, offset: u64, signal: Option<(u64, u64)>
        ) {
            let bytes = if value.is_some() { bytes.min(8) } else { bytes };
            let header = Header { bytes, value, target: (name, offset), signal };
            prop_assert_eq!(Header::decode(header.encode(), PIECE), Some(header));
        }

        /// Random keys, and those that lead to one place.
        #[test]
        fn a_key_finds_its_own_memory(keys in proptest::collection::hash_set(prop_oneof![any::<u64>(), (0..64u64).prop_map(|n| n << 32)], 0..40), other: u64) {
            let all = keys.iter().map(|key| (*key, Span::new(*key >> 1, 8).unwrap()));
            let targets = Targets::of(all);
            for key in &keys {
                prop_assert_eq!(targets.get(*key).and_then(|span| span.at(0, 8)).map(|at| at.addr() as u64), Some(*key >> 1));
            }
            prop_assert_eq!(targets.get(other).is_some(), keys.contains(&other));
        }

        #[test]
        fn garbage_is_refused_or_within_bounds(words: [u64; 6]) {
            if let Some(header) = Header::decode(words, PIECE) {
                let most = if header.value.is_some() { 8 } else { PIECE };
                prop_assert!(header.bytes <= most);
            }
        }
    }
}
