//! Memory that is registered: of this process, and with SOFTVERBS_GPU=1 of its GPUs. All is done under the world's lock.

use crate::gpu;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A DMA-BUF, mapped for this library: of the driver's stand-in, whose descriptor is a file's that stands where the memory begins.
pub fn mapped(fd: c_int, offset: u64, bytes: usize) -> Option<usize> {
    let first = u64::try_from(position(fd)).ok()? + offset;
    let start = first & !4095;
    let ahead = (first - start) as usize;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping; a descriptor that cannot be mapped is an error.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), ahead + bytes, protection, libc::MAP_SHARED, fd, start as i64) };
    (at != libc::MAP_FAILED).then(|| at as usize + ahead)
}

/// Undoes [`mapped`].
pub fn unmap(at: usize, bytes: usize) {
    // SAFETY: mapped above, and nobody's any more.
    unsafe { libc::munmap((at & !4095) as *mut c_void, (at & 4095) + bytes) };
}

fn position(fd: c_int) -> i64 {
    // SAFETY: asks, and moves nothing.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }
}

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
