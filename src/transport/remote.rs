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
/// table that is half full at most, and where another one has that, to the next. A `HashMap` with the same hash costs more (docs/results/ofi.md).
struct Targets {
    places: Vec<Option<(u64, Span)>>,
    taken: usize,
}

impl Targets {
    fn new() -> Self {
        Self { places: vec![None], taken: 0 }
    }

    fn insert(&mut self, key: u64, span: Span) {
        if 2 * (self.taken + 1) > self.places.len() {
            let larger = vec![None; 2 * self.places.len()];
            for entry in std::mem::replace(&mut self.places, larger).into_iter().flatten() {
                self.put(entry);
            }
        }
        self.put((key, span));
        self.taken += 1;
    }

    fn put(&mut self, entry: (u64, Span)) {
        let place = self.place(entry.0);
        debug_assert!(self.places[place].is_none(), "two memories have key {}", entry.0);
        self.places[place] = Some(entry);
    }

    fn remove(&mut self, key: u64) {
        let mut place = self.place(key);
        if self.places[place].take().is_none() {
            return;
        }
        self.taken -= 1;
        // Those behind it, up to the next free place, may have stood there because it did not leave room.
        loop {
            place = (place + 1) & (self.places.len() - 1);
            match self.places[place].take() {
                Some(entry) => self.put(entry),
                None => return,
            }
        }
    }

    /// The place that has `key`, or the free one at which looking for it ends.
    #[inline]
    fn place(&self, key: u64) -> usize {
        let last = self.places.len() - 1;
        let mut place = key as usize & last;
        while let Some((other, _)) = &self.places[place]
            && *other != key
        {
            place = (place + 1) & last;
        }
        place
    }

    #[inline]
    fn get(&self, key: u64) -> Option<Span> {
        self.places[self.place(key)].map(|(_, span)| span)
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
        Self { transport, known: Vec::new(), targets: Targets::new(), signals: None }
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
        let before = self.known[id].replace(Known { key, bytes: region.bytes(), local });
        if region.id == SIGNALS {
            // Words that messages add to; nothing is written there.
            self.signals = Some(local);
            return Ok(());
        }
        if let Some(before) = before {
            self.targets.remove(before.key);
        }
        self.targets.insert(key, local);
        Ok(())
    }

    pub fn deregister(&mut self, region: u32) {
        let known = self.known.get_mut(region as usize).and_then(Option::take);
        match known {
            _ if region == SIGNALS => self.signals = None,
            Some(known) => self.targets.remove(known.key),
            None => {}
        }
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

        /// Random keys, and those that lead to one place; some are withdrawn, and the table is as it was before them.
        #[test]
        fn a_key_finds_its_own_memory_until_it_is_withdrawn(
            keys in proptest::collection::hash_map(prop_oneof![any::<u64>(), (0..64u64).prop_map(|n| n << 32)], any::<bool>(), 0..40),
            other: u64
        ) {
            let mut targets = Targets::new();
            keys.keys().for_each(|key| targets.insert(*key, Span::new(*key >> 1, 8).unwrap()));
            let found = |targets: &Targets, key: u64| targets.get(key).and_then(|span| span.at(0, 8)).map(|at| at.addr() as u64);
            keys.keys().for_each(|key| assert_eq!(found(&targets, *key), Some(*key >> 1)));
            prop_assert_eq!(targets.get(other).is_some(), keys.contains_key(&other));
            keys.iter().filter(|(_, stays)| !**stays).for_each(|(key, _)| targets.remove(*key));
            for (key, stays) in &keys {
                prop_assert_eq!(found(&targets, *key), stays.then_some(*key >> 1));
            }
            let stay = keys.values().filter(|stays| **stays).count();
            prop_assert!(targets.taken == stay && targets.places.len() >= 2 * stay);
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
