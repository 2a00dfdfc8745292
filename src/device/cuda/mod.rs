//! The CUDA device: a GPU through the driver API. The driver is loaded at first use; without one every function here returns
//! E070.

mod allocations;
mod context;
mod copies;
mod driver;
mod eager;
mod facts;
mod kernels;
mod memory;
mod multicast;
mod near;
mod p2p;
mod pinned;
mod pool;
mod reaper;
mod shared;
mod space;
mod stream;

use super::{
    Allocation, ControlMemory, CopyQueue, DevPtr, Device, DeviceMemory, Kernels, Kind, Multicast, Physical, Reservation,
};
use crate::bail;
use crate::error::Result;
use crate::log;
use crate::sync::OnceCell;
use crate::sync::{Mutex, PerProcess};
use context::Context;
use driver::cu;
use facts::Facts;
use memory::CudaPhysical;
use pool::Pool;
use reaper::Reaper;
use space::CudaReservation;
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use stream::{RawStream, STAGING, Transfers};

/// One GPU. One object per process and device, kept until cudaDeviceReset takes its context away.
pub struct CudaDevice {
    me: Weak<Self>,
    context: Arc<Context>,
    facts: Facts,
    /// Memory is asked for with a fabric handle too, until the driver refuses.
    fabric: AtomicBool,
    objects: Mutex<Objects>,
    pinned: Mutex<Pool>,
    transfers: Mutex<Option<Transfers>>,
    /// Of the transfers, beside their lock: whether the device is well is asked while one is under way, too.
    stream: OnceCell<Arc<RawStream>>,
    patient: OnceCell<Option<Reaper>>,
    prompt: OnceCell<Option<Reaper>>,
    pages: Mutex<shared::Retired>,
    kernels: OnceCell<Result<Arc<dyn Kernels>>>,
    /// Visible devices that reach this one's memory.
    reached_by: OnceCell<Vec<i32>>,
}

/// Device memory for small structs, and the mappings that it is cut from.
struct Objects {
    pool: Pool,
    chunks: Vec<CudaReservation>,
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
            objects: Mutex::new(Objects { pool: Pool::new(256), chunks: Vec::new() }),
            pinned: Mutex::new(Pool::new(4096)),
            transfers: Mutex::new(None),
            stream: OnceCell::new(),
            patient: OnceCell::new(),
            prompt: OnceCell::new(),
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

    /// Drops `remains` on a thread of its own; for what [`Device::retire`] drops in its turn.
    fn drop_later(&self, remains: Box<dyn Any + Send>) {
        give(&self.prompt, || Reaper::prompt(&self.context), remains);
    }

    /// Until memory that is on its way out has gone, but not for ever.
    fn settle(&self) {
        for reaper in [&self.prompt, &self.patient] {
            if let Some(Some(reaper)) = reaper.get() {
                reaper.settle();
            }
        }
    }

    /// Runs `work` with the transfer stream, inside the context.
    fn transfer<T>(&self, work: impl FnOnce(&mut Transfers) -> Result<T>) -> Result<T> {
        let _inside = self.context.enter()?;
        let mut transfers = self.transfers.lock();
        if transfers.is_none() {
            let stream = Arc::new(RawStream::new()?);
            *transfers = Some(Transfers::new(stream.clone(), self.control(2 * STAGING)?));
            let _ = self.stream.set(stream);
        }
        work(transfers.as_mut().expect("made above"))
    }
}

/// Gives `remains` to the thread in `reaper`, started at first use.
fn give(reaper: &OnceCell<Option<Reaper>>, start: impl FnOnce() -> Result<Reaper>, remains: Box<dyn Any + Send>) {
    match reaper.get_or_init(|| start().inspect_err(log::error).ok()) {
        Some(reaper) => reaper.take(remains),
        // No thread to be had: what kernels may use is kept for ever.
        None => std::mem::forget(remains),
    }
}

/// Bytes of a chunk of small structs.
const CHUNK: usize = 2 << 20;

