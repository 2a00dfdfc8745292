//! One GIN context: the arrays that kernels see, and the proxy's state behind each queue.
//!
//! | memory | writer -> reader |
//! |---|---|
//! | the context itself, `pis`, `cachedCis` | see `image.rs` |
//! | queues | kernels -> proxy, which zeroes slots |
//! | `cis` | proxy -> kernels |
//! | counters of proxied contexts | proxy -> kernels, which reset them |
//! | signals of proxied contexts | proxies of all ranks -> kernels of this one, which reset them |
//! | signals and counters of direct contexts | kernels alone |
//! | hints | kernels -> proxy |
//! | refusal | kernels -> proxy |
//!
//! All but the words of direct contexts and, on a GPU, of a card's is host memory: the CPU reads or adds there.
#![forbid(unsafe_code)]

use super::descriptor::WORDS;
use super::gdaki::Nic;
use super::hints::Hints;
use super::image::{Direct, Image, Images};
use super::lanes::Lanes;
use super::ledger::Open;
use super::plan::{Ids, Limits, Operation, Posts};
use super::queue;
use super::shared::Shared;
use crate::abort::Abort;
use crate::device::{ControlMemory, DevPtr, Device, Kind, Physical};
use crate::error::Result;
use crate::seq::Seq;
use crate::transport::select;
use crate::{bail, config};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zerocopy::FromZeros;

/// What a context is made from.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Ranks of the communicator: one queue each.
    pub n_ranks: u32,
    /// Slots per queue, a power of two.
    pub depth: u32,
    /// Signal ids per context.
    pub signals: u32,
    /// Counter ids per context.
    pub counters: u32,
    /// First index of the queues, see [`Shape::first`]: 0, except in tests of the wrap.
    pub start: Seq,
}

impl Shape {
    /// Where the indices of `peer`'s queue start. Scattered: queues lie a power of two apart, and heads that move together
    /// would share a few cache sets (measured by `benches/proxy.rs`: several times slower at 1024 peers).
    pub fn first(&self, peer: u32) -> Seq {
        self.start.advance((peer.wrapping_mul(0x9e37_79b1) >> 16) & (self.depth - 1))
    }
}

/// Slots per queue so that all queues of a rank take at most 4 MiB, between 16 and 256. `wanted` is
/// NCCL_GIN_PROXY_QUEUE_SIZE; a value that cannot be used comes back as Err with the default.
pub fn depth(n_ranks: u32, n_contexts: u32, wanted: i64) -> std::result::Result<u32, u32> {
    let slots = (4 << 20) / (64 * u64::from(n_ranks.max(1)) * u64::from(n_contexts.max(1)));
    let default = slots.clamp(16, 256).ilog2();
    match u32::try_from(wanted) {
        Ok(wanted) if wanted.is_power_of_two() && wanted <= 256 => Ok(wanted),
        _ if wanted == -1 => Ok(1 << default),
        _ => Err(1 << default),
    }
}

const LINE: usize = 128;
const PAGE: usize = 4096;

/// Where a context's signals and counters are, and who adds to them.
pub(super) enum Words {
    /// Host memory: CPUs add, those of all ranks to signals and the own one to counters.
    /// `awaited`: where kernels on the CPU device say what of a signal they wait for.
    Proxied { signals: Shared<AtomicU64>, counters: Shared<AtomicU64>, awaited: Option<Shared<AtomicU64>> },
    /// Device memory: only kernels add, so an operation that comes through the queue has no signal and no counter.
    Direct { own: DevPtr, counters: DevPtr, image: Direct },
    /// Memory of a GPU: a card adds.
    Card { signals: DevPtr, counters: DevPtr },
    /// None: behind direct contexts, for what kernels of other headers post to them.
    Foreign,
}

