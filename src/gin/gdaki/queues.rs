//! The queues of one context, one for each peer, as the model has them: what was rung, what is taken, what is complete.

use super::card::{Card, Fault};
use crate::device::Device;
use crate::gin::queue::Index;
use crate::gin::shared::Shared;
use crate::nic::completion::{self, Syndrome};
use crate::nic::element::{self, Element, Misfit};
use crate::nic::slot::{Poison, Seen, WORDS};
use crate::seq::Seq;
use crate::sync::Mutex;
use crate::{error, trace};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Words of a queue's doorbell and record: the register or mailbox, 8 bytes, and a record for receives, which is not used, and for sends.
const BELL: usize = 4;
/// Where the send record is among them.
const RECORD: usize = 3;
/// So often an element is looked at again whose inline data may be poison.
const DOUBTS: u32 = 1000;

/// Who rings: doca's nic_handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// A kernel leaves the index in a mailbox, and the host rings.
    Cpu = 1,
    /// The kernel writes record and register. The model looks at the record alone: the register is a hint.
    Kernel = 2,
}

/// Elements of a queue: NCCL_GIN_GDAKI_QP_DEPTH, rounded up to a power of two.
pub fn depth(wanted: i64) -> u32 {
    // The record has 16 bits, and half of them tell new from old.
    (wanted.clamp(2, 1 << 15) as u32).next_power_of_two()
}

/// What has gone wrong in one queue: from that element on nothing is done.
#[derive(Clone, Copy, Debug)]
struct Failure {
    index: u32,
    syndrome: Syndrome,
}

/// Of one context.
pub struct Queues {
    depth: u32,
    card: Card,
    /// Of peer 0's; the others follow. Queue and completion queue have one number.
    first: u32,
    poison: Poison,
    bells: Shared<AtomicU32>,
    entries: Shared<[AtomicU64; WORDS]>,
    /// By peer: what is complete, and the opcodes of what was taken, by slot.
    published: Vec<AtomicU32>,
    opcodes: Vec<AtomicU32>,
    /// Looks in vain at an element that may be there.
    doubts: Vec<AtomicU32>,
    failed: AtomicBool,
    failures: Mutex<Vec<Option<Failure>>>,
    /// Of companions: whose completions they wait for.
    waits_for: Option<Arc<Queues>>,
}

