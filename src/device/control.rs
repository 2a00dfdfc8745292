//! Memory that host and kernels share word by word, and memory that only kernels see.

use super::DevPtr;
use crate::bail;
use crate::error::Result;
use crate::fault;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::NonNull;

/// Keeps memory alive; frees it at drop.
type Owner = Box<dyn Send + Sync>;

/// Zeroed, page-aligned memory with a host address and a device address; goes at drop.
///
/// Only ever read and written through atomics, or before it is shared: a kernel may touch it at any time.
pub struct ControlMemory {
    host: NonNull<u8>,
    device: DevPtr,
    bytes: usize,
    _owner: Owner,
}

// SAFETY: the type only hands out addresses; what is done through them must be atomic or exclusive, which each user argues.
unsafe impl Send for ControlMemory {}
// SAFETY: as above.
unsafe impl Sync for ControlMemory {}

impl ControlMemory {
    /// Memory that `owner` keeps: `bytes` zeroed bytes, seen by the host at `host` and by kernels at `device`.
    ///
    /// # Safety
    /// Both addresses are valid for `bytes`, page-aligned, until `owner` is dropped.
    pub unsafe fn new(host: NonNull<u8>, device: DevPtr, bytes: usize, owner: Owner) -> Self {
        Self { host, device, bytes, _owner: owner }
    }

    /// Private anonymous memory: what the CPU device uses. Its kernels run in this process, so host and device
    /// address are one.
    pub fn anonymous(bytes: usize) -> Result<Self> {
        let pages = Pages::new(bytes)?;
        // SAFETY: the mapping is zeroed and page-aligned, of that length, and lives in the owner.
        Ok(unsafe { Self::new(pages.0, pages.0.as_ptr() as DevPtr, pages.1, Box::new(pages)) })
    }

    /// Address for the host.
    pub fn host(&self) -> NonNull<u8> {
        self.host
    }

    /// Address for kernels.
    pub fn device(&self) -> DevPtr {
        self.device
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Zeroed, 256-aligned device memory; goes at drop. The host reaches it through its [`super::Device`].
pub struct DeviceMemory {
    device: DevPtr,
    bytes: usize,
    here: bool,
    _owner: Owner,
}

impl DeviceMemory {
    /// Memory at `device` that `owner` keeps.
    pub fn new(device: DevPtr, bytes: usize, owner: Owner) -> Self {
        Self { device, bytes, here: false, _owner: owner }
    }

    /// Of a device whose kernels run in this process.
    pub fn anonymous(bytes: usize) -> Result<Self> {
        let memory = ControlMemory::anonymous(bytes)?;
        Ok(Self { device: memory.device(), bytes: memory.bytes(), here: true, _owner: Box::new(memory) })
    }

    /// Address for kernels.
    pub fn device(&self) -> DevPtr {
        self.device
    }

    /// Address for the host, which may only touch it atomically once kernels know it; None where it cannot.
    pub fn host(&self) -> Option<NonNull<u8>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.device as usize)).filter(|_| self.here)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An anonymous mapping.
struct Pages(NonNull<u8>, usize);

// SAFETY: it only owns the mapping.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let map = || unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        match fault::step("mapping").and_then(|()| map()).ok().and_then(|at| NonNull::new(at.cast::<u8>())) {
            Some(host) => Ok(Self(host, bytes)),
            None => bail!(
                SystemError,
                23,
                "no memory for queues and words | mmap of {bytes} bytes failed | fix: raise the memory limit"
            ),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped only here.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), self.1) };
    }
}
