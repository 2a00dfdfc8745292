//! Launches by address, kernel attributes, occupancy.

use std::cell::Cell;
use std::ffi::{c_char, c_void};

use super::{give, need};
use crate::api::properties::blocks_per_multiprocessor;
use crate::config::{MAX_BLOCK_THREADS, SHARED_BYTES_OPTIN};
use crate::entry::{entry, entry_on_device};
use crate::error::{Code, Result, refuse};
use crate::kernel::{CLUSTERS, COOPERATIVE, LaunchInfo, bound, find, launch, set_shared_limit, shared_limit};
use crate::launch::Dim3;

/// `cudaFuncAttributes`
#[repr(C)]
pub struct FuncAttributes {
    shared: usize,
    constant: usize,
    local: usize,
    max_threads: i32,
    registers: i32,
    ptx_version: i32,
    binary_version: i32,
    cache_mode: i32,
    max_dynamic_shared: i32,
    carveout: i32,
    cluster: [i32; 6],
    reserved: [i32; 16],
}

/// `cudaLaunchAttribute`
#[repr(C)]
pub struct LaunchAttribute {
    id: i32,
    pad: [u8; 4],
    value: [u32; 16],
}

/// `cudaLaunchConfig_t`
#[repr(C)]
pub struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: *mut c_void,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

const _: () =
    assert!(size_of::<FuncAttributes>() == 144 && size_of::<LaunchAttribute>() == 72 && size_of::<LaunchConfig>() == 56);

/// Where a launch is called: file and line.
type Caller = (*const c_char, i32);

thread_local! {
    static CALLER: Cell<Option<Caller>> = const { Cell::new(None) };
}

/// See api_kernel.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_launched_at(file: *const c_char, line: i32) {
    CALLER.set(Some((file, line)));
}

/// Who calls; C code does not say.
fn caller() -> Caller {
    CALLER.take().unwrap_or((c"cudaLaunchKernel".as_ptr(), 0))
}

