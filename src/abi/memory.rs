//! Memory that windows are made of (nccl.h).

use super::entry::{entry, out};
use crate::device::{self, DevPtr, graveyard};
use crate::layout::ncclResult_t;
use std::ffi::c_void;

/// Device memory on the current device, rounded up to its granularity; zeroed on the CPU device. `size` 0 gives NULL.
#[unsafe(no_mangle)]
pub extern "C" fn pncclMemAlloc(ptr: *mut *mut c_void, size: usize) -> ncclResult_t {
    entry!(ncclMemAlloc(ptr, size) {
        let at = out("ptr", ptr)?;
        graveyard::sweep();
        let memory = match size {
            0 => 0,
            _ => device::current()?.alloc(size)?,
        };
        at.write(memory as *mut c_void);
        Ok(())
    })
}

/// Gives memory of ncclMemAlloc back; windows over it keep what they use. NULL is success.
#[unsafe(no_mangle)]
pub extern "C" fn pncclMemFree(ptr: *mut c_void) -> ncclResult_t {
    if ptr.is_null() {
        return 0;
    }
    entry!(ncclMemFree(ptr) {
        device::current()?.free(ptr as DevPtr)?;
        graveyard::sweep();
        Ok(())
    })
}
