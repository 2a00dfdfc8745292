//! From a descriptor to work for a transport: everything that a kernel wrote is checked here, at the source.
#![forbid(unsafe_code)]

use super::descriptor::{self, Descriptor, Misfit, SignalOp};
use super::handles::{Handles, Refused};
use crate::error::{Code, Error};
use crate::nic::completion::Syndrome;
use crate::nic::element::{Element, Misfit as NoElement};
use crate::transport::{Source, Work};

/// Error number of an operation that is refused.
pub const REFUSED: u16 = 51;
/// The same where the context is direct.
pub const PROXIED_ON_DIRECT: u16 = 81;

/// Ids in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The first.
    pub base: u32,
    /// How many.
    pub count: u32,
}

impl From<std::ops::Range<u32>> for Ids {
    fn from(range: std::ops::Range<u32>) -> Self {
        Self { base: range.start, count: range.end - range.start }
    }
}

impl Ids {
    /// Is it one of these? An id below the first wraps, and is then behind the last.
    #[inline]
    pub fn check(self, what: &'static str, id: u16) -> Result<(), Fault> {
        match u32::from(id).wrapping_sub(self.base) < self.count {
            true => Ok(()),
            false => Err(Fault::Id { what, id, ids: self }),
        }
    }
}

/// What ids of one context may be: those of the device communicator whose kernels post there.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Signals, which are the target's: ids are equal on all ranks.
    pub signals: Ids,
    /// Counters.
    pub counters: Ids,
    /// The context's number in its device communicator, and signal ids per context: where its words are.
    pub number: u32,
    /// See `number`.
    pub pool: u32,
    /// What the host takes.
    pub posts: Posts,
}

impl Limits {
    /// Where its first signal stands in the target's signal memory. Bytes.
    pub fn first_signal(&self) -> u64 {
        (u64::from(self.number) * u64::from(self.pool) + u64::from(self.signals.base)) * 8
    }
}

/// What of a context's descriptors is the host's to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posts {
    /// All.
    All,
    /// Payloads: only kernels add to signals and counters.
    Payloads,
    /// Nothing: here post kernels that should have stored.
    Nothing,
}

/// A checked operation and how much of it has been submitted.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    work: Work,
    counter: Option<u16>,
    submitted: u64,
}

/// Why a descriptor is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its fields make no sense.
    Fields(Misfit),
    /// A handle names no memory.
    Handle {
        /// `source` or `target`.
        which: &'static str,
        /// The value.
        handle: u64,
        /// What is known of it.
        refused: Refused,
    },
    /// The range leaves the window.
    Bounds {
        /// `source` or `target`.
        which: &'static str,
        /// The handle that names the window.
        handle: u64,
        /// First byte, from the window's start: before it where a kernel's offset was, or has wrapped.
        offset: i64,
        /// Length.
        bytes: u64,
        /// Size of the window.
        size: u64,
    },
    /// An id is none of the device communicator's.
    Id {
        /// `signal` or `counter`.
        what: &'static str,
        /// The id.
        id: u16,
        /// Those that it has.
        ids: Ids,
    },
    /// A kernel was asked for an id that its device communicator was not given, or for a rank beyond the last, and did nothing.
    NotGiven {
        /// `signal`, `counter` or `peer`.
        what: &'static str,
        /// The id, of the device communicator's; the world rank.
        id: u32,
        /// How many it has.
        count: u32,
    },
    /// A work queue element that makes no sense.
    Element(NoElement),
    /// It names no memory of that side.
    Key {
        /// `source` or `target`.
        which: &'static str,
        /// The value.
        key: u32,
    },
    /// It adds to what is no word of the table.
    Word {
        /// Byte of the table.
        address: u64,
        /// Words of it.
        words: u32,
    },
    /// A card is to fail at it.
    Injected {
        /// What it was.
        element: Element,
        /// How.
        syndrome: Syndrome,
    },
    /// A real card's completion says so.
    Card {
        /// Of the element.
        opcode: u8,
        /// The card's reason, and the vendor's.
        syndrome: (u8, u8),
    },
    /// It waits for a queue that it may not wait for.
    Waits {
        /// Number of its completion queue.
        queue: u32,
    },
    /// An operation for the proxy, in a context whose kernels carry it out themselves.
    Direct {
        /// What it was.
        what: &'static str,
    },
}

const IDS: &str =
    "ask for the ids in ncclDevCommRequirements, use those below the count, and destroy a device communicator behind its kernels";

impl Fault {
    /// From the word that a kernel left (GINRS_REFUSAL of include/ginrs_device/marker.h).
    #[cold]
    pub fn refusal(word: u64) -> Self {
        let what = match word >> 56 {
            1 => "signal",
            2 => "counter",
            _ => "peer",
        };
        let part = |low: u32| (word >> low) as u32 & 0xfff_ffff;
        Self::NotGiven { what, id: part(28), count: part(0) }
    }