unsafe fn launch_entry(
    (file, line): Caller,
    entry: *const c_void,
    (grid, block): (Dim3, Dim3),
    arguments: *mut *mut c_void,
    shared_bytes: usize,
    stream: *mut c_void,
    flags: u32,
) -> Result {
    let kernel = find(entry as usize)?;
    let Some(pack) = kernel.pack else {
        return refuse(
            Code::INVALID_DEVICE_FUNCTION,
            &format!(
                "kernel {} takes arguments that cannot be copied from an array\nfix: launch it with <<<>>>",
                crate::launch::text(kernel.name, "?")
            ),
        );
    };
    // SAFETY: the caller gives the kernel's arguments; pack copies them.
    let packed = unsafe { pack(arguments) };
    let info = LaunchInfo { kernel, packed, grid, block, shared_bytes, stream, flags, file, line };
    // SAFETY: pack, invoke and destroy are of one kernel.
    unsafe { launch(&info) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchKernel(
    entry_point: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: *mut c_void,
) -> i32 {
    // SAFETY: see the module `api`, also below.
    entry(|| unsafe { launch_entry(caller(), entry_point, (grid, block), arguments, shared, stream, 0) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchCooperativeKernel(
    entry_point: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: *mut c_void,
) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { launch_entry(caller(), entry_point, (grid, block), arguments, shared, stream, COOPERATIVE) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchKernelExC(
    config: *const LaunchConfig,
    entry_point: *const c_void,
    arguments: *mut *mut c_void,
) -> i32 {
    entry(|| {
        let caller = caller();
        // SAFETY: as above.
        let config = unsafe { config.as_ref() }.ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the caller gives that many attributes.
        let flags = unsafe { flags_of(config)? };
        // SAFETY: as above.
        unsafe { launch_entry(caller, entry_point, (config.grid, config.block), arguments, config.shared, config.stream, flags) }
    })
}

/// What the attributes ask for. Hints are taken and have no effect; what would change a result is refused.
unsafe fn flags_of(config: &LaunchConfig) -> Result<u32> {
    let mut flags = 0;
    for i in 0..config.attribute_count as usize {
        // SAFETY: the caller's.
        let attribute = unsafe { &*config.attributes.add(i) };
        match attribute.id {
            2 if attribute.value[0] != 0 => flags |= COOPERATIVE,
            // Blocks that are only to be scheduled together run as they are: a kernel that asks for its cluster traps.
            4 if attribute.value[..3] != [1, 1, 1] => {
                check_cluster(Dim3 { x: attribute.value[0], y: attribute.value[1], z: attribute.value[2] }, config.grid)?;
                flags |= CLUSTERS;
            }
            7 | 12 | 13 => {
                return refuse(
                    Code::NOT_SUPPORTED,
                    &format!("launch attribute {}: the CPU device does not have it", attribute.id),
                );
            }
            0..=16 => {}
            other => return refuse(Code::INVALID_VALUE, &format!("launch attribute {other} does not exist")),
        }
    }
    Ok(flags)
}

/// As a GPU does: at most 16 blocks (above 8 where the kernel allows it, which nothing depends on here), the grid in whole clusters.
fn check_cluster(cluster: Dim3, grid: Dim3) -> Result {
    let whole = |blocks: u32, of: u32| of != 0 && blocks.is_multiple_of(of);
    if cluster.count() <= 16 && whole(grid.x, cluster.x) && whole(grid.y, cluster.y) && whole(grid.z, cluster.z) {
        return Ok(());
    }
    refuse(
        Code::INVALID_CLUSTER_SIZE,
        &format!(
            "cudaLaunchAttributeClusterDimension: clusters of {cluster} blocks in a grid of {grid}\n\
             fix: at most 16 blocks in a cluster, and a grid whose extents are multiples of the cluster's"
        ),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncSetAttribute(entry_point: *const c_void, attribute: i32, value: i32) -> i32 {
    entry_on_device(|_| match attribute {
        8 => set_shared_limit(entry_point as usize, value),
        9..=15 => Ok(()), // carveout and cluster hints
        _ => Err(Code::INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFuncGetAttributes(out: *mut FuncAttributes, entry_point: *const c_void) -> i32 {
    entry_on_device(|_| {
        let attributes = FuncAttributes {
            shared: 0,
            constant: 0,
            local: 0,
            max_threads: bound(entry_point as usize) as i32,
            registers: 32,
            ptx_version: 90,
            binary_version: 90,
            cache_mode: 0,
            max_dynamic_shared: shared_limit(entry_point as usize) as i32,
            carveout: -1,
            cluster: [0; 6],
            reserved: [0; 16],
        };
        // SAFETY: as above.
        unsafe { give(out, attributes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFuncGetName(out: *mut *const c_char, entry_point: *const c_void) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, find(entry_point as usize)?.name) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncSetCacheConfig(_entry_point: *const c_void, _config: i32) -> i32 {
    entry_on_device(|_| Ok(()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncSetSharedMemConfig(_entry_point: *const c_void, _config: i32) -> i32 {
    entry_on_device(|_| Ok(()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    out: *mut i32,
    entry_point: *const c_void,
    block_size: i32,
    shared: usize,
) -> i32 {
    // SAFETY: as above.
    unsafe { cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, entry_point, block_size, shared, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    out: *mut i32,
    entry_point: *const c_void,
    block_size: i32,
    shared: usize,
    _flags: u32,
) -> i32 {
    entry_on_device(|_| {
        need(out)?;
        if block_size < 1 {
            return refuse(Code::INVALID_VALUE, &format!("an occupancy query for blocks of {block_size} threads"));
        }
        let fits = block_size <= MAX_BLOCK_THREADS as i32 && shared <= shared_limit(entry_point as usize);
        // SAFETY: as above.
        unsafe { give(out, if fits { blocks_per_multiprocessor() } else { 0 }) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaOccupancyAvailableDynamicSMemPerBlock(
    out: *mut usize,
    _entry_point: *const c_void,
    _blocks: i32,
    _block_size: i32,
) -> i32 {
    // SAFETY: as above. Every block thread has all of it.
    entry_on_device(|_| unsafe { give(out, SHARED_BYTES_OPTIN) })
}
