//! Physical memory of a GPU: a cuMem allocation, with a descriptor for other processes.

use super::driver::{code, cu, driver};
use super::{CudaDevice, Facts};
use crate::device::memory::next_key;
use crate::device::{DevPtr, Physical};
use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, PerProcess};
use crate::{bail, info};
use cudarc::driver::sys::{CUdevice, CUmemAllocationHandleType, CUmemAllocationProp, CUmemGenericAllocationHandle};
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and CU_MEM_HANDLE_TYPE_FABRIC.
pub const POSIX_FD: u32 = 1;
const FABRIC: u32 = 8;

/// CUmemAllocationProp with plain numbers: a driver may answer with combinations and kinds that cudarc's enums do not have.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Properties {
    kind: c_int,
    handles: u32,
    location: c_int,
    ordinal: c_int,
    windows: u64,
    compression: u8,
    rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

const _: () = assert!(size_of::<Properties>() == size_of::<CUmemAllocationProp>());
const _: () = assert!(align_of::<Properties>() == align_of::<CUmemAllocationProp>());

impl Properties {
    /// Memory pinned on `device`, with a descriptor.
    pub fn pinned(device: CUdevice, rdma: bool, fabric: bool) -> Self {
        let handles = if fabric { POSIX_FD | FABRIC } else { POSIX_FD };
        // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE.
        Self { kind: 1, handles, location: 1, ordinal: device, rdma: rdma.into(), ..Self::default() }
    }

    /// As the driver takes it.
    pub fn raw(&self) -> *const CUmemAllocationProp {
        std::ptr::from_ref(self).cast()
    }
}

/// One reference to a cuMem allocation.
pub struct CudaPhysical {
    handle: CUmemGenericAllocationHandle,
    bytes: usize,
    key: u64,
    foreign: bool,
    /// Holds what was another's.
    dirty: AtomicBool,
}

/// Every live allocation of this process by its handle: the driver gives one value for one allocation, however it was found.
static LIVE: PerProcess<Mutex<BTreeMap<CUmemGenericAllocationHandle, Weak<CudaPhysical>>>> = PerProcess::new();

impl CudaPhysical {
    /// New memory on `device`, whatever it holds. `bytes` is rounded up to the granularity.
    pub fn create(device: &CudaDevice, bytes: usize) -> Result<Arc<Self>> {
        let Facts { granularity, rdma, .. } = device.facts;
        let Some(rounded) = bytes.max(1).checked_next_multiple_of(granularity).filter(|&n| i64::try_from(n).is_ok()) else {
            bail!(InvalidArgument, 72, "allocation is too large | {bytes} bytes | fix: ask for less");
        };
        let driver = driver()?;
        let mut handle = 0;
        let mut create = || {
            let properties = Properties::pinned(device.context.device, rdma, device.fabric.load(Ordering::Relaxed));
            // SAFETY: a valid place to write to and valid properties.
            unsafe { (driver.f.cuMemCreate)(&mut handle, rounded, properties.raw(), 0) }
        };
        let mut result = create();
        if matches!(result, code::NOT_PERMITTED | code::NOT_SUPPORTED) && device.fabric.swap(false, Ordering::Relaxed) {
            let why = driver.describe(result);
            info!(INIT, "CUDA device {}: memory without fabric handles: {why}", device.context.device);
            result = create();
        }
        if result == code::OUT_OF_MEMORY {
            // What a communicator held may be on its way out.
            device.reap();
            result = create();
        }
        match result {
            0 => Ok(Self::enlist(handle, rounded, false)),
            code::OUT_OF_MEMORY => Err(no_memory(device, rounded)),
            result => Err(driver.error("cuMemCreate", result)),
        }
    }

    /// Memory of another process. A descriptor that is none of the driver's is the driver's error.
    pub fn import(fd: &OwnedFd, bytes: usize) -> Result<Arc<Self>> {
        let mut handle = 0;
        let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        // SAFETY: a valid place to write to; for this kind the descriptor itself stands in the pointer. It stays ours.
        unsafe { cu!(cuMemImportFromShareableHandle(&mut handle, fd.as_raw_fd() as usize as *mut _, kind)) }?;
        Ok(Self::enlist(handle, bytes, true))
    }

