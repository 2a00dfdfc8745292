//! The queues of one context on a real card, one for each peer: the card takes elements and writes completions, this rings for kernels that
//! leave that to the host, and looks at completions for errors.
//!
//! | memory | on the CPU device | on a GPU |
//! |---|---|---|
//! | ring and completion queue of each peer | host | GPU |
//! | records of both, and the mailbox: a line of each peer | host | host where the host rings, else GPU |
//!
//! The record is written before the doorbell: a card that recovers reads the record.
//!
//! Nobody tells the card what was read of a completion queue: it overruns what this has not looked at yet, and no kernel's wait, because an
//! element is posted once the one that had its slot before is known to be complete. So an entry is read as what it says of those before it.
//! Of a GPU's memory only a copy is looked at, now and then, for errors alone ([`Rings::survey`]): they stay, for a queue pair that has failed
//! completes nothing well any more.
#![forbid(unsafe_code)]

use super::ground::{Stretch, whole};
use super::queues::Handler;
use crate::device::{DevPtr, Device};
use crate::error::Result;
use crate::gin::shared::Shared;
use crate::nic::completion::{self, Ended, Syndrome};
use crate::seq::Seq;
use crate::verbs::{Card, Page, Queue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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
    /// Which; of a GPU's rings its low 16 bits.
    pub at: Seq,
    /// Why, and which opcode it had.
    pub ended: Ended,
}

impl Failed {
    /// That it was flushed says only that something before it failed.
    pub fn says_why(&self) -> bool {
        self.ended.syndrome.is_none_or(|(syndrome, _)| syndrome != Syndrome::Flushed as u8)
    }
}