    /// What a card would say of it.
    pub fn syndrome(&self) -> Syndrome {
        match self {
            Self::Key { which: "source", .. } | Self::Bounds { which: "source", .. } => Syndrome::LocalProtection,
            Self::Key { .. } | Self::Bounds { .. } | Self::Word { .. } | Self::Id { .. } => Syndrome::RemoteAccess,
            Self::Element(misfit) => misfit.syndrome(),
            Self::Injected { syndrome, .. } => *syndrome,
            _ => Syndrome::LocalOperation,
        }
    }

    /// The error that ends the communicator; `whose` names rank, context, operation and peer.
    #[cold]
    pub fn error(&self, whose: &str) -> Error {
        let (values, fix) = match self {
            Self::Fields(misfit) => {
                (format!("{misfit}"), "a kernel wrote over the queue, or was compiled against headers that are not of NCCL 2.28")
            }
            Self::Handle { which, handle, refused: Refused::Gone } => (
                format!("{which} window's handle {handle:#x} was deregistered"),
                "keep windows registered until every kernel that uses them has ended",
            ),
            Self::Handle { which, handle, refused: Refused::Unknown } => (
                format!("{which} window's handle {handle:#x} was never given out by this communicator"),
                "pass windows of the same communicator as the device communicator; handle 0 is a put without a window",
            ),
            Self::Bounds { which, handle, offset, bytes, size } => (
                {
                    let from = format!("{}{:#x}", if *offset < 0 { "-" } else { "" }, offset.unsigned_abs());
                    format!("{which} window {handle:#x}: bytes {from} to {from}+{bytes:#x} of {size:#x}")
                },
                "offset plus size must stay within the window",
            ),
            Self::Id { what, id, ids } => (
                // As kernels count: from the device communicator's first.
                format!("{what} {}, the device communicator has {}", i64::from(*id) - i64::from(ids.base), ids.count),
                IDS,
            ),
            Self::NotGiven { what: "peer", id, count } => {
                (format!("peer {id}, the communicator has {count} ranks"), "put to ranks of the team that the call names, from 0")
            }
            Self::NotGiven { what, id, count } => (format!("{what} {id}, the device communicator has {count}"), IDS),
            Self::Element(misfit) => {
                (misfit.to_string(), "a kernel wrote over the queue, or posts what the model of a card does not know")
            }
            Self::Key { which, key } => (
                format!("{which} key {key:#x} names no memory that is registered there"),
                "take keys from this communicator's windows and contexts, the remote one at the target's rank, and keep windows registered; the \
                 model adds to signals and counters alone",
            ),
            Self::Word { address, words } => (format!("byte {address:#x} of a table of {words} words"), IDS),
            Self::Injected { element, syndrome } => (
                format!("{element}: {} ({:#x}), which GINRS_NIC_FAULT asks for", syndrome.name(), *syndrome as u8),
                "unset GINRS_NIC_FAULT",
            ),
            Self::Card { opcode, syndrome: (syndrome, vendor) } => (
                format!(
                    "opcode {opcode:#x}: the card says {} ({syndrome:#x}, vendor {vendor:#x})",
                    Syndrome::of(*syndrome).map_or("an error that is not known here", Syndrome::name)
                ),
                "keys and ranges of windows; where the peer did not answer (0x15), its process and the network",
            ),
            Self::Waits { queue } => {
                (format!("WAIT for completion queue {queue:#x}"), "companion queues wait, for queues of their own context")
            }
            Self::Direct { what } => (
                format!("{what} for the proxy, in a direct context: the kernel was compiled with other headers than ginrs's"),
                "compile all kernels that use this device communicator with ginrs's headers, or set NCCL_GIN_BACKEND=proxy (and leave \
                 out GINRS_GIN_DIRECT)",
            ),
        };
        let number = if matches!(self, Self::Direct { .. }) { PROXIED_ON_DIRECT } else { REFUSED };
        Error::new(Code::InvalidUsage, number, format!("GIN operation refused | {whose} | {values} | fix: {fix}"))
    }
}

/// Checks `words` and makes an operation of it; `tag` comes back with completions.
#[inline]
pub fn plan(words: &[u64; 8], handles: &Handles, limits: &Limits, context: u32, peer: u32, tag: u64) -> Result<Operation, Fault> {
    let descriptor = Descriptor::decode(words).map_err(Fault::Fields)?;
    let Descriptor { bytes, source, dst_handle, dst_offset, signal, counter } = descriptor;
    if limits.posts == Posts::Nothing || limits.posts == Posts::Payloads && (signal.is_some() || counter.is_some()) {
        return Err(Fault::Direct { what: name(&descriptor) });
    }
    let mut work = Work { tag, context, peer, source: Source::Inline(0), bytes, target: (0, 0), signal: None };
    if bytes > 0 {
        work.target = within(handles, "target", dst_handle, dst_offset, bytes)?;
        work.source = match source {
            descriptor::Source::Inline(value) => Source::Inline(value),
            descriptor::Source::Memory { handle, offset } => {
                let (region, offset) = within(handles, "source", handle, offset, bytes)?;
                Source::Region { region, offset }
            }
        };
    }
    if let Some((id, op)) = signal {
        limits.signals.check("signal", id)?;
        let add = match op {
            SignalOp::Inc => 1,
            SignalOp::Add(value) => value,
        };
        work.signal = Some((signal_offset(limits.number, limits.pool, id), add));
    }
    if let Some(id) = counter {
        limits.counters.check("counter", id)?;
    }
    Ok(Operation { work, counter, submitted: 0 })
}