impl Words {
    /// Of proxied context `index`; `signals` is this rank's signal memory for all contexts.
    pub fn proxied(device: &dyn Device, index: u32, shape: Shape, signals: &Arc<dyn Physical>) -> Result<Self> {
        let (n_counters, n_signals) = (shape.counters as usize, shape.signals as usize);
        let noted = if device.kind() == Kind::Cpu { n_signals } else { 0 };
        // One mapping for both.
        let memory = Arc::new(device.control((n_counters + noted) * 8)?);
        let counters = Shared::part(&memory, 0, n_counters);
        let awaited = (noted > 0).then(|| Shared::part(&memory, n_counters * 8, noted));
        let offset = index as usize * n_signals * 8;
        let Some(signals) = Shared::of_physical(signals, offset, n_signals) else {
            bail!(
                SystemError,
                28,
                "signal memory cannot be used | context {index}: {} signals at {offset:#x} of {:#x} bytes | it is too small, or the host cannot touch it | fix: report this",
                shape.signals,
                signals.bytes()
            );
        };
        Ok(Self::Proxied { signals, counters, awaited })
    }

    /// Signals and counters that the host may touch: none of a direct context.
    #[inline]
    pub fn on_host(&self) -> (&[AtomicU64], &[AtomicU64]) {
        match self {
            Self::Proxied { signals, counters, .. } => (signals, counters),
            Self::Direct { .. } | Self::Card { .. } | Self::Foreign => (&[], &[]),
        }
    }

    /// Of signals and counters, where proxies or a card raise them.
    pub fn addresses(&self) -> (DevPtr, DevPtr) {
        match self {
            Self::Proxied { signals, counters, .. } => (signals.device(), counters.device()),
            Self::Card { signals, counters } => (*signals, *counters),
            Self::Direct { .. } | Self::Foreign => (0, 0),
        }
    }

    /// What kernels wait for, by signal, where they say so.
    pub fn awaited(&self) -> Option<&Shared<AtomicU64>> {
        match self {
            Self::Proxied { awaited, .. } => awaited.as_ref(),
            Self::Direct { .. } | Self::Card { .. } | Self::Foreign => None,
        }
    }

    /// Memory of the counters that proxies raise, and how many bytes of it.
    pub fn counters(&self) -> Option<(Arc<ControlMemory>, usize)> {
        match self {
            Self::Proxied { counters, .. } => Some((counters.control()?, counters.len() * 8)),
            Self::Direct { .. } | Self::Card { .. } | Self::Foreign => None,
        }
    }

    fn posts(&self) -> Posts {
        match self {
            Self::Proxied { .. } | Self::Card { .. } => Posts::All,
            Self::Direct { .. } => Posts::Payloads,
            Self::Foreign => Posts::Nothing,
        }
    }
}

/// One context.
pub struct Context {
    pub(super) shape: Shape,
    pub(super) limits: Limits,
    /// The signals that queues count from: those of the last device communicator that had the context.
    pub(super) counted: Ids,
    pub(super) queues: Shared<[AtomicU64; WORDS]>,
    pub(super) cis: Shared<AtomicU32>,
    /// `pis`, where the host sees them.
    claims: Option<Shared<AtomicU32>>,
    pub(super) words: Arc<Words>,
    pub(super) hints: Hints,
    /// Where `queues` are a card's: what it has of them besides.
    pub(super) nic: Option<Nic>,
    /// GINRS_REFUSAL of include/ginrs_device/marker.h: what a kernel was asked and did not do. One word.
    pub(super) refusal: Shared<AtomicU64>,
    pub(super) lanes: Lanes,
    pub(super) open: Vec<Open>,
    /// Of elements that are more than one operation: what waits behind the lane's current one.
    pub(super) parts: VecDeque<Operation>,
    /// Peers whose queues are looked at without being searched for; the next to visit first.
    pub(super) active: VecDeque<u32>,
    /// Scratch: queues that hints named in this step.
    pub(super) found: Vec<u32>,
}

/// Bytes of a put that a group of our headers stores itself in proxied contexts. None on the CPU device: there what moves passes the proxy,
/// which writes it down and delays it; and none where a transport is asked for by name.
fn stored_by_kernels(kind: Kind) -> Result<u64> {
    match kind == Kind::Cuda && select::asked()?.is_none() {
        true => Ok(config::int("GINRS_PROXIED_LARGEST").max(0) as u64),
        false => Ok(0),
    }
}

