//! ncclMemAlloc memory of this process, and what a window may lie in.

use super::driver::{cu, driver};
use super::memory::CudaPhysical;
use super::space::CudaReservation;
use super::{CudaDevice, p2p};
use crate::bail;
use crate::device::memory::not_freed;
use crate::device::{Allocation, DevPtr, Device, Holding, Lends, Physical, Reservation};
use crate::error::Result;
use crate::sync::{Mutex, PerProcess};
use cudarc::driver::sys::CUpointer_attribute;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

static KNOWN: PerProcess<Mutex<BTreeMap<DevPtr, CudaReservation>>> = PerProcess::new();

/// New memory with an address of its own, open to its device and to every visible device that reaches it.
pub fn alloc(device: &Arc<CudaDevice>, bytes: usize) -> Result<DevPtr> {
    let physical: Arc<dyn Physical> = CudaPhysical::create(device, bytes)?;
    let space = CudaReservation::new(device.clone(), physical.bytes(), device.facts.granularity)?;
    space.map_for(0, &physical, p2p::who_reach(device))?;
    let base = space.base();
    if let Some(lost) = KNOWN.lock().insert(base, space) {
        // cudaDeviceReset took it; these addresses are the new one's now.
        std::mem::forget(lost);
    }
    Ok(base)
}

/// Gives the mapping back; no kernel uses it any more. Windows over it keep the memory.
pub fn free(ptr: DevPtr) -> Result<()> {
    let mut known = KNOWN.lock();
    let Some(space) = known.remove(&ptr) else {
        KNOWN.check_parent(&format!("memory at {ptr:#x}"))?;
        let around = known.range(..ptr).next_back().filter(|(base, space)| ptr - *base < space.bytes() as u64);
        let others = "cudaMalloc memory with cudaFree, cuMemMap memory with cuMemUnmap";
        return Err(not_freed(ptr, around.map(|(&base, _)| base), others));
    };
    drop(known);
    // At once, as NVIDIA's library does: the memory is there for whoever allocates next, and nothing waits for a kernel.
    drop(space);
    Ok(())
}

/// The allocation around `ptr`; an error that says what `ptr` is when peers could not map it.
pub fn lookup(device: &CudaDevice, ptr: DevPtr) -> Result<Allocation> {
    let _inside = device.context.enter()?;
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: valid places to write to; the driver compares the address, it does not use it.
    let ranged = unsafe { cu!(cuMemGetAddressRange_v2(&mut base, &mut bytes, ptr)) };
    let refused = match ranged {
        Ok(()) => match CudaPhysical::at(ptr, bytes)? {
            Some((physical, properties)) if properties.exportable() => return Ok(Allocation { base, bytes, physical }),
            Some(_) => "cuMemCreate memory without a POSIX file descriptor handle",
            None => what_is(ptr),
        },
        Err(_) => what_is(ptr),
    };
    let range = match bytes {
        0 => String::new(),
        bytes => format!(" in the allocation of {bytes} bytes at {base:#x}"),
    };
    bail!(
        UnhandledCudaError,
        52,
        "{refused} cannot be a window | {ptr:#x}{range} | peers cannot map it | fix: use ncclMemAlloc, or cuMemCreate with \
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"
    )
}

/// What [`alloc`] gave around `ptr`, and the ordinal of its device.
pub fn allocated(ptr: DevPtr) -> Option<(i32, Option<Holding>)> {
    let known = KNOWN.lock();
    let (&base, space) = known.range(..=ptr).next_back()?;
    let bytes = space.bytes() as u64;
    let holding = || Some(Holding { base, bytes, id: space.whole()?.key(), lends: Lends::Descriptor });
    (ptr - base < bytes).then(|| (space.device().ordinal(), holding()))
}

/// What memory that is not from cuMemCreate is.
fn what_is(ptr: DevPtr) -> &'static str {
    // CU_MEMORYTYPE_HOST 1, DEVICE 2.
    let managed = attribute(ptr, CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED).unwrap_or(0) & 0xff;
    let kind = attribute(ptr, CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    let pooled = attribute(ptr, CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE).is_some_and(|handle| handle != 0);
    match (kind, managed) {
        (_, 1..) => "cudaMallocManaged memory",
        (Some(1), _) => "cudaMallocHost memory",
        (Some(2), _) if pooled => "cudaMallocAsync memory",
        (Some(2), _) => "cudaMalloc memory",
        _ => "host memory",
    }
}

fn attribute(ptr: DevPtr, which: CUpointer_attribute) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: no attribute asked for here is longer than 8 bytes, and shorter ones fill the low end on this little-endian host.
    let result: c_int = unsafe { (driver().ok()?.f.cuPointerGetAttribute)((&raw mut value).cast(), which, ptr) };
    (result == 0).then_some(value)
}