/// What a kernel called to post it.
#[cold]
fn name(descriptor: &Descriptor) -> &'static str {
    match (descriptor.source, descriptor.signal.is_some(), descriptor.counter.is_some()) {
        (descriptor::Source::Inline(_), false, _) => "a putValue",
        (descriptor::Source::Inline(_), true, _) => "a putValue with a signal",
        (_, true, false) if descriptor.bytes == 0 => "a signal",
        (_, false, false) => "a put",
        (_, true, false) => "a put with a signal",
        (_, false, true) => "a put with a counter",
        (_, true, true) => "a put with a signal and a counter",
    }
}

/// Where signal `id` of `context` lies in every rank's signal memory.
pub fn signal_offset(context: u32, signals: u32, id: u16) -> u64 {
    (u64::from(context) * u64::from(signals) + u64::from(id)) * 8
}

/// The region that `handle` names and the place in it, if the range lies inside.
#[inline]
fn within(handles: &Handles, which: &'static str, handle: u64, offset: u64, bytes: u64) -> Result<(u32, u64), Fault> {
    let memory = handles.lookup(handle).map_err(|refused| Fault::Handle { which, handle, refused })?;
    // What lies before the window wraps, and is then behind its end.
    let at = offset.wrapping_sub(memory.start);
    if at > memory.bytes || bytes > memory.bytes - at {
        // A descriptor carries 63 bits: the upper half were negative.
        return Err(Fault::Bounds { which, handle, offset: (at << 1) as i64 >> 1, bytes, size: memory.bytes });
    }
    Ok((memory.region, at))
}

impl Operation {
    /// Of work that was checked elsewhere.
    pub fn of(work: Work) -> Self {
        Self { work, counter: None, submitted: 0 }
    }

    /// The next piece of at most `max` bytes; only the last carries the signal. None when all is submitted.
    #[inline]
    pub fn piece(&self, max: u64) -> Option<Work> {
        let left = self.work.bytes - self.submitted;
        if left <= max {
            let nothing = left == 0 && (self.submitted > 0 || self.work.signal.is_none());
            return (!nothing).then(|| self.at(left));
        }
        Some(Work { signal: None, ..self.at(max) })
    }

    fn at(&self, bytes: u64) -> Work {
        let mut work = Work { bytes, ..self.work };
        work.target.1 += self.submitted;
        if let Source::Region { offset, .. } = &mut work.source {
            *offset += self.submitted;
        }
        work
    }

    /// Notes that `piece` was taken; true when it was the last.
    #[inline]
    pub fn took(&mut self, piece: &Work) -> bool {
        self.submitted += piece.bytes;
        if piece.signal.is_some() {
            self.work.signal = None;
        }
        self.submitted == self.work.bytes
    }

    /// The counter that rises when the operation is done.
    #[inline]
    pub fn counter(&self) -> Option<u16> {
        self.counter
    }

    /// What comes back with its completions.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.work.tag
    }

    /// Word of the target's signal memory, and what is added to it.
    #[inline]
    pub fn signal(&self) -> Option<(u64, u64)> {
        self.work.signal.map(|(offset, add)| (offset / 8, add))
    }

    /// Target rank.
    #[inline]
    pub fn peer(&self) -> u32 {
        self.work.peer
    }

    /// Of its payload.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.work.bytes
    }

    /// Bytes that transports have taken.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Regions that the operation reads and writes; deregistering one under way is a misuse.
    pub fn uses(&self, region: u32) -> bool {
        let source = matches!(self.work.source, Source::Region { region: from, .. } if from == region);
        self.work.bytes > 0 && (source || self.work.target.0 == region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D6: sizes around the widths of 31 and 32 bits.
    #[test]
    fn pieces_of_any_size_cover_it_once() {
        let source = Source::Region { region: 1, offset: 64 };
        for bytes in [1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 3 << 40] {
            for max in [1 << 30, (1 << 31) - 1, u64::from(u32::MAX), u64::MAX] {
                let work = Work { tag: 0, context: 0, peer: 1, source, bytes, target: (2, 128), signal: Some((8, 1)) };
                let (mut operation, mut at) = (Operation { work, counter: None, submitted: 0 }, 0);
                while let Some(piece) = operation.piece(max) {
                    assert!(
                        piece.bytes <= max && piece.bytes > 0 && piece.target == (2, 128 + at),
                        "{bytes} by {max}: {piece:?}"
                    );
                    assert!(matches!(piece.source, Source::Region { region: 1, offset } if offset == 64 + at));
                    at += piece.bytes;
                    assert_eq!(piece.signal.is_some(), at == bytes, "the signal goes with the last byte");
                    if operation.took(&piece) {
                        break;
                    }
                }
                assert_eq!(at, bytes);
            }
        }
    }
}
