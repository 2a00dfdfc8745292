//! Kernels written in Rust: what ginrs-cc makes of a `.cu` file, by hand.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

#[path = "../../../src/hang_limit.rs"]
pub mod hang_limit;

use std::ffi::c_void;
use std::ptr::{null, null_mut};

pub use ginrs_cpu::api::device::*;
pub use ginrs_cpu::api::event::*;
pub use ginrs_cpu::api::graph::*;
pub use ginrs_cpu::api::launch::*;
pub use ginrs_cpu::api::memory::*;
pub use ginrs_cpu::api::stream::*;
pub use ginrs_cpu::api::transfer::*;
pub use ginrs_cpu::error::last_report;
pub use ginrs_cpu::exports::*;
use ginrs_cpu::kernel::{KernelInfo, LaunchInfo};
pub use ginrs_cpu::launch::Dim3;
use ginrs_cpu::thread::{ThreadView, Variables};

pub type Kernel = unsafe extern "C" fn(*mut c_void);

/// The CUDA thread that calls.
pub fn me() -> &'static ThreadView {
    // SAFETY: set while a CUDA thread runs, and the view outlives it.
    unsafe { &*Variables::of_this_thread().current() }
}

/// Number of the calling thread in its grid (one-dimensional).
pub fn global() -> usize {
    (me().block.x * me().block_dim.x + me().thread.x) as usize
}

pub const fn x(n: u32) -> Dim3 {
    Dim3 { x: n, y: 1, z: 1 }
}

pub const FILE: *const std::ffi::c_char = c"test.cu".as_ptr();

/// A launch whose kernel gets a pointer to `state`, which must live until it is over.
pub struct Launcher<'a, T> {
    pub grid: u32,
    pub block: u32,
    pub kernel: Kernel,
    pub state: &'a T,
    pub stream: *mut c_void,
    pub flags: u32,
}

impl<'a, T: Sync> Launcher<'a, T> {
    pub fn new(grid: u32, block: u32, kernel: Kernel, state: &'a T) -> Self {
        Launcher { grid, block, kernel, state, stream: null_mut(), flags: 0 }
    }
    pub fn cooperative(mut self) -> Self {
        self.flags = 1;
        self
    }
    pub fn on(mut self, stream: *mut c_void) -> Self {
        self.stream = stream;
        self
    }
    pub fn queue(self) -> i32 {
        let kernel = KernelInfo { entry: null(), name: c"kernel".as_ptr(), pack: None, invoke: Some(self.kernel), destroy: None };
        let info = LaunchInfo {
            kernel,
            packed: std::ptr::from_ref(self.state).cast_mut().cast(),
            grid: x(self.grid),
            block: x(self.block),
            shared_bytes: 0,
            stream: self.stream,
            flags: self.flags,
            file: FILE,
            line: 1,
        };
        // SAFETY: a valid launch; the state is shared and outlives it.
        unsafe { ginrs_cpu_launch(&info) }
    }
    /// Launches and waits; the error of either.
    pub fn run(self) -> i32 {
        match self.queue() {
            0 => cudaDeviceSynchronize(),
            error => error,
        }
    }
}

/// The state that a kernel was given.
///
/// # Safety
/// It is of type T.
pub unsafe fn state<'a, T>(packed: *mut c_void) -> &'a T {
    // SAFETY: the caller's.
    unsafe { &*packed.cast::<T>() }
}

pub fn sync(line: i32) {
    ginrs_cpu_barrier(0, 0, c"__syncthreads()".as_ptr(), FILE, line);
}

/// Takes a device of its own for a test that leaves an error on it.
pub fn device(id: i32) {
    assert_eq!(cudaSetDevice(id), 0);
}
