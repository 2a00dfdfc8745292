//! ncclMemAlloc memory of this process, by address.
#![forbid(unsafe_code)]

use super::CpuDevice;
use super::runtime::{self, Bounds, Foreign};
use crate::bail;
use crate::device::memfd::Memfd;
use crate::device::memory::not_freed;
use crate::device::{Allocation, DevPtr, Holding, Lends, Lifetime, Physical};
use crate::error::Result;
use crate::sync::{Mutex, PerProcess};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Known {
    bytes: usize,
    device: i32,
    physical: Arc<Memfd>,
}

static KNOWN: PerProcess<Mutex<BTreeMap<DevPtr, Known>>> = PerProcess::new();

/// New memory with an address of its own.
pub fn alloc(bytes: usize, device: i32) -> Result<DevPtr> {
    let physical = Memfd::create(bytes)?;
    let base = physical.view()?.as_ptr() as DevPtr;
    let asked = bytes;
    let bytes = physical.bytes();
    runtime::tell_bounds(base, bytes, 0..asked, Bounds::Allocation);
    KNOWN.lock().insert(base, Known { bytes, device, physical });
    if let Some(runtime) = runtime::find() {
        runtime.note_allocation(base, bytes, device);
    }
    Ok(base)
}

/// Forgets it. The mapping goes with the last window over it, and not while kernels run on its device: stray loads and
/// stores (after an abort, say) hit memory of nobody else.
pub fn free(ptr: DevPtr) -> Result<()> {
    let Some(known) = KNOWN.lock().remove(&ptr) else {
        let inside = match lookup(ptr) {
            Ok(inside) => Some(inside.base),
            Err(error) if error.id == 60 => return Err(error),
            Err(_) => None,
        };
        return Err(not_freed(ptr, inside, "cudaMalloc memory with cudaFree"));
    };
    if let Some(runtime) = runtime::find() {
        runtime.forget_allocation(ptr);
    }
    if Arc::strong_count(&known.physical) == 1 {
        // No window holds it; a kernel that runs may still touch it until it is unmapped.
        runtime::tell_bounds(ptr, known.bytes, 0..known.bytes, Bounds::Freed);
    }
    CpuDevice::new(known.device).bury(Box::new(known.physical));
    Ok(())
}

/// The allocation of ncclMemAlloc around `ptr`.
fn known(ptr: DevPtr) -> Option<Allocation> {
    let known = KNOWN.lock();
    let (&base, found) = known.range(..=ptr).next_back()?;
    (ptr - base < found.bytes as u64).then(|| Allocation { base, bytes: found.bytes, physical: found.physical.clone() })
}

/// See [`crate::device::Memory::holding`].
pub fn holding(ptr: DevPtr) -> Option<Holding> {
    if let Some(Allocation { base, bytes, physical }) = known(ptr) {
        return Some(Holding { base, bytes: bytes as u64, id: physical.key(), lends: Lends::Descriptor });
    }
    let (base, bytes, kind) = runtime::find()?.find_allocation(ptr)?;
    (kind == Foreign::Device).then_some(Holding { base, bytes: bytes as u64, id: 0, lends: Lends::Nothing })
}

/// The allocation around `ptr`, or what `ptr` is instead.
pub fn lookup(ptr: DevPtr) -> Result<Allocation> {
    if let Some(known) = known(ptr) {
        return Ok(known);
    }
    KNOWN.check_parent(&format!("memory at {ptr:#x}"))?;
    match runtime::find().and_then(|runtime| runtime.find_allocation(ptr)) {
        Some((base, bytes, kind)) => bail!(
            UnhandledCudaError,
            52,
            "{} memory cannot be a window | {ptr:#x} in the allocation of {bytes} bytes at {base:#x} | peers cannot map it | \
             fix: use ncclMemAlloc",
            kind.function()
        ),
        None => bail!(
            UnhandledCudaError,
            52,
            "host memory cannot be a window | {ptr:#x} is in no allocation of ncclMemAlloc of this process | fix: use \
             ncclMemAlloc"
        ),
    }
}
