//! Delivery by plain stores: for peers whose memory this process has mapped.

use super::{Region, Source, Submitted, Work};
use crate::bail;
use crate::device::DevPtr;
use crate::error::Result;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Most bytes of one submission: about 100 us of copying, so that no step keeps other peers, or a waiting block, longer.
pub(in crate::transport) const PIECE: u64 = 1 << 20;

/// A mapped memory: nothing outside it is touched.
#[derive(Clone, Copy)]
struct Span {
    base: usize,
    bytes: u64,
}

impl Span {
    fn new(base: DevPtr, bytes: u64) -> Option<Self> {
        Some(Self { base: usize::try_from(base).ok()?, bytes })
    }

    /// Address of `offset`, if `bytes` from there are inside.
    #[inline]
    fn at(self, offset: u64, bytes: u64) -> Option<*mut u8> {
        if offset > self.bytes || bytes > self.bytes - offset {
            return None;
        }
        Some(std::ptr::with_exposed_provenance_mut(self.base + offset as usize))
    }
}

struct Mapping {
    local: Span,
    /// By rank; None for peers that this transport does not serve.
    peers: Vec<Option<Span>>,
}

/// The regions as one transport has them mapped. [`Region::new`] vouches for their addresses until `deregister`.
pub(in crate::transport) struct Mapped {
    name: &'static str,
    serves: Vec<bool>,
    regions: Vec<Option<Mapping>>,
}

impl Mapped {
    /// For the peers with `serves[peer]`.
    pub fn new(name: &'static str, serves: Vec<bool>) -> Self {
        Self { name, serves, regions: Vec::new() }
    }

    pub fn register(&mut self, region: &Region) -> Result<()> {
        let mut peers = Vec::with_capacity(self.serves.len());
        for (rank, serves) in self.serves.iter().enumerate() {
            let span = region.peer(rank).filter(|_| *serves).and_then(|base| Span::new(base, region.bytes()));
            if *serves && span.is_none() {
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

    fn target(&self, region: u32, peer: u32, offset: u64, bytes: u64) -> Option<*mut u8> {
        self.regions.get(region as usize)?.as_ref()?.peers.get(peer as usize)?.as_ref()?.at(offset, bytes)
    }

    /// Moves the payload, then the signal. Both ends are checked before the first byte moves.
    #[inline]
    pub fn deliver(&self, work: &Work) -> Result<Submitted> {
        let word = match work.signal {
            None => None,
            Some((offset, add)) => match self.target(super::SIGNALS, work.peer, offset, 8) {
                Some(word) if offset % 8 == 0 => Some((word, add)),
                _ => return self.refuse(work, "signal"),
            },
        };
        if work.bytes > 0 {
            let (region, offset) = work.target;
            let Some(to) = self.target(region, work.peer, offset, work.bytes) else {
                return self.refuse(work, "target");
            };
            let value;
            let from = match work.source {
                Source::Region { region, offset } => {
                    let mapping = self.regions.get(region as usize).and_then(Option::as_ref);
                    match mapping.and_then(|mapping| mapping.local.at(offset, work.bytes)) {
                        Some(from) => from.cast_const(),
                        None => return self.refuse(work, "source"),
                    }
                }
                Source::Inline(_) if work.bytes > 8 => return self.refuse(work, "inline value"),
                Source::Inline(bits) => {
                    value = bits.to_le_bytes();
                    value.as_ptr()
                }
            };
            // SAFETY: both ranges were checked to lie in live mappings (or in `value`); kernels that touch them during
            // the put break the API's contract, which this transport cannot make worse than a mixed payload.
            unsafe { copy(from, to, work.bytes as usize) };
        }
        if let Some((word, add)) = word {
            // SAFETY: 8 aligned bytes of a live mapping, only ever accessed atomically. Release puts the payload, and
            // everything this thread moved before, in front of the add.
            unsafe { AtomicU64::from_ptr(word.cast()) }.fetch_add(add, Ordering::Release);
        }
        Ok(Submitted::Done)
    }

    #[cold]
    fn refuse(&self, work: &Work, what: &str) -> Result<Submitted> {
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
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
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