    /// What is mapped at `ptr`: None if it is no cuMem memory.
    pub fn at(ptr: DevPtr, bytes: usize) -> Result<Option<(Arc<Self>, Properties)>> {
        let driver = driver()?;
        let (mut handle, mut properties) = (0, Properties::default());
        // SAFETY: a valid place to write to; the driver compares the address, it does not use it.
        if unsafe { (driver.f.cuMemRetainAllocationHandle)(&mut handle, ptr as *mut _) } != 0 {
            return Ok(None);
        }
        let memory = Self::enlist(handle, bytes, false);
        // SAFETY: the handle is retained; the twin has the size of the driver's struct.
        unsafe { cu!(cuMemGetAllocationPropertiesFromHandle((&raw mut properties).cast(), memory.handle)) }?;
        Ok(Some((memory, properties)))
    }

    /// Takes one reference over; a second one to memory that is known goes back at once.
    pub(super) fn enlist(handle: CUmemGenericAllocationHandle, bytes: usize, foreign: bool) -> Arc<Self> {
        let mut live = LIVE.lock();
        if let Some(known) = live.get(&handle).and_then(Weak::upgrade) {
            drop(live);
            release(handle);
            return known;
        }
        let memory = Arc::new(Self { handle, bytes, key: next_key(), foreign, dirty: AtomicBool::new(false) });
        live.insert(handle, Arc::downgrade(&memory));
        memory
    }

    /// From now on [`CudaPhysical::take_dirty`] is true, once.
    pub fn set_dirty(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }

    /// True for who maps it first on the device that it lies on: the caller zeroes it.
    pub fn take_dirty(&self, device: CUdevice) -> bool {
        self.dirty.load(Ordering::Relaxed) && self.home() == Some(device) && self.dirty.swap(false, Ordering::Relaxed)
    }

    /// Came from another process.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// The GPU whose memory it is; None for memory of another kind, or if the driver does not say.
    pub fn home(&self) -> Option<CUdevice> {
        let mut properties = Properties::default();
        // SAFETY: the handle is retained; the twin has the size of the driver's struct.
        unsafe { cu!(cuMemGetAllocationPropertiesFromHandle((&raw mut properties).cast(), self.handle)) }.ok()?;
        // CU_MEM_LOCATION_TYPE_DEVICE.
        (properties.location == 1).then_some(properties.ordinal)
    }

    /// For `cuMemMap`.
    pub fn handle(&self) -> CUmemGenericAllocationHandle {
        self.handle
    }
}

impl Properties {
    /// Other processes can be given this memory.
    pub fn exportable(&self) -> bool {
        self.handles & POSIX_FD != 0
    }
}

fn release(handle: CUmemGenericAllocationHandle) {
    // SAFETY: one reference is given back for one taken. The driver may be shut down already: then all memory has gone.
    let _ = unsafe { cu!(cuMemRelease(handle)) };
}

/// Free memory and all of it, in bytes.
fn info(device: &CudaDevice) -> Result<(usize, usize)> {
    let (mut free, mut total) = (0, 0);
    let _inside = device.context.enter()?;
    // SAFETY: valid places to write to.
    unsafe { cu!(cuMemGetInfo_v2(&mut free, &mut total)) }?;
    Ok((free, total))
}

/// See [`crate::device::Memory::free_memory`].
pub fn free(device: &CudaDevice) -> Option<u64> {
    info(device).ok().map(|(free, _)| free as u64)
}

fn no_memory(device: &CudaDevice, bytes: usize) -> Error {
    let (free, total) = info(device).unwrap_or_default();
    Error::new(
        Code::UnhandledCudaError,
        72,
        format!(
            "no device memory for an allocation | {bytes} bytes asked on device {}, {free} of {total} free | fix: free memory or \
             ask for less; nvidia-smi shows who has it",
            device.context.device
        ),
    )
}

impl Drop for CudaPhysical {
    fn drop(&mut self) {
        // Under the lock: nobody may be given the same handle value meanwhile and then find our dead entry gone.
        let mut live = LIVE.lock();
        release(self.handle);
        if live.get(&self.handle).is_some_and(|known| known.strong_count() == 0) {
            live.remove(&self.handle);
        }
    }
}

impl Physical for CudaPhysical {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn export(&self) -> Result<OwnedFd> {
        let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        let mut fd: c_int = -1;
        // SAFETY: for this kind the driver writes an int.
        unsafe { cu!(cuMemExportToShareableHandle((&raw mut fd).cast(), self.handle, kind, 0)) }?;
        // SAFETY: a new descriptor, ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // The driver's is not close-on-exec everywhere.
        match rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC) {
            Ok(()) => Ok(fd),
            Err(e) => bail!(SystemError, 24, "a descriptor of device memory cannot be used | {e} | fix: report this"),
        }
    }

    fn host(&self) -> Option<NonNull<u8>> {
        None
    }

    fn device_address(&self) -> Option<DevPtr> {
        None
    }

    fn key(&self) -> u64 {
        self.key
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
