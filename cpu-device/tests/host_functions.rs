//! What CUDA forbids in a host function. Alone in its process: the last message is that of all threads.
#![allow(clippy::undocumented_unsafe_blocks, reason = "the function is given the results that it fills")]

mod common;
use std::ffi::c_void;
use std::ptr::null_mut;

use common::*;

unsafe extern "C" fn calls(results: *mut c_void) {
    let mut event = null_mut();
    let results: &mut [i32; 3] = unsafe { &mut *results.cast() };
    *results = [cudaDeviceSynchronize(), unsafe { cudaEventCreateWithFlags(&mut event, 0) }, cudaGetLastError()];
}

unsafe extern "C" fn called_back(_: *mut c_void, _: i32, results: *mut c_void) {
    unsafe { calls(results) }
}

#[test]
fn host_functions_and_callbacks_call_nothing_of_cuda() {
    let mut results = [[0i32; 3]; 2];
    let [first, second] = &mut results;
    unsafe {
        assert_eq!(cudaLaunchHostFunc(null_mut(), Some(calls), (&raw mut *first).cast()), 0);
        assert_eq!(cudaStreamAddCallback(null_mut(), Some(called_back), (&raw mut *second).cast(), 0), 0);
    }
    assert_eq!(cudaDeviceSynchronize(), 0, "this thread is in none");
    assert_eq!(results, [[800; 3]; 2], "what is asked of an error is allowed");
    let said = ginrs_cpu::error::last_report();
    assert!(said.contains("cudaEventCreateWithFlags in a host function (cudaLaunchHostFunc, cudaStreamAddCallback)"), "{said}");
}
