//! Memory of a GPU for network cards (GPUDirect RDMA), and registers of cards for kernels.

use super::CudaDevice;
use super::driver::{cu, driver};
use super::memory::CudaPhysical;
use super::shared::Registered;
use super::space::CudaReservation;
use crate::config;
use crate::device::{DevPtr, Exposed, Mapped, Physical, Reservation};
use crate::error::Result;
use cudarc::driver::sys::CUmemRangeHandleType;
use std::any::Any;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// CU_MEMHOSTREGISTER_DEVICEMAP and CU_MEMHOSTREGISTER_IOMEMORY.
const REGISTER: u32 = 2 | 4;

/// See [`crate::device::Memory::expose`].
pub fn expose(device: &Arc<CudaDevice>, physical: &Arc<dyn Physical>) -> Result<Exposed> {
    let bytes = physical.bytes();
    if physical.as_any().downcast_ref::<CudaPhysical>().is_none()
        && let Some(at) = physical.host()
    {
        let at = at.as_ptr().expose_provenance() as DevPtr;
        return Ok(Exposed::new(at, bytes, Err("it is host memory".into()), Box::new(physical.clone())));
    }
    // An address of its own: those that there are come and go with windows.
    let place = CudaReservation::new(device.clone(), bytes, device.facts.granularity)?;
    place.map(0, physical)?;
    let descriptor = match config::int("NCCL_DMABUF_ENABLE") {
        0 => Err("NCCL_DMABUF_ENABLE is 0".into()),
        _ => dma_buf(device, place.base(), bytes),
    };
    Ok(Exposed::new(place.base(), bytes, descriptor, Box::new(place)))
}

/// A descriptor of a range of device memory, which the kernel's other drivers know; or why there is none.
fn dma_buf(device: &CudaDevice, at: DevPtr, bytes: usize) -> std::result::Result<OwnedFd, String> {
    let _inside = device.context.enter().map_err(|error| error.text)?;
    let driver = driver().map_err(|error| error.text)?;
    let mut fd: c_int = -1;
    let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    // SAFETY: for this kind the driver writes an int; the range is mapped.
    let result = unsafe { (driver.f.cuMemGetHandleForAddressRange)((&raw mut fd).cast(), at, bytes, kind, 0) };
    if result != 0 {
        return Err(format!("cuMemGetHandleForAddressRange: {}", driver.describe(result)));
    }
    // SAFETY: a new descriptor, ours alone.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(|error| error.to_string())?;
    Ok(fd)
}

/// See [`crate::device::Memory::map_register`].
pub fn map_register(device: &Arc<CudaDevice>, at: NonNull<u8>, keep: Arc<dyn Any + Send + Sync>) -> Result<Mapped> {
    let mut seen = 0;
    {
        let _inside = device.context.enter()?;
        // SAFETY: 8 bytes of a card's page, mapped until `keep` goes, behind what unregisters it.
        unsafe { cu!(cuMemHostRegister_v2(at.as_ptr().cast(), 8, REGISTER)) }?;
    }
    let registered = Registered::taken(device.clone(), at, keep);
    {
        let _inside = device.context.enter()?;
        // SAFETY: registered just now.
        unsafe { cu!(cuMemHostGetDevicePointer_v2(&mut seen, at.as_ptr().cast(), 0)) }?;
    }
    Ok(Mapped { at: seen, keep: Box::new(registered) })
}
