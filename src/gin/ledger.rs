//! Which operations of a queue are done, and how much credit that gives back.
//!
//! Credit is one index, so it moves over done slots in order and stops at the first that is not. A counter rises before
//! the index moves over its operation.
#![forbid(unsafe_code)]

use super::queue::Index;
use crate::seq::Seq;
use zerocopy::FromZeros;

/// One operation that a transport has not finished: pieces under way, plus one while some are not yet submitted.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct Open {
    parts: u32,
    /// Counter id plus one, 0 for none.
    counter: u32,
}

/// What became of a piece's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// Other pieces are still under way.
    Partly,
    /// The operation is done; its counter, if it has one, is due before [`Ledger::credit`].
    Done(Option<u16>),
}

/// The indices of one queue. `slots` is the queue's part of the context's table, as long as the queue is deep.
#[derive(Debug, Default)]
pub struct Ledger {
    taken: Seq,
    credited: Seq,
    open: u32,
}

impl Ledger {
    /// Both indices at `start`; tests start just before the wrap.
    pub fn starting_at(start: Seq) -> Self {
        Self { taken: start, credited: start, open: 0 }
    }

    /// Index of the next descriptor to take.
    #[inline]
    pub fn next(&self) -> Seq {
        self.taken
    }

    /// Operations that are not done.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// The descriptor at [`Self::next`] has left its slot.
    #[inline]
    pub fn take(&mut self) -> Seq {
        let index = self.taken;
        self.taken = index.next();
        index
    }

    /// Operation `index` goes on: nothing behind it gets credit until all its pieces are back and no more follow.
    pub fn hold(&mut self, slots: &mut [Open], index: Seq, counter: Option<u16>) {
        let slot = slot(slots, index);
        debug_assert_eq!(slot.parts, 0);
        *slot = Open { parts: 1, counter: counter.map_or(0, |id| u32::from(id) + 1) };
        self.open += 1;
    }

    /// A piece of the held operation `index` is under way.
    pub fn add_piece(&mut self, slots: &mut [Open], index: Seq) {
        slot(slots, index).parts += 1;
    }

    /// A piece came back, or all of them have been submitted. None if no such operation is open.
    pub fn reap(&mut self, slots: &mut [Open], index: Seq) -> Option<Reaped> {
        let slot = slot(slots, index);
        slot.parts = slot.parts.checked_sub(1)?;
        if slot.parts > 0 {
            return Some(Reaped::Partly);
        }
        let counter = slot.counter;
        slot.counter = 0;
        self.open -= 1;
        Some(Reaped::Done(counter.checked_sub(1).map(|id| id as u16)))
    }

    /// Moves the credit over all done operations and publishes it if it moved.
    #[inline]
    pub fn credit(&mut self, slots: &[Open], cis: &impl Index) -> bool {
        let before = self.credited;
        if self.open == 0 {
            self.credited = self.taken;
        } else {
            let mask = slots.len() as u32 - 1;
            while self.credited != self.taken && slots[(self.credited.0 & mask) as usize].parts == 0 {
                self.credited = self.credited.next();
            }
        }
        let moved = self.credited != before;
        if moved {
            cis.publish(self.credited.0);
        }
        moved
    }

    /// After an abort: everything taken counts as done, without its counter.
    pub fn cancel(&mut self, slots: &mut [Open]) {
        slots.fill(Open::default());
        self.open = 0;
    }
}

fn slot(slots: &mut [Open], index: Seq) -> &mut Open {
    let mask = slots.len() as u32 - 1;
    &mut slots[(index.0 & mask) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn credit_waits_for_the_first_open_operation() {
        let cis = AtomicU32::new(u32::MAX - 1);
        let mut slots = [Open::default(); 4];
        let mut ledger = Ledger::starting_at(Seq(u32::MAX - 1));
        let first = ledger.take();
        ledger.hold(&mut slots, first, Some(9));
        ledger.add_piece(&mut slots, first);
        let second = ledger.take();
        let third = ledger.take();
        ledger.hold(&mut slots, third, None);
        assert_eq!(ledger.reap(&mut slots, third), Some(Reaped::Done(None)));
        assert!(!ledger.credit(&slots, &cis), "second and third are done, but the first is open");
        assert_eq!(ledger.reap(&mut slots, first), Some(Reaped::Partly));
        assert!(!ledger.credit(&slots, &cis));
        assert_eq!(ledger.reap(&mut slots, first), Some(Reaped::Done(Some(9))));
        assert!(ledger.credit(&slots, &cis));
        assert_eq!(cis.load(Ordering::Relaxed), 1, "over the wrap");
        assert_eq!(ledger.reap(&mut slots, second), None, "a completion that nobody waits for is told");
        assert!(!ledger.credit(&slots, &cis), "credit comes back once");
    }

    #[test]
    fn operations_done_at_once_never_touch_the_table() {
        let cis = AtomicU32::new(0);
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.take();
        }
        assert!(ledger.credit(&[], &cis));
        assert_eq!(cis.load(Ordering::Relaxed), 3);
    }
}
