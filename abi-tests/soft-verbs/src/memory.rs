//! Memory that is registered: of this process, and with SOFTVERBS_GPU=1 of its GPUs. All is done under the world's lock.

use crate::gpu;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of registered memory, or of this library's own.
pub fn copy(to: usize, from: usize, bytes: usize) {
    if gpu::copy(to, from, bytes) {
        return;
    }
    // SAFETY: both are mapped, as what is registered is until it is deregistered. That kernels write there meanwhile is theirs to avoid.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}

/// An aligned word of registered memory.
pub fn word(at: usize) -> u64 {
    let mut value = 0u64;
    if gpu::copy((&raw mut value) as usize, at, 8) {
        return value;
    }
    // SAFETY: as above.
    unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(at) }.load(Ordering::Acquire)
}

pub fn half(at: usize) -> u32 {
    let mut value = 0u32;
    if gpu::copy((&raw mut value) as usize, at, 4) {
        return value;
    }
    // SAFETY: as above.
    unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(at) }.load(Ordering::Acquire)
}

/// Adds, and says what was there. On a GPU that is two copies: nobody else may add there.
pub fn add(at: usize, value: u64) -> u64 {
    if gpu::is_there(at) {
        let old = word(at);
        let new = old.wrapping_add(value);
        copy(at, (&raw const new) as usize, 8);
        return old;
    }
    // SAFETY: as above.
    unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(at) }.fetch_add(value, Ordering::AcqRel)
}

/// A completion's entry: the last word, which holds the owner, is there after the others.
pub fn publish(at: usize, entry: &[u64; 8]) {
    if gpu::is_there(at) {
        copy(at, entry.as_ptr() as usize, 56);
        copy(at + 56, (&raw const entry[7]) as usize, 8);
        return;
    }
    // SAFETY: as above, aligned.
    let words: &[AtomicU64; 8] = unsafe { &*std::ptr::with_exposed_provenance(at) };
    for (word, value) in words.iter().zip(entry).take(7) {
        word.store(*value, Ordering::Relaxed);
    }
    words[7].store(entry[7], Ordering::Release);
}
