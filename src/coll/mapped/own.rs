//! Which of this rank's holdings are lent to ranks of other processes: of ncclMemAlloc, or of two calls and more; the first ones, until they
//! are freed or wanted back.
//!
//! Memory that was freed is another holding when it comes again, and nobody is told of it as it was. A program that keeps freeing what was
//! lent has more and more calls of a holding go by before the next is: to open one and to close it costs as much as several calls.
#![forbid(unsafe_code)]

use super::page::SLOTS;
use crate::device::{Holding, Lends};

/// Holdings that are not lent and are remembered.
const REMEMBERED: usize = 64;
/// Calls of a holding before it is lent, at first and at most.
const CALLS: (u32, u32) = (2, 1 << 16);
/// A loan that has served less than so many times that is not worth another.
const WORTH: u32 = 16;

struct Known {
    holding: Holding,
    calls: u32,
    last: u64,
    slot: Option<usize>,
    /// A captured call was told of it, which may be replayed for as long as the communicator lives.
    kept: bool,
}

/// A loan that no call is told of any more.
struct Retired {
    slot: usize,
    bytes: u64,
    withdrawn: bool,
}

/// See the module.
pub struct Own {
    known: Vec<Known>,
    retired: Vec<Retired>,
    calls: u64,
    /// Calls of a holding before it is lent.
    needs: u32,
}

/// What a call's buffer has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    /// It is not lent.
    No,
    /// In this slot of the page.
    Yes(usize),
    /// In this slot from now on: it is still to be filled.
    New(usize),
}

impl Default for Own {
    fn default() -> Self {
        Self { known: Vec::new(), retired: Vec::new(), calls: 0, needs: CALLS.0 }
    }
}

impl Own {
    /// One more call has its buffer in `holding`; `may` says whether that may be lent if it is not. Of a captured one, which will be launched often, at once.
    pub fn call(&mut self, holding: Holding, captured: bool, may: impl FnOnce() -> bool) -> Lent {
        self.calls += 1;
        let at = match self.known.iter().position(|known| known.holding == holding) {
            Some(at) => at,
            None => {
                self.make_room();
                self.known.push(Known { holding, calls: 0, last: 0, slot: None, kept: false });
                self.known.len() - 1
            }
        };
        let known = &mut self.known[at];
        (known.calls, known.last) = (known.calls.saturating_add(1), self.calls);
        if let Some(slot) = known.slot {
            known.kept |= captured;
            return Lent::Yes(slot);
        }
        // What was allocated for communication will come again.
        let waits = holding.lends != Lends::Descriptor && !captured && known.calls < self.needs;
        let Some(slot) = self.empty_slot().filter(|_| !waits && may()) else { return Lent::No };
        (self.known[at].slot, self.known[at].kept) = (Some(slot), captured);
        Lent::New(slot)
    }

    /// Bytes of all loans, also of those that others have not let go of.
    pub fn bytes(&self) -> u64 {
        let lent = self.known.iter().filter(|known| known.slot.is_some()).map(|known| known.holding.bytes);
        lent.chain(self.retired.iter().map(|retired| retired.bytes)).sum()
    }

    /// No call is told any more of loans that are freed, nor, if they are all `wanted` back, of any.
    pub fn retire(&mut self, wanted: bool, is_freed: impl Fn(&Holding) -> bool) {
        for known in &mut self.known {
            let Some(slot) = known.slot.filter(|_| !known.kept) else { continue };
            let freed = is_freed(&known.holding);
            if !freed && !wanted {
                continue;
            }
            known.slot = None;
            self.retired.push(Retired { slot, bytes: known.holding.bytes, withdrawn: false });
            if freed {
                self.needs = match known.calls / WORTH < self.needs {
                    true => self.needs.saturating_mul(4).min(CALLS.1),
                    false => CALLS.0,
                };
            }
            known.calls = 0;
        }
    }

    /// The launches that were told of retired loans are over: `withdraw` is called for each of these, once.
    pub fn withdraw(&mut self, mut withdraw: impl FnMut(usize)) {
        for retired in self.retired.iter_mut().filter(|retired| !retired.withdrawn) {
            withdraw(retired.slot);
            retired.withdrawn = true;
        }
    }

    /// Their slots are empty again where `is_empty`.
    pub fn collect(&mut self, is_empty: impl Fn(usize) -> bool) {
        self.retired.retain(|retired| !retired.withdrawn || !is_empty(retired.slot));
    }

    fn empty_slot(&self) -> Option<usize> {
        let taken = |slot| {
            self.known.iter().any(|known| known.slot == Some(slot)) || self.retired.iter().any(|retired| retired.slot == slot)
        };
        (0..SLOTS).find(|&slot| !taken(slot))
    }

