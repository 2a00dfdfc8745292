//! Which of this rank's holdings are lent to ranks of other processes: of ncclMemAlloc, or of two calls and more; the latest ones.
//!
//! A loan ends in two steps: it is told to no launch any more, and it is taken back when the launches that were told of it are over. What
//! peers do with it ends with a meeting of such a launch (cuda/collectives/mapped.cuh), so they may let go of it at once.
#![forbid(unsafe_code)]

use super::page::SLOTS;
use crate::device::{Holding, Lends};

/// Holdings of one call that are remembered.
const REMEMBERED: usize = 64;

struct Known {
    holding: Holding,
    calls: u32,
    last: u64,
    loan: Option<Loan>,
}

/// Where in the page, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Slot of the page.
    pub slot: usize,
    /// Of the loan in it.
    pub generation: u64,
}

/// See the module.
#[derive(Default)]
pub struct Own {
    known: Vec<Known>,
    calls: u64,
    generation: u64,
    /// Slots, by number.
    taken: [bool; SLOTS],
    /// Told no more. Of these the first so many wait for the launches before a mark.
    ended: Vec<usize>,
    marked: usize,
    turn: usize,
}

impl Own {
    /// One more call has its buffer in `holding`: its loan, and whether that is to be made.
    pub fn call(&mut self, holding: Holding) -> Option<(Loan, bool)> {
        self.calls += 1;
        self.end(|known| known.holding != holding && known.holding.meets(&holding));
        let at = match self.known.iter().position(|known| known.holding == holding) {
            Some(at) => at,
            None => {
                if self.known.iter().filter(|known| known.loan.is_none()).count() == REMEMBERED {
                    let oldest = self.oldest(|known| known.loan.is_none());
                    self.end(|known| Some(known.last) == oldest);
                }
                self.known.push(Known { holding, calls: 0, last: 0, loan: None });
                self.known.len() - 1
            }
        };
        let known = &mut self.known[at];
        (known.calls, known.last) = (known.calls + 1, self.calls);
        // What was allocated for communication will come again.
        let waits = holding.lends == Lends::Handle && known.calls < 2;
        if known.loan.is_some() || waits {
            return known.loan.map(|loan| (loan, false));
        }
        match self.taken.iter().position(|taken| !taken) {
            Some(slot) => {
                self.generation += 1;
                self.taken[slot] = true;
                let loan = Loan { slot, generation: self.generation };
                known.loan = Some(loan);
                Some((loan, true))
            }
            None => {
                // Room for a later call.
                if self.ended.is_empty() {
                    let oldest = self.oldest(|known| known.loan.is_some());
                    self.end(|known| Some(known.last) == oldest);
                }
                None
            }
        }
    }

    /// Looks at one loan, in turn: whether it is `still` of the memory that it was made of.
    pub fn look(&mut self, still: impl FnOnce(&Holding) -> bool) {
        self.turn += 1;
        let lent: Vec<Holding> = self.known.iter().filter(|known| known.loan.is_some()).map(|known| known.holding).collect();
        if let Some(holding) = lent.get(self.turn % lent.len().max(1))
            && !still(holding)
        {
            self.end(|known| known.holding == *holding);
        }
    }

    /// True if a mark behind all launches is to be made now: loans have ended.
    pub fn marks(&mut self) -> bool {
        let marks = self.marked == 0 && !self.ended.is_empty();
        if marks {
            self.marked = self.ended.len();
        }
        marks
    }

    /// True if one is waited for.
    pub fn waits(&self) -> bool {
        self.marked > 0
    }

    /// What was launched before the mark is over: slots to be taken back, which may be lent again behind that.
    pub fn passed(&mut self) -> Vec<usize> {
        let over: Vec<usize> = self.ended.drain(..std::mem::take(&mut self.marked)).collect();
        over.iter().for_each(|&slot| self.taken[slot] = false);
        over
    }

    fn oldest(&self, among: impl Fn(&Known) -> bool) -> Option<u64> {
        self.known.iter().filter(|known| among(known)).map(|known| known.last).min()
    }

    fn end(&mut self, which: impl Fn(&Known) -> bool) {
        let gone = self.known.extract_if(.., |known| which(known));
        self.ended.extend(gone.filter_map(|known| known.loan).map(|loan| loan.slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(number: u64, id: u64) -> Holding {
        Holding { base: number << 20, bytes: 1 << 20, id, lends: Lends::Handle }
    }

    #[test]
    fn the_second_call_lends_and_other_memory_at_the_same_addresses_is_another_loan() {
        let mut own = Own::default();
        assert_eq!(own.call(holding(1, 1)), None);
        let first = Loan { slot: 0, generation: 1 };
        assert_eq!(own.call(holding(1, 1)), Some((first, true)));
        assert_eq!(own.call(holding(1, 1)), Some((first, false)));
        assert!(!own.marks());
        assert_eq!(own.call(holding(1, 2)), None, "freed and made anew");
        assert!(own.marks() && own.waits() && !own.marks());
        let second = Loan { slot: 1, generation: 2 };
        assert_eq!(own.call(holding(1, 2)), Some((second, true)), "the slot is not free before the mark has passed");
        assert_eq!(own.passed(), [0]);
        assert!(!own.waits());
        // Part of it at other addresses.
        assert_eq!(own.call(Holding { base: (1 << 20) + 4096, ..holding(1, 3) }), None);
        assert!(own.marks());
        assert_eq!(own.passed(), [1]);
    }

    #[test]
    fn memory_of_ncclmemalloc_is_lent_at_its_first_call() {
        let mut own = Own::default();
        assert!(own.call(Holding { lends: Lends::Descriptor, ..holding(1, 1) }).unwrap().1);
    }

    #[test]
    fn the_longest_unused_makes_room_and_not_before_its_launches_are_over() {
        let mut own = Own::default();
        for number in 0..SLOTS as u64 {
            own.call(holding(number, number));
            assert!(own.call(holding(number, number)).unwrap().1);
        }
        own.call(holding(0, 0));
        let new = holding(100, 100);
        for _ in 0..5 {
            assert_eq!(own.call(new), None);
        }
        assert!(own.marks());
        assert_eq!(own.call(new), None);
        assert!(!own.marks(), "one at a time");
        assert_eq!(own.passed(), [1]);
        assert_eq!(own.call(new).unwrap().0.slot, 1);
        assert!(own.call(holding(0, 0)).is_some() && own.call(holding(1, 1)).is_none());
    }

    #[test]
    fn ten_thousand_allocations_leave_no_more_than_there_is_room_for() {
        let mut own = Own::default();
        for number in 0..10_000 {
            own.call(holding(number, number));
            own.call(holding(number, number));
            if own.marks() {
                own.passed();
            }
            assert!(own.known.len() <= SLOTS + REMEMBERED);
        }
        for number in 0..10_000 {
            own.call(holding(number, 20_000 + number));
        }
        assert!(own.known.len() <= SLOTS + REMEMBERED);
    }

    #[test]
    fn what_was_freed_is_found_in_turn() {
        let mut own = Own::default();
        for number in 0..4 {
            own.call(holding(number, number));
            own.call(holding(number, number));
        }
        for _ in 0..4 {
            own.look(|holding| holding.id != 2);
        }
        assert!(own.marks());
        assert_eq!(own.passed(), [2]);
    }
}
