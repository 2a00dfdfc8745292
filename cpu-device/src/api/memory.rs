//! Allocation, registration, what a pointer is.

use std::ffi::c_void;

use super::{give, need};
use crate::device;
use crate::entry::{entry, entry_on_device};
use crate::error::{Code, Result, refuse};
use crate::memory::{self, Kind};
use crate::stream;

type Pointer = *mut c_void;

/// `cudaPointerAttributes`
#[repr(C)]
pub struct PointerAttributes {
    kind: i32,
    device: i32,
    device_pointer: Pointer,
    host_pointer: Pointer,
    reserved: [i64; 8],
}

const _: () = assert!(size_of::<PointerAttributes>() == 88);

unsafe fn allocate(out: *mut Pointer, bytes: usize, kind: Kind, flags: u32) -> i32 {
    entry_on_device(|device| {
        need(out)?;
        crate::fault::follow_reports();
        // SAFETY: see the module `api`, also below.
        unsafe { give(out, memory::allocate(bytes, kind, device.id, flags)? as Pointer) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc(out: *mut Pointer, bytes: usize) -> i32 {
    // SAFETY: as above.
    unsafe { allocate(out, bytes, Kind::Device, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocManaged(out: *mut Pointer, bytes: usize, flags: u32) -> i32 {
    if !matches!(flags, 1 | 2) {
        return entry(|| Err(Code::INVALID_VALUE));
    }
    // SAFETY: as above.
    unsafe { allocate(out, bytes, Kind::Managed, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocHost(out: *mut Pointer, bytes: usize) -> i32 {
    // SAFETY: as above.
    unsafe { allocate(out, bytes, Kind::Host, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostAlloc(out: *mut Pointer, bytes: usize, flags: u32) -> i32 {
    if flags & !7 != 0 {
        return entry(|| Err(Code::INVALID_VALUE));
    }
    // SAFETY: as above.
    unsafe { allocate(out, bytes, Kind::Host, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocPitch(out: *mut Pointer, pitch: *mut usize, width: usize, height: usize) -> i32 {
    entry_on_device(|device| {
        need(out)?;
        need(pitch)?;
        let row = width.checked_next_multiple_of(512).ok_or(Code::MEMORY_ALLOCATION)?;
        let bytes = row.checked_mul(height).ok_or(Code::MEMORY_ALLOCATION)?;
        // SAFETY: as above.
        unsafe {
            give(out, memory::allocate(bytes, Kind::Device, device.id, 0)? as Pointer)?;
            give(pitch, row)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFree(memory: Pointer) -> i32 {
    entry_on_device(|device| {
        if !memory.is_null() {
            // As CUDA does: what may still use the memory is over first.
            let owner = memory::find(memory as usize).and_then(|found| device::get(found.device).ok()).unwrap_or(device);
            stream::of(owner).wait_for_all();
        }
        memory::free(memory as usize, false)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeHost(memory: Pointer) -> i32 {
    entry_on_device(|device| {
        if !memory.is_null() {
            stream::of(device).wait_for_all();
        }
        memory::free(memory as usize, true)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaHostRegister(memory: Pointer, bytes: usize, flags: u32) -> i32 {
    entry_on_device(|device| memory::register(memory as usize, bytes, device.id, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaHostUnregister(memory: Pointer) -> i32 {
    entry_on_device(|_| memory::unregister(memory as usize))
}

fn pinned(memory: Pointer) -> Result<memory::Allocation> {
    let found = memory::find(memory as usize).filter(|found| found.kind != Kind::Device);
    found.map_or_else(|| refuse(Code::INVALID_VALUE, &format!("{memory:p} is not pinned host memory")), Ok)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostGetDevicePointer(out: *mut Pointer, memory: Pointer, flags: u32) -> i32 {
    entry_on_device(|_| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        pinned(memory)?;
        // SAFETY: as above. One address space: the pointer is the same.
        unsafe { give(out, memory) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostGetFlags(out: *mut u32, memory: Pointer) -> i32 {
    // SAFETY: as above. CUDA adds "mapped" under unified addressing.
    entry_on_device(|_| unsafe { give(out, pinned(memory)?.flags | 2) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> i32 {
    entry_on_device(|_| {
        need(free)?;
        // SAFETY: as above.
        unsafe {
            give(total, memory::total())?;
            give(free, memory::available())
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaPointerGetAttributes(out: *mut PointerAttributes, memory: *const c_void) -> i32 {
    entry_on_device(|_| {
        let found = memory::find(memory as usize);
        let p = memory.cast_mut();
        let null = std::ptr::null_mut();
        let (kind, device, device_pointer, host_pointer) = match found.map(|found| (found.kind, found.device)) {
            Some((Kind::Host, device)) => (1, device, p, p),
            Some((Kind::Device, device)) => (2, device, p, null),
            Some((Kind::Managed, device)) => (3, device, p, p),
            None => (0, -2, null, p), // cudaInvalidDeviceId
        };
        // SAFETY: as above.
        unsafe { give(out, PointerAttributes { kind, device, device_pointer, host_pointer, reserved: [0; 8] }) }
    })
}

/// `cudaMemLocation`
#[repr(C)]
pub struct Location {
    kind: i32,
    id: i32,
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPrefetchAsync(
    memory: *const c_void,
    bytes: usize,
    _location: Location,
    _flags: u32,
    stream: *mut c_void,
) -> i32 {
    entry_on_device(|_| {
        memory::check_range(memory as usize, bytes, "cudaMemPrefetchAsync")?;
        super::stream::stream(stream).map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemAdvise(memory: *const c_void, bytes: usize, advice: i32, _location: Location) -> i32 {
    entry_on_device(|_| {
        if !(1..=6).contains(&advice) {
            return Err(Code::INVALID_VALUE);
        }
        memory::check_range(memory as usize, bytes, "cudaMemAdvise")
    })
}
