//! What a CPU device says of itself. What a CPU has no notion of is 0.

use crate::config::{MAX_BLOCK_THREADS, SHARED_BYTES, SHARED_BYTES_OPTIN, config};
use crate::device::Device;
use crate::error::{Code, Result};
use crate::memory;

/// Compute capability: what the headers' `__CUDA_ARCH__` of 900 says.
const MAJOR: i32 = 9;
const MINOR: i32 = 0;
const MAX_GRID: [i32; 3] = [i32::MAX, 65535, 65535];
const MAX_BLOCK: [i32; 3] = [1024, 1024, 64];
const REGISTERS: i32 = 65536;
/// A real device has 2048 per multiprocessor; grids made from this figure fit the resident blocks from 64 threads on.
const THREADS_PER_MULTIPROCESSOR: i32 = 2048;
const CONSTANT_BYTES: i32 = 64 << 10;

/// Multiprocessors: 16, fewer if fewer blocks are resident. Resident blocks are this times [`blocks_per_multiprocessor`].
pub fn multiprocessors() -> i32 {
    config().resident.min(16) as i32
}

/// Blocks of any size that one of them runs at the same time.
pub fn blocks_per_multiprocessor() -> i32 {
    config().resident as i32 / multiprocessors()
}

/// Whether kernels may use memory of the host that nobody has registered: not where that is told as a mistake, so that a program which asks takes
/// the other way.
fn takes_pageable() -> i32 {
    i32::from(!crate::race::on())
}

/// "0000:c0:07.0": made up, and different for each device of a process.
pub fn bus_id(id: i32) -> String {
    format!("0000:{:02x}:{:02x}.0", bus(id), id % 32)
}

fn bus(id: i32) -> i32 {
    0xc0 + id / 32
}

/// `cudaDeviceProp` of CUDA 13.0.
#[allow(missing_docs, reason = "the names are CUDA's")]
#[repr(C)]
pub struct DeviceProp {
    pub name: [u8; 256],
    pub uuid: [u8; 16],
    pub luid: [u8; 8],
    pub luid_node_mask: u32,
    pub total_memory: usize,
    pub shared_per_block: usize,
    pub regs_per_block: i32,
    pub warp_size: i32,
    pub mem_pitch: usize,
    pub max_threads_per_block: i32,
    pub max_threads_dim: [i32; 3],
    pub max_grid_size: [i32; 3],
    pub total_const_mem: usize,
    pub major: i32,
    pub minor: i32,
    pub texture_alignment: usize,
    pub texture_pitch_alignment: usize,
    pub multiprocessors: i32,
    pub integrated: i32,
    pub can_map_host_memory: i32,
    pub textures_and_surfaces: [i32; 39],
    pub surface_alignment: usize,
    pub concurrent_kernels: i32,
    pub ecc_enabled: i32,
    pub pci_bus: i32,
    pub pci_device: i32,
    pub pci_domain: i32,
    pub tcc_driver: i32,
    pub async_engines: i32,
    pub unified_addressing: i32,
    pub memory_bus_width: i32,
    pub l2_cache_size: i32,
    pub persisting_l2: i32,
    pub threads_per_multiprocessor: i32,
    pub stream_priorities: i32,
    pub l1_caches: [i32; 2],
    pub shared_per_multiprocessor: usize,
    pub regs_per_multiprocessor: i32,
    pub managed_memory: i32,
    pub multi_gpu_board: [i32; 2],
    pub host_native_atomics: i32,
    pub pageable_memory_access: i32,
    pub concurrent_managed_access: i32,
    pub compute_preemption: i32,
    pub host_pointer_for_registered: i32,
    pub cooperative_launch: i32,
    pub shared_per_block_optin: usize,
    pub pageable_uses_host_tables: i32,
    pub direct_managed_access: i32,
    pub blocks_per_multiprocessor: i32,
    pub access_policy_window: i32,
    pub reserved_shared_per_block: usize,
    pub host_register: i32,
    pub sparse_arrays: i32,
    pub host_register_read_only: i32,
    pub timeline_semaphores: i32,
    pub memory_pools: i32,
    pub gpu_direct: [i32; 3],
    pub pool_handle_types: u32,
    pub deferred_mapping: i32,
    pub ipc_events: i32,
    pub cluster_launch: i32,
    pub unified_function_pointers: i32,
    pub numa: [i32; 2],
    pub mps: i32,
    pub host_numa: i32,
    pub pci_ids: [u32; 2],
    pub host_numa_multinode: i32,
    pub reserved: [i32; 56],
}

// The layout of CUDA 13.0: whole, and where alignment could move something.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<DeviceProp>() == 1008);
    assert!(offset_of!(DeviceProp, multiprocessors) == 384);
    assert!(offset_of!(DeviceProp, surface_alignment) == 552);
    assert!(offset_of!(DeviceProp, shared_per_multiprocessor) == 624);
    assert!(offset_of!(DeviceProp, shared_per_block_optin) == 672);
    assert!(offset_of!(DeviceProp, reserved_shared_per_block) == 696);
    assert!(offset_of!(DeviceProp, pool_handle_types) == 736);
    assert!(offset_of!(DeviceProp, reserved) == 784);
};

