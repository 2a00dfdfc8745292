//! Memory as a GPU's: at addresses that the CPU cannot touch, and a queue of copies that can.

use crate::device::{CopyQueue, DevPtr, MemCopy, Physical, Word};
use crate::error::Result;
use std::any::Any;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// In the addresses of such memory: no 64-bit machine has memory at these, so whoever touches them ends the process.
const AWAY: DevPtr = 1 << 62;

/// Some memory, for the device alone.
pub struct Apart(pub Arc<dyn Physical>);

impl Physical for Apart {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn export(&self) -> Result<OwnedFd> {
        self.0.export()
    }
    fn host(&self) -> Option<NonNull<u8>> {
        None
    }
    fn device_address(&self) -> Option<DevPtr> {
        Some(self.0.host()?.as_ptr() as DevPtr | AWAY)
    }
    fn key(&self) -> u64 {
        self.0.key()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Copies by `queue` where each has one end in such memory, as it is where the other end is pinned host memory.
pub struct Reaching(pub Box<dyn CopyQueue>);

fn reached(copy: &MemCopy) -> MemCopy {
    assert!((copy.from ^ copy.to) & AWAY != 0, "from or to a window: {copy:x?}");
    MemCopy { from: copy.from & !AWAY, to: copy.to & !AWAY, ..*copy }
}

impl CopyQueue for Reaching {
    fn copy(&mut self, copies: &[MemCopy]) -> Result<()> {
        self.0.copy(&copies.iter().map(reached).collect::<Vec<_>>())
    }
    fn mark(&mut self) -> Result<u64> {
        self.0.mark()
    }
    fn store(&mut self, words: &[Word]) -> Result<Option<u64>> {
        assert!(words.iter().all(|word| word.at & AWAY != 0), "into a window");
        self.0.store(&words.iter().map(|word| Word { at: word.at & !AWAY, ..*word }).collect::<Vec<_>>())
    }
    fn finished(&mut self) -> Result<u64> {
        self.0.finished()
    }
}
