//! Copies of the CPU device, also those of its queues: each is done when its call returns.

use super::CpuDevice;
use crate::device::transfers::{check_read, check_write};
use crate::device::{CopyQueue, DevPtr, MemCopy, Transfers, Word};
use crate::error::Result;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Counts what was marked.
#[derive(Default)]
pub(super) struct Copies {
    marked: u64,
}

impl Transfers for CpuDevice {
    fn write(&self, at: DevPtr, bytes: &[u8]) -> Result<()> {
        check_write(at)?;
        let (words, tail) = bytes.as_chunks::<8>();
        for (i, word) in words.iter().enumerate() {
            // SAFETY: callers write to memory of their own that kernels only read, 8-aligned (checked). Whole words are
            // stored atomically, so a kernel that polls them sees each word old or new.
            unsafe { AtomicU64::from_ptr((at as *mut u64).add(i)) }.store(u64::from_le_bytes(*word), Ordering::Release);
        }
        let rest = at + (words.len() * 8) as u64;
        for (i, byte) in tail.iter().enumerate() {
            // SAFETY: as above, byte by byte.
            unsafe { AtomicU8::from_ptr((rest as *mut u8).add(i)) }.store(*byte, Ordering::Release);
        }
        Ok(())
    }

    fn read(&self, at: DevPtr, into: &mut [u8]) -> Result<()> {
        check_read(at, into.len())?;
        for (i, word) in into.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // SAFETY: callers read memory of their own, 4-aligned (checked), which kernels change by stores of whole words.
            *word = unsafe { AtomicU32::from_ptr((at as *mut u32).add(i)) }.load(Ordering::Acquire).to_le_bytes();
        }
        Ok(())
    }

    fn zero(&self, at: DevPtr, bytes: usize) -> Result<()> {
        // SAFETY: callers zero memory of their own before any kernel may use it.
        unsafe { std::ptr::write_bytes(at as *mut u8, 0, bytes) };
        Ok(())
    }

    fn copy_queue(&self) -> Result<Box<dyn CopyQueue>> {
        Ok(Box::new(Copies::default()))
    }
}

/// Word by word, in order: kernels may poll them, and who sees one sees what was copied before.
fn copy_words(from: DevPtr, to: DevPtr, n: u64) {
    for at in (0..8 * n).step_by(8) {
        // SAFETY: device addresses are host addresses here; callers copy only between ranges of live mappings, and both are aligned.
        unsafe {
            let word = AtomicU64::from_ptr((from + at) as *mut u64).load(Ordering::Relaxed);
            AtomicU64::from_ptr((to + at) as *mut u64).store(word, Ordering::Release);
        }
    }
}

impl CopyQueue for Copies {
    fn copy(&mut self, copies: &[MemCopy]) -> Result<()> {
        for &MemCopy { from, to, bytes } in copies {
            if (from | to | bytes).is_multiple_of(8) {
                copy_words(from, to, bytes / 8);
                continue;
            }
            // SAFETY: device addresses are host addresses here; callers copy only between ranges of live mappings.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<u64> {
        self.marked += 1;
        Ok(self.marked)
    }

    fn store(&mut self, words: &[Word]) -> Result<Option<u64>> {
        for &Word { at, value, bytes } in words {
            // SAFETY: callers name aligned words of live mappings, which kernels access atomically.
            unsafe {
                match bytes {
                    4 => AtomicU32::from_ptr(at as *mut u32).store(value as u32, Ordering::Release),
                    _ => AtomicU64::from_ptr(at as *mut u64).store(value, Ordering::Release),
                }
            }
        }
        self.mark().map(Some)
    }

    fn finished(&mut self) -> Result<u64> {
        Ok(self.marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Memory;

    #[test]
    fn writes_are_exact_and_zeroing_too() {
        let device = CpuDevice::new(0);
        let memory = device.objects(64).unwrap();
        device.write(memory.device(), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).unwrap();
        device.zero(memory.device() + 2, 7).unwrap();
        // SAFETY: the memory is this test's own, 4096 bytes.
        let bytes = unsafe { std::slice::from_raw_parts(memory.device() as *const u8, 13) };
        assert_eq!(bytes, [1, 2, 0, 0, 0, 0, 0, 0, 0, 10, 11, 0, 0]);
    }
}