impl Queues {
    /// `first`: number of the queue of peer 0. `secret`: what kernels cannot know.
    pub fn new(
        device: &dyn Device,
        (n_ranks, depth): (u32, u32),
        (card, first): (Card, u32),
        secret: u64,
        rings: &[[AtomicU64; WORDS]],
        waits_for: Option<Arc<Queues>>,
    ) -> error::Result<Self> {
        let (ranks, slots) = (n_ranks as usize, (n_ranks * depth) as usize);
        let bells = Shared::new(device.control(ranks * BELL * 4)?, ranks * BELL);
        let entries = Shared::<[AtomicU64; WORDS]>::new(device.control(slots * 64)?, slots);
        entries.iter().for_each(completion::empty);
        let poison = Poison::new(secret ^ u64::from(first));
        for (at, slot) in rings.iter().enumerate() {
            poison.bury(slot, at as u32 & (depth - 1));
        }
        let zeros = |n: usize| (0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let (published, opcodes, doubts) = (zeros(ranks), zeros(slots), zeros(ranks));
        let failures = Mutex::new(vec![None; ranks]);
        Ok(Self {
            depth,
            card,
            first,
            poison,
            bells,
            entries,
            published,
            opcodes,
            doubts,
            failed: AtomicBool::new(false),
            failures,
            waits_for,
        })
    }

    /// Who rings.
    pub fn handler(&self) -> Handler {
        self.card.handler.unwrap_or(Handler::Cpu)
    }

    /// What the card is made to fail at.
    pub fn fault(&self) -> Option<&Fault> {
        self.card.fault.as_deref()
    }

    /// How messages call the context with that number.
    pub fn name(&self, context: u32) -> String {
        match &self.waits_for {
            None => format!("GDAKI context {context} (queue pairs from {:#x})", self.first),
            Some(_) => format!("companion of GDAKI context {context} (queue pairs from {:#x})", self.first),
        }
    }

    /// Number of `peer`'s queue.
    pub fn number(&self, peer: u32) -> u32 {
        self.first + peer
    }

    /// Addresses for kernels: of `peer`'s doorbell, its send record, and its completion queue.
    pub fn addresses(&self, peer: u32) -> (u64, u64, u64) {
        let bell = self.bells.device() + u64::from(peer) * BELL as u64 * 4;
        (bell, bell + RECORD as u64 * 4, self.entries.device() + u64::from(peer * self.depth) * 64)
    }

    fn bell(&self, peer: u32, word: usize) -> &AtomicU32 {
        &self.bells[peer as usize * BELL + word]
    }

    /// Elements below this have been rung for; `taken` have been taken.
    fn rung(&self, peer: u32, taken: Seq) -> Seq {
        if self.handler() == Handler::Cpu {
            // The mailbox's low half is an index. The record, which a host thread beside a card would write from it, nobody reads.
            return Seq(self.bell(peer, 0).load(Ordering::Acquire));
        }
        let record = u32::from_be(self.bell(peer, RECORD).load(Ordering::Acquire));
        Seq(taken.0.wrapping_add(u32::from((record as u16).wrapping_sub(taken.0 as u16))))
    }

    /// Rings for the elements below `end`, as a kernel does whose handler is the CPU.
    pub fn ring(&self, peer: u32, end: Seq) {
        self.bell(peer, 0).store(end.0, Ordering::Release);
    }

    /// Is there an element to take?
    #[inline]
    pub fn is_begun(&self, peer: u32, taken: Seq) -> bool {
        self.rung(peer, taken) != taken
    }

    /// Takes element `at` out of its slot, which is free from then on. None while it has not come, or waits for another queue;
    /// `hurry`: that it waits for nobody, because nothing is done any more.
    pub fn take(&self, peer: u32, at: Seq, slot: &[AtomicU64; WORDS], hurry: bool) -> Option<Result<Element, Misfit>> {
        if !self.is_begun(peer, at) {
            return None;
        }
        let doubts = &self.doubts[peer as usize];
        let words = match self.poison.look(slot, at.0) {
            Seen::Whole(words) => words,
            // A store that has not come takes microseconds; poison by chance stays.
            Seen::Perhaps(words) if doubts.fetch_add(1, Ordering::Relaxed) >= DOUBTS => words,
            _ => return None,
        };
        doubts.store(0, Ordering::Relaxed);
        let element = element::decode(&words, self.number(peer), at.0);
        if let Ok(Element::Wait { queue, index }) = element
            && !hurry
            && self.must_wait(queue, index)
        {
            return None;
        }
        self.poison.bury(slot, at.0.wrapping_add(self.depth));
        self.opcodes[(peer * self.depth + (at.0 & (self.depth - 1))) as usize]
            .store(element::opcode(&words).into(), Ordering::Relaxed);
        Some(element)
    }

    /// What is complete of the completion queue with that number, if it may be waited for here.
    fn awaited(&self, queue: u32) -> Option<&AtomicU32> {
        let others = self.waits_for.as_ref()?;
        others.published.get(queue.wrapping_sub(others.first) as usize)
    }

    /// Is that element not complete? A queue that is none is refused as soon as the WAIT for it is taken.
    fn must_wait(&self, queue: u32, index: u32) -> bool {
        self.awaited(queue).is_some_and(|done| !Seq(index).next().at_or_before(Seq(done.load(Ordering::Acquire))))
    }

    /// Is that the number of a completion queue that may be waited for here?
    pub fn may_wait_for(&self, queue: u32) -> bool {
        self.awaited(queue).is_some()
    }

    /// From element `at` on `peer`'s queue does nothing, for that reason; the first one counts.
    #[cold]
    pub fn fail(&self, peer: u32, at: Seq, syndrome: Syndrome) {
        self.failed.store(true, Ordering::Relaxed);
        self.failures.lock()[peer as usize].get_or_insert(Failure { index: at.0, syndrome });
    }

    fn result(&self, peer: u32, index: u32) -> Result<(), Syndrome> {
        if !self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.failures.lock()[peer as usize] {
            Some(failure) if failure.index == index => Err(failure.syndrome),
            Some(failure) if Seq(failure.index).at_or_before(Seq(index)) => Err(Syndrome::Flushed),
            _ => Ok(()),
        }
    }

    /// `peer`'s completion queue as the index that the ledger moves.
    pub fn completions(&self, peer: u32) -> Completions<'_> {
        Completions { queues: self, peer }
    }

