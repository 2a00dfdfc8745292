//! What a rank lends to ranks of other processes: a page of words that all of them share.
//!
//! The owner alone writes what is lent; each other rank writes where it sees a loan, beside it. A slot is filled once.
#![forbid(unsafe_code)]

use crate::coll::work::MAPPED_RANKS;
use crate::device::{DevPtr, Physical};
use crate::gin::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Loans of a rank.
pub const SLOTS: usize = 32;

/// Words: loans at the head; of a slot form, bytes, eight of the loan, then by rank the place.
const HEAD: usize = 16;
const FORM: usize = 0;
const BYTES: usize = 1;
const LOAN: usize = 8;
const RANKS: usize = 16;
const SLOT: usize = RANKS + MAPPED_RANKS;
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

    /// Loans so far.
    pub fn loans(&self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    fn slot(&self, slot: usize) -> &[AtomicU64] {
        &self.0[HEAD + slot * SLOT..][..SLOT]
    }

    /// The owner's: lends, in an empty slot.
    pub fn lend(&self, slot: usize, bytes: u64, loan: Loan) {
        let words = self.slot(slot);
        let (form, loan) = match loan {
            Loan::Handle(words) => (1, words),
            Loan::Descriptor(key) => (2, [key, 0, 0, 0, 0, 0, 0, 0]),
        };
        words[BYTES].store(bytes, Ordering::Relaxed);
        words[LOAN..].iter().zip(loan).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        words[FORM].store(form, Ordering::Release);
        self.0[0].fetch_add(1, Ordering::Release);
    }

    /// The owner's: where `rank` sees that loan, if it has told.
    pub fn seen(&self, slot: usize, rank: u32) -> Option<DevPtr> {
        Some(self.slot(slot)[RANKS + rank as usize].load(Ordering::Acquire)).filter(|&at| at != 0)
    }

    /// The others': bytes and loan of a slot.
    pub fn loan(&self, slot: usize) -> Option<(u64, Loan)> {
        let words = self.slot(slot);
        let word = |i: usize| words[i].load(Ordering::Relaxed);
        let loan = match words[FORM].load(Ordering::Acquire) {
            1 => Loan::Handle(std::array::from_fn(|i| word(LOAN + i))),
            2 => Loan::Descriptor(word(LOAN)),
            _ => return None,
        };
        Some((word(BYTES), loan))
    }

    /// The others': `rank` sees it at `at`.
    pub fn tell(&self, slot: usize, rank: u32, at: DevPtr) {
        self.slot(slot)[RANKS + rank as usize].store(at, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, cpu::CpuDevice};

    #[test]
    fn what_is_lent_is_read_and_who_sees_it_is_known() {
        let memory = CpuDevice::new(0).create_shared(Page::BYTES).unwrap();
        let (owner, other) = (Page::of(&memory).unwrap(), Page::of(&memory).unwrap());
        assert_eq!((other.loans(), other.loan(3)), (0, None));
        owner.lend(3, 4096, Loan::Handle([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!((other.loans(), other.loan(3)), (1, Some((4096, Loan::Handle([1, 2, 3, 4, 5, 6, 7, 8])))));
        other.tell(3, 31, 0x1000);
        assert_eq!((owner.seen(3, 31), owner.seen(3, 30)), (Some(0x1000), None));
        owner.lend(SLOTS - 1, 1, Loan::Descriptor(5));
        assert_eq!((other.loan(SLOTS - 1), other.loan(SLOTS - 2)), (Some((1, Loan::Descriptor(5))), None));
    }
}
