//! The stand-in CUDA runtime (libginrs_cpu.so), if this process has it: its current device, and its kernels.

use parking_lot::RwLock;
use std::ffi::{CStr, c_void};
use std::time::{Duration, Instant};

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a plain lookup with a terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The calling thread's device.
pub fn current_device() -> Option<i32> {
    symbol(c"ginrs_cpu_runtime_v1")?;
    let get = symbol(c"cudaGetDevice")?;
    // SAFETY: the runtime API's signature.
    let get: unsafe extern "C" fn(*mut i32) -> i32 = unsafe { std::mem::transmute(get) };
    let mut device = 0;
    // SAFETY: a valid place to write to.
    (unsafe { get(&mut device) } == 0).then_some(device)
}

/// The start of `ginrsCpuRuntimeV1` (ginrs_cpu/library.h).
#[repr(C)]
struct Table {
    version: u32,
    bytes: u32,
    before: [*const c_void; 3],
    kernels_running: unsafe extern "C" fn(i32) -> i32,
}

fn kernels_running(device: i32) -> bool {
    let Some(entry) = symbol(c"ginrs_cpu_runtime_v1") else { return false };
    // SAFETY: library.h gives the symbol this type, and the name carries its version.
    let entry: unsafe extern "C" fn() -> *const Table = unsafe { std::mem::transmute(entry) };
    // SAFETY: returns NULL or a table that lives as long as the process.
    let Some(table) = (unsafe { entry().as_ref() }) else { return false };
    // SAFETY: any number is allowed.
    unsafe { (table.kernels_running)(device) > 0 }
}

/// Held by calls that free memory while they wait for kernels, and by copies while they are submitted.
///
/// Measured on an H200 with driver 580: as long as cuMemFree, cuMemFreeHost or cuMemHostUnregister wait for a kernel, copies of
/// other threads do not start (cuCtxSynchronize holds nobody up). A library whose kernels wait for its copies stands still then.
pub static FREEING: RwLock<()> = RwLock::new(());

/// Returns when no kernel runs on `device`. Says so on stderr when that takes long: a library that calls `what` while its own
/// kernels wait for it has come to a standstill, here as on a GPU.
pub fn wait_for_kernels(device: usize, what: &str) {
    let started = Instant::now();
    let mut said = false;
    while kernels_running(device as i32) {
        std::thread::sleep(Duration::from_micros(200));
        if !said && started.elapsed() > Duration::from_secs(5) {
            eprintln!("mock driver: {what} has waited 5 s for the kernels of device {device} to end, as a GPU's driver does");
            said = true;
        }
    }
}
