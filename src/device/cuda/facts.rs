//! What a device is and can do, asked once.

use super::driver::{Driver, cu, driver};
use super::memory::Properties;
use crate::error::Result;
use crate::info;
use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUdevice_attribute_enum as Attribute, CUmemAllocationGranularity_flags};
use std::ffi::{CStr, c_int};

/// Facts of one device.
pub struct Facts {
    /// Name, for messages.
    pub name: String,
    /// Domain, bus and device as sysfs names it: `0000:c3:00.0`.
    pub pci: String,
    /// The same as a number.
    pub bus_id: u64,
    /// Bytes of memory.
    pub total_memory: u64,
    /// Granularity of physical memory, in bytes.
    pub granularity: usize,
    /// Physical memory may be asked to serve RDMA.
    pub rdma: bool,
    /// Physical memory is also asked for a fabric handle.
    pub fabric: bool,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// cuStreamWriteValue64 works.
    pub write_value: bool,
    /// A kernel is loaded at its first launch.
    pub lazy: bool,
}

/// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, newer than the oldest driver.
const FABRIC_SUPPORTED: c_int = 128;

impl Facts {
    /// Asks the driver.
    pub fn of(device: CUdevice) -> Result<Self> {
        let mut name = [0; 96];
        // SAFETY: the driver writes at most that many bytes, terminated.
        unsafe { cu!(cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device)) }?;
        // SAFETY: terminated as above.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let domain = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)? as u64;
        let bus = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)? as u64;
        let slot = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)? as u64;
        let vmm = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)? != 0;
        if !vmm {
            crate::bail!(
                UnhandledCudaError,
                70,
                "device has no virtual memory management | {name} at {domain:04x}:{bus:02x}:{slot:02x} | windows are mapped with it | \
                 fix: use another GPU"
            );
        }
        let (mut total, mut granularity) = (0, 0);
        let rdma = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)? != 0;
        let properties = Properties::pinned(device, rdma, false);
        let recommended = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: valid places to write to and to read from.
        unsafe {
            cu!(cuDeviceTotalMem_v2(&mut total, device))?;
            cu!(cuMemGetAllocationGranularity(&mut granularity, properties.raw(), recommended))?;
        }
        let fabric = fabric(device)?;
        let lazy = loads_lazily(driver()?);
        info!(
            INIT,
            "CUDA device {device}: {name}, {domain:04x}:{bus:02x}:{slot:02x}.0, {} MiB, driver for CUDA {}.{}; GPUDirect RDMA {}; {}{}",
            total >> 20,
            driver()?.version / 1000,
            driver()?.version % 1000 / 10,
            if rdma { "possible" } else { "not possible" },
            fabric.as_ref().err().map_or("fabric handles asked for", |why| *why),
            if lazy {
                "; modules load LAZILY: launch each kernel once before one that waits for puts (see docs/environment.md)"
            } else {
                ""
            }
        );
        Ok(Self {
            name,
            pci: format!("{domain:04x}:{bus:02x}:{slot:02x}.0"),
            bus_id: domain << 16 | bus << 8 | slot << 3,
            total_memory: total as u64,
            granularity,
            rdma,
            fabric: fabric.is_ok(),
            multiprocessors: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(0) as u32,
            write_value: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)? != 0,
            lazy,
        })
    }
}

/// Whether memory can have fabric handles (for GPUs of other hosts on one NVLink fabric), or why not.
fn fabric(device: CUdevice) -> Result<std::result::Result<(), &'static str>> {
    if attribute_by_number(device, FABRIC_SUPPORTED).unwrap_or(0) == 0 {
        return Ok(Err("no fabric handles: the device has none"));
    }
    let channels = std::fs::read_dir("/dev/nvidia-caps-imex-channels").map_or(0, |entries| entries.flatten().count());
    if channels == 0 {
        return Ok(Err("no fabric handles: no IMEX channel in /dev/nvidia-caps-imex-channels"));
    }
    Ok(Ok(()))
}

/// True if kernels are loaded at their first launch (`eager.rs` says why that matters), as far as the driver says.
fn loads_lazily(driver: &Driver) -> bool {
    let ask = driver.newer(c"cuModuleGetLoadingMode", 11070);
    if ask.is_null() {
        return false;
    }
    // SAFETY: the signature that CUDA 11.7 gives this name; the enum is written as the int that it is to C.
    let ask: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(ask) };
    let mut mode = 0;
    // SAFETY: a valid place to write to. CU_MODULE_LAZY_LOADING is 2.
    unsafe { ask(&mut mode) == 0 && mode == 2 }
}

/// One attribute.
pub fn attribute(device: CUdevice, which: CUdevice_attribute) -> Result<c_int> {
    let mut value = 0;
    // SAFETY: a valid place to write to.
    unsafe { cu!(cuDeviceGetAttribute(&mut value, which, device)) }?;
    Ok(value)
}

/// For attributes that the table's enum does not have.
fn attribute_by_number(device: CUdevice, which: c_int) -> Result<c_int> {
    let driver = driver()?;
    let mut value = 0;
    // SAFETY: the enum is passed as the int that C passes; an unknown number is an error code.
    let result = unsafe {
        let ask: unsafe extern "C" fn(*mut c_int, c_int, CUdevice) -> c_int = std::mem::transmute(driver.f.cuDeviceGetAttribute);
        ask(&mut value, which, device)
    };
    driver.check("cuDeviceGetAttribute", result)?;
    Ok(value)
}