/// Of what looks have found what says most: one that says why, or the first. An error ends them, for who looks further would wait as long, and is
/// told where nothing was found.
pub fn telling<P>(looks: impl Iterator<Item = Result<Option<(P, Failed)>>>) -> Result<Option<(P, Failed)>> {
    let mut found = None;
    for look in looks {
        match look {
            Ok(Some(one)) if one.1.says_why() => return Ok(Some(one)),
            Ok(one) => found = found.or(one),
            Err(_) if found.is_some() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// How kernels ring.
#[derive(Clone)]
pub enum Bell {
    /// They leave their index in a mailbox.
    Mailbox,
    /// By the card's register, at that address.
    Register(DevPtr),
}

/// See the head of this file.
pub struct Rings {
    device: Arc<dyn Device>,
    depth: u32,
    bell: Bell,
    page: Arc<Page>,
    pairs: Vec<Pair>,
    /// Bytes from one peer's ring to the next one's; its completions lie in between.
    stride: u64,
    rings: DevPtr,
    lines: DevPtr,
    /// The same where the host reaches it: all of the first in units of an entry.
    entries: Option<Shared<[AtomicU64; 8]>>,
    on_lines: Option<Shared<AtomicU32>>,
}

/// Bytes of one peer's ring, or of its completions.
fn half(depth: u32) -> usize {
    whole(depth as usize * 64)
}

/// Bytes of all rings and completion queues, and of all lines.
pub fn sizes((ranks, depth): (u32, u32)) -> [usize; 2] {
    [2 * ranks as usize * half(depth), ranks as usize * LINE * 4]
}

impl Rings {
    /// Made on the card over stretches of [`sizes`], and not connected. `waits`: elements may wait for another queue's.
    pub fn new(
        device: &Arc<dyn Device>,
        (card, page): (&Arc<Card>, &Arc<Page>),
        (ranks, depth): (u32, u32),
        (bell, waits): (&Bell, bool),
        [rings, lines]: [Stretch; 2],
    ) -> Result<std::result::Result<Self, String>> {
        let made = Self {
            device: device.clone(),
            depth,
            bell: bell.clone(),
            page: page.clone(),
            pairs: Vec::new(),
            stride: 2 * half(depth) as u64,
            rings: rings.device(),
            lines: lines.device(),
            entries: rings.words(),
            on_lines: lines.words(),
        };
        made.empty(ranks)?;
        Ok(made.made(card, waits, ranks, [rings, lines]))
    }

    /// Entries that say nothing yet.
    fn empty(&self, ranks: u32) -> Result<()> {
        if let Some(entries) = &self.entries {
            entries.iter().for_each(completion::empty);
            return Ok(());
        }
        let entry: [AtomicU64; 8] = Default::default();
        completion::empty(&entry);
        let bytes: Vec<u8> = entry.map(AtomicU64::into_inner).map(u64::to_le_bytes).concat();
        let all = bytes.repeat(self.depth as usize);
        (0..ranks).try_for_each(|peer| self.device.write(self.completions(peer), &all))
    }

    fn made(
        mut self,
        card: &Arc<Card>,
        waits: bool,
        ranks: u32,
        [rings, lines]: [Stretch; 2],
    ) -> std::result::Result<Self, String> {
        let log_depth = self.depth.ilog2();
        for peer in 0..u64::from(ranks) {
            let (ring, line) = (peer * self.stride, peer * LINE as u64 * 4);
            let at = [rings.spot(ring + self.stride / 2), lines.spot(line + COMPLETIONS_RECORD as u64 * 4)];
            let completions = card.completions(&self.page, log_depth, at)?;
            let queue = card.pair(&self.page, &completions, (log_depth, waits), [rings.spot(ring), lines.spot(line)])?;
            let [rung, done] = [0; 2].map(AtomicU32::new);
            self.pairs.push(Pair { completions, queue, rung, done, ended: AtomicBool::new(false) });
        }
        Ok(self)
    }

    /// Elements of a queue.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Who rings.
    pub fn handler(&self) -> Handler {
        match self.bell {
            Bell::Mailbox => Handler::Cpu,
            Bell::Register(_) => Handler::Kernel,
        }
    }

    /// Is it a GPU's memory, of which the host sees copies?
    fn is_apart(&self) -> bool {
        self.entries.is_none()
    }

    /// Numbers of `peer`'s queue and of its completion queue.
    pub fn numbers(&self, peer: u32) -> (u32, u32) {
        let pair = &self.pairs[peer as usize];
        (pair.queue.number, pair.completions.number)
    }

    fn completions(&self, peer: u32) -> DevPtr {
        self.rings + u64::from(peer) * self.stride + self.stride / 2
    }

    /// Addresses for kernels: of `peer`'s doorbell, its send record, its completion queue and its ring.
    pub fn addresses(&self, peer: u32) -> [u64; 4] {
        let line = self.lines + u64::from(peer) * LINE as u64 * 4;
        let bell = match self.bell {
            Bell::Mailbox => line + MAILBOX as u64 * 4,
            Bell::Register(at) => at,
        };
        [bell, line + RECORD as u64 * 4, self.completions(peer), self.rings + u64::from(peer) * self.stride]
    }

    /// Connects `peer`'s queue to what that address says.
    pub fn connect(&self, peer: u32, address: &[u8; 32]) -> std::result::Result<(), String> {
        self.pairs[peer as usize].queue.connect(address)
    }

    fn line(&self, peer: u32, word: usize) -> Option<&AtomicU32> {
        Some(&self.on_lines.as_ref()?[peer as usize * LINE + word])
    }

    /// Elements of `peer`'s queue below this were posted; None where the host cannot see it.
    fn posted(&self, peer: u32) -> Option<Seq> {
        Some(match self.bell {
            Bell::Mailbox => Seq(self.line(peer, MAILBOX)?.load(Ordering::Acquire)),
            Bell::Register(_) => {
                let record = u32::from_be(self.line(peer, RECORD)?.load(Ordering::Acquire));
                let done = self.done(peer).0;
                Seq(done.wrapping_add(u32::from((record as u16).wrapping_sub(done as u16))))
            }
        })
    }

    fn place(&self, at: Seq) -> usize {
        (at.0 & (self.depth - 1)) as usize
    }

    /// What has become of `peer`'s element `at`, see [`completion::read`].
    fn read(&self, peer: u32, at: Seq) -> Option<(u32, Ended)> {
        if let Some(entries) = &self.entries {
            let first = (u64::from(peer) * self.stride + self.stride / 2) / 64;
            return completion::read(&entries[first as usize + self.place(at)], self.depth, at.0);
        }
        let mut bytes = [0u8; 64];
        self.device.read(self.completions(peer) + 64 * self.place(at) as u64, &mut bytes).ok()?;
        completion::read(&copied(&bytes), self.depth, at.0)
    }

    /// Up to where `peer`'s elements below `end`, which have been claimed, are complete. Exact about `end`, also where this has not looked while a
    /// card has done more than 2^15 for kernels that ring themselves: what this counts is then known again.
    pub fn reached(&self, peer: u32, end: Seq) -> Seq {
        let last = Seq(end.0.wrapping_sub(1));
        if self.is_apart() {
            // An element is claimed once the one that had its slot is complete.
            let known = end.0 == 0 || self.read(peer, last).is_some();
            return if known { end } else { Seq(end.0 - self.depth.min(end.0)) };
        }
        let done = self.done(peer);
        let known = end.at_or_before(done) || self.read(peer, last).is_none();
        if known { done } else { end }
    }

    /// Up to where `peer`'s elements are complete, as far as this has looked.
    pub fn done(&self, peer: u32) -> Seq {
        Seq(self.pairs[peer as usize].done.load(Ordering::Relaxed))
    }

    /// Is there something to ring for, or to wait for?
    #[inline]
    pub fn is_begun(&self, peer: u32) -> bool {
        let Some(posted) = self.posted(peer) else { return false };
        match self.is_apart() {
            true => posted.0 != self.pairs[peer as usize].rung.load(Ordering::Relaxed),
            false => posted != self.done(peer),
        }
    }

    /// Rings for what was posted. True if there was something.
    pub fn ring(&self, peer: u32) -> bool {
        let (Bell::Mailbox, Some(end), Some(record)) = (&self.bell, self.posted(peer), self.line(peer, RECORD)) else {
            return false;
        };
        let pair = &self.pairs[peer as usize];
        if pair.rung.swap(end.0, Ordering::Relaxed) == end.0 {
            return false;
        }
        // Behind the elements, which the mailbox's value has shown; before the doorbell.
        record.store((end.0 & 0xffff).to_be(), Ordering::Release);
        self.page.ring(end.0, pair.queue.number);
        true
    }

    /// Looks at completions of `peer`'s queue. True if there were some; and the first that failed.
    pub fn look(&self, peer: u32) -> (bool, Option<Failed>) {
        let Some(posted) = self.posted(peer).filter(|_| !self.is_apart()) else { return (false, None) };
        let (done, mut at) = (&self.pairs[peer as usize].done, self.done(peer));
        let first = at;
        let mut failed = None;
        while !posted.at_or_before(at) && failed.is_none() {
            let Some((index, ended)) = self.read(peer, at) else { break };
            // One that failed is found again by the next look: nothing behind it is done.
            match ended.syndrome {
                Some(_) => failed = Some(Failed { at: Seq(index), ended }),
                None => at = Seq(index).next(),
            }
        }
        done.store(at.0, Ordering::Relaxed);
        (at != first, failed)
    }

    /// Looks at all completion queues for one that failed: whose, and what; see [`telling`].
    #[cold]
    pub fn survey(&self) -> Result<Option<(u32, Failed)>> {
        let mut bytes = vec![0u8; if self.is_apart() { self.depth as usize * 64 } else { 0 }];
        let peers = (0..).take(self.pairs.len()).filter(|peer| !self.pairs[*peer as usize].ended.load(Ordering::Relaxed));
        telling(peers.map(|peer| {
            let failed = match self.is_apart() {
                false => self.look(peer).1,
                true => {
                    self.device.read(self.completions(peer), &mut bytes)?;
                    let failed = bytes.chunks(64).filter_map(|entry| completion::failure(&copied(entry)));
                    failed.map(|(at, ended)| Failed { at: Seq(at), ended }).max_by_key(Failed::says_why)
                }
            };
            Ok(failed.map(|failed| (peer, failed)))
        }))
    }

    /// Number of `peer`'s queue, and what the card says of its state.
    #[cold]
    pub fn state(&self, peer: u32) -> (u32, String) {
        let queue = &self.pairs[peer as usize].queue;
        (queue.number, queue.state().map_or_else(|why| why, |state| format!("its state is {state:?}")))
    }

    /// The peer whose queue, or its completion queue, the card calls so.
    pub fn find(&self, whose: u64) -> Option<u32> {
        let of = |pair: &Pair| pair.queue.whose == whose || pair.completions.whose == whose;
        self.pairs.iter().position(of).map(|peer| peer as u32)
    }

    /// From here on nothing of any queue is done.
    #[cold]
    pub fn end_all(&self) {
        (0..).take(self.pairs.len()).for_each(|peer| self.end(peer));
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

/// An entry as it was copied.
fn copied(bytes: &[u8]) -> [AtomicU64; 8] {
    std::array::from_fn(|at| AtomicU64::new(u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("8 bytes"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Error};

    #[test]
    fn a_failure_that_was_found_is_told_though_a_look_behind_it_fails() {
        let failed = |at, syndrome| Failed { at: Seq(at), ended: Ended { opcode: 0, syndrome: Some((syndrome, 0)) } };
        let (why, flushed) = (failed(1, Syndrome::Retries as u8), failed(2, Syndrome::Flushed as u8));
        let late = || Err(Error::new(Code::SystemError, 4, "late"));
        let of =
            |looks: Vec<Result<Option<((), Failed)>>>| telling(looks.into_iter()).map(|found| found.map(|((), failed)| failed));
        assert_eq!(of(vec![Ok(None), Ok(Some(((), flushed))), late()]).unwrap(), Some(flushed));
        assert_eq!(of(vec![Ok(Some(((), flushed))), Ok(None), Ok(Some(((), why))), late()]).unwrap(), Some(why));
        assert_eq!(
            of(vec![Ok(Some(((), failed(3, Syndrome::Flushed as u8)))), Ok(Some(((), flushed)))]).unwrap(),
            Some(failed(3, Syndrome::Flushed as u8))
        );
        assert_eq!(of(vec![Ok(None)]).unwrap(), None);
        assert_eq!(of(vec![Ok(None), late(), Ok(Some(((), why)))]).unwrap_err().id, 4);
    }
}
