//! The few functions of the driver API that programs mix with the runtime's.

use std::ffi::{CStr, c_char, c_void};

use super::{give, need, virtual_memory as vm};
use crate::device;
use crate::entry::{entry, entry_of_driver};
use crate::error::{Code, Result, refuse};
use crate::memory;

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> i32 {
    entry_of_driver(|| if flags == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(out: *mut i32) -> i32 {
    // SAFETY: see the module `api`, also below.
    entry_of_driver(|| unsafe { give(out, super::device::VERSION) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(out: *mut i32) -> i32 {
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, device::count() as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(out: *mut i32, ordinal: i32) -> i32 {
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, device::get(ordinal)?.id) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(out: *mut i32, attribute: i32, ordinal: i32) -> i32 {
    // The driver numbers its attributes as the runtime does.
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, super::properties::attribute(device::get(ordinal)?, attribute)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(out: *mut *mut c_void) -> i32 {
    // A context is its device's number, from 1: never dereferenced.
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, (device::current_id() as usize + 1) as *mut c_void) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(out: *mut i32) -> i32 {
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, device::current_id()) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> i32 {
    entry_of_driver(|| device::set_current((context as usize as i32) - 1))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> i32 {
    super::device::cudaDeviceSynchronize()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, pointer: u64) -> i32 {
    entry_of_driver(|| {
        let found = memory::find(pointer as usize).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: as above; CUDA lets either be NULL.
        unsafe {
            if !base.is_null() {
                give(base, found.base as u64)?;
            }
            if bytes.is_null() { Ok(()) } else { give(bytes, found.bytes) }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(out: *mut c_char, length: i32, ordinal: i32) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        let properties = super::properties::of(device::get(ordinal)?);
        let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1)).ok_or(Code::INVALID_VALUE)?;
        let name = CStr::from_bytes_until_nul(&properties.name).map_or(&b""[..], CStr::to_bytes);
        let taken = name.len().min(room);
        // SAFETY: the caller gives `length` bytes, of which taken + 1 are written.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr().cast(), out, taken);
            out.add(taken).write(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(out: *mut [u8; 16], ordinal: i32) -> i32 {
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, super::properties::of(device::get(ordinal)?).uuid) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(out: *mut usize, ordinal: i32) -> i32 {
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, super::properties::of(device::get(ordinal)?).total_memory) })
}

/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`
const SYNC_MEMOPS: i32 = 6;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerSetAttribute(value: *const c_void, attribute: i32, pointer: u64) -> i32 {
    entry_of_driver(|| {
        need(value.cast_mut())?;
        memory::find(pointer as usize).filter(|found| found.kind != memory::Kind::Host).ok_or(Code::INVALID_VALUE)?;
        // Copies and fills of this memory are over when their calls return, or are ordered by their stream: it holds unasked.
        if attribute == SYNC_MEMOPS { Ok(()) } else { Err(Code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(value: *mut c_void, attribute: i32, pointer: u64) -> i32 {
    entry_of_driver(|| {
        need(value)?;
        let found = memory::find(pointer as usize).ok_or(Code::INVALID_VALUE)?;
        let host = found.kind == memory::Kind::Host;
        // SAFETY: the caller gives room for the type that the attribute has in CUDA.
        unsafe {
            match attribute {
                1 => give(value.cast(), found.device as usize + 1),
                2 => give(value.cast(), if host { 1u32 } else { 2 }),
                3 => give(value.cast(), pointer),
                4 if found.kind != memory::Kind::Device => give(value.cast(), pointer),
                SYNC_MEMOPS => give(value.cast(), true),
                7 => give(value.cast(), found.base as u64), // allocations that live at the same time differ
                8 => give(value.cast(), found.kind == memory::Kind::Managed),
                9 => give(value.cast(), found.device),
                10 | 15 | 21 => give(value.cast(), false),
                11 => give(value.cast(), found.base as u64),
                12 => give(value.cast(), found.bytes),
                13 => give(value.cast(), true),
                14 => give(value.cast(), 0u64),
                16 => give(value.cast(), 3u32), // read and write
                _ => Err(Code::INVALID_VALUE),
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetHandleForAddressRange(
    handle: *mut c_void,
    pointer: u64,
    bytes: usize,
    kind: i32,
    _flags: u64,
) -> i32 {
    entry_of_driver(|| {
        need(handle)?;
        let found = memory::find(pointer as usize).ok_or(Code::INVALID_VALUE)?;
        let inside = (pointer as usize - found.base).checked_add(bytes).is_some_and(|end| end <= found.bytes);
        if bytes == 0 || !inside || kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        Err(Code::NOT_SUPPORTED)
    })
}

fn known(error: i32) -> Result<Code> {
    let code = Code(error);
    if code.name() == c"unrecognized error code" { Err(Code::INVALID_VALUE) } else { Ok(code) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: i32, out: *mut *const c_char) -> i32 {
    // The numbers of CUresult are cudaError_t's.
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, known(error)?.text().as_ptr()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: i32, out: *mut *const c_char) -> i32 {
    // SAFETY: as above.
    entry_of_driver(|| unsafe { give(out, known(error)?.name().as_ptr()) })
}

/// Address of a function.
struct Function(*const c_void);

// SAFETY: code does not change.
unsafe impl Sync for Function {}

/// The functions of `cuda.h`, as `cudaGetDriverEntryPoint` finds them.
static ENTRY_POINTS: &[(&CStr, Function)] = &[
    (c"cuInit", Function(cuInit as *const c_void)),
    (c"cuDriverGetVersion", Function(cuDriverGetVersion as *const c_void)),
    (c"cuDeviceGetCount", Function(cuDeviceGetCount as *const c_void)),
    (c"cuDeviceGet", Function(cuDeviceGet as *const c_void)),
    (c"cuDeviceGetAttribute", Function(cuDeviceGetAttribute as *const c_void)),
    (c"cuCtxGetCurrent", Function(cuCtxGetCurrent as *const c_void)),
    (c"cuCtxSetCurrent", Function(cuCtxSetCurrent as *const c_void)),
    (c"cuCtxGetDevice", Function(cuCtxGetDevice as *const c_void)),
    (c"cuCtxSynchronize", Function(cuCtxSynchronize as *const c_void)),
    (c"cuMemGetAddressRange", Function(cuMemGetAddressRange_v2 as *const c_void)),
    (c"cuDeviceGetName", Function(cuDeviceGetName as *const c_void)),
    (c"cuDeviceGetUuid", Function(cuDeviceGetUuid_v2 as *const c_void)),
    (c"cuDeviceTotalMem", Function(cuDeviceTotalMem_v2 as *const c_void)),
    (c"cuPointerSetAttribute", Function(cuPointerSetAttribute as *const c_void)),
    (c"cuPointerGetAttribute", Function(cuPointerGetAttribute as *const c_void)),
    (c"cuMemGetHandleForAddressRange", Function(cuMemGetHandleForAddressRange as *const c_void)),
    (c"cuMemGetAllocationGranularity", Function(vm::cuMemGetAllocationGranularity as *const c_void)),
    (c"cuMemCreate", Function(vm::cuMemCreate as *const c_void)),
    (c"cuMemRelease", Function(vm::cuMemRelease as *const c_void)),
    (c"cuMemRetainAllocationHandle", Function(vm::cuMemRetainAllocationHandle as *const c_void)),
    (c"cuMemGetAllocationPropertiesFromHandle", Function(vm::cuMemGetAllocationPropertiesFromHandle as *const c_void)),
    (c"cuMemAddressReserve", Function(vm::cuMemAddressReserve as *const c_void)),
    (c"cuMemAddressFree", Function(vm::cuMemAddressFree as *const c_void)),
    (c"cuMemMap", Function(vm::cuMemMap as *const c_void)),
    (c"cuMemUnmap", Function(vm::cuMemUnmap as *const c_void)),
    (c"cuMemSetAccess", Function(vm::cuMemSetAccess as *const c_void)),
    (c"cuMemGetAccess", Function(vm::cuMemGetAccess as *const c_void)),
    (c"cuMemExportToShareableHandle", Function(vm::cuMemExportToShareableHandle as *const c_void)),
    (c"cuMemImportFromShareableHandle", Function(vm::cuMemImportFromShareableHandle as *const c_void)),
    (c"cuMulticastCreate", Function(vm::cuMulticastCreate as *const c_void)),
    (c"cuMulticastAddDevice", Function(vm::cuMulticastAddDevice as *const c_void)),
    (c"cuMulticastBindMem", Function(vm::cuMulticastBindMem as *const c_void)),
    (c"cuMulticastBindAddr", Function(vm::cuMulticastBindAddr as *const c_void)),
    (c"cuMulticastUnbind", Function(vm::cuMulticastUnbind as *const c_void)),
    (c"cuMulticastGetGranularity", Function(vm::cuMulticastGetGranularity as *const c_void)),
    (c"cuGetProcAddress", Function(cuGetProcAddress_v2 as *const c_void)),
    (c"cuGetErrorName", Function(cuGetErrorName as *const c_void)),
    (c"cuGetErrorString", Function(cuGetErrorString as *const c_void)),
];

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDriverEntryPoint(
    symbol: *const c_char,
    out: *mut *const c_void,
    _flags: u64,
    status: *mut i32,
) -> i32 {
    entry(|| {
        need(out)?;
        if symbol.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: a string from the caller.
        let symbol = unsafe { CStr::from_ptr(symbol) };
        let found = ENTRY_POINTS.iter().find(|point| point.0 == symbol);
        // SAFETY: as above; CUDA lets status be NULL, and then reports by the result.
        unsafe {
            give(out, found.map_or(std::ptr::null(), |point| point.1.0))?;
            match (status.is_null(), found) {
                (false, _) => give(status, i32::from(found.is_none())),
                (true, Some(_)) => Ok(()),
                (true, None) => {
                    refuse(Code::SYMBOL_NOT_FOUND, &format!("the CPU device has no driver function {}", symbol.to_string_lossy()))
                }
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    out: *mut *const c_void,
    _version: i32,
    _flags: u64,
    status: *mut i32,
) -> i32 {
    entry_of_driver(|| {
        need(out)?;
        need(symbol.cast_mut())?;
        // SAFETY: a string from the caller.
        let symbol = unsafe { CStr::from_ptr(symbol) };
        let found = ENTRY_POINTS.iter().find(|point| point.0 == symbol);
        // SAFETY: as above; CUDA lets status be NULL.
        unsafe {
            give(out, found.map_or(std::ptr::null(), |point| point.1.0))?;
            if !status.is_null() {
                give(status, i32::from(found.is_none()))?;
            }
        }
        if found.is_some() { Ok(()) } else { Err(Code::SYMBOL_NOT_FOUND) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDriverEntryPointByVersion(
    symbol: *const c_char,
    out: *mut *const c_void,
    _version: u32,
    flags: u64,
    status: *mut i32,
) -> i32 {
    // SAFETY: as above.
    unsafe { cudaGetDriverEntryPoint(symbol, out, flags, status) }
}
