//! Slots of a send queue: 64 bytes, which threads of the GPU write in stores of 16 bytes, in no order that a CPU could rely on. What
//! they say when they ring is ordered for the GPU alone.
//!
//! So a slot that is free holds poison: words that nobody can foresee, others in each round of the ring. A word that still is
//! poison has not come yet, and an element is taken once none of its words is. Inline data may come byte by byte: those
//! that are poison have not come, or are so by chance, and whoever asks decides how often it asks again.

use super::{Word, element};

/// Words of a slot.
pub const WORDS: usize = 8;
/// Most segments of 16 bytes that fit one.
const SEGMENTS: usize = 4;
/// In the first half of word 4, of an element with inline data: how many bytes follow. The first of them are in the other half.
const DATA: usize = 4;
/// Set in poison there: no element has so many.
const NO_COUNT: u64 = (element::INLINE | 1 << 30).swap_bytes() as u64;

/// What is to be seen of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All of it. Words behind its last segment are 0.
    Whole([u64; WORDS]),
    /// All, but inline data that are as poison is.
    Perhaps([u64; WORDS]),
    /// Not all.
    Partly,
}

/// What free slots of one queue hold.
#[derive(Clone, Copy, Debug)]
pub struct Poison(u64);

impl Poison {
    /// `secret`: any number that kernels do not know.
    pub fn new(secret: u64) -> Self {
        Self(secret)
    }

    /// Of word `word` of the slot for element `index`: two alike in one slot are as likely as any.
    #[inline]
    fn of(self, index: u32, word: usize) -> u64 {
        let random = super::mix(self.0, u64::from(index) << 3 | word as u64);
        if word == DATA { random | NO_COUNT } else { random }
    }

    /// Makes a slot ready for element `index`: before anybody may write there.
    pub fn bury<W: Word>(self, slot: &[W; WORDS], index: u32) {
        for (at, word) in slot.iter().enumerate() {
            word.store(self.of(index, at));
        }
    }

    /// Copies element `index` out.
    pub fn look<W: Word>(self, slot: &[W; WORDS], index: u32) -> Seen {
        let mut words = [0; WORDS];
        let come = |words: &mut [u64; WORDS], at: usize| {
            words[at] = slot[at].load();
            words[at] != self.of(index, at)
        };
        if !come(&mut words, 0) {
            return Seen::Partly;
        }
        // Bytes 4 to 7: queue number and, in the last six bits, how many segments.
        let segments = ((words[0] >> 56) as usize & 0x3f).clamp(1, SEGMENTS);
        let whole = 2 * segments;
        let data = match element::opcode(&words) {
            element::RDMA_WRITE if segments > 2 => DATA,
            _ => whole,
        };
        if !(1..whole.min(data + 1)).all(|at| come(&mut words, at)) {
            return Seen::Partly;
        }
        let mut perhaps = false;
        if data < whole {
            let count = words[DATA] as u32;
            // Data that follow may have come before it.
            if count == self.of(index, DATA) as u32 {
                return Seen::Partly;
            }
            let bytes = count.swap_bytes();
            if bytes & element::INLINE == 0 {
                if !(DATA + 1..whole).all(|at| come(&mut words, at)) {
                    return Seen::Partly;
                }
            } else {
                (DATA + 1..whole).for_each(|at| _ = come(&mut words, at));
                perhaps = self.is_poison(&words, index, (bytes & !element::INLINE) as usize);
            }
        }
        // What the element names was written before it.
        W::acquire();
        if perhaps { Seen::Perhaps(words) } else { Seen::Whole(words) }
    }

    /// Is one of `bytes` bytes of inline data as poison is?
    fn is_poison(self, words: &[u64; WORDS], index: u32, bytes: usize) -> bool {
        let poison = std::array::from_fn(|word| self.of(index, word));
        let data = |words| element::data(words).into_iter().take(bytes);
        data(words).zip(data(&poison)).any(|(byte, poison)| byte == poison)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn slot() -> [AtomicU64; WORDS] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    /// Whichever stores have come: an element with one word missing stays, also where words are all ones, zeros, or what an earlier
    /// round left.
    #[test]
    fn half_an_element_is_not_taken() {
        let poison = Poison::new(0x1234_5678_9abc_def0);
        for segments in 1..=4u64 {
            for value in [0, u64::MAX, 0x0f0f_0f0f_0f0f_0f0f] {
                for present in 0..1u32 << (2 * segments) {
                    let slot = slot();
                    poison.bury(&slot, 77);
                    for at in (0..2 * segments as usize).filter(|at| present >> at & 1 == 1) {
                        let word = if at == 0 { segments << 56 | 0x1200_0000 } else { value };
                        slot[at].store(word, Ordering::Relaxed);
                    }
                    let whole = present == (1 << (2 * segments)) - 1;
                    assert_eq!(matches!(poison.look(&slot, 77), Seen::Whole(_)), whole, "{segments} segments, {present:b}");
                }
            }
        }
    }

    #[test]
    fn each_round_has_poison_of_its_own() {
        let poison = Poison::new(5);
        let slot = slot();
        poison.bury(&slot, 3);
        assert_eq!(poison.look(&slot, 3), Seen::Partly);
        assert_ne!(poison.look(&slot, 3 + 128), Seen::Partly, "what one round left is no poison of another");
    }

    /// They come byte by byte, and leave the rest of the slot as it is.
    #[test]
    fn inline_data_that_have_not_come_are_doubted() {
        let poison = Poison::new(9);
        for bytes in [1usize, 2, 4, 8, 9, 12, 13, 28] {
            let slot = slot();
            poison.bury(&slot, 5);
            let segments = if bytes > 12 { 4 } else { 3 };
            for (at, word) in [segments << 56 | 0x0800_0000, 0, 0, 0].into_iter().enumerate() {
                slot[at].store(word, Ordering::Relaxed);
            }
            assert_eq!(poison.look(&slot, 5), Seen::Partly, "no header");
            let put = |at: usize, value: u8| {
                let shift = 8 * (at % 8);
                let word = slot[at / 8].load(Ordering::Relaxed) & !(0xff << shift) | u64::from(value) << shift;
                slot[at / 8].store(word, Ordering::Relaxed);
            };
            let other = |at: usize| !slot[at / 8].load(Ordering::Relaxed).to_le_bytes()[at % 8];
            put(36, other(36));
            assert_eq!(poison.look(&slot, 5), Seen::Partly, "data before their count");
            for (at, byte) in (element::INLINE | bytes as u32).to_be_bytes().into_iter().enumerate() {
                put(32 + at, byte);
            }
            for at in 37..36 + bytes {
                assert!(matches!(poison.look(&slot, 5), Seen::Perhaps(_)), "{at} of {bytes}");
                put(at, other(at));
            }
            assert!(matches!(poison.look(&slot, 5), Seen::Whole(_)), "{bytes}");
        }
    }
}