    /// Up to where `peer`'s elements are complete.
    pub fn done(&self, peer: u32) -> Seq {
        Seq(self.published[peer as usize].load(Ordering::Relaxed))
    }
}

/// See [`Queues::completions`].
pub struct Completions<'a> {
    queues: &'a Queues,
    peer: u32,
}

impl Index for Completions<'_> {
    /// One entry for each element, in order: who sees one sees its counter, and that its slot is free.
    fn publish(&self, index: u32) {
        let Self { queues, peer } = self;
        let base = (peer * queues.depth) as usize;
        let mut at = queues.published[*peer as usize].load(Ordering::Relaxed);
        while at != index {
            let slot = base + (at & (queues.depth - 1)) as usize;
            let opcode = queues.opcodes[slot].load(Ordering::Relaxed) as u8;
            let (number, result) = (queues.number(*peer), queues.result(*peer, at));
            trace!(NET, "qp {number:#x} cqe {at:#x}: {}", result.map_or_else(Syndrome::name, |()| "done"));
            completion::write(&queues.entries[slot], queues.depth, number, at, opcode, result);
            at = at.wrapping_add(1);
        }
        queues.published[*peer as usize].store(index, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;

    #[test]
    fn depths_are_powers_of_two_that_a_record_can_tell_apart() {
        assert_eq!([1, 2, 3, 128, 129, 32768, 1 << 40].map(depth), [2, 2, 4, 128, 256, 32768, 32768]);
    }

    /// Past 2^16, 2^24 and 2^32: both handlers see what was rung, one completion for each element, and none early.
    #[test]
    fn indices_run_over() {
        let device = CpuDevice::new(0);
        for handler in [Handler::Cpu, Handler::Kernel] {
            for start in [0, 0xfffe, 0xff_fffe, u32::MAX - 2] {
                let ring: Vec<[AtomicU64; WORDS]> = (0..4).map(|_| Default::default()).collect();
                let queues =
                    Queues::new(&*device, (1, 4), (Card { handler: Some(handler), fault: None, real: None }, 9), 1, &ring, None)
                        .unwrap();
                queues.published[0].store(start, Ordering::Relaxed);
                let mut at = Seq(start);
                for _ in 0..8 {
                    let slot = &ring[at.0 as usize & 3];
                    queues.poison.bury(slot, at.0);
                    assert!(queues.take(0, at, slot, false).is_none(), "nothing was rung");
                    let end = at.next().0;
                    match handler {
                        Handler::Cpu => queues.bell(0, 0).store(end, Ordering::Relaxed),
                        Handler::Kernel => queues.bell(0, RECORD).store((end & 0xffff).to_be(), Ordering::Relaxed),
                    }
                    assert!(queues.take(0, at, slot, false).is_none(), "rung for, but not to be seen");
                    slot[0].store(1 << 56, Ordering::Relaxed);
                    slot[1].store(0, Ordering::Relaxed);
                    assert!(queues.take(0, at, slot, false).is_some(), "{handler:?} {at:?}");
                    queues.completions(0).publish(end);
                    assert_eq!(queues.done(0), Seq(end));
                    at = at.next();
                }
            }
        }
    }
}