/// The properties of `device`.
pub fn of(device: &Device) -> DeviceProp {
    // SAFETY: integers and arrays of integers: zeros are a value.
    let mut p: DeviceProp = unsafe { std::mem::zeroed() };
    let name = format!("ginrs CPU device {}", device.id);
    p.name[..name.len()].copy_from_slice(name.as_bytes());
    p.uuid[..6].copy_from_slice(b"ginrs\0");
    p.uuid[12..].copy_from_slice(&device.id.to_be_bytes());
    p.total_memory = memory::total();
    p.shared_per_block = SHARED_BYTES;
    p.shared_per_block_optin = SHARED_BYTES_OPTIN;
    p.shared_per_multiprocessor = SHARED_BYTES_OPTIN + 1024;
    p.reserved_shared_per_block = 1024;
    (p.regs_per_block, p.regs_per_multiprocessor) = (REGISTERS, REGISTERS);
    p.warp_size = 32;
    p.mem_pitch = i32::MAX as usize;
    p.max_threads_per_block = MAX_BLOCK_THREADS as i32;
    (p.max_threads_dim, p.max_grid_size) = (MAX_BLOCK, MAX_GRID);
    p.total_const_mem = CONSTANT_BYTES as usize;
    (p.major, p.minor) = (MAJOR, MINOR);
    (p.texture_alignment, p.texture_pitch_alignment, p.surface_alignment) = (512, 32, 512);
    p.multiprocessors = multiprocessors();
    p.blocks_per_multiprocessor = blocks_per_multiprocessor();
    p.threads_per_multiprocessor = THREADS_PER_MULTIPROCESSOR;
    (p.pci_bus, p.pci_device) = (bus(device.id), device.id % 32);
    p.async_engines = 2;
    (p.can_map_host_memory, p.concurrent_kernels, p.unified_addressing, p.managed_memory) = (1, 1, 1, 1);
    (p.host_native_atomics, p.pageable_memory_access, p.pageable_uses_host_tables) = (1, takes_pageable(), takes_pageable());
    (p.concurrent_managed_access, p.direct_managed_access, p.host_pointer_for_registered) = (1, 1, 1);
    (p.compute_preemption, p.cooperative_launch, p.stream_priorities) = (1, 1, 1);
    (p.host_register, p.memory_pools, p.unified_function_pointers) = (1, 1, 1);
    p
}

/// One attribute of `device`, by its `cudaDeviceAttr` number.
///
/// # Errors
/// `InvalidValue` for a number that CUDA 13.0 does not have.
pub fn attribute(device: &Device, attribute: i32) -> Result<i32> {
    Ok(match attribute {
        1 => MAX_BLOCK_THREADS as i32,
        2..=4 => MAX_BLOCK[attribute as usize - 2],
        5..=7 => MAX_GRID[attribute as usize - 5],
        8 => SHARED_BYTES as i32,
        9 => CONSTANT_BYTES,
        10 => 32,
        11 => i32::MAX,
        12 | 82 => REGISTERS,
        13 | 36 => 1_000_000, // clock rates, kHz: clock64() counts nanoseconds
        14 | 30 => 512,
        16 => multiprocessors(),
        33 => bus(device.id),
        34 => device.id % 32,
        39 => THREADS_PER_MULTIPROCESSOR,
        40 => 2,
        51 => 32,
        75 => MAJOR,
        76 => MINOR,
        81 => SHARED_BYTES_OPTIN as i32 + 1024,
        97 => SHARED_BYTES_OPTIN as i32,
        106 => blocks_per_multiprocessor(),
        111 => 1024,
        // Overlap, mapped host memory, concurrent kernels, unified addressing, priorities, managed memory, atomics,
        // preemption, registered pointers, cooperative launch, registration, pools, function pointers, multicast, virtual memory.
        15 | 19 | 31 | 41 | 78 | 83 | 86 | 89 | 90 | 91 | 95 | 99 | 101 | 102 | 115 | 129 | 132 => 1,
        88 | 100 => takes_pageable(),
        126 => 1,        // one domain of memory synchronisation
        131 | 134 => -1, // no NUMA node of its own
        ..1 | 148.. => return Err(Code::INVALID_VALUE),
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_and_attributes_agree() {
        let device = crate::device::get(1).unwrap();
        let p = of(device);
        let agree = [
            (1, p.max_threads_per_block),
            (16, p.multiprocessors),
            (33, p.pci_bus),
            (34, p.pci_device),
            (39, p.threads_per_multiprocessor),
            (97, p.shared_per_block_optin as i32),
            (106, p.blocks_per_multiprocessor),
            (95, p.cooperative_launch),
            (86, p.host_native_atomics),
            (129, p.unified_function_pointers),
        ];
        for (number, value) in agree {
            assert_eq!(attribute(device, number), Ok(value), "attribute {number}");
        }
        assert_eq!(attribute(device, 0), Err(Code::INVALID_VALUE));
        assert_ne!(bus_id(1), bus_id(33));
        assert_eq!(bus_id(7), "0000:c0:07.0");
    }
}
