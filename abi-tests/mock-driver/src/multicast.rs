//! Multicast objects: this device has none (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED is 0).

use crate::entry::enter;
use crate::error::Code;
use std::ffi::c_void;

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastCreate(_out: *mut u64, _prop: *const c_void) -> i32 {
    enter("cuMulticastCreate", || Err(Code::NOT_SUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastAddDevice(_handle: u64, _device: i32) -> i32 {
    enter("cuMulticastAddDevice", || Err(Code::NOT_SUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastBindMem(_handle: u64, _at: usize, _memory: u64, _offset: usize, _bytes: usize, _flags: u64) -> i32 {
    enter("cuMulticastBindMem", || Err(Code::NOT_SUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastUnbind(_handle: u64, _device: i32, _at: usize, _bytes: usize) -> i32 {
    enter("cuMulticastUnbind", || Err(Code::NOT_SUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastGetGranularity(_out: *mut usize, _prop: *const c_void, _option: i32) -> i32 {
    enter("cuMulticastGetGranularity", || Err(Code::NOT_SUPPORTED))
}
