//! The CUDA device: a GPU through the driver API. The driver is loaded at first use; without one every function here returns
//! E070.

mod allocations;
mod context;
mod copies;
mod driver;
mod eager;
mod exposed;
mod facts;
mod holding;
mod kernels;
mod lent;
mod memory;
mod multicast;
mod objects;
mod p2p;
mod pinned;
mod reaper;
mod shared;
mod space;
mod stream;
mod transfers;

use super::{
    Allocation, ControlMemory, DevPtr, Device, DeviceMemory, Execution, Exposed, Holding, Kernels, Kind, Mapped, Memory,
    Multicast, Physical, Reservation, cpus,
};
use crate::error::Result;
use crate::ranges::Ranges;
use crate::sync::OnceCell;
use crate::sync::{Mutex, PerProcess};
use context::Context;
use driver::cu;
use facts::Facts;
use memory::CudaPhysical;
use objects::Objects;
use reaper::Reaper;
use space::CudaReservation;
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use stream::RawStream;
use transfers::Staging;

/// One GPU. One object per process and device, kept until cudaDeviceReset takes its context away.
pub struct CudaDevice {
    me: Weak<Self>,
    context: Arc<Context>,
    facts: Facts,
    /// Memory is asked for with a fabric handle too, until the driver refuses.
    fabric: AtomicBool,
    objects: Mutex<Objects>,
    pinned: Mutex<Ranges>,
    staging: Mutex<Option<Staging>>,
    /// Of the staging, beside its lock: whether the device is well is asked while one is under way, too.
    stream: OnceCell<Arc<RawStream>>,
    after_kernels: OnceCell<Option<Reaper>>,
    at_once: OnceCell<Option<Reaper>>,
    pages: Mutex<shared::Retired>,
    kernels: OnceCell<Result<Arc<dyn Kernels>>>,
    /// Visible devices that reach this one's memory.
    reached_by: OnceCell<Vec<i32>>,
}

/// Devices that this process sees.
pub fn count() -> Result<i32> {
    let mut count = 0;
    // SAFETY: a valid place to write to.
    unsafe { cu!(cuDeviceGetCount(&mut count)) }?;
    Ok(count)
}

/// The calling thread's device number, as cudaGetDevice has it.
pub fn current() -> Result<i32> {
    context::current()
}

/// Makes device `ordinal` the calling thread's, as cudaSetDevice does.
pub fn set_current(ordinal: i32) -> Result<()> {
    CudaDevice::get(ordinal)?.context.set_current()
}

impl CudaDevice {
    /// Device number `ordinal`, opened at first use. Several devices can be opened at the same time.
    pub fn get(ordinal: i32) -> Result<Arc<Self>> {
        type Slot = Arc<Mutex<Option<Arc<CudaDevice>>>>;
        static DEVICES: PerProcess<Mutex<BTreeMap<i32, Slot>>> = PerProcess::new();
        let slot = DEVICES.lock().entry(ordinal).or_default().clone();
        let mut slot = slot.lock();
        match &*slot {
            Some(device) if device.context.alive() => return Ok(device.clone()),
            // Its memory and streams went with the context; whoever still has communicators there gets the driver's errors.
            Some(device) => std::mem::forget(device.clone()),
            None => {}
        }
        let context = Context::retain(ordinal)?;
        let facts = Facts::of(context.device)?;
        let device = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            context: Arc::new(context),
            fabric: AtomicBool::new(facts.fabric),
            facts,
            objects: Mutex::default(),
            pinned: Mutex::new(Ranges::new(4096)),
            staging: Mutex::new(None),
            stream: OnceCell::new(),
            after_kernels: OnceCell::new(),
            at_once: OnceCell::new(),
            pages: Mutex::default(),
            kernels: OnceCell::new(),
            reached_by: OnceCell::new(),
        });
        *slot = Some(device.clone());
        Ok(device)
    }

    fn me(&self) -> Arc<Self> {
        self.me.upgrade().expect("a device that is in use is kept")
    }
}

impl Device for CudaDevice {
    fn kind(&self) -> Kind {
        Kind::Cuda
    }

    fn ordinal(&self) -> i32 {
        self.context.device
    }

    fn bus_id(&self) -> u64 {
        self.facts.bus_id
    }
}

