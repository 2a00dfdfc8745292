//! Stream-ordered memory. A pool is a name: all of them take from the same memory, and keep nothing back.

use std::ffi::c_void;

use super::{give, need};
use crate::api::stream::stream;
use crate::device::get;
use crate::entry::{entry, entry_on_device};
use crate::error::{Code, Result, refuse};
use crate::memory::{self, Kind};
use crate::task::Work;

type Pointer = *mut c_void;

/// Handles of default pools: this plus the device's number; pools that programs make are above.
const DEFAULT: usize = 0x100;
static MADE: parking_lot::Mutex<Vec<usize>> = parking_lot::Mutex::new(Vec::new());

fn known(pool: Pointer) -> Result {
    let pool = pool as usize;
    if (DEFAULT..DEFAULT + crate::device::count()).contains(&pool) || MADE.lock().contains(&pool) {
        return Ok(());
    }
    refuse(Code::INVALID_VALUE, &format!("{pool:#x} is not a memory pool (destroyed?)"))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocAsync(out: *mut Pointer, bytes: usize, on: Pointer) -> i32 {
    entry_on_device(|_| {
        need(out)?;
        let stream = stream(on)?;
        // Made at once: that is before any work of the stream that may use it.
        // SAFETY: see the module `api`, also below.
        unsafe { give(out, memory::allocate(bytes, Kind::Device, stream.device.id, 0)? as Pointer) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocFromPoolAsync(out: *mut Pointer, bytes: usize, pool: Pointer, on: Pointer) -> i32 {
    match entry(|| known(pool)) {
        // SAFETY: as above.
        0 => unsafe { cudaMallocAsync(out, bytes, on) },
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeAsync(memory: Pointer, on: Pointer) -> i32 {
    entry_on_device(|_| {
        let stream = stream(on)?;
        if memory.is_null() {
            return Ok(());
        }
        match memory::find(memory as usize) {
            Some(found) if found.base == memory as usize && found.kind != Kind::Host && !found.is_noted() => {
                stream.push(Work::Free(memory as usize))
            }
            _ => {
                refuse(Code::INVALID_VALUE, &format!("cudaFreeAsync: {memory:p} is not memory of cudaMalloc or cudaMallocAsync"))
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetDefaultMemPool(out: *mut Pointer, id: i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, (DEFAULT + get(id)?.id as usize) as Pointer) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetMemPool(out: *mut Pointer, id: i32) -> i32 {
    // SAFETY: as above.
    unsafe { cudaDeviceGetDefaultMemPool(out, id) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSetMemPool(id: i32, pool: Pointer) -> i32 {
    entry(|| {
        get(id)?;
        known(pool)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolCreate(out: *mut Pointer, _properties: *const c_void) -> i32 {
    entry(|| {
        need(out)?;
        let pool = crate::stream::new_handle();
        MADE.lock().push(pool);
        // SAFETY: as above.
        unsafe { give(out, pool as Pointer) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolDestroy(pool: Pointer) -> i32 {
    entry(|| {
        known(pool)?;
        let mut made = MADE.lock();
        let at = made.iter().position(|&p| p == pool as usize).ok_or(Code::INVALID_VALUE)?;
        made.swap_remove(at);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolTrimTo(pool: Pointer, _keep: usize) -> i32 {
    entry(|| known(pool))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolSetAttribute(pool: Pointer, attribute: i32, value: *mut c_void) -> i32 {
    entry(|| {
        known(pool)?;
        // Reuse and release policies have nothing to act on.
        if (1..=8).contains(&attribute) && !value.is_null() { Ok(()) } else { Err(Code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolGetAttribute(pool: Pointer, attribute: i32, value: *mut c_void) -> i32 {
    entry(|| {
        known(pool)?;
        match attribute {
            // SAFETY: as above; CUDA's type for the first three is int, for the others a 64-bit number.
            1..=3 => unsafe { give(value.cast::<i32>(), 1) },
            // SAFETY: as above. Nothing is kept back, so nothing is reserved beyond what is used.
            4 => unsafe { give(value.cast::<u64>(), 0) },
            // SAFETY: as above.
            5..=8 => unsafe { give(value.cast::<u64>(), (memory::total() - memory::available()) as u64) },
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolSetAccess(pool: Pointer, _descriptions: *const c_void, _length: usize) -> i32 {
    // Every device reaches all memory.
    entry(|| known(pool))
}
