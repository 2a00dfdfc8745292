//! Memory that host and kernels share word by word.

use crate::bail;
use crate::error::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::NonNull;

/// Zeroed, page-aligned memory with a host address and a device address; unmapped at drop.
///
/// Only ever read and written through atomics, or before it is shared: a kernel may touch it at any time.
pub struct ControlMemory {
    host: NonNull<u8>,
    device: u64,
    bytes: usize,
}

// SAFETY: the type only hands out addresses; what is done through them must be atomic or exclusive, which each user argues.
unsafe impl Send for ControlMemory {}
// SAFETY: as above.
unsafe impl Sync for ControlMemory {}

impl ControlMemory {
    /// Private anonymous memory: what the CPU device uses. Its kernels run in this process, so host and device
    /// address are one.
    pub fn anonymous(bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        match mapped.ok().and_then(|at| NonNull::new(at.cast::<u8>())) {
            Some(host) => Ok(Self { host, device: host.as_ptr() as u64, bytes }),
            None => bail!(
                SystemError,
                23,
                "no memory for queues and words | mmap of {bytes} bytes failed | fix: raise the memory limit"
            ),
        }
    }

    /// Address for the host.
    pub fn host(&self) -> NonNull<u8> {
        self.host
    }

    /// Address for kernels.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ControlMemory {
    fn drop(&mut self) {
        // SAFETY: host and bytes are the mapping made in `anonymous`, unmapped only here.
        let _ = unsafe { munmap(self.host.as_ptr().cast(), self.bytes) };
    }
}
