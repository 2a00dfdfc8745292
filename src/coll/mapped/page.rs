//! What a rank lends to ranks of other processes: a page of words that all of them share.
//!
//! The owner alone writes what is lent, and counts its changes; each other rank writes where it sees a loan, beside it. A loan has a
//! generation, never 0 and never used again: who has read another one around its words has read nothing.
#![forbid(unsafe_code)]

use crate::coll::work::MAPPED_RANKS;
use crate::device::{DevPtr, Physical};
use crate::gin::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Loans of a rank at a time.
pub const SLOTS: usize = 32;

/// Words: changes at the head; of a slot generation, form, bytes, eight of the loan, then by rank the generation and the place.
const HEAD: usize = 16;
const GENERATION: usize = 0;
const FORM: usize = 1;
const BYTES: usize = 2;
const LOAN: usize = 8;
const RANKS: usize = 16;
const SLOT: usize = RANKS + 2 * MAPPED_RANKS;
const WORDS: usize = HEAD + SLOTS * SLOT;

/// How others get at a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loan {
    /// [`crate::device::Memory::borrow_handle`].
    Handle([u64; 8]),
    /// A descriptor of physical memory that the owner has published under this key.
    Descriptor(u64),
}

/// One rank's page.
pub struct Page(Shared<AtomicU64>);

impl Page {
    /// Bytes of its memory.
    pub const BYTES: usize = 8 * WORDS;

    /// The page in `memory`; None if that is too small.
    pub fn of(memory: &Arc<dyn Physical>) -> Option<Self> {
        Shared::of_host(memory, WORDS).map(Self)
    }

    /// Grows with each change by the owner.
    pub fn changes(&self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    fn slot(&self, slot: usize) -> &[AtomicU64] {
        &self.0[HEAD + slot * SLOT..][..SLOT]
    }

    /// The owner's: lends, in an empty slot.
    pub fn lend(&self, slot: usize, generation: u64, bytes: u64, loan: Loan) {
        let words = self.slot(slot);
        let (form, loan) = match loan {
            Loan::Handle(words) => (1, words),
            Loan::Descriptor(key) => (2, [key, 0, 0, 0, 0, 0, 0, 0]),
        };
        words[FORM].store(form, Ordering::Relaxed);
        words[BYTES].store(bytes, Ordering::Relaxed);
        words[LOAN..].iter().zip(loan).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        words[GENERATION].store(generation, Ordering::Release);
        self.0[0].fetch_add(1, Ordering::Release);
    }

    /// The owner's: takes a loan back.
    pub fn take_back(&self, slot: usize) {
        self.slot(slot)[GENERATION].store(0, Ordering::Relaxed);
        // Before the words of the next loan.
        fence(Ordering::Release);
        self.0[0].fetch_add(1, Ordering::Release);
    }

    /// The owner's: where `rank` sees that loan, if it has told.
    pub fn seen(&self, slot: usize, generation: u64, rank: u32) -> Option<DevPtr> {
        let words = &self.slot(slot)[RANKS + 2 * rank as usize..];
        let told = words[0].load(Ordering::Acquire) == generation;
        told.then(|| words[1].load(Ordering::Relaxed)).filter(|&at| at != 0)
    }

    /// The others': which loan is in a slot; 0: none.
    pub fn generation(&self, slot: usize) -> u64 {
        self.slot(slot)[GENERATION].load(Ordering::Acquire)
    }

    /// The others': its bytes, and the loan; None if it is another one by now.
    pub fn loan(&self, slot: usize, generation: u64) -> Option<(u64, Loan)> {
        let words = self.slot(slot);
        let word = |i: usize| words[i].load(Ordering::Relaxed);
        let loan = match word(FORM) {
            1 => Loan::Handle(std::array::from_fn(|i| word(LOAN + i))),
            2 => Loan::Descriptor(word(LOAN)),
            _ => return None,
        };
        let bytes = word(BYTES);
        fence(Ordering::Acquire);
        (word(GENERATION) == generation).then_some((bytes, loan))
    }

    /// The others': `rank` sees it at `at`; 0: it does not, and will not.
    pub fn tell(&self, slot: usize, generation: u64, rank: u32, at: DevPtr) {
        let words = &self.slot(slot)[RANKS + 2 * rank as usize..];
        words[1].store(at, Ordering::Relaxed);
        words[0].store(generation, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, cpu::CpuDevice};

    #[test]
    fn a_loan_is_read_whole_or_not_at_all_and_who_sees_it_is_known_by_its_generation() {
        let memory = CpuDevice::new(0).create_shared(Page::BYTES).unwrap();
        let (owner, other) = (Page::of(&memory).unwrap(), Page::of(&memory).unwrap());
        assert_eq!((other.generation(3), other.loan(3, 0)), (0, None));
        owner.lend(3, 7, 4096, Loan::Handle([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!((other.changes(), other.generation(3)), (1, 7));
        assert_eq!(other.loan(3, 7), Some((4096, Loan::Handle([1, 2, 3, 4, 5, 6, 7, 8]))));
        assert_eq!(other.loan(3, 6), None);
        assert_eq!(owner.seen(3, 7, 31), None);
        other.tell(3, 7, 31, 0x1000);
        other.tell(3, 7, 30, 0);
        assert_eq!((owner.seen(3, 7, 31), owner.seen(3, 7, 30), owner.seen(3, 8, 31)), (Some(0x1000), None, None));
        owner.take_back(3);
        assert_eq!((other.changes(), other.generation(3), other.loan(3, 7)), (2, 0, None));
        owner.lend(SLOTS - 1, 8, 1, Loan::Descriptor(5));
        assert_eq!(other.loan(SLOTS - 1, 8), Some((1, Loan::Descriptor(5))));
    }
}
