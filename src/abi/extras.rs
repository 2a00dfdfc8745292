//! Our own additions: include/ginrs.h.

use std::ffi::c_char;

/// The library's own version, as "0.1.0"; ncclGetVersion gives the API's.
#[unsafe(no_mangle)]
pub extern "C" fn ginrsGetVersionString() -> *const c_char {
    const TEXT: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a version has no NUL inside"),
    };
    TEXT.as_ptr()
}
