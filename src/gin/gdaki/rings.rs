//! The queues of one context on a real card, one for each peer: the card takes elements and writes completions, this rings for kernels that
//! leave that to the host, and looks at completions for errors.
//!
//! Per peer, in memory that the card was told of: the ring, the completion queue, and a line with the records of both and the mailbox. The
//! record is written before the doorbell: a card that recovers reads the record.
//!
//! Nobody tells the card what was read of a completion queue: it overruns what this has not looked at yet, and no kernel's wait, because an
//! element is posted once the one that had its slot before is known to be complete. So an entry is read as what it says of those before it.
#![forbid(unsafe_code)]

use super::queues::Handler;
use crate::device::Device;
use crate::error::Result;
use crate::gin::shared::Shared;
use crate::nic::completion::{self, Ended};
use crate::seq::Seq;
use crate::verbs::{Card, Memory, Page, Patience, Queue, Umem};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const PAGE: usize = 4096;
/// Of a peer's line, in words of 4 bytes: the queue's record for receives, which is not used, and for sends, the completion queue's, and the
/// mailbox.
const LINE: usize = 16;
const RECORD: usize = 1;
const COMPLETIONS_RECORD: usize = 2;
const MAILBOX: usize = 4;

/// A peer's.
struct Pair {
    completions: Arc<Queue>,
    queue: Arc<Queue>,
    /// Elements below these are rung for, by the host's doing, and complete, as far as it has looked.
    rung: AtomicU32,
    done: AtomicU32,
    ended: AtomicBool,
}

/// What a completion says of an element that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Which.
    pub at: Seq,
    /// Why, and which opcode it had.
    pub ended: Ended,
}

/// See the head of this file.
pub struct Rings {
    depth: u32,
    handler: Handler,
    page: Arc<Page>,
    pairs: Vec<Pair>,
    /// Bytes from one peer's ring to the next one's; its completions lie in between.
    stride: u64,
    ring: u64,
    entries: Shared<[AtomicU64; 8]>,
    lines: Shared<AtomicU32>,
}

impl Rings {
    /// Made on the card, and not connected. `waits`: elements may wait for another queue's.
    pub fn new(
        device: &dyn Device,
        (card, page): (&Arc<Card>, &Arc<Page>),
        (ranks, depth): (u32, u32),
        (handler, waits): (Handler, bool),
    ) -> Result<std::result::Result<Self, String>> {
        let (n, ring) = (ranks as usize, (depth as usize * 64).next_multiple_of(PAGE));
        let lines = 2 * n * ring;
        let memory = Arc::new(device.control(lines + n * LINE * 4)?);
        let entries = Shared::<[AtomicU64; 8]>::part(&memory, 0, lines / 64);
        entries.iter().for_each(completion::empty);
        let rings = Self {
            depth,
            handler,
            page: page.clone(),
            pairs: Vec::new(),
            stride: 2 * ring as u64,
            ring: memory.device(),
            entries,
            lines: Shared::part(&memory, lines, n * LINE),
        };
        let memory = Memory::Control(memory);
        Ok(card.umem(&memory, 0, lines + n * LINE * 4).and_then(|umem| rings.made(card, &umem, (lines, waits), ranks)))
    }

    fn made(
        mut self,
        card: &Arc<Card>,
        umem: &Arc<Umem>,
        (lines, waits): (usize, bool),
        ranks: u32,
    ) -> std::result::Result<Self, String> {
        let log_depth = self.depth.ilog2();
        for peer in 0..u64::from(ranks) {
            let (ring, line) = (peer * self.stride, lines as u64 + peer * LINE as u64 * 4);
            let at = [ring + self.stride / 2, line + COMPLETIONS_RECORD as u64 * 4];
            let completions = card.completions(umem, &self.page, log_depth, at)?;
            let queue = card.pair(umem, &self.page, &completions, (log_depth, waits), [ring, line])?;
            let [rung, done] = [0; 2].map(AtomicU32::new);
            self.pairs.push(Pair { completions, queue, rung, done, ended: AtomicBool::new(false) });
        }
        Ok(self)
    }

    fn line(&self, peer: u32, word: usize) -> &AtomicU32 {
        &self.lines[peer as usize * LINE + word]
    }

    /// Elements of a queue.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Who rings.
    pub fn handler(&self) -> Handler {
        self.handler
    }

