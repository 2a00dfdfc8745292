//! What a rank lends to ranks of other processes: a page of words that all of them share.
//!
//! The owner alone writes what is lent; each other rank writes where it sees a loan, beside it.
//!
//!   owner   empty -> lent -> withdrawn; empty again, for the next loan, when all others have let go
//!   others  not seen -> seen -> let go, when it is withdrawn
//!
//! Loans of a slot are numbered, and who lets go names the number: nobody writes another's words, so what a rank reads of a slot while
//! that becomes empty is not taken for one more wish.
#![forbid(unsafe_code)]

use crate::coll::work::MAPPED_RANKS;
use crate::device::{DevPtr, Physical};
use crate::gin::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Loans of a rank.
pub const SLOTS: usize = 64;

/// Words: loans at the head; of a slot form, bytes, eight of the loan, then by rank the place.
const HEAD: usize = 16;
const FORM: usize = 0;
const BYTES: usize = 1;
const LOAN: usize = 8;
const RANKS: usize = 16;
const SLOT: usize = RANKS + MAPPED_RANKS;
const WORDS: usize = HEAD + SLOTS * SLOT;

/// Forms of a slot, below the number of its loan.
const EMPTY: u64 = 0;
const HANDLE: u64 = 1;
const DESCRIPTORS: u64 = 2;
const WITHDRAWN: u64 = 3;
const FORMS: u64 = 4;

/// Instead of a place: this rank cannot open the loan. No place is odd.
const REFUSED: DevPtr = DevPtr::MAX;

/// The same: it has let go of the loan of this number, which was withdrawn.
fn let_go_of(number: u64) -> DevPtr {
    number << 1 | 1
}

fn is_place(word: DevPtr) -> bool {
    word != 0 && word & 1 == 0
}

