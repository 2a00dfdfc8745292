//! Our own additions: include/ginrs.h.

use std::ffi::{c_char, c_uint};

/// The library's own version, as "0.1.0"; ncclGetVersion gives the API's.
#[unsafe(no_mangle)]
pub extern "C" fn ginrsGetVersionString() -> *const c_char {
    const TEXT: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a version has no NUL inside"),
    };
    TEXT.as_ptr()
}

/// Called when a program, or a library of it, is loaded whose kernels were compiled with the device headers of ginrs: their waits leave
/// notes (`version` 3 and later), so that one that leaves none is known to wait for nobody. Not for programs to call.
#[unsafe(no_mangle)]
pub extern "C" fn ginrsNoteHeaders(version: c_uint) {
    if version >= 3 {
        crate::watch::kernels_leave_notes();
    }
}
