//! Pinned host memory that kernels see: pages cut from chunks that are never given back, since cuMemFreeHost waits for kernels.

use super::CudaDevice;
use super::driver::cu;
use super::shared::refused;
use crate::device::ControlMemory;
use crate::error::Result;
use cudarc::driver::sys::CU_MEMHOSTALLOC_PORTABLE;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a chunk, unless more is asked for.
const CHUNK: u64 = 1 << 20;

const PAGE: usize = 4096;

/// CU_MEMHOSTALLOC_DEVICEMAP.
const DEVICE_MAP: u32 = 2;

/// Pages in use; back to the pool at drop.
struct Pages {
    device: Arc<CudaDevice>,
    at: u64,
    bytes: u64,
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.device.pinned.lock().give(self.at, self.bytes);
    }
}

/// `bytes` of zeroed pinned memory.
pub fn take(device: &Arc<CudaDevice>, bytes: usize) -> Result<ControlMemory> {
    let pages = {
        let mut pinned = device.pinned.lock();
        let rounded = pinned.rounded(bytes as u64).unwrap_or(u64::MAX);
        let length = CHUNK.max(rounded);
        let at = pinned.take_or_add(rounded, || Ok((chunk(device, length as usize)?, length)))?;
        Pages { device: device.clone(), at, bytes: rounded }
    };
    let (at, rounded) = (pages.at, pages.bytes as usize);
    let host = NonNull::new(at as *mut u8).expect("the driver gives addresses");
    // SAFETY: the pages are nobody else's: they were free, and whoever had them buried them if kernels could still write.
    unsafe { std::ptr::write_bytes(host.as_ptr(), 0, rounded) };
    // SAFETY: pinned, page-aligned, of that length until `pages` is dropped; host and device address are one (see `chunk`).
    Ok(unsafe { ControlMemory::new(host, at, rounded, Box::new(pages)) })
}

/// A chunk of `bytes`, at a page's start.
fn chunk(device: &CudaDevice, bytes: usize) -> Result<u64> {
    let mut host = std::ptr::null_mut();
    let mut at = 0;
    let _inside = device.context.enter()?;
    let flags = CU_MEMHOSTALLOC_PORTABLE | DEVICE_MAP;
    // A page more: driver 580 puts it 512 bytes behind what the program has pinned before.
    let asked = bytes.saturating_add(PAGE);
    // SAFETY: valid places to write to.
    unsafe {
        cu!(cuMemHostAlloc(&mut host, asked, flags)).map_err(|error| refused(asked, &error))?;
        cu!(cuMemHostGetDevicePointer_v2(&mut at, host, 0))?;
    }
    if at != host as u64 {
        // Holds on every 64-bit Linux since there is one address space for host and devices; all callers rely on it.
        crate::bail!(
            UnhandledCudaError,
            75,
            "no unified addresses | host {host:p} is {at:#x} to the device | fix: use a 64-bit system with unified addressing"
        );
    }
    Ok(at.next_multiple_of(PAGE as u64))
}
