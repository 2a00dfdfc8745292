//! Regions as addresses, for peers whose memory this process has mapped; and delivery by plain stores where the host can.

use super::{Region, Source, Submitted, Work};
use crate::bail;
use crate::device::DevPtr;
use crate::error::Result;
use crate::log::timeline;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A mapped memory: nothing outside it is touched.
#[derive(Clone, Copy)]
pub(in crate::transport) struct Span {
    base: usize,
    bytes: u64,
}

impl Span {
    pub fn new(base: DevPtr, bytes: u64) -> Option<Self> {
        Some(Self { base: usize::try_from(base).ok()?, bytes })
    }

    /// Address of `offset`, if `bytes` from there are inside.
    #[inline]
    pub fn at(self, offset: u64, bytes: u64) -> Option<*mut u8> {
        if offset > self.bytes || bytes > self.bytes - offset {
            return None;
        }
        Some(std::ptr::with_exposed_provenance_mut(self.base + offset as usize))
    }
}

struct Mapping {
    local: Span,
    /// From the first rank on that this transport serves; None for those that it does not.
    peers: Vec<Option<Span>>,
}

/// A word of signal memory and what to add to it. The host can touch it, and it stays mapped as long as the transport.
#[derive(Clone, Copy)]
pub(in crate::transport) struct Signal {
    word: usize,
    add: u64,
}

impl Signal {
    /// The word at `offset` of `signals`, which stay mapped for as long as the transport; None if it is not one.
    #[inline]
    pub fn at(signals: Span, offset: u64, add: u64) -> Option<Self> {
        let word = signals.at(offset, 8).filter(|word| word.addr().is_multiple_of(8))?;
        Some(Self { word: word.expose_provenance(), add })
    }

    /// Adds. Release: whoever sees the sum sees everything that this thread has seen to land before.
    #[inline]
    pub fn raise(self) {
        let word = std::ptr::with_exposed_provenance_mut(self.word);
        // SAFETY: `at`, the only maker, checked that these are 8 aligned bytes of the signal region, which goes with its
        // engine, after the transports; only ever accessed atomically.
        unsafe { AtomicU64::from_ptr(word) }.fetch_add(self.add, Ordering::Release);
    }
}

/// Where a payload comes from.
#[derive(Clone, Copy)]
pub(in crate::transport) enum Payload {
    Nothing,
    Value(u64),
    Memory(*const u8),
}

/// Work whose two ends have been checked. The pointers are device addresses: host addresses only on the CPU device.
#[derive(Clone, Copy)]
pub(in crate::transport) struct Resolved {
    pub from: Payload,
    pub to: *mut u8,
    pub signal: Option<Signal>,
}

/// The regions as one transport has them mapped. [`Region::new`] vouches for their addresses until `deregister`.
pub(in crate::transport) struct Mapped {
    pub name: &'static str,
    /// From the first rank that it serves to the last one: a communicator may have thousands that it does not.
    serves: Vec<bool>,
    first: u32,
    regions: Vec<Option<Mapping>>,
}

impl Mapped {
    /// For the peers with `serves[peer]`.
    pub fn new(name: &'static str, serves: Vec<bool>) -> Self {
        let first = serves.iter().position(|serves| *serves).unwrap_or(serves.len());
        let end = serves.iter().rposition(|serves| *serves).map_or(first, |last| last + 1);
        Self { name, serves: serves[first..end].to_vec(), first: first as u32, regions: Vec::new() }
    }

    pub fn register(&mut self, region: &Region) -> Result<()> {
        let mut peers = Vec::with_capacity(self.serves.len());
        for (rank, serves) in (self.first as usize..).zip(&self.serves) {
            let span = region.peer(rank).filter(|_| *serves).and_then(|base| Span::new(base, region.bytes()));
            if *serves && span.is_none() && !region.apart {
                bail!(
                    SystemError,
                    37,
                    "memory cannot be reached by {} | memory {} of {:#x} bytes, part of rank {rank} | it is not mapped here | fix: report this",
                    self.name,
                    region.name,
                    region.bytes()
                );
            }
            peers.push(span);
        }
        let Some(local) = Span::new(region.local(), region.bytes()) else {
            bail!(
                InternalError,
                37,
                "memory has no host address | memory {} at {:#x} | fix: report this",
                region.name,
                region.local()
            );
        };
        let id = region.id as usize;
        if self.regions.len() <= id {
            self.regions.resize_with(id + 1, || None);
        }
        self.regions[id] = Some(Mapping { local, peers });
        Ok(())
    }

