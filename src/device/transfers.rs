//! Bytes between host and device, and between devices.
#![forbid(unsafe_code)]

use super::DevPtr;
use crate::bail;
use crate::error::Result;

/// One copy between two addresses of a device; both may lie in another device's memory that is mapped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemCopy {
    /// First byte to read.
    pub from: DevPtr,
    /// First byte to write.
    pub to: DevPtr,
    /// How many.
    pub bytes: u64,
}

/// One store of a whole, aligned word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where; a multiple of `bytes`.
    pub at: DevPtr,
    /// What, in its low bytes.
    pub value: u64,
    /// 4 or 8.
    pub bytes: u32,
}

/// Copies that a device carries out in the background, out of its kernels' way: on CUDA a stream of its own and the copy
/// engines. Nothing here waits for a kernel.
pub trait CopyQueue: Send {
    /// Starts copies. Among themselves they have no order; all of them start after the copies of earlier calls have ended.
    fn copy(&mut self, copies: &[MemCopy]) -> Result<()>;
    /// A ticket (1, 2, 3, ...) for everything started so far.
    fn mark(&mut self) -> Result<u64>;
    /// Stores words after everything started so far has ended, and marks: the ticket. None: there is no such way here, and
    /// nothing has happened. For few words this is faster than copies: on an H200 one takes 4.5 us, its copy out of host
    /// memory 17.
    fn store(&mut self, _words: &[Word]) -> Result<Option<u64>> {
        Ok(None)
    }
    /// The newest ticket reached, 0 before the first. Cheap: a look at a host word. An error means that a copy failed.
    fn finished(&mut self) -> Result<u64>;
}

/// Copies that a device makes for the host; they wait for no kernel. All sizes in bytes.
pub trait Transfers {
    /// Copies into device memory (`at` is a multiple of 8) and waits until it is there; also while kernels run. Aligned
    /// 8-byte words arrive whole.
    fn write(&self, at: DevPtr, bytes: &[u8]) -> Result<()>;
    /// Copies out of device memory (`at` and the length are multiples of 4); also while kernels run.
    fn read(&self, at: DevPtr, into: &mut [u8]) -> Result<()>;
    /// Zeroes device memory.
    fn zero(&self, at: DevPtr, bytes: usize) -> Result<()>;
    /// A new queue of background copies.
    fn copy_queue(&self) -> Result<Box<dyn CopyQueue>>;
}

/// An error where [`Transfers::write`] would break words.
pub(super) fn check_write(at: DevPtr) -> Result<()> {
    if !at.is_multiple_of(8) {
        bail!(InternalError, 25, "device write to a misaligned address | {at:#x} | fix: report this");
    }
    Ok(())
}

/// An error where [`Transfers::read`] would.
pub(super) fn check_read(at: DevPtr, bytes: usize) -> Result<()> {
    if !at.is_multiple_of(4) || !bytes.is_multiple_of(4) {
        bail!(InternalError, 25, "device read is not of whole words | {at:#x} | fix: report this");
    }
    Ok(())
}