impl Context {
    /// One context for each of `words`, and what kernels see of them.
    pub(super) fn build(device: &dyn Device, shape: Shape, words: Vec<Arc<Words>>, abort: &Abort) -> Result<(Vec<Self>, Images)> {
        let images = Images::new(device, words.len() as u32, shape.n_ranks)?;
        let mut contexts = words
            .into_iter()
            .zip(0..)
            .map(|(words, number)| Self::new(device, shape, words, number))
            .collect::<Result<Vec<_>>>()?;
        // Every transport of a GPU has payloads read by that GPU's copy engine.
        let same_gpu = device.kind() == Kind::Cuda;
        let stores = stored_by_kernels(device.kind())?;
        let foreign = contexts.iter().find(|context| context.limits.posts == Posts::Nothing);
        let foreign = foreign.map(|context| (context.queues.device(), context.cis.device()));
        let seen: Vec<Image> =
            contexts.iter().map(|context| Image { same_gpu, stores, foreign, ..context.image(abort) }).collect();
        images.fill(device, &seen, |peer| shape.first(peer))?;
        contexts.iter_mut().enumerate().for_each(|(c, context)| context.claims = images.claims(c));
        Ok((contexts, images))
    }

    fn new(device: &dyn Device, shape: Shape, words: Arc<Words>, number: u32) -> Result<Self> {
        let hints = match device.kind() {
            Kind::Cuda => 0,
            Kind::Cpu => (shape.n_ranks * shape.depth).next_power_of_two().clamp(1024, 8192),
        };
        Self::with(device, shape, words, number, (hints, Lanes::scattered(shape)))
    }

    /// One whose queues give no hints, and all start at 0.
    pub(super) fn bare(device: &dyn Device, shape: Shape, words: Arc<Words>, number: u32) -> Result<Self> {
        Self::with(device, shape, words, number, (0, Lanes::straight(shape.n_ranks)))
    }

    /// With a ring of so many hints. All stands in one memory: each memory is a mapping, and a process may have 65530 of them.
    fn with(device: &dyn Device, shape: Shape, words: Arc<Words>, number: u32, (hints, lanes): (u32, Lanes)) -> Result<Self> {
        let Shape { n_ranks, depth, .. } = shape;
        let (ranks, hints) = (n_ranks as usize, hints as usize);
        let slots = ranks * depth as usize;
        // Words of different writers on lines of their own; pages that are never touched to themselves.
        let mut end = 0usize;
        let mut place = |bytes: usize, align: usize| {
            let at = end.next_multiple_of(align);
            end = at + bytes;
            at
        };
        let (head, refusal, cis) = (place(4, LINE), place(8, LINE), place(4 * ranks, LINE));
        let (ring, queues) = (place(8 * hints, PAGE), place(64 * slots, PAGE));
        let memory = Arc::new(device.control(end)?);
        let (queues, cis) = (Shared::part(&memory, queues, slots), Shared::<AtomicU32>::part(&memory, cis, ranks));
        let hints = match hints {
            0 => Hints::none(),
            _ => Hints::new(Shared::part(&memory, head, 1), Shared::part(&memory, ring, hints)),
        };
        for (index, peer) in cis.iter().zip(0..) {
            index.store(lanes.next(peer).0.0, Ordering::Relaxed);
        }
        Ok(Self {
            shape,
            limits: Limits {
                signals: (0..shape.signals).into(),
                counters: (0..shape.counters).into(),
                number,
                pool: shape.signals,
                posts: words.posts(),
            },
            counted: (0..0).into(),
            queues,
            cis,
            claims: None,
            words,
            hints,
            nic: None,
            refusal: Shared::part(&memory, refusal, 1),
            lanes,
            open: Open::new_vec_zeroed(slots).expect("no more than the queues"),
            parts: VecDeque::new(),
            active: VecDeque::new(),
            found: Vec::new(),
        })
    }

