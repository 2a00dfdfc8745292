//! Kernels are loaded when their module is, not at their first launch.
//!
//! A lazy load inside a launch waits until the context is idle while it holds a lock that copies need: a kernel that waits for
//! a put, the launch that waits for the kernel, and the proxy's copy that waits for the launch never end. CUDA reads
//! CUDA_MODULE_LOADING when it is initialised, so it must be set before the program's first CUDA call: when this library is
//! loaded. A value that the user set stays.

use std::ffi::c_int;

extern "C" fn ask_for_eager_loading() {
    // SAFETY: terminated constants; 0: a value that is there stays. This runs in the loader, as other libraries' constructors
    // that set variables do; a thread that reads the environment meanwhile is the risk that every setenv has.
    unsafe { libc::setenv(c"CUDA_MODULE_LOADING".as_ptr(), c"EAGER".as_ptr(), 0 as c_int) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = ask_for_eager_loading;
