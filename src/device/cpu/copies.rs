//! The CPU device's queue of copies: each is done when its call returns.

use crate::device::{Copy, CopyQueue, Word};
use crate::error::Result;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counts what was marked.
#[derive(Default)]
pub(super) struct Copies {
    marked: u64,
}

impl CopyQueue for Copies {
    fn copy(&mut self, copies: &[Copy]) -> Result<()> {
        for copy in copies {
            // SAFETY: device addresses are host addresses here; callers copy only between ranges of live mappings.
            unsafe { std::ptr::copy(copy.from as *const u8, copy.to as *mut u8, copy.bytes as usize) };
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
