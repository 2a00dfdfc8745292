//! The driver API's chapters on virtual memory management and multicast objects.

use std::ffi::c_void;

use super::{give, need};
use crate::device;
use crate::entry::entry_of_driver;
use crate::error::{Code, Result, refuse};
use crate::virtual_memory::{self, GRANULE, Handle, Object};

/// `CUmemLocation`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Location {
    kind: i32,
    id: i32,
}

/// `CUmemAllocationProp`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct AllocationProp {
    kind: i32,
    handle_types: i32,
    location: Location,
    win32: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct AccessDesc {
    location: Location,
    flags: i32,
}

/// `CUmulticastObjectProp`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MulticastProp {
    devices: u32,
    bytes: usize,
    handle_types: u64,
    flags: u64,
}

const _: () = assert!(size_of::<AllocationProp>() == 32 && size_of::<AccessDesc>() == 12 && size_of::<MulticastProp>() == 32);

/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_LOCATION_TYPE_DEVICE`
const PINNED: i32 = 1;
const DEVICE: i32 = 1;

impl Location {
    fn device(self) -> Result<i32> {
        if self.kind == DEVICE { Ok(device::get(self.id)?.id) } else { Err(Code::INVALID_VALUE) }
    }
}

/// No descriptor of what is here can be given to another process, as CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED says.
fn unshared(handle_types: u64) -> Result {
    if handle_types == 0 {
        return Ok(());
    }
    refuse(
        Code::NOT_SUPPORTED,
        "the CPU device shares no memory handles with other processes\nfix: ask for handle type NONE, and use threads of one process; \
         windows of NCCL (ncclMemAlloc) do reach other processes",
    )
}

/// # Safety
/// `prop` is NULL or valid.
unsafe fn checked(prop: *const AllocationProp) -> Result<AllocationProp> {
    // SAFETY: the caller's.
    let prop = unsafe { prop.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    prop.location.device()?;
    unshared(prop.handle_types as u64)?;
    if prop.kind == PINNED { Ok(*prop) } else { Err(Code::INVALID_VALUE) }
}

/// # Safety
/// `prop` is NULL or valid.
unsafe fn checked_multicast(prop: *const MulticastProp) -> Result<MulticastProp> {
    // SAFETY: the caller's.
    let prop = unsafe { prop.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    unshared(prop.handle_types)?;
    if prop.flags == 0 { Ok(*prop) } else { Err(Code::INVALID_VALUE) }
}

fn no_flags(flags: u64) -> Result {
    if flags == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(out: *mut usize, prop: *const AllocationProp, option: i32) -> i32 {
    // SAFETY: see the module `api`, also below.
    entry_of_driver(|| unsafe {
        checked(prop)?;
        if matches!(option, 0 | 1) { give(out, GRANULE) } else { Err(Code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(out: *mut Handle, bytes: usize, prop: *const AllocationProp, flags: u64) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        no_flags(flags)?;
        // SAFETY: as above.
        unsafe { give(out, virtual_memory::create(bytes, checked(prop)?.location.id)?) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(handle: Handle) -> i32 {
    entry_of_driver(|| virtual_memory::release(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRetainAllocationHandle(out: *mut Handle, address: *mut c_void) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        // SAFETY: as above.
        unsafe { give(out, virtual_memory::retain(address as usize)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationPropertiesFromHandle(out: *mut AllocationProp, handle: Handle) -> i32 {
    entry_of_driver(|| {
        let object = virtual_memory::find(handle)?;
        let Object::Memory(memory) = &*object else { return Err(Code::INVALID_VALUE) };
        let location = Location { kind: DEVICE, id: memory.device };
        let prop = AllocationProp { kind: PINNED, handle_types: 0, location, win32: std::ptr::null_mut(), flags: [0; 8] };
        // SAFETY: as above.
        unsafe { give(out, prop) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemExportToShareableHandle(out: *mut c_void, handle: Handle, kind: i32, flags: u64) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        no_flags(flags)?;
        virtual_memory::find(handle)?;
        unshared(kind.max(1) as u64)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemImportFromShareableHandle(out: *mut Handle, _handle: *mut c_void, kind: i32) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        unshared(kind.max(1) as u64)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(out: *mut u64, bytes: usize, align: usize, _hint: u64, flags: u64) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        no_flags(flags)?;
        // SAFETY: as above. CUDA does not promise to heed the hint.
        unsafe { give(out, virtual_memory::reserve(bytes, align)? as u64) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressFree(at: u64, bytes: usize) -> i32 {
    entry_of_driver(|| virtual_memory::free_addresses(at as usize, bytes))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(at: u64, bytes: usize, offset: usize, handle: Handle, flags: u64) -> i32 {
    entry_of_driver(|| no_flags(flags).and_then(|()| virtual_memory::map(at as usize, bytes, offset, handle)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(at: u64, bytes: usize) -> i32 {
    entry_of_driver(|| virtual_memory::unmap(at as usize, bytes))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemSetAccess(at: u64, bytes: usize, descs: *const AccessDesc, count: usize) -> i32 {
    entry_of_driver(|| {
        need(descs.cast_mut())?;
        // SAFETY: the caller gives `count` of them.
        let descs = unsafe { std::slice::from_raw_parts(descs, count) };
        descs.iter().try_for_each(|desc| desc.location.device().map(drop))?;
        let access = descs.iter().map(|desc| desc.flags).max().ok_or(Code::INVALID_VALUE)?;
        virtual_memory::set_access(at as usize, bytes, access)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAccess(out: *mut u64, location: *const Location, at: u64) -> i32 {
    entry_of_driver(|| {
        // SAFETY: as above.
        unsafe {
            location.as_ref().ok_or(Code::INVALID_VALUE)?.device()?;
            give(out, virtual_memory::access(at as usize)? as u64)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMulticastCreate(out: *mut Handle, prop: *const MulticastProp) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        // SAFETY: as above.
        unsafe {
            let prop = checked_multicast(prop)?;
            give(out, virtual_memory::create_multicast(prop.devices as usize, prop.bytes)?)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastAddDevice(handle: Handle, ordinal: i32) -> i32 {
    entry_of_driver(|| virtual_memory::find(handle)?.multicast()?.add_device(device::get(ordinal)?.id))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastBindMem(handle: Handle, at: usize, memory: Handle, offset: usize, bytes: usize, flags: u64) -> i32 {
    entry_of_driver(|| {
        no_flags(flags)?;
        virtual_memory::find(handle)?.multicast()?.bind(at, virtual_memory::find(memory)?, offset, bytes)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastBindAddr(handle: Handle, at: usize, address: u64, bytes: usize, flags: u64) -> i32 {
    entry_of_driver(|| {
        no_flags(flags)?;
        let (memory, offset) = virtual_memory::mapped_at(address as usize)?;
        virtual_memory::find(handle)?.multicast()?.bind(at, memory, offset, bytes)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastUnbind(handle: Handle, ordinal: i32, at: usize, bytes: usize) -> i32 {
    entry_of_driver(|| virtual_memory::find(handle)?.multicast()?.unbind(device::get(ordinal)?.id, at, bytes))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMulticastGetGranularity(out: *mut usize, prop: *const MulticastProp, option: i32) -> i32 {
    // SAFETY: as above.
    entry_of_driver(|| unsafe {
        checked_multicast(prop)?;
        if matches!(option, 0 | 1) { give(out, GRANULE) } else { Err(Code::INVALID_VALUE) }
    })
}