/// Part of the device's small structs; goes back at drop.
struct Object {
    device: Arc<CudaDevice>,
    at: DevPtr,
    bytes: u64,
}

impl Drop for Object {
    fn drop(&mut self) {
        self.device.objects.lock().pool.give(self.at, self.bytes);
    }
}

impl Device for CudaDevice {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn kind(&self) -> Kind {
        Kind::Cuda
    }

    fn ordinal(&self) -> i32 {
        self.context.device
    }

    fn bus_id(&self) -> u64 {
        self.facts.bus_id
    }

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

    fn write(&self, at: DevPtr, bytes: &[u8]) -> Result<()> {
        if !at.is_multiple_of(8) {
            bail!(InternalError, 25, "device write to a misaligned address | {at:#x} | fix: report this");
        }
        self.transfer(|transfers| transfers.write(at, bytes))
    }

    fn read(&self, at: DevPtr, into: &mut [u8]) -> Result<()> {
        if !at.is_multiple_of(4) || !into.len().is_multiple_of(4) {
            bail!(InternalError, 25, "device read is not of whole words | {at:#x} | fix: report this");
        }
        self.transfer(|transfers| transfers.read(at, into))
    }

    fn zero(&self, at: DevPtr, bytes: usize) -> Result<()> {
        self.transfer(|transfers| transfers.zero(at, bytes))
    }

    fn objects(&self, bytes: usize) -> Result<DeviceMemory> {
        let (at, rounded) = {
            let mut objects = self.objects.lock();
            let rounded = objects.pool.rounded(bytes);
            let at = match objects.pool.take(rounded) {
                Some(at) => at,
                None => {
                    let physical: Arc<dyn Physical> = CudaPhysical::create(self, CHUNK.max(rounded as usize))?;
                    let chunk = CudaReservation::new(self.me(), physical.bytes(), self.facts.granularity)?;
                    chunk.map(0, &physical)?;
                    objects.pool.add(chunk.base(), physical.bytes() as u64);
                    objects.chunks.push(chunk);
                    objects.pool.take(rounded).expect("a chunk that holds it was added")
                }
            };
            (at, rounded)
        };
        let object = Object { device: self.me(), at, bytes: rounded };
        self.zero(at, rounded as usize)?;
        Ok(DeviceMemory::new(at, bytes, Box::new(object)))
    }

    fn control(&self, bytes: usize) -> Result<ControlMemory> {
        pinned::take(&self.me(), bytes)
    }

    fn copy_queue(&self) -> Result<Box<dyn CopyQueue>> {
        Ok(Box::new(copies::Copies::new(self.me())?))
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

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        let load = || Ok(Arc::new(kernels::CudaKernels::load(self.me())?) as Arc<dyn Kernels>);
        self.kernels.get_or_init(load).clone()
    }

    fn settle_in(&self) -> Result<()> {
        self.context.settle_in()
    }

    fn near_cpus(&self) -> Vec<usize> {
        near::near_cpus(&self.facts.pci)
    }

    fn idle(&self) -> bool {
        false
    }

    fn health(&self) -> Result<()> {
        // Before the first transfer there are no kernels of ours to wait for.
        let Some(stream) = self.stream.get() else { return Ok(()) };
        let _inside = self.context.enter();
        // Every call tells of a context that has failed, also about a stream where nothing went wrong.
        stream.is_idle().map(drop)
    }

    fn bury(&self, remains: Box<dyn Any + Send>) {
        give(&self.patient, || Reaper::patient(self.context.clone()), remains);
    }

    fn retire(&self, remains: Box<dyn Any + Send>) {
        self.drop_later(remains);
        if let Some(Some(prompt)) = self.prompt.get() {
            prompt.settle();
        }
    }

    fn add_progress(&self, _step: Arc<dyn Fn() -> bool + Send + Sync>) -> Option<Box<dyn Send + Sync>> {
        None
    }
}
