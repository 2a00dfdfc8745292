//! A model of an mlx5 card, as far as GIN's GDAKI backend needs one: pure, with no thread, no clock and no memory of its own.
//!
//! | file | what |
//! |---|---|
//! | `slot` | takes a work queue element out of the ring once all of it is to be seen |
//! | `element` | 64 bytes of it to what is to be done |
//! | `completion` | bytes of a completion queue entry |
//! | `fault` | which elements fail because a test asks for it |
//!
//! `gin/gdaki` gives it rings and carries out what it reads. Formats are public facts of the mlx5 interface (spec device 12.3 to 12.5);
//! all words are big-endian but keys in the tables of NCCL, which are kept swapped, and inline data.
//!
//! It is never fast and never chosen by itself: it is for kernels that need this backend where no such card is.
#![forbid(unsafe_code)]

pub mod completion;
pub mod element;
pub mod fault;
pub mod slot;

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word of rings and completion queues, which kernels share. Generic because loom's atomics cannot live in mapped memory.
pub trait Word {
    /// A load that orders nothing.
    fn load(&self) -> u64;
    /// A store that orders nothing.
    fn store(&self, value: u64);
    /// Who sees the value sees all that was stored before.
    fn publish(&self, value: u64);
    /// Pairs what was loaded with a kernel's release fence in front of its stores.
    fn acquire();
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
    #[inline]
    fn store(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }
    #[inline]
    fn publish(&self, value: u64) {
        self.store(value, Ordering::Release);
    }
    #[inline]
    fn acquire() {
        fence(Ordering::Acquire);
    }
}

/// A number of 64 bits that `seed` and `value` determine and nobody foresees: splitmix64.
#[inline]
pub(crate) fn mix(seed: u64, value: u64) -> u64 {
    let mut x = seed.wrapping_add(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