    /// How messages call it: kernels count those of a device communicator, which are all of one kind.
    /// The one behind the direct ones has no number: it serves them all.
    pub(super) fn name(&self) -> String {
        if let Some(nic) = &self.nic {
            return nic.name(self.limits.number);
        }
        match self.limits.posts {
            Posts::All => format!("context {}", self.limits.number),
            Posts::Payloads => format!("direct context {}", self.limits.number),
            Posts::Nothing => "direct contexts".into(),
        }
    }

    fn image(&self, abort: &Abort) -> Image {
        let (signals, counters, direct) = match &*self.words {
            Words::Direct { own, counters, image } => (*own, *counters, Some(*image)),
            words => (words.addresses().0, words.addresses().1, None),
        };
        Image {
            depth: self.shape.depth,
            queues: self.queues.device(),
            cis: self.cis.device(),
            counters,
            signals,
            hints: self.hints.device(),
            abort: (abort.device_address(), abort.host_address()),
            same_gpu: false,
            stores: 0,
            direct,
            refusal: self.refusal.device(),
            foreign: None,
            awaited: self.words.awaited().map_or(0, |words| words.device()),
        }
    }

    /// Up to where `peer`'s operations are done, of those below `until`.
    pub(super) fn credited(&self, peer: u32, until: Seq) -> Seq {
        match &self.nic {
            Some(nic) => nic.done(peer, until),
            None => Seq(self.cis[peer as usize].load(Ordering::Relaxed)),
        }
    }

    /// Tells kernels what of `peer`'s queue is done by now; `all`: everything that was taken, after an abort.
    pub(super) fn credit(&mut self, peer: u32, all: bool) {
        let depth = self.shape.depth as usize;
        let (open, lane) = (&mut self.open[peer as usize * depth..][..depth], self.lanes.of(peer));
        if all {
            lane.current = None;
            lane.ledger.cancel(open);
        }
        match &self.nic {
            Some(Nic::Model(queues)) => drop(lane.ledger.credit(open, &queues.completions(peer))),
            Some(Nic::Card(_)) => {}
            None => drop(lane.ledger.credit(open, &self.cis[peer as usize])),
        }
    }

    /// The slot that `peer`'s queue fills next.
    #[inline]
    pub(super) fn head(&self, peer: u32) -> &[AtomicU64; WORDS] {
        let next = self.lanes.next(peer).0.0 & (self.shape.depth - 1);
        &self.queues[peer as usize * self.shape.depth as usize + next as usize]
    }

    /// True if something stands in `peer`'s queue, and it is not among the active ones. Claims are looked at first, where the host sees
    /// them: the memory of queues that no kernel has used is never touched.
    #[inline]
    pub(super) fn is_found(&self, peer: u32) -> bool {
        let (next, active) = self.lanes.next(peer);
        if active {
            return false;
        }
        if let Some(nic) = &self.nic {
            return nic.is_begun(peer, next);
        }
        let is_claimed = self.claims.as_ref().is_none_or(|claims| claims[peer as usize].load(Ordering::Relaxed) != next.0);
        is_claimed && queue::is_begun(self.head(peer))
    }

    /// From now on `peer`'s queue is visited.
    #[inline]
    pub(super) fn activate(&mut self, peer: u32) {
        let lane = self.lanes.of(peer);
        if !lane.active {
            lane.active = true;
            self.active.push_back(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_take_at_most_four_mebibytes() {
        assert_eq!(depth(2, 4, -1), Ok(256));
        assert_eq!(depth(64, 4, -1), Ok(256));
        assert_eq!(depth(65, 4, -1), Ok(128));
        assert_eq!(depth(1024, 4, -1), Ok(16));
        assert_eq!(depth(1024, 1, -1), Ok(64));
        assert_eq!(depth(100_000, 4, -1), Ok(16));
        assert_eq!(depth(2, 4, 8), Ok(8));
        assert_eq!(depth(2, 4, 1), Ok(1));
        for bad in [0, 3, 512, -2, i64::MAX] {
            assert_eq!(depth(2, 4, bad), Err(256), "{bad}");
        }
    }
}