    fn make_room(&mut self) {
        let others = || self.known.iter().enumerate().filter(|(_, known)| known.slot.is_none());
        if others().count() >= REMEMBERED
            && let Some((oldest, _)) = others().min_by_key(|(_, known)| known.last)
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

    fn call(own: &mut Own, holding: Holding) -> Lent {
        own.call(holding, false, || true)
    }

    #[test]
    fn the_second_call_lends_and_other_memory_at_the_same_addresses_is_another_loan() {
        let mut own = Own::default();
        assert_eq!(call(&mut own, holding(1, 1)), Lent::No);
        assert_eq!(call(&mut own, holding(1, 1)), Lent::New(0));
        assert_eq!(call(&mut own, holding(1, 1)), Lent::Yes(0));
        assert_eq!(call(&mut own, holding(1, 2)), Lent::No, "freed and made anew");
        assert_eq!(call(&mut own, holding(1, 2)), Lent::New(1));
        assert_eq!(own.bytes(), 2 << 20);
    }

    #[test]
    fn memory_of_ncclmemalloc_is_lent_at_its_first_call_if_it_may_be() {
        let mut own = Own::default();
        let allocated = Holding { lends: Lends::Descriptor, ..holding(1, 1) };
        assert_eq!(own.call(allocated, false, || false), Lent::No);
        assert_eq!(call(&mut own, allocated), Lent::New(0));
        let pieces = Holding { lends: Lends::Pieces(2), ..holding(2, 1) };
        assert_eq!((call(&mut own, pieces), call(&mut own, pieces)), (Lent::No, Lent::New(1)), "of others' at their second");
    }

    #[test]
    fn beyond_the_slots_nothing_is_lent_and_little_is_remembered() {
        let mut own = Own::default();
        for number in 0..10_000 {
            let (first, second) = (call(&mut own, holding(number, number)), call(&mut own, holding(number, number)));
            assert_eq!((first, second), (Lent::No, if number < SLOTS as u64 { Lent::New(number as usize) } else { Lent::No }));
            assert!(own.known.len() <= SLOTS + REMEMBERED);
        }
        assert_eq!(call(&mut own, holding(0, 0)), Lent::Yes(0));
    }

    #[test]
    fn a_slot_is_used_again_when_what_was_freed_is_let_go_of() {
        let mut own = Own::default();
        let lent: Vec<_> =
            (0..SLOTS as u64).map(|number| (call(&mut own, holding(number, 1)), call(&mut own, holding(number, 1)))).collect();
        assert!(lent.iter().all(|(_, second)| matches!(second, Lent::New(_))));
        own.retire(false, |holding| holding.base == 3 << 20);
        assert_eq!(call(&mut own, holding(3, 1)), Lent::No, "no call is told of it");
        own.collect(|_| unreachable!("not withdrawn yet"));
        let mut slots = Vec::new();
        own.withdraw(|slot| slots.push(slot));
        own.withdraw(|_| unreachable!("twice"));
        own.collect(|_| false);
        assert_eq!((slots, own.bytes()), (vec![3], (SLOTS as u64) << 20));
        own.collect(|slot| slot == 3);
        assert_eq!(own.bytes(), (SLOTS as u64 - 1) << 20);
        (0..6).for_each(|_| assert_eq!(call(&mut own, holding(99, 1)), Lent::No, "the last loan was hardly used"));
        assert_eq!((call(&mut own, holding(99, 1)), call(&mut own, holding(99, 1))), (Lent::No, Lent::New(3)));
    }

    #[test]
    fn all_come_back_when_they_are_wanted_and_may_be_lent_again() {
        let mut own = Own::default();
        (0..2).for_each(|_| _ = call(&mut own, holding(1, 1)));
        own.retire(true, |_| false);
        own.withdraw(|_| ());
        own.collect(|_| true);
        assert_eq!(
            (own.bytes(), own.call(holding(1, 1), false, || false), own.call(holding(1, 1), true, || false)),
            (0, Lent::No, Lent::No)
        );
        assert_eq!(call(&mut own, holding(1, 1)), Lent::New(0));
    }

    #[test]
    fn what_a_captured_call_was_told_of_is_lent_at_once_and_stays() {
        let mut own = Own::default();
        assert_eq!(own.call(holding(1, 1), true, || true), Lent::New(0));
        (0..2).for_each(|_| _ = call(&mut own, holding(2, 1)));
        assert_eq!(own.call(holding(2, 1), true, || true), Lent::Yes(1));
        own.retire(true, |_| true);
        own.withdraw(|_| unreachable!());
        assert_eq!((call(&mut own, holding(1, 1)), call(&mut own, holding(2, 1))), (Lent::Yes(0), Lent::Yes(1)));
    }

    #[test]
    fn who_frees_after_many_calls_is_lent_the_next_at_once() {
        let mut own = Own::default();
        for id in 0..100 {
            assert_eq!(call(&mut own, holding(1, id)), Lent::No);
            assert_eq!(call(&mut own, holding(1, id)), Lent::New(0));
            (0..WORTH * 2).for_each(|_| assert_eq!(call(&mut own, holding(1, id)), Lent::Yes(0)));
            own.retire(false, |_| true);
            own.withdraw(|_| ());
            own.collect(|_| true);
        }
    }
}
