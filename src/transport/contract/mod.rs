//! Tests that every transport must pass. A transport's own tests call [`all`] with a way to make one. `faults` has a transport
//! that breaks each rule on purpose, and the test that finds it: that is the test of these tests.

use super::factory::Share;
use super::{Capabilities, Completion, Part, Region, SIGNALS, Source, Submitted, Transport, Words, Work};
use crate::device::cpu::CpuDevice;
use crate::device::{DevPtr, Memory, Physical};
use crate::error::Result;
use crate::hang_limit::HANG_LIMIT;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub mod apart;
mod completion;
mod end;
mod faults;
mod order;
mod payload;
mod reader;
mod sleep;

const RANKS: u32 = 3;
/// Of each memory.
pub const BYTES: usize = 4 << 20;
const DATA: u32 = 1;

/// Makes a transport for the ranks that it serves: rank 0's first; the other ranks' follow where their progress is part of a put.
pub type Make<'a> = &'a dyn Fn(Vec<bool>) -> Vec<Box<dyn Transport>>;

/// Rank `u32`'s window as its transport sees it.
pub type Seen = fn(u32, Arc<dyn Physical>) -> Arc<dyn Physical>;

/// A rule and the test that asks for it.
type Rule = (&'static str, fn(&mut World));

/// What holds for every transport.
const RULES: &[Rule] = &[
    ("payloads of every size land as they are", payload::every_size),
    ("a rank puts to itself", payload::to_oneself),
    ("values land as they are", payload::values),
    ("an aligned word lands whole", payload::words_land_whole),
    ("nothing leaves its region", payload::bounds),
    ("signals add up", order::signals_add_up),
    ("a signal follows its payload and all before it", order::signals_follow_payload),
    ("a deep pipeline loses and changes nothing", order::deep_pipelines),
    ("each piece completes once", completion::once),
    ("a source is reusable when its piece is done", completion::source_is_reusable),
    ("what has landed is told truly", completion::landed_is_visible),
    ("aborted means still", end::aborted_means_still),
    ("a receiver that has aborted lands nothing", end::receivers_that_abort),
    ("a rank that leaves waits for what it has sent", end::close_lands),
    ("close is bounded and names who stands still", end::close_is_bounded),
    ("whoever sleeps is woken", sleep::woken),
];

/// Asks for all rules.
pub fn all(make: impl Fn(Vec<bool>) -> Vec<Box<dyn Transport>>) {
    all_seen(make, |_, memory| memory);
}

/// The same of ranks that land in threads of their own, too, whoever calls them.
pub fn all_threaded(make: impl Fn(Vec<bool>) -> Vec<Box<dyn Transport>>) {
    for (_, test) in RULES {
        test(&mut World { threaded: true, ..World::new(&make) });
    }
}

/// The same where windows are what `seen` makes of the memory of a rank.
pub fn all_seen(make: impl Fn(Vec<bool>) -> Vec<Box<dyn Transport>>, seen: Seen) {
    for (_, test) in RULES {
        test(&mut World::over(&make, seen));
    }
}

/// Work to rank 1 fails once `fail` has been called on the transports: the error names it, and no signal rises for what was lost.
pub fn failure(make: impl Fn(Vec<bool>) -> Vec<Box<dyn Transport>>, fail: impl FnMut(&mut Vec<Box<dyn Transport>>)) {
    completion::errors_name_the_peer(&mut World::new(&make), fail);
}

/// A transport of rank 0 with one data region and signals, and every rank's memory as its owner sees it.
struct World {
    /// By rank; those behind rank 0's where a receiver lives in them.
    ranks: Vec<Box<dyn Transport>>,
    data: Vec<Arc<dyn Physical>>,
    signals: Vec<Arc<dyn Physical>>,
    next: u64,
    threaded: bool,
    /// Longest wait for an event: [`HANG_LIMIT`], and less where a hang is expected.
    patience: Duration,
}

impl World {
    fn new(make: Make<'_>) -> Self {
        Self::over(make, |_, memory| memory)
    }

    fn over(make: Make<'_>, seen: Seen) -> Self {
        let device = CpuDevice::new(0);
        let create = |_| device.create(BYTES).unwrap();
        let data: Vec<_> = (0..RANKS).map(create).collect();
        let signals: Vec<_> = (0..RANKS).map(create).collect();
        let mut ranks = make(vec![true; RANKS as usize]);
        let capabilities = ranks[0].capabilities();
        assert!(capabilities.piece >= 8, "an inline value is one piece");
        let windows: Vec<_> = data.iter().zip(0..).map(|(memory, rank)| seen(rank, memory.clone())).collect();
        for (id, memories) in [(SIGNALS, &signals), (DATA, &windows)] {
            let words: Vec<Words> =
                ranks.iter_mut().zip(memories).map(|(rank, memory)| prepare(&mut **rank, id, memory)).collect();
            for (transport, rank) in ranks.iter_mut().zip(0..) {
                // Who has only messages for its peers has none of their memory mapped.
                let region = region(id, rank, memories, !capabilities.lands).with_words(words.clone());
                transport.register(&region).unwrap();
            }
        }
        Self { ranks, data, signals, next: 0, threaded: false, patience: HANG_LIMIT }
    }

    fn capabilities(&self) -> Capabilities {
        self.ranks[0].capabilities()
    }

    /// Most bytes that a test puts at once.
    fn piece(&self) -> u64 {
        self.capabilities().piece.min(BYTES as u64 / 4)
    }

    fn others(&mut self) -> Result<()> {
        self.ranks[1..].iter_mut().try_for_each(|rank| rank.progress(&mut Vec::new()).map(drop))
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<()> {
        self.others()?;
        self.ranks[0].progress(done).map(drop)
    }

    /// Steps the other ranks until all that was sent to them has landed, in their threads too.
    fn settle_others(&mut self) {
        let (end, mut still) = (Instant::now() + self.patience, 0);
        while still < 1000 {
            let _ = self.others();
            let is_busy = |rank: &mut Box<dyn Transport>| rank.descriptor().is_some() && rank.arm().is_ok_and(|still| !still);
            still = if self.ranks[1..].iter_mut().any(is_busy) { 0 } else { still + 1 };
            assert!(Instant::now() < end, "the other ranks always have something to do");
        }
    }

    fn put(&mut self, peer: u32, from: u64, to: u64, bytes: u64) -> Work {
        self.next += 1;
        let source = Source::Region { region: DATA, offset: from };
        Work { tag: self.next, context: 0, peer, source, bytes, target: (DATA, to), signal: None }
    }

    fn signal_to(&mut self, peer: u32, id: u64, add: u64) -> Work {
        Work { signal: Some((id * 8, add)), ..self.put(peer, 0, 0, 0) }
    }

    /// Submits all of it, waiting out Full, until every source is reusable and all has landed.
    fn carry(&mut self, work: &[Work]) -> Result<()> {
        let mut pending: Vec<u64> = Vec::new();
        let mut done: Vec<Completion> = Vec::new();
        let end = Instant::now() + self.patience;
        for work in work {
            assert!(work.bytes <= self.capabilities().piece, "the test's own mistake");
            while !self.offer(work, &mut pending)? {
                assert!(Instant::now() < end, "full for {:?}", self.patience);
                self.progress(&mut done)?;
            }
        }
        loop {
            reap(&mut pending, &mut done)?;
            if pending.is_empty() && self.ranks[0].landing().left() == 0 {
                return Ok(());
            }
            assert!(Instant::now() < end, "not within {:?}: {pending:?}, {:?}", self.patience, self.ranks[0].landing());
            self.progress(&mut done)?;
        }
    }

    /// Offers it once; false if the transport was full.
    fn offer(&mut self, work: &Work, pending: &mut Vec<u64>) -> Result<bool> {
        match self.ranks[0].submit(work)? {
            Submitted::Done => Ok(true),
            Submitted::Pending => {
                pending.push(work.tag);
                Ok(true)
            }
            Submitted::Full => Ok(false),
        }
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self, rank: u32) -> &mut [u8] {
        // SAFETY: the mapping is BYTES long, and these tests run one thing at a time.
        unsafe { std::slice::from_raw_parts_mut(self.data[rank as usize].host().unwrap().as_ptr(), BYTES) }
    }

    fn signal(&self, rank: u32, id: usize) -> u64 {
        word(&self.signals[rank as usize], id).load(Ordering::Acquire)
    }
}

/// Word `i` of a memory, which outlives what a test does with it.
pub fn word(memory: &Arc<dyn Physical>, i: usize) -> &AtomicU64 {
    assert!(i < BYTES / 8);
    // SAFETY: aligned and within the mapping; whoever shares it with another thread accesses it atomically.
    unsafe { AtomicU64::from_ptr(memory.host().unwrap().cast::<u64>().add(i).as_ptr()) }
}

/// Takes what is done off what is pending.
fn reap(pending: &mut Vec<u64>, done: &mut Vec<Completion>) -> Result<()> {
    for (tag, result) in done.drain(..) {
        let at = pending.iter().position(|&pending| pending == tag);
        pending.swap_remove(at.expect("each piece completes once"));
        result?;
    }
    Ok(())
}

/// For transports that pass no memory.
pub struct NoShare;

impl Share for NoShare {
    fn offer(&self, _: &Arc<dyn Physical>) -> Result<[u64; 2]> {
        unreachable!("no memory is passed")
    }
    fn take(&self, _: u32, _: [u64; 2]) -> Result<Arc<dyn Physical>> {
        unreachable!("no memory is passed")
    }
}

/// What one transport says.
pub fn words(name: &'static str, said: Vec<u8>) -> Words {
    let mut words = Words::default();
    words.say(name, said);
    words
}

/// Connects ranks as a communicator does, with what each said when it was made.
pub fn connect<'a>(ranks: impl Iterator<Item = &'a mut dyn Transport>, name: &'static str, said: &[Vec<u8>]) {
    let words = Arc::new(said.iter().map(|said| words(name, said.clone())).collect());
    let device = CpuDevice::new(0);
    ranks.for_each(|rank| rank.connect(&*device, &NoShare, &words).unwrap());
}

pub fn prepare(transport: &mut dyn Transport, id: u32, memory: &Arc<dyn Physical>) -> Words {
    let said = transport.prepare(&Part { id, memory, start: 0, bytes: BYTES as u64 }).unwrap();
    words(transport.capabilities().name, said)
}

pub fn region(id: u32, rank: u32, memories: &[Arc<dyn Physical>], mapped: bool) -> Region {
    let of =
        |memory: &Arc<dyn Physical>| memory.host().map_or_else(|| memory.device_address().unwrap(), |at| at.as_ptr() as DevPtr);
    let address = |(at, memory): (u32, &Arc<dyn Physical>)| (mapped || at == rank).then(|| of(memory));
    let addresses = (0..).zip(memories).map(address).collect();
    // SAFETY: the region keeps the memories.
    let mut region = unsafe { Region::new(u64::from(id), BYTES as u64, rank, addresses, Box::new(memories.to_vec())) }.unwrap();
    region.id = id;
    region
}
