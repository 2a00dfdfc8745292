//! The queues of one context, one for each peer, as the model has them: what was rung, what is taken, what is complete.

use super::card::{Card, Fault};
use super::carrier::Carrier;
use super::mirror::{Line, Mirror};
use crate::device::Device;
use crate::error::{self, Error};
use crate::gin::queue::Index;
use crate::gin::shared::Shared;
use crate::nic::completion::{self, Syndrome};
use crate::nic::element::{self, Element, Misfit};
use crate::nic::slot::{Poison, Seen, WORDS};
use crate::seq::Seq;
use crate::sync::Mutex;
use crate::{info, trace};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Words of a queue's doorbell and record: the register or mailbox, 8 bytes, and a record for receives, which is not used, and for sends.
const BELL: usize = 4;
/// Where the send record is among them.
const RECORD: usize = 3;
/// So often an element is looked at again whose inline data may be poison, which takes some microseconds; and fetched again.
const DOUBTS: u32 = 200;
const FETCHES: u32 = 8;
/// So long a failed element's entry may take to be seen by kernels, before they are told of the abort.
const LAST_ENTRY: Duration = Duration::from_millis(20);

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
    pub(super) card: Card,
    /// Of peer 0's; the others follow. Queue and completion queue have one number.
    first: u32,
    poison: Poison,
    bells: Shared<AtomicU32>,
    slots: Shared<Line>,
    entries: Shared<Line>,
    /// Where kernels have slots and entries in a GPU's memory.
    apart: Option<(Arc<Mirror>, Arc<Carrier>)>,
    /// By peer: what is complete, and the opcodes of what was taken, by slot.
    published: Vec<AtomicU32>,
    opcodes: Vec<AtomicU32>,
    /// Looks in vain at an element that may be there.
    doubts: Vec<AtomicU32>,
    /// Looks in vain at one that was rung for: not all of it was to be seen.
    late: AtomicU64,
    failed: AtomicBool,
    failures: Mutex<Vec<Option<Failure>>>,
    /// Of companions: whose completions they wait for.
    waits_for: Option<Arc<Queues>>,
}

