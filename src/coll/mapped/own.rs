//! Which of this rank's holdings are lent to ranks of other processes: of ncclMemAlloc, or of two calls and more; the first ones.
//!
//! A loan lasts as long as the communicator: to close one the driver waits for all kernels, and holds up copies of other threads for which
//! these may wait. Memory that was freed is another holding when it comes again, and nobody is told of it as it was.
#![forbid(unsafe_code)]

use super::page::SLOTS;
use crate::device::{Holding, Lends};

/// Holdings that are not lent and are remembered.
const REMEMBERED: usize = 64;

struct Known {
    holding: Holding,
    calls: u32,
    last: u64,
    slot: Option<usize>,
}

/// See the module.
#[derive(Default)]
pub struct Own {
    known: Vec<Known>,
    calls: u64,
    lent: usize,
}

impl Own {
    /// One more call has its buffer in `holding`: its slot of the page, and whether that is still to be filled.
    pub fn call(&mut self, holding: Holding) -> Option<(usize, bool)> {
        self.calls += 1;
        let at = match self.known.iter().position(|known| known.holding == holding) {
            Some(at) => at,
            None => {
                self.make_room();
                self.known.push(Known { holding, calls: 0, last: 0, slot: None });
                self.known.len() - 1
            }
        };
        let known = &mut self.known[at];
        (known.calls, known.last) = (known.calls + 1, self.calls);
        // What was allocated for communication will come again.
        let waits = holding.lends == Lends::Handle && known.calls < 2;
        if known.slot.is_some() || waits || self.lent == SLOTS {
            return known.slot.map(|slot| (slot, false));
        }
        let slot = self.lent;
        known.slot = Some(slot);
        self.lent += 1;
        Some((slot, true))
    }

    fn make_room(&mut self) {
        let others = self.known.iter().enumerate().filter(|(_, known)| known.slot.is_none());
        if self.known.len() - self.lent == REMEMBERED
            && let Some((oldest, _)) = others.min_by_key(|(_, known)| known.last)
        {
            self.known.swap_remove(oldest);
        }
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
        assert_eq!(own.call(holding(1, 1)), Some((0, true)));
        assert_eq!(own.call(holding(1, 1)), Some((0, false)));
        assert_eq!(own.call(holding(1, 2)), None, "freed and made anew");
        assert_eq!(own.call(holding(1, 2)), Some((1, true)));
    }

    #[test]
    fn memory_of_ncclmemalloc_is_lent_at_its_first_call() {
        let mut own = Own::default();
        assert_eq!(own.call(Holding { lends: Lends::Descriptor, ..holding(1, 1) }), Some((0, true)));
    }

    #[test]
    fn beyond_the_slots_nothing_is_lent_and_little_is_remembered() {
        let mut own = Own::default();
        for number in 0..10_000 {
            let first = own.call(holding(number, number));
            let second = own.call(holding(number, number));
            assert_eq!((first, second), (None, (number < SLOTS as u64).then_some((number as usize, true))));
            assert!(own.known.len() <= SLOTS + REMEMBERED);
        }
        assert_eq!(own.call(holding(0, 0)), Some((0, false)));
    }
}