    /// Numbers of `peer`'s queue and of its completion queue.
    pub fn numbers(&self, peer: u32) -> (u32, u32) {
        let pair = &self.pairs[peer as usize];
        (pair.queue.number, pair.completions.number)
    }

    /// Addresses for kernels: of `peer`'s doorbell, its send record, its completion queue and its ring.
    pub fn addresses(&self, peer: u32) -> [u64; 4] {
        let line = self.lines.device() + u64::from(peer) * LINE as u64 * 4;
        let bell = match self.handler {
            Handler::Cpu => line + MAILBOX as u64 * 4,
            Handler::Kernel => self.page.register(),
        };
        let ring = self.ring + u64::from(peer) * self.stride;
        [bell, line + RECORD as u64 * 4, ring + self.stride / 2, ring]
    }

    /// Connects `peer`'s queue to what that address says.
    pub fn connect(&self, peer: u32, address: &[u8; 32], patience: Patience) -> std::result::Result<(), String> {
        self.pairs[peer as usize].queue.connect(address, patience)
    }

    /// Elements of `peer`'s queue below this were posted.
    fn posted(&self, peer: u32) -> Seq {
        match self.handler {
            Handler::Cpu => Seq(self.line(peer, MAILBOX).load(Ordering::Acquire)),
            Handler::Kernel => {
                let record = u32::from_be(self.line(peer, RECORD).load(Ordering::Acquire));
                let done = self.done(peer).0;
                Seq(done.wrapping_add(u32::from((record as u16).wrapping_sub(done as u16))))
            }
        }
    }

    fn entry(&self, peer: u32, at: Seq) -> &[AtomicU64; 8] {
        let first = (u64::from(peer) * self.stride + self.stride / 2) / 64;
        &self.entries[first as usize + (at.0 & (self.depth - 1)) as usize]
    }

    /// Are `peer`'s elements below `end` complete? Exact, also where this has not looked while a card has done more than 2^15 for kernels that
    /// ring themselves: what this counts is then known again.
    pub fn reached(&self, peer: u32, end: Seq) -> Seq {
        let (done, last) = (self.done(peer), Seq(end.0.wrapping_sub(1)));
        let known = end.at_or_before(done) || completion::read(self.entry(peer, last), self.depth, last.0).is_none();
        if known { done } else { end }
    }

    /// Up to where `peer`'s elements are complete, as far as this has looked.
    pub fn done(&self, peer: u32) -> Seq {
        Seq(self.pairs[peer as usize].done.load(Ordering::Relaxed))
    }

    /// Is there something to ring for, or to wait for?
    #[inline]
    pub fn is_begun(&self, peer: u32) -> bool {
        self.posted(peer) != self.done(peer)
    }

    /// Rings for what was posted. True if there was something.
    pub fn ring(&self, peer: u32) -> bool {
        let (pair, end) = (&self.pairs[peer as usize], self.posted(peer));
        if self.handler != Handler::Cpu || pair.rung.swap(end.0, Ordering::Relaxed) == end.0 {
            return false;
        }
        // Behind the elements, which the mailbox's value has shown; before the doorbell.
        self.line(peer, RECORD).store((end.0 & 0xffff).to_be(), Ordering::Release);
        self.page.ring(end.0, pair.queue.number);
        true
    }

    /// Looks at completions of `peer`'s queue. True if there were some; and the first that failed.
    pub fn look(&self, peer: u32) -> (bool, Option<Failed>) {
        let (done, posted) = (&self.pairs[peer as usize].done, self.posted(peer));
        let mut at = self.done(peer);
        let first = at;
        let mut failed = None;
        while !posted.at_or_before(at) && failed.is_none() {
            let Some((index, ended)) = completion::read(self.entry(peer, at), self.depth, at.0) else { break };
            failed = ended.syndrome.map(|_| Failed { at: Seq(index), ended });
            at = Seq(index).next();
        }
        done.store(at.0, Ordering::Relaxed);
        (at != first, failed)
    }

    /// From here on nothing of `peer`'s queue is done, by the card's own doing.
    #[cold]
    pub fn end(&self, peer: u32) {
        let pair = &self.pairs[peer as usize];
        if !pair.ended.swap(true, Ordering::Relaxed) {
            // One that has failed is in that state already, and may refuse.
            let _ = pair.queue.end();
        }
    }
}
