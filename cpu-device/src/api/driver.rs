//! The few functions of the driver API that programs mix with the runtime's.

use std::ffi::{c_char, c_void};

use super::give;
use crate::device;
use crate::error::{Code, Result, entry_of_driver};
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
