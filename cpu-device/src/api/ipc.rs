//! Handles that other processes open: memory of cudaMalloc is private here. ncclMemAlloc memory is shared by libginrs.

use std::ffi::c_void;

use crate::entry::entry;
use crate::error::{Code, refuse};

/// `cudaIpcMemHandle_t` and `cudaIpcEventHandle_t`.
#[repr(C)]
pub struct Handle([u8; 64]);

fn unsupported(call: &str) -> i32 {
    entry(|| {
        refuse(
            Code::NOT_SUPPORTED,
            &format!(
                "{call}: memory and events of the CPU device belong to one process\nfix: share windows of ncclMemAlloc memory"
            ),
        )
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcGetMemHandle(_handle: *mut Handle, _memory: *mut c_void) -> i32 {
    unsupported("cudaIpcGetMemHandle")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcOpenMemHandle(_memory: *mut *mut c_void, _handle: Handle, _flags: u32) -> i32 {
    unsupported("cudaIpcOpenMemHandle")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcCloseMemHandle(_memory: *mut c_void) -> i32 {
    unsupported("cudaIpcCloseMemHandle")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcGetEventHandle(_handle: *mut Handle, _event: *mut c_void) -> i32 {
    unsupported("cudaIpcGetEventHandle")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcOpenEventHandle(_event: *mut *mut c_void, _handle: Handle) -> i32 {
    unsupported("cudaIpcOpenEventHandle")
}
