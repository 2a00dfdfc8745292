//! Kernels by the address of their function, and the checks of a launch.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::{MAX_BLOCK_THREADS, MAX_LIVE_THREADS, SHARED_BYTES, SHARED_BYTES_OPTIN, config};
use crate::error::{Code, Result, refuse};
use crate::launch::{Dim3, Launch, Packed, Place, text};
use crate::stream::find_on;
use crate::task::Work;

/// `ginrsCpuKernel`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct KernelInfo {
    /// Address of the `__global__` function.
    pub entry: *const c_void,
    /// Its name.
    pub name: *const c_char,
    /// Copies the arguments of `cudaLaunchKernel`.
    pub pack: Option<unsafe extern "C" fn(*mut *mut c_void) -> *mut c_void>,
    /// Runs one CUDA thread.
    pub invoke: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Ends the copy.
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: function pointers and string literals of the program.
unsafe impl Send for KernelInfo {}
// SAFETY: as above.
unsafe impl Sync for KernelInfo {}

/// `ginrsCpuLaunch`.
#[repr(C)]
pub struct LaunchInfo {
    /// What runs.
    pub kernel: KernelInfo,
    /// Its arguments, ours from here on.
    pub packed: *mut c_void,
    /// Blocks.
    pub grid: Dim3,
    /// Threads.
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: usize,
    /// `cudaStream_t`.
    pub stream: *mut c_void,
    /// `GINRS_CPU_LAUNCH_*`.
    pub flags: u32,
    /// Where.
    pub file: *const c_char,
    /// Where.
    pub line: i32,
}

/// `GINRS_CPU_LAUNCH_COOPERATIVE`
pub const COOPERATIVE: u32 = 1;
/// `GINRS_CPU_LAUNCH_CLUSTERS`
pub const CLUSTERS: u32 = 2;

struct Kernel {
    info: KernelInfo,
    name: std::ffi::CString,
}

static KERNELS: RwLock<Option<HashMap<usize, Kernel>>> = RwLock::new(None);
/// Dynamic shared bytes that `cudaFuncSetAttribute` allows, by entry: kernels need not be registered for it.
static SHARED: RwLock<Option<HashMap<usize, u32>>> = RwLock::new(None);

/// Threads that a block may have at most, by entry.
static BOUNDS: RwLock<Option<HashMap<usize, u32>>> = RwLock::new(None);

/// `__launch_bounds__`.
pub fn set_bound(entry: usize, threads: u32) {
    BOUNDS.write().get_or_insert_with(HashMap::new).insert(entry, threads);
}

/// Threads of a block of `entry`, at most.
pub fn bound(entry: usize) -> u32 {
    let bound = BOUNDS.read().as_ref().and_then(|bounds| bounds.get(&entry).copied());
    bound.map_or(MAX_BLOCK_THREADS, |bound| bound.min(MAX_BLOCK_THREADS))
}

/// Makes a kernel known to `cudaLaunchKernel`.
///
/// # Safety
/// The name is a string or NULL.
pub unsafe fn register(info: &KernelInfo) {
    let name = std::ffi::CString::new(text(info.name, "?")).unwrap_or_default();
    KERNELS.write().get_or_insert_with(HashMap::new).insert(info.entry as usize, Kernel { info: *info, name });
}

/// The kernel whose function is at `entry`.
///
/// # Errors
/// `InvalidDeviceFunction`.
pub fn find(entry: usize) -> Result<KernelInfo> {
    match KERNELS.read().as_ref().and_then(|kernels| kernels.get(&entry)) {
        Some(kernel) => Ok(KernelInfo { name: kernel.name.as_ptr(), ..kernel.info }),
        None => refuse(
            Code::INVALID_DEVICE_FUNCTION,
            &format!(
                "{entry:#x} is not a kernel of this program\nfix: compile the file of the __global__ function with ginrs-cc"
            ),
        ),
    }
}

/// Dynamic shared memory that a launch of `entry` may ask for, bytes.
pub fn shared_limit(entry: usize) -> usize {
    let limit = SHARED.read().as_ref().and_then(|limits| limits.get(&entry).copied());
    limit.map_or(SHARED_BYTES, |bytes| bytes as usize)
}

/// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
///
/// # Errors
/// `InvalidValue` above the limit of a block.
pub fn set_shared_limit(entry: usize, bytes: i32) -> Result {
    if bytes < 0 || bytes as usize > SHARED_BYTES_OPTIN {
        return refuse(
            Code::INVALID_VALUE,
            &format!("{bytes} bytes of dynamic shared memory: a block has at most {SHARED_BYTES_OPTIN}"),
        );
    }
    SHARED.write().get_or_insert_with(HashMap::new).insert(entry, bytes as u32);
    Ok(())
}

/// Blocks of `threads` threads that can run at the same time on a device.
pub fn resident(threads: u64) -> u64 {
    u64::from(config().resident).min(u64::from(MAX_LIVE_THREADS) / threads.max(1))
}

/// Queues a launch.
///
/// # Errors
/// `InvalidConfiguration`, `InvalidValue`, `CooperativeLaunchTooLarge`, `InvalidResourceHandle`; the device's sticky error.
///
/// # Safety
/// As runtime.h asks of `ginrs_cpu_launch`.
pub unsafe fn launch(info: &LaunchInfo) -> Result {
    // First of all: it is ours to destroy, whatever happens.
    let packed = Packed::new(info.packed, info.kernel.destroy);
    let device = crate::device::current()?;
    device.healthy()?;
    crate::race::launches();
    let launch = Launch {
        name: text(info.kernel.name, "(unnamed)"),
        invoke: info.kernel.invoke.ok_or(Code::INVALID_DEVICE_FUNCTION)?,
        packed,
        grid: info.grid,
        block: info.block,
        shared_bytes: info.shared_bytes as u32,
        cooperative: info.flags & COOPERATIVE != 0,
        clusters: info.flags & CLUSTERS != 0,
        place: Place::new(std::ptr::null(), info.file, info.line),
        touched: crate::race::collectives::touched(),
        number: crate::timeline::number(),
    };
    check(&launch, info)?;
    let stream = find_on(info.stream as usize, device)?;
    crate::timeline::launched(&launch, device.id);
    stream.push(Work::Kernel(Arc::new(launch)))
}

fn check(launch: &Launch, info: &LaunchInfo) -> Result {
    let (grid, block) = (launch.grid, launch.block);
    let refuse = |code: Code, wrong: String| refuse(code, &format!("{}: {wrong}", launch.describe()));
    if grid.count() == 0 || grid.x > i32::MAX as u32 || grid.y > 65535 || grid.z > 65535 {
        return refuse(
            Code::INVALID_CONFIGURATION,
            format!("a grid of {grid} blocks\nfix: each extent at least 1, at most (2147483647,65535,65535)"),
        );
    }
    if block.count() == 0 || block.count() > u64::from(MAX_BLOCK_THREADS) || block.z > 64 {
        return refuse(
            Code::INVALID_CONFIGURATION,
            format!("a block of {block} threads\nfix: each extent at least 1, at most (1024,1024,64), 1024 in all"),
        );
    }
    let bound = bound(info.kernel.entry as usize);
    if block.count() > u64::from(bound) {
        return refuse(
            Code::INVALID_VALUE,
            format!(
                "a block of {block} threads, its __launch_bounds__ allow {bound}\nfix: smaller blocks, or a larger bound: a GPU refuses this launch"
            ),
        );
    }
    let limit = if info.kernel.entry.is_null() { SHARED_BYTES_OPTIN } else { shared_limit(info.kernel.entry as usize) };
    if info.shared_bytes > limit {
        return refuse(
            Code::INVALID_VALUE,
            format!(
                "{} bytes of dynamic shared memory, {limit} are allowed\n\
                 fix: cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n), n up to {SHARED_BYTES_OPTIN}",
                info.shared_bytes
            ),
        );
    }
    if launch.cooperative && grid.count() > resident(block.count()) {
        return refuse(
            Code::COOPERATIVE_LAUNCH_TOO_LARGE,
            format!(
                "a cooperative grid of {} blocks, {} of that size run at the same time\nfix: fewer blocks, or raise GINRS_CPU_RESIDENT",
                grid.count(),
                resident(block.count())
            ),
        );
    }
    Ok(())
}