impl Memory for CudaDevice {
    fn total_memory(&self) -> u64 {
        self.facts.total_memory
    }

    fn granularity(&self) -> usize {
        self.facts.granularity
    }

    fn create(&self, bytes: usize) -> Result<Arc<dyn Physical>> {
        // What it held before was another's. It is zeroed where this device maps it first: a mapping for that alone costs more.
        let physical = CudaPhysical::create(self, bytes)?;
        physical.set_dirty();
        Ok(physical)
    }

    fn import(&self, fd: OwnedFd, bytes: usize) -> Result<Arc<dyn Physical>> {
        let _inside = self.context.enter()?;
        Ok(CudaPhysical::import(&fd, bytes)?)
    }

    fn create_shared(&self, bytes: usize) -> Result<Arc<dyn Physical>> {
        Ok(Arc::new(shared::CudaShared::create(self.me(), bytes)?))
    }

    fn import_shared(&self, fd: OwnedFd, bytes: usize) -> Result<Arc<dyn Physical>> {
        Ok(Arc::new(shared::CudaShared::import(fd, bytes)?))
    }

    fn reserve(&self, bytes: usize, align: usize) -> Result<Arc<dyn Reservation>> {
        Ok(Arc::new(CudaReservation::new(self.me(), bytes, align)?))
    }

    fn alloc(&self, bytes: usize) -> Result<DevPtr> {
        allocations::alloc(&self.me(), bytes)
    }

    fn free(&self, ptr: DevPtr) -> Result<()> {
        allocations::free(ptr)
    }

    fn lookup(&self, ptr: DevPtr) -> Result<Allocation> {
        allocations::lookup(self, ptr)
    }

    fn holding(&self, ptr: DevPtr, bytes: u64) -> Option<Holding> {
        holding::holding(self, ptr, bytes)
    }

    fn free_memory(&self) -> Option<u64> {
        memory::free(self)
    }

    fn lend_handle(&self, holding: &Holding) -> Result<[u64; 8]> {
        lent::handle(self, holding)
    }

    fn borrow_handle(&self, lent: [u64; 8]) -> Result<Mapped> {
        lent::open(&self.me(), lent)
    }

    fn see(&self, ordinal: i32) -> Result<()> {
        if ordinal == self.context.device { Ok(()) } else { self.context.see(&Self::get(ordinal)?.context) }
    }

    fn objects(&self, bytes: usize) -> Result<DeviceMemory> {
        objects::take(&self.me(), bytes)
    }

    fn control(&self, bytes: usize) -> Result<ControlMemory> {
        pinned::take(&self.me(), bytes)
    }

    fn expose(&self, physical: &Arc<dyn Physical>) -> Result<Exposed> {
        exposed::expose(&self.me(), physical)
    }

    fn map_register(&self, at: NonNull<u8>, keep: Arc<dyn Any + Send + Sync>) -> Result<Mapped> {
        exposed::map_register(&self.me(), at, keep)
    }

    fn reaches(&self, bus_id: u64) -> bool {
        p2p::reaches_bus(self, bus_id)
    }

    fn holds(&self, memory: &dyn Physical) -> bool {
        let home = memory.as_any().downcast_ref::<CudaPhysical>().and_then(CudaPhysical::home);
        home == Some(self.context.device)
    }

    fn multicast(&self, unasked: bool) -> Option<&dyn Multicast> {
        (unasked || multicast::has(self)).then_some(self)
    }
}

impl Execution for CudaDevice {
    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        let load = || Ok(Arc::new(kernels::CudaKernels::load(self.me())?) as Arc<dyn Kernels>);
        self.kernels.get_or_init(load).clone()
    }

    fn health(&self) -> Result<()> {
        // Before the first transfer there are no kernels of ours to wait for.
        let Some(stream) = self.stream.get() else { return Ok(()) };
        let _inside = self.context.enter();
        // Every call tells of a context that has failed, also about a stream where nothing went wrong.
        stream.is_idle().map(drop)
    }

    fn bind_thread(&self) -> Result<()> {
        self.context.bind_thread()
    }

    fn near_cpus(&self) -> Vec<usize> {
        cpus::near(&self.facts.pci)
    }

    fn add_progress(&self, _step: Arc<dyn Fn() -> bool + Send + Sync>) -> Option<Box<dyn Send + Sync>> {
        None
    }
}
