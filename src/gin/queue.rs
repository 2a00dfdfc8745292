//! The consumer's end of a queue: 64-byte slots that kernels fill word by word (spec host 4.5).
//!
//! Who writes what: a kernel claims an index, waits for credit and writes the slot's eight words in any order, each with
//! its flag; the proxy copies a slot out once all eight flags are there, zeroes it and gives it back by moving `cis`.
//! The code is generic over its words because loom's atomics cannot live in mapped memory.
#![forbid(unsafe_code)]

use super::descriptor::WRITTEN;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One word of a slot.
pub trait Word {
    /// Pairs with the kernel's release fence in front of its first store to the slot.
    fn load_acquire(&self) -> u64;
    /// A load that orders nothing.
    fn load(&self) -> u64;
    /// Stores 0; ordered before the credit by [`Index::publish`].
    fn clear(&self);
}

/// The consumer index `cis[peer]`.
pub trait Index {
    /// Stores with release order: who sees the new index sees the zeroed slots, and the counters that rose before it.
    fn publish(&self, index: u32);
}

impl Word for AtomicU64 {
    #[inline]
    fn load_acquire(&self) -> u64 {
        AtomicU64::load(self, Ordering::Acquire)
    }
    #[inline]
    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Relaxed)
    }
    #[inline]
    fn clear(&self) {
        self.store(0, Ordering::Relaxed);
    }
}

impl Index for AtomicU32 {
    #[inline]
    fn publish(&self, index: u32) {
        self.store(index, Ordering::Release);
    }
}

/// Copies a descriptor out and zeroes its slot. None while a flag is missing: the caller looks again later and meanwhile
/// serves other peers, because a kernel that died between two words never writes the rest.
#[inline]
pub fn take<W: Word, const N: usize>(slot: &[W; N]) -> Option<[u64; N]> {
    let first = slot[0].load_acquire();
    if first & WRITTEN == 0 {
        return None;
    }
    let mut words = [first; N];
    let mut flags = first;
    for (copy, word) in words.iter_mut().zip(slot).skip(1) {
        *copy = word.load();
        flags &= *copy;
    }
    if flags & WRITTEN == 0 {
        return None;
    }
    for word in slot {
        word.clear();
    }
    Some(words)
}

/// True when something stands in the slot, perhaps not yet all of it.
#[inline]
pub fn is_begun<W: Word, const N: usize>(slot: &[W; N]) -> bool {
    slot[0].load() & WRITTEN != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gin::descriptor::WORDS;

    /// D8: whichever words are there, a slot with one missing is left as it is.
    #[test]
    fn half_a_descriptor_is_not_taken() {
        for present in 0..=255u32 {
            let slot: [AtomicU64; WORDS] =
                std::array::from_fn(|i| AtomicU64::new(if (present >> i) & 1 == 1 { (0x100 * i as u64) | WRITTEN } else { 0 }));
            let taken = take(&slot);
            assert_eq!(taken.is_some(), present == 255);
            for (i, word) in slot.iter().enumerate() {
                let kept = present != 255 && (present >> i) & 1 == 1;
                assert_eq!(Word::load(word), if kept { (0x100 * i as u64) | WRITTEN } else { 0 });
            }
            if let Some(words) = taken {
                assert_eq!(words, std::array::from_fn(|i| (0x100 * i as u64) | WRITTEN));
            }
        }
    }
}
