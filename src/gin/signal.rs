//! Signal and counter words, and who owns which ids.
//!
//! A word has one home and is only ever added to: a kernel's reset is a plain store of 0, which a host that kept a copy
//! and stored absolute values would undo.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::ranges::Ranges;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Added to every word in use when the communicator is aborted: ends the rolling compares of 32 to 62 and of 64 bits in
/// kernels that know no abort word, and those of 8 and 16 bits that want at most 64 and 16448 more.
pub const RELEASE: u64 = 1 << 62 | 1 << 30 | 1 << 14 | 1 << 6;
/// No word in use gets here by itself: one below has been reset since it was released.
const RELEASED: u64 = 1 << 61;

/// What a word in use is moved to; None if it has been moved and not reset since.
pub fn released(value: u64) -> Option<u64> {
    (value < RELEASED).then(|| value + RELEASE)
}

/// Releases a word, again if a kernel has reset it.
pub fn release(word: &AtomicU64) {
    if released(word.load(Ordering::Relaxed)).is_some() {
        word.fetch_add(RELEASE, Ordering::Release);
    }
}

/// Ids. All ranks make the same calls, so all get the same ids.
pub struct Pool {
    what: &'static str,
    variable: &'static str,
    size: u32,
    ids: Ranges,
}

impl Pool {
    /// Ids `0..size`; `variable` is the environment variable that changes the size.
    pub fn new(what: &'static str, variable: &'static str, size: u32) -> Self {
        Self { what, variable, size, ids: Ranges::below(size.into(), 1) }
    }

    /// Number of ids.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The lowest `n` free ids in a row; 0 for none.
    pub fn alloc(&mut self, n: u32) -> Result<u32> {
        if n == 0 {
            return Ok(0);
        }
        // Below `size`, so the width holds.
        self.ids.take(n.into()).map(|start| start as u32).ok_or_else(|| {
            Error::new(
                Code::InternalError,
                26,
                format!(
                    "out of {} ids | {n} wanted in a row | {} of {} are taken | fix: ask for fewer, destroy device communicators that are \
                     not used, or raise {} (at most 65536)",
                    self.what,
                    self.ids.in_use(),
                    self.size,
                    self.variable
                ),
            )
        })
    }

    /// Gives a range back; what was not taken stays untouched.
    pub fn free(&mut self, base: u32, n: u32) {
        if n > 0 {
            self.ids.give(base.into(), n.into());
        }
    }

    /// The ids in use.
    pub fn taken(&self) -> impl Iterator<Item = usize> + '_ {
        self.ids.taken().flatten().map(|id| id as usize)
    }
}

/// The ids of one kind of context: pools of signals and of counters, for all its contexts together.
pub struct Pools {
    /// Signal ids.
    pub signals: Pool,
    /// Counter ids.
    pub counters: Pool,
}

impl Pools {
    /// Ids `0..signals` and `0..counters`, all free.
    pub fn new(signals: u32, counters: u32) -> Self {
        Self {
            signals: Pool::new("signal", "NCCL_GIN_SIGNAL_POOL_SIZE", signals),
            counters: Pool::new("counter", "NCCL_GIN_COUNTER_POOL_SIZE", counters),
        }
    }
}

/// Zeroes `ids` of `words`. Ids beyond the array are a caller's error and panic.
pub fn zero(words: &[AtomicU64], ids: Range<u32>) {
    for word in &words[ids.start as usize..ids.end as usize] {
        word.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seq::rolling_le;

    #[test]
    fn first_fit_and_no_leak() {
        let mut pool = Pool::new("signal", "NCCL_GIN_SIGNAL_POOL_SIZE", 16);
        assert_eq!(pool.alloc(7).unwrap(), 0);
        assert_eq!(pool.alloc(7).unwrap(), 7, "the second devcomm of spec 1.9");
        assert_eq!(pool.alloc(0).unwrap(), 0);
        let full = pool.alloc(3).unwrap_err();
        assert!(full.text.contains("14 of 16"), "{full}");
        pool.free(0, 7);
        assert_eq!(pool.alloc(3).unwrap(), 0);
        assert_eq!(pool.alloc(4).unwrap(), 3);
        assert_eq!(pool.alloc(2).unwrap(), 14);
        pool.free(1, 14);
        assert_eq!(pool.taken().collect::<Vec<_>>(), [0, 15]);
        pool.free(0, u32::MAX);
        assert_eq!(pool.alloc(16).unwrap(), 0);
    }

    /// D5: the last id of a full pool and the one behind it.
    #[test]
    fn a_pool_ends_where_it_ends() {
        let mut pool = Pool::new("counter", "NCCL_GIN_COUNTER_POOL_SIZE", 65536);
        assert_eq!(pool.alloc(65535).unwrap(), 0);
        assert_eq!(pool.alloc(1).unwrap(), 65535);
        assert!(pool.alloc(1).is_err());
        assert!(Pool::new("counter", "", 65536).alloc(65537).is_err());
    }

    #[test]
    fn the_release_ends_short_waits_and_stands_again_after_a_reset() {
        for start in [0, 100, 255, 65_000] {
            let word = AtomicU64::new(start);
            release(&word);
            for ahead in [1, 64] {
                assert!(rolling_le(start + ahead, word.load(Ordering::Relaxed), 8), "{ahead} from {start}");
            }
            for ahead in [1, 64, 16_000] {
                assert!(rolling_le(start + ahead, word.load(Ordering::Relaxed), 16), "{ahead} from {start}");
            }
        }
        let word = AtomicU64::new(5);
        release(&word);
        release(&word);
        assert_eq!(word.load(Ordering::Relaxed), RELEASE + 5, "once");
        word.store(0, Ordering::Relaxed);
        release(&word);
        assert_eq!(word.load(Ordering::Relaxed), RELEASE);
    }

    #[test]
    fn the_release_ends_waits_of_32_to_62_and_of_64_bits() {
        for bits in (32..=62).chain([64]) {
            for awaited in [1, 1000, 1 << 29] {
                assert!(rolling_le(awaited, RELEASE, bits), "{awaited} of {bits} bits");
            }
        }
    }
}