    pub fn deregister(&mut self, region: u32) {
        if let Some(slot) = self.regions.get_mut(region as usize) {
            *slot = None;
        }
    }

    fn span(&self, region: u32, peer: u32) -> Option<Span> {
        *self.regions.get(region as usize)?.as_ref()?.peers.get(peer.wrapping_sub(self.first) as usize)?
    }

    /// Checks both ends of `work`, and that it goes to a peer that is served.
    #[inline]
    pub fn resolve(&self, work: &Work) -> Result<Resolved> {
        let mut resolved = Resolved { from: Payload::Nothing, to: std::ptr::null_mut(), signal: None };
        if let Some((offset, add)) = work.signal {
            resolved.signal = self.span(super::SIGNALS, work.peer).and_then(|signals| Signal::at(signals, offset, add));
            if resolved.signal.is_none() {
                return self.refuse(work, "signal");
            }
        }
        if work.bytes > 0 {
            let (region, offset) = work.target;
            match self.span(region, work.peer).and_then(|span| span.at(offset, work.bytes)) {
                Some(to) => resolved.to = to,
                None => return self.refuse(work, "target"),
            }
            resolved.from = match work.source {
                Source::Region { region, offset } => {
                    let mapping = self.regions.get(region as usize).and_then(Option::as_ref);
                    match mapping.and_then(|mapping| mapping.local.at(offset, work.bytes)) {
                        Some(from) => Payload::Memory(from.cast_const()),
                        None => return self.refuse(work, "source"),
                    }
                }
                Source::Inline(_) if work.bytes > 8 => return self.refuse(work, "inline value"),
                Source::Inline(bits) => Payload::Value(bits),
            };
        }
        Ok(resolved)
    }

    /// Moves the payload, then the signal. Both ends are checked before the first byte moves.
    #[inline]
    pub fn deliver(&self, work: &Work) -> Result<Submitted> {
        let Resolved { from, to, signal } = self.resolve(work)?;
        let value;
        let from = match from {
            Payload::Nothing => std::ptr::null(),
            Payload::Memory(from) => from,
            Payload::Value(bits) => {
                value = bits.to_le_bytes();
                value.as_ptr()
            }
        };
        if work.bytes > 0 {
            // SAFETY: both ranges were checked to lie in live mappings (or in `value`); kernels that touch them during
            // the put break the API's contract, which this transport cannot make worse than a mixed payload.
            unsafe { copy(from, to, work.bytes as usize) };
        }
        if timeline::is_on() {
            timeline::moved(work.tag);
        }
        if let Some(signal) = signal {
            signal.raise();
        }
        Ok(Submitted::Done)
    }

    #[cold]
    pub fn refuse<T>(&self, work: &Work, what: &str) -> Result<T> {
        bail!(
            InternalError,
            50,
            "{} lies outside the registered memory | {}, to rank {} | {work:?} | fix: put only into registered windows",
            what,
            self.name,
            work.peer
        )
    }
}

/// Copies; 1, 2, 4 or 8 aligned bytes land in one store, because kernels poll on such words.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`; they may overlap.
#[inline]
pub(in crate::transport) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    let aligned = bytes.is_power_of_two() && (to as usize).is_multiple_of(bytes);
    // SAFETY: the caller's; each atomic store is to an aligned word inside the range.
    unsafe {
        match bytes {
            8 if aligned => AtomicU64::from_ptr(to.cast()).store(from.cast::<u64>().read_unaligned(), Ordering::Relaxed),
            4 if aligned => AtomicU32::from_ptr(to.cast()).store(from.cast::<u32>().read_unaligned(), Ordering::Relaxed),
            2 if aligned => AtomicU16::from_ptr(to.cast()).store(from.cast::<u16>().read_unaligned(), Ordering::Relaxed),
            1 => AtomicU8::from_ptr(to).store(from.read(), Ordering::Relaxed),
            _ => std::ptr::copy(from, to, bytes),
        }
    }
}
