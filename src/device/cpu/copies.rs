//! The CPU device's queue of copies: each is done when its call returns.

use crate::device::{Copy, CopyQueue};
use crate::error::Result;

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

    fn finished(&mut self) -> Result<u64> {
        Ok(self.marked)
    }
}
