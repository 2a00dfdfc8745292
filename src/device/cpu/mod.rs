//! The CPU device: memory is sealed memfd, kernels run on the CPU, and a device address is a host address.

mod allocations;
mod caller;
mod copies;
mod ends;
mod kernels;
mod multicast;
mod runtime;
mod space;
pub mod waits;

pub use caller::{call_site, calling_line, is_in_host_function, line_at, note_call};
pub use runtime::{
    Bounds, Race, RaceWindow, is_sanitized, race_join, race_offer, tell_bounds, tell_comm, tell_family, tell_landing,
    tell_mapped, tell_race, tell_registered, tell_unmapped,
};
pub use space::{CpuReservation, mappings};

use super::memfd::{GRANULARITY, Memfd};
use super::{
    Allocated, Allocation, ControlMemory, DevPtr, Device, DeviceMemory, Execution, Exposed, Holding, Kernels, Kind, Lifetime,
    Mapped, Memory, Multicast, Physical, PostBell, Reservation, Targets, graveyard, limits,
};
use crate::bail;
use crate::config;
use crate::error::Result;
use std::any::Any;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// One CPU device. Devices of a process differ only in their number.
pub struct CpuDevice {
    ordinal: i32,
}

thread_local! {
    // Without the stand-in nobody else keeps the calling thread's device.
    static CURRENT: Cell<Option<i32>> = const { Cell::new(None) };
}

/// True if the stand-in CUDA runtime is in this process.
pub fn stand_in_present() -> bool {
    runtime::find().is_some()
}

/// Devices that this process sees: the stand-in's answer, else GINRS_CPU_DEVICES, else LOCAL_WORLD_SIZE, else 8.
pub fn count() -> i32 {
    match runtime::find() {
        Some(runtime) => runtime.device_count(),
        None => positive("GINRS_CPU_DEVICES").or_else(|| positive("LOCAL_WORLD_SIZE")).unwrap_or(8),
    }
}

/// The calling thread's device number; without the stand-in it starts as LOCAL_RANK.
pub fn current() -> i32 {
    match runtime::find() {
        Some(runtime) => runtime.current_device(),
        None => CURRENT.get().unwrap_or_else(|| positive("LOCAL_RANK").filter(|&n| n < count()).unwrap_or(0)),
    }
}

/// Makes `ordinal` the calling thread's device. It must be below [`count`].
pub fn set_current(ordinal: i32) -> Result<()> {
    match runtime::find().map(|runtime| runtime.set_device(ordinal)) {
        Some(0) => Ok(()),
        Some(error) => {
            bail!(UnhandledCudaError, 68, "cudaSetDevice({ordinal}) failed | error {error} | fix: see GINRS_CPU_DEVICES")
        }
        None => {
            CURRENT.set(Some(ordinal));
            Ok(())
        }
    }
}

fn positive(name: &str) -> Option<i32> {
    i32::try_from(config::int(name)).ok().filter(|&n| n > 0)
}

impl CpuDevice {
    /// Device number `ordinal`, not checked against [`count`].
    pub fn new(ordinal: i32) -> Arc<Self> {
        Arc::new(Self { ordinal })
    }
}

impl Device for CpuDevice {
    fn kind(&self) -> Kind {
        Kind::Cpu
    }

    fn ordinal(&self) -> i32 {
        self.ordinal
    }

    fn bus_id(&self) -> u64 {
        // Domain 0, bus from 0xc0, 32 devices on each: as cudaDeviceGetPCIBusId of the stand-in prints it.
        let ordinal = self.ordinal as u64;
        (0xc0 + ordinal / 32) << 8 | (ordinal % 32) << 3
    }
}

impl Memory for CpuDevice {
    fn total_memory(&self) -> u64 {
        limits::total_memory()
    }

    fn granularity(&self) -> usize {
        GRANULARITY
    }

    fn create(&self, bytes: usize) -> Result<Arc<dyn Physical>> {
        Ok(Memfd::create(bytes)?)
    }

    fn import(&self, fd: OwnedFd, bytes: usize) -> Result<Arc<dyn Physical>> {
        Ok(Memfd::import(fd, bytes)?)
    }

    fn create_shared(&self, bytes: usize) -> Result<Arc<dyn Physical>> {
        self.create(bytes)
    }

    fn create_sparse(&self, bytes: usize) -> Result<Arc<dyn Physical>> {
        Ok(Memfd::create_sparse(bytes)?)
    }

    fn import_shared(&self, fd: OwnedFd, bytes: usize) -> Result<Arc<dyn Physical>> {
        self.import(fd, bytes)
    }

    fn reserve(&self, bytes: usize, align: usize) -> Result<Arc<dyn Reservation>> {
        Ok(Arc::new(CpuReservation::new(bytes, align)?))
    }