impl Queues {
    /// `first`: number of the queue of peer 0. `secret`: what kernels cannot know. `carrier`: where kernels have slots and entries in a GPU's
    /// memory, who carries.
    pub fn new(
        device: &dyn Device,
        (n_ranks, depth): (u32, u32),
        (card, first): (Card, u32),
        secret: u64,
        (slots, carrier): (&Shared<Line>, Option<&Arc<Carrier>>),
        waits_for: Option<Arc<Queues>>,
    ) -> error::Result<Self> {
        let (ranks, lines) = (n_ranks as usize, (n_ranks * depth) as usize);
        let bells = Shared::new(device.control(ranks * BELL * 4)?, ranks * BELL);
        let entries = Shared::<Line>::new(device.control(lines * 64)?, lines);
        entries.iter().for_each(completion::empty);
        let poison = Poison::new(secret ^ u64::from(first));
        for (at, slot) in slots[..lines].iter().enumerate() {
            poison.bury(slot, at as u32 & (depth - 1));
        }
        let apart = match carrier {
            Some(carrier) => Some((Arc::new(Mirror::new(device, (n_ranks, depth), slots, &entries)?), carrier.clone())),
            None => None,
        };
        let zeros = |n: usize| (0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        Ok(Self {
            depth,
            card,
            first,
            poison,
            bells,
            slots: slots.clone(),
            entries,
            apart,
            published: zeros(ranks),
            opcodes: zeros(lines),
            doubts: zeros(ranks),
            late: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failures: Mutex::new(vec![None; ranks]),
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

    /// Addresses for kernels: of `peer`'s doorbell, its send record, its completion queue and its ring.
    pub fn addresses(&self, peer: u32) -> [u64; 4] {
        let bell = self.bells.device() + u64::from(peer) * BELL as u64 * 4;
        let of_peer = u64::from(peer * self.depth) * 64;
        let (ring, entries) = match &self.apart {
            None => (self.slots.device() + of_peer, self.entries.device() + of_peer),
            Some((mirror, _)) => mirror.addresses(peer),
        };
        [bell, bell + RECORD as u64 * 4, entries, ring]
    }

    fn place(&self, peer: u32, at: u32) -> usize {
        (peer * self.depth + (at & (self.depth - 1))) as usize
    }

    /// Rings and completion queues as kernels on the CPU device have them.
    #[cfg(test)]
    pub fn of_kernels(&self) -> [Shared<Line>; 2] {
        match &self.apart {
            Some((mirror, _)) => mirror.of_kernels(),
            None => [self.slots.clone(), self.entries.clone()],
        }
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
    pub fn take(&self, peer: u32, at: Seq, hurry: bool) -> Option<Result<Element, Misfit>> {
        if !self.is_begun(peer, at) {
            return None;
        }
        let slot = &self.slots[self.place(peer, at.0)];
        let words = loop {
            if !self.has_come(peer, at) {
                return None;
            }
            match self.poison.look(slot, at.0) {
                Seen::Whole(words) => break words,
                // A store that has not come takes microseconds; poison by chance stays.
                Seen::Perhaps(words) if self.is_old(peer) => break words,
                // Now, and not at the next visit: the proxy may nap before it.
                Seen::Perhaps(_) if self.look_again(peer, at) => std::hint::spin_loop(),
                Seen::Perhaps(_) => return None,
                Seen::Partly => {
                    self.late.fetch_add(1, Ordering::Relaxed);
                    self.look_again(peer, at);
                    return None;
                }
            }
        };
        self.doubts[peer as usize].store(0, Ordering::Relaxed);
        let element = element::decode(&words, self.number(peer), at.0);
        if let Ok(Element::Wait { queue, index }) = element
            && !hurry
            && self.must_wait(queue, index)
        {
            return None;
        }
        self.poison.bury(slot, at.0.wrapping_add(self.depth));
        self.opcodes[self.place(peer, at.0)].store(element::opcode(&words).into(), Ordering::Relaxed);
        Some(element)
    }

    /// Is there something in element `at`'s slot to look at? Asks for it, and for what was rung for behind it.
    fn has_come(&self, peer: u32, at: Seq) -> bool {
        let Some((mirror, carrier)) = &self.apart else { return true };
        if let Some(order) = mirror.fetch(peer, self.rung(peer, at)) {
            carrier.order(order);
        }
        !mirror.come(peer).at_or_before(at)
    }

    /// Was an element looked at often enough whose data may be poison?
    fn is_old(&self, peer: u32) -> bool {
        let most = match &self.apart {
            None => DOUBTS,
            // It is fetched again once nothing is under way.
            Some((mirror, _)) if mirror.is_fetching(peer) => return false,
            Some(_) => FETCHES,
        };
        self.doubts[peer as usize].fetch_add(1, Ordering::Relaxed) >= most
    }

    /// What was seen of element `at` may not be all of it. True unless it has to wait for what is under way.
    fn look_again(&self, peer: u32, at: Seq) -> bool {
        match &self.apart {
            None => true,
            Some((mirror, _)) if mirror.is_fetching(peer) => false,
            Some((mirror, _)) => {
                mirror.forget(peer, at);
                true
            }
        }
    }

    /// Why nothing is fetched and no completion brought any more, where that is so.
    #[inline]
    pub fn broken(&self) -> Option<Error> {
        self.apart.as_ref()?.1.broken()
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

    pub(super) fn result(&self, peer: u32, index: u32) -> Result<(), Syndrome> {
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

    /// Waits a moment until kernels see what is complete of `peer`'s queue.
    #[cold]
    pub fn settle(&self, peer: u32) {
        let Some((mirror, _)) = &self.apart else { return };
        let end = Instant::now() + LAST_ENTRY;
        while mirror.landed(peer) != self.done(peer) && Instant::now() < end {
            std::thread::yield_now();
        }
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
        let before = queues.published[*peer as usize].load(Ordering::Relaxed);
        let mut at = before;
        while at != index {
            let place = queues.place(*peer, at);
            let entry = &queues.entries[place];
            let opcode = queues.opcodes[place].load(Ordering::Relaxed) as u8;
            let (number, result) = (queues.number(*peer), queues.result(*peer, at));
            trace!(NET, "qp {number:#x} cqe {at:#x}: {}", result.map_or_else(Syndrome::name, |()| "done"));
            let last = entry[WORDS - 1].load(Ordering::Relaxed);
            completion::write(entry, queues.depth, number, at, opcode, result);
            if let Some((mirror, _)) = &queues.apart {
                mirror.written(place, last);
            }
            at = at.wrapping_add(1);
        }
        if let Some((mirror, carrier)) = &queues.apart
            && before != index
        {
            carrier.order(mirror.publish(*peer, Seq(before), Seq(index)));
        }
        queues.published[*peer as usize].store(index, Ordering::Release);
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let late = *self.late.get_mut();
        if late > 0 {
            info!(NET, "queue pairs from {:#x}: {late} looks at an element that was rung for and not all there", self.first);
        }
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

    /// In one visit, wherever they are: the proxy naps between visits that take nothing.
    #[test]
    fn data_that_are_as_poison_is_are_taken_at_once() {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let carrier = Arc::new(Carrier::start(&device).unwrap());
        for apart in [false, true] {
            let slots = Shared::<Line>::new(device.control(4 * 64).unwrap(), 4);
            let carried = (&slots, apart.then_some(&carrier));
            let queues = Queues::new(&*device, (1, 4), (Card::model(Handler::Cpu, apart), 9), 1, carried, None).unwrap();
            let slot = &queues.of_kernels()[0][0];
            let data: [u64; WORDS] = std::array::from_fn(|at| slot[at].load(Ordering::Relaxed));
            let control = u64::from_be(9 << 8 | 3 | u64::from(element::RDMA_WRITE) << 32);
            [control, 0, 0, 0].into_iter().zip(slot).for_each(|(word, place)| place.store(word, Ordering::Relaxed));
            let count = u64::from((element::INLINE | 8).to_be());
            slot[4].store(data[4] >> 32 << 32 | count, Ordering::Relaxed);
            queues.ring(0, Seq(1));
            let Some(Ok(Element::WriteInline { data: taken, bytes: 8, .. })) = queues.take(0, Seq(0), false) else {
                panic!("it was not taken, {apart}")
            };
            assert_eq!(taken[..8], element::data(&data)[..8]);
        }
    }

    /// Past 2^16, 2^24 and 2^32: both handlers see what was rung, one completion for each element, and none early.
    #[test]
    fn indices_run_over() {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let carrier = Arc::new(Carrier::start(&device).unwrap());
        for (handler, apart) in [(Handler::Cpu, false), (Handler::Kernel, false), (Handler::Cpu, true), (Handler::Kernel, true)] {
            for start in [0, 0xfffe, 0xff_fffe, u32::MAX - 2] {
                let slots = Shared::<Line>::new(device.control(4 * 64).unwrap(), 4);
                let carried = (&slots, apart.then_some(&carrier));
                let queues = Queues::new(&*device, (1, 4), (Card::model(handler, apart), 9), 1, carried, None).unwrap();
                let mut at = Seq(start);
                queues.published[0].store(start, Ordering::Relaxed);
                if let Some((mirror, _)) = &queues.apart {
                    mirror.begin(0, at);
                }
                let [ring, entries] = queues.of_kernels();
                for _ in 0..8 {
                    let place = at.0 as usize & 3;
                    let (slot, entry) = (&ring[place], &entries[place]);
                    queues.poison.bury(slot, at.0);
                    assert!(queues.take(0, at, false).is_none(), "nothing was rung");
                    let end = at.next().0;
                    match handler {
                        Handler::Cpu => queues.bell(0, 0).store(end, Ordering::Relaxed),
                        Handler::Kernel => queues.bell(0, RECORD).store((end & 0xffff).to_be(), Ordering::Relaxed),
                    }
                    assert!(queues.take(0, at, false).is_none(), "rung for, but not to be seen");
                    slot[0].store(1 << 56, Ordering::Relaxed);
                    assert!(queues.take(0, at, false).is_none(), "half of it");
                    slot[1].store(0, Ordering::Relaxed);
                    assert!(queues.take(0, at, false).is_some(), "{handler:?} {at:?}");
                    assert!(completion::read(entry, 4, at.0).is_none(), "{at:?} is not complete");
                    queues.completions(0).publish(end);
                    assert_eq!((queues.done(0), queues.late.load(Ordering::Relaxed) > 0), (Seq(end), true));
                    let (seen, _) = completion::read(entry, 4, at.0).unwrap();
                    assert_eq!(seen, at.0, "{handler:?} {apart}");
                    assert!(
                        slot.iter().all(|word| ![0, 1 << 56].contains(&word.load(Ordering::Relaxed))),
                        "its slot is poison again"
                    );
                    at = at.next();
                }
            }
        }
    }
}