/// How others get at a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loan {
    /// [`crate::device::Memory::borrow_handle`].
    Handle([u64; 8]),
    /// Descriptors of so many pieces of physical memory, of one size, that the owner has published under keys from the first on.
    Descriptors { first: u64, pieces: u64 },
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

    /// Loans and withdrawals so far.
    pub fn news(&self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    fn slot(&self, slot: usize) -> &[AtomicU64] {
        &self.0[HEAD + slot * SLOT..][..SLOT]
    }

    /// Its form, and the number of its loan.
    fn form(&self, slot: usize) -> (u64, u64) {
        let word = self.slot(slot)[FORM].load(Ordering::Acquire);
        (word % FORMS, word / FORMS)
    }

    fn set_form(&self, slot: usize, form: u64, number: u64) {
        self.slot(slot)[FORM].store(number * FORMS + form, Ordering::Release);
    }

    /// The owner's: lends, in an empty slot.
    pub fn lend(&self, slot: usize, bytes: u64, loan: Loan) {
        let words = self.slot(slot);
        let (form, loan) = match loan {
            Loan::Handle(words) => (HANDLE, words),
            Loan::Descriptors { first, pieces } => (DESCRIPTORS, [first, pieces, 0, 0, 0, 0, 0, 0]),
        };
        words[BYTES].store(bytes, Ordering::Relaxed);
        words[LOAN..].iter().zip(loan).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.set_form(slot, form, self.form(slot).1);
        self.0[0].fetch_add(1, Ordering::Release);
    }

    /// The owner's: where `rank` sees that loan, if it has told.
    pub fn seen(&self, slot: usize, rank: u32) -> Option<DevPtr> {
        Some(self.slot(slot)[RANKS + rank as usize].load(Ordering::Acquire)).filter(|&at| is_place(at))
    }

    /// The owner's: whether all of `others` have opened that loan, or cannot.
    pub fn is_told(&self, slot: usize, mut others: impl Iterator<Item = u32>) -> bool {
        let told = |word| word == REFUSED || is_place(word);
        others.all(|rank| told(self.slot(slot)[RANKS + rank as usize].load(Ordering::Acquire)))
    }

    /// The owner's: whether some rank cannot open that loan.
    pub fn is_refused(&self, slot: usize) -> bool {
        self.slot(slot)[RANKS..].iter().any(|word| word.load(Ordering::Acquire) == REFUSED)
    }

    /// The owner's: what it lent is wanted back. Kernels that it told of it are over.
    pub fn withdraw(&self, slot: usize) {
        self.set_form(slot, WITHDRAWN, self.form(slot).1);
        self.0[0].fetch_add(1, Ordering::Release);
    }

    /// The owner's, of a withdrawn slot: empties it if all of `others` have let go.
    pub fn empty(&self, slot: usize, mut others: impl Iterator<Item = u32>) -> bool {
        let (words, (_, number)) = (self.slot(slot), self.form(slot));
        let empty = others.all(|rank| words[RANKS + rank as usize].load(Ordering::Acquire) == let_go_of(number));
        if empty {
            self.set_form(slot, EMPTY, number + 1);
        }
        empty
    }

    /// The others': bytes and loan of a slot.
    pub fn loan(&self, slot: usize) -> Option<(u64, Loan)> {
        let words = self.slot(slot);
        let word = |i: usize| words[i].load(Ordering::Relaxed);
        let loan = match self.form(slot).0 {
            HANDLE => Loan::Handle(std::array::from_fn(|i| word(LOAN + i))),
            DESCRIPTORS => Loan::Descriptors { first: word(LOAN), pieces: word(LOAN + 1) },
            _ => return None,
        };
        Some((word(BYTES), loan))
    }

    /// The others': a slot is withdrawn, and `rank` has not let go.
    pub fn is_wanted_back(&self, slot: usize, rank: u32) -> bool {
        let ((form, number), word) = (self.form(slot), &self.slot(slot)[RANKS + rank as usize]);
        form == WITHDRAWN && word.load(Ordering::Relaxed) != let_go_of(number)
    }

    /// The others', of a slot that is wanted back: `rank` has let go of it.
    pub fn let_go(&self, slot: usize, rank: u32) {
        self.write(slot, rank, let_go_of(self.form(slot).1));
    }

    /// The others': `rank` sees it at `at`, or cannot open it.
    pub fn tell(&self, slot: usize, rank: u32, at: Option<DevPtr>) {
        self.write(slot, rank, at.unwrap_or(REFUSED));
    }

    fn write(&self, slot: usize, rank: u32, word: DevPtr) {
        self.slot(slot)[RANKS + rank as usize].store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, cpu::CpuDevice};
    use crate::hang_limit::{RACE_TIME, spin_until};
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    fn piece(key: u64) -> Loan {
        Loan::Descriptors { first: key, pieces: 1 }
    }

    #[test]
    fn what_is_lent_is_read_and_who_sees_it_is_known() {
        let memory = CpuDevice::new(0).create_shared(Page::BYTES).unwrap();
        let (owner, other) = (Page::of(&memory).unwrap(), Page::of(&memory).unwrap());
        assert_eq!((other.news(), other.loan(3)), (0, None));
        owner.lend(3, 4096, Loan::Handle([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!((other.news(), other.loan(3)), (1, Some((4096, Loan::Handle([1, 2, 3, 4, 5, 6, 7, 8])))));
        other.tell(3, 31, Some(0x1000));
        other.tell(3, 29, None);
        assert_eq!([31, 30, 29].map(|rank| owner.seen(3, rank)), [Some(0x1000), None, None]);
        assert!(owner.is_refused(3) && !owner.is_refused(2));
        assert!(owner.is_told(3, [29, 31].into_iter()) && !owner.is_told(3, [29, 30].into_iter()));
        owner.lend(4, 8192, Loan::Descriptors { first: 9, pieces: 2 });
        assert_eq!(other.loan(4), Some((8192, Loan::Descriptors { first: 9, pieces: 2 })));
        owner.lend(SLOTS - 1, 1, piece(5));
        assert_eq!((other.loan(SLOTS - 1), other.loan(SLOTS - 2)), (Some((1, piece(5))), None));
    }

    #[test]
    fn a_withdrawn_slot_is_empty_when_all_have_let_go() {
        let memory = CpuDevice::new(0).create_shared(Page::BYTES).unwrap();
        let (owner, other) = (Page::of(&memory).unwrap(), Page::of(&memory).unwrap());
        owner.lend(2, 4096, piece(7));
        other.tell(2, 1, Some(0x1000));
        assert!(!other.is_wanted_back(2, 1));
        owner.withdraw(2);
        assert_eq!((other.news(), other.loan(2)), (2, None));
        assert!(other.is_wanted_back(2, 1) && other.is_wanted_back(2, 4), "also by who has never opened it");
        other.let_go(2, 1);
        assert!(!other.is_wanted_back(2, 1) && !owner.empty(2, [1, 4].into_iter()));
        other.let_go(2, 4);
        assert!(owner.empty(2, [1, 4].into_iter()));
        assert_eq!((owner.seen(2, 1), other.is_wanted_back(2, 1)), (None, false));
        owner.lend(2, 1, piece(8));
        assert_eq!(other.loan(2), Some((1, piece(8))));
        other.tell(2, 1, Some(0x2000));
        owner.withdraw(2);
        assert!(!owner.empty(2, [4].into_iter()) && other.is_wanted_back(2, 4), "who let go of the last loan has not of this");
    }

    #[test]
    fn a_slot_that_comes_and_goes_is_seen_where_its_loan_is() {
        const LOANS: u64 = 20_000;
        let memory = CpuDevice::new(0).create_shared(Page::BYTES).unwrap();
        let (owner, other) = (Page::of(&memory).unwrap(), Page::of(&memory).unwrap());
        let (over, begun) = (AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut keeps = false;
                spin_until(|| {
                    match other.loan(0) {
                        _ if other.is_wanted_back(0, 1) => {
                            keeps = false;
                            other.let_go(0, 1);
                        }
                        Some((_, Loan::Descriptors { first: key, .. })) if !keeps => {
                            keeps = true;
                            other.tell(0, 1, Some(key << 4));
                        }
                        _ => {}
                    }
                    over.load(Ordering::Relaxed)
                });
            });
            let wrong = (1..LOANS).take_while(|_| begun.elapsed() < RACE_TIME).find_map(|loan| {
                owner.lend(0, 1, piece(loan));
                // Of some nobody hears before they are wanted back.
                let seen = (0..loan % 50).find_map(|_| owner.seen(0, 1)).filter(|&at| at != loan << 4);
                owner.withdraw(0);
                spin_until(|| owner.empty(0, [1].into_iter()));
                seen.map(|at| (loan, at))
            });
            over.store(true, Ordering::Relaxed);
            assert_eq!(wrong, None, "a loan and where it is seen");
        });
    }
}
