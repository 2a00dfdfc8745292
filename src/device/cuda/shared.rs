//! Host memory with an identity that kernels of one device see: a memfd, registered with the driver.

use super::CudaDevice;
use super::driver::cu;
use crate::device::memfd::Memfd;
use crate::device::{DevPtr, Physical};
use crate::error::{Code, Error, Result};
use cudarc::driver::sys::CU_MEMHOSTREGISTER_PORTABLE;
use std::any::Any;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// CU_MEMHOSTREGISTER_DEVICEMAP.
const DEVICE_MAP: u32 = 2;

/// The memory; registered with the driver where this process made it.
pub struct CudaShared {
    memory: Arc<Memfd>,
    registered: Option<(DevPtr, Registered)>,
}

impl CudaShared {
    /// New zeroed memory that kernels of `device` see.
    pub fn create(device: Arc<CudaDevice>, bytes: usize) -> Result<Self> {
        let memory = Memfd::create(bytes)?;
        let registered = Some(register(device, &memory, bytes)?);
        Ok(Self { memory, registered })
    }

    /// Memory of another process, for the host only.
    pub fn import(fd: OwnedFd, bytes: usize) -> Result<Self> {
        Ok(Self { memory: Memfd::import(fd, bytes)?, registered: None })
    }
}

impl Physical for CudaShared {
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    fn export(&self) -> Result<OwnedFd> {
        self.memory.export()
    }

    fn host(&self) -> Option<NonNull<u8>> {
        self.memory.host()
    }

    fn device_address(&self) -> Option<DevPtr> {
        self.registered.as_ref().map(|(at, _)| *at)
    }

    fn key(&self) -> u64 {
        self.memory.key()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Memory that the driver has pinned, or a card's registers, for kernels.
pub struct Registered {
    device: Arc<CudaDevice>,
    pages: Option<Pages>,
}

/// Unregisters at drop.
struct Pages {
    host: NonNull<u8>,
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: only the address is kept, for the driver.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

/// Pages of a device that nobody uses any more.
///
/// Unregistering waits for every kernel of the context and holds up its copies meanwhile (measured: for as long as the kernel
/// ran). A kernel of another communicator that waits for a put would wait for ever. So pages go when the last memory of this
/// kind goes: then no such kernel is left.
#[derive(Default)]
pub struct Retired {
    in_use: usize,
    pages: Vec<Pages>,
}

fn register(device: Arc<CudaDevice>, memory: &Arc<Memfd>, bytes: usize) -> Result<(DevPtr, Registered)> {
    let host = memory.view()?;
    // Only what is backed: the rest of the file's granularity is addresses.
    let length = bytes.max(1).next_multiple_of(4096);
    let mut at = 0;
    {
        let _inside = device.context.enter()?;
        let flags = CU_MEMHOSTREGISTER_PORTABLE | DEVICE_MAP;
        // SAFETY: the view is mapped for at least `length` bytes, until `Pages` has unregistered it.
        unsafe { cu!(cuMemHostRegister_v2(host.as_ptr().cast(), length, flags)) }.map_err(|error| refused(length, &error))?;
        // SAFETY: registered just now.
        unsafe { cu!(cuMemHostGetDevicePointer_v2(&mut at, host.as_ptr().cast(), 0)) }?;
    }
    Ok((at, Registered::taken(device, host, memory.clone())))
}

impl Registered {
    /// What was registered with `device` at `host`, and lasts as long as `keep`.
    pub fn taken(device: Arc<CudaDevice>, host: NonNull<u8>, keep: Arc<dyn Any + Send + Sync>) -> Self {
        device.pages.lock().in_use += 1;
        Self { device, pages: Some(Pages { host, _keep: keep }) }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut retired = self.device.pages.lock();
        retired.in_use -= 1;
        retired.pages.extend(self.pages.take());
        if retired.in_use == 0 {
            let pages = std::mem::take(&mut retired.pages);
            drop(retired);
            self.device.drop_later(Box::new(pages));
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: registered by who called `Registered::taken`, once.
        let _ = unsafe { cu!(cuMemHostUnregister(self.host.as_ptr().cast())) };
    }
}

/// The error for host memory that cannot be pinned.
pub fn refused(bytes: usize, error: &Error) -> Error {
    Error::new(
        Code::UnhandledCudaError,
        75,
        format!(
            "host memory cannot be pinned | {bytes} bytes | {} (also: raise ulimit -l and the container's memory limit)",
            error.text
        ),
    )
}