    fn alloc(&self, bytes: usize) -> Result<DevPtr> {
        allocations::alloc(bytes, self.ordinal)
    }

    fn free(&self, ptr: DevPtr) -> Result<()> {
        allocations::free(ptr)
    }

    fn lookup(&self, ptr: DevPtr) -> Result<Allocation> {
        allocations::lookup(ptr)
    }

    fn overrun(&self, ptr: DevPtr, bytes: u64) -> Option<Allocated> {
        ends::overrun(ptr, bytes)
    }

    fn holding(&self, ptr: DevPtr, _bytes: u64) -> Option<Holding> {
        allocations::holding(ptr)
    }

    fn see(&self, _ordinal: i32) -> Result<()> {
        Ok(())
    }

    fn objects(&self, bytes: usize) -> Result<DeviceMemory> {
        DeviceMemory::anonymous(bytes)
    }

    fn control(&self, bytes: usize) -> Result<ControlMemory> {
        ControlMemory::anonymous(bytes)
    }

    fn expose(&self, physical: &Arc<dyn Physical>) -> Result<Exposed> {
        let Some(at) = physical.host() else {
            bail!(InternalError, 25, "memory that the CPU device does not have | {} bytes | fix: report this", physical.bytes())
        };
        let at = at.as_ptr().expose_provenance() as DevPtr;
        Ok(Exposed::new(at, physical.bytes(), Err("it is host memory".into()), Box::new(physical.clone())))
    }

    fn map_register(&self, at: NonNull<u8>, keep: Arc<dyn Any + Send + Sync>) -> Result<Mapped> {
        Ok(Mapped { at: at.as_ptr().expose_provenance() as DevPtr, keep: Box::new(keep) })
    }

    fn reaches(&self, _bus_id: u64) -> bool {
        true
    }

    fn holds(&self, _memory: &dyn Physical) -> bool {
        false
    }

    fn multicast(&self, _unasked: bool) -> Option<&dyn Multicast> {
        None
    }

    fn fans_out(&self) -> bool {
        runtime::find().is_some()
    }

    fn fan_out(&self, targets: Targets) -> Result<Arc<dyn Reservation>> {
        Ok(Arc::new(multicast::FanOut::new(targets)?))
    }
}

impl Lifetime for CpuDevice {
    fn idle(&self) -> bool {
        runtime::find().is_none_or(|runtime| runtime.kernels_running(self.ordinal) == 0)
    }

    fn bury(&self, remains: Box<dyn Any + Send>) {
        graveyard::bury(CpuDevice::new(self.ordinal), remains);
    }
}

impl Execution for CpuDevice {
    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        kernels::kernels(self.ordinal)
    }

    fn health(&self) -> Result<()> {
        match runtime::find().and_then(|runtime| runtime.failure(self.ordinal)) {
            Some(code) => {
                bail!(UnhandledCudaError, 73, "cudaError {code} | fix: look for what the kernel printed")
            }
            None => Ok(()),
        }
    }

    fn near_cpus(&self) -> Vec<usize> {
        Vec::new()
    }

    fn wake(&self) {
        if let Some(runtime) = runtime::find() {
            runtime.wake(self.ordinal);
        }
    }

    fn post_bell(&self) -> Option<PostBell> {
        runtime::find()?.bell(self.ordinal)
    }

    fn add_progress(&self, step: Arc<dyn Fn() -> bool + Send + Sync>) -> Option<Box<dyn Send + Sync>> {
        Some(Box::new(runtime::RegisteredStep::start(self.ordinal, step)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn an_allocation_is_found_from_any_of_its_bytes_and_freed_once() {
        let device = CpuDevice::new(0);
        let base = device.alloc(3 << 20).unwrap();
        let found = device.lookup(base + (4 << 20) - 1).unwrap();
        assert_eq!((found.base, found.bytes), (base, 4 << 20));
        assert_eq!(device.free(base + 8).err().unwrap().code, Code::InvalidArgument);
        device.free(base).unwrap();
        assert!(device.free(base).is_err());
        // The window's Arc keeps the bytes readable.
        assert_eq!(found.physical.host().unwrap().as_ptr() as u64, base);
    }

    #[test]
    fn memory_of_others_is_no_window() {
        let device = CpuDevice::new(0);
        let local = 5u64;
        let error = device.lookup(&raw const local as u64).err().unwrap();
        assert_eq!((error.code, error.id), (Code::UnhandledCudaError, 52));
        assert!(error.text.contains("use ncclMemAlloc"), "{error}");
        assert!(device.lookup(0).is_err());
    }

    #[test]
    fn the_thread_keeps_its_device() {
        set_current(3).unwrap();
        assert_eq!(current(), 3);
        assert_eq!(std::thread::spawn(current).join().unwrap(), positive("LOCAL_RANK").unwrap_or(0));
    }
}
