//! FENCE: memory that a device also sees. Two devices stand behind [`Device`]: `cpu` (sealed memfd) and `cuda` (the driver).

use crate::error::Result;
use std::any::Any;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

pub mod cpu;
pub mod cuda;

mod addresses;
mod control;
pub mod graveyard;
mod kernels;
mod limits;
mod memfd;
mod select;
pub use control::{ControlMemory, DeviceMemory};
pub use kernels::{Events, Kernels, Launch, Order, Stream};
pub use limits::with_descriptors;
pub use select::{count, current, get, set_current};

/// An address as kernels use it. On the CPU device it is also a host address.
pub type DevPtr = u64;

/// Which device stands behind the trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Device memory is sealed memfd; kernels run on the CPU.
    Cpu,
    /// The CUDA driver.
    Cuda,
}

/// Physical memory with an identity that other processes can map. Windows are made of it.
///
/// Freed when the last `Arc` goes; a mapping keeps its own reference.
pub trait Physical: Send + Sync {
    /// Size in bytes, a multiple of the device's granularity.
    fn bytes(&self) -> usize;
    /// A new descriptor for SCM_RIGHTS.
    fn export(&self) -> Result<OwnedFd>;
    /// Host address where the host may touch it (CPU device, and [`Device::create_shared`]), mapped for as long as self lives.
    fn host(&self) -> Option<NonNull<u8>>;
    /// Where kernels of the device that made it see it without a [`Reservation`]; None for memory of a GPU, and for
    /// imported memory on CUDA.
    fn device_address(&self) -> Option<DevPtr>;
    /// Equal for two handles on the same memory of this process, unique within it.
    fn key(&self) -> u64;
    /// For downcasts inside a device's own module.
    fn as_any(&self) -> &dyn Any;
}

/// A range of reserved addresses without memory behind it; the whole range goes at drop.
pub trait Reservation: Send + Sync {
    /// First address.
    fn base(&self) -> DevPtr;
    /// Length in bytes.
    fn bytes(&self) -> usize;
    /// Puts `physical` (whole) at `base + offset`; kernels of this device may read and write it.
    fn map(&self, offset: usize, physical: &Arc<dyn Physical>) -> Result<()>;
    /// [`Reservation::map`] of several (offset, memory): all, or none and the first error.
    fn map_all(&self, wanted: &[(usize, Arc<dyn Physical>)]) -> Result<()> {
        for (i, (offset, physical)) in wanted.iter().enumerate() {
            if let Err(error) = self.map(*offset, physical) {
                for (offset, physical) in &wanted[..i] {
                    let _ = self.unmap(*offset, physical.bytes());
                }
                return Err(error);
            }
        }
        Ok(())
    }
    /// Back to no access; never a hole (pitfalls: another mmap could take it).
    fn unmap(&self, offset: usize, bytes: usize) -> Result<()>;
}

/// What a user's pointer belongs to.
pub struct Allocation {
    /// First byte of the allocation, in the caller's address space.
    pub base: DevPtr,
    /// Its whole size.
    pub bytes: usize,
    /// The memory itself.
    pub physical: Arc<dyn Physical>,
}

/// One copy between two addresses of a device; both may lie in another device's memory that is mapped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// First byte to read.
    pub from: DevPtr,
    /// First byte to write.
    pub to: DevPtr,
    /// How many.
    pub bytes: u64,
}

/// One store of a whole, aligned word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where; a multiple of `bytes`.
    pub at: DevPtr,
    /// What, in its low bytes.
    pub value: u64,
    /// 4 or 8.
    pub bytes: u32,
}

/// Copies that a device carries out in the background, out of its kernels' way: on CUDA a stream of its own and the copy
/// engines. Nothing here waits for a kernel.
pub trait CopyQueue: Send {
    /// Starts copies. Among themselves they have no order; all of them start after the copies of earlier calls have ended.
    fn copy(&mut self, copies: &[Copy]) -> Result<()>;
    /// A ticket (1, 2, 3, ...) for everything started so far.
    fn mark(&mut self) -> Result<u64>;
    /// Stores words after everything started so far has ended, and marks: the ticket. None: there is no such way here, and
    /// nothing has happened. For few words this is faster than copies: on an H200 one takes 4.5 us, its copy out of host
    /// memory 17.
    fn store(&mut self, _words: &[Word]) -> Result<Option<u64>> {
        Ok(None)
    }
    /// The newest ticket reached, 0 before the first. Cheap: a look at a host word. An error means that a copy failed.
    fn finished(&mut self) -> Result<u64>;
}

/// Multicast objects (NVLS): memory of several devices behind one address, at which a store reaches all of them. An object is
/// exported, imported and mapped like memory.
pub trait Multicast {
    /// A new object for `members` devices. Bytes, a multiple of 4 GiB.
    fn create_object(&self, members: u32, bytes: usize) -> Result<Arc<dyn Physical>>;
    /// Makes this device a member. No memory is bound before all members have joined.
    fn join(&self, object: &dyn Physical) -> Result<()>;
    /// Puts all of `memory`, this device's own, at byte `at`.
    fn bind(&self, object: &dyn Physical, at: u64, memory: &dyn Physical) -> Result<()>;
    /// Takes it away.
    fn unbind(&self, object: &dyn Physical, at: u64, bytes: usize) -> Result<()>;
}

/// The places that one multicast address stands for, in this process's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// Where the first member's memory begins.
    pub first: DevPtr,
    /// From one member's to the next one's. Bytes.
    pub step: u64,
    /// Members.
    pub count: u32,
    /// Of each member's.
    pub bytes: u64,
}

/// One device as the library needs it. All sizes in bytes.
pub trait Device: Send + Sync {
    /// For downcasts inside a device's own module.
    fn as_any(&self) -> &dyn Any;
    /// Which kind.
    fn kind(&self) -> Kind;
    /// Number among the devices that this process sees.
    fn ordinal(&self) -> i32;
    /// Domain, bus, device and function as one number; equal means the same device.
    fn bus_id(&self) -> u64;
    /// Total memory: the automatic LSA slice size is its maximum over ranks.
    fn total_memory(&self) -> u64;
    /// Granularity of physical allocations (2 MiB).
    fn granularity(&self) -> usize;
    /// New physical memory; `bytes` is rounded up to the granularity (only `bytes` are sure to be backed). It is zero as soon as
    /// this device has mapped it.
    fn create(&self, bytes: usize) -> Result<Arc<dyn Physical>>;
    /// Physical memory of another process.
    fn import(&self, fd: OwnedFd, bytes: usize) -> Result<Arc<dyn Physical>>;
    /// New zeroed HOST memory with an identity, which this device's kernels see: `host` and `device_address` are there.
    /// Words that CPUs of several processes add to and kernels poll (signals of proxied contexts) live in it.
    fn create_shared(&self, bytes: usize) -> Result<Arc<dyn Physical>>;
    /// Memory that another process made with [`Device::create_shared`]: for the host only.
    fn import_shared(&self, fd: OwnedFd, bytes: usize) -> Result<Arc<dyn Physical>>;
    /// Reserves addresses.
    fn reserve(&self, bytes: usize, align: usize) -> Result<Arc<dyn Reservation>>;
    /// ncclMemAlloc: physical memory with an address of its own.
    fn alloc(&self, bytes: usize) -> Result<DevPtr>;
    /// ncclMemFree. Windows over it keep the memory.
    fn free(&self, ptr: DevPtr) -> Result<()>;
    /// The allocation that holds `ptr`; an error that says what the pointer is when it cannot be a window.
    fn lookup(&self, ptr: DevPtr) -> Result<Allocation>;
    /// Copies into device memory (`at` is a multiple of 8) and waits until it is there; also while kernels run. Aligned
    /// 8-byte words arrive whole.
    fn write(&self, at: DevPtr, bytes: &[u8]) -> Result<()>;
    /// Copies out of device memory (`at` and the length are multiples of 4); also while kernels run.
    fn read(&self, at: DevPtr, into: &mut [u8]) -> Result<()>;
    /// Zeroes device memory.
    fn zero(&self, at: DevPtr, bytes: usize) -> Result<()>;
    /// Device memory for structs that kernels read (windows, tables, contexts): zeroed, 256-aligned, freed at drop.
    fn objects(&self, bytes: usize) -> Result<DeviceMemory>;
    /// Host memory that kernels see too (queues, indices, the abort word): zeroed, page-aligned, freed at drop.
    fn control(&self, bytes: usize) -> Result<ControlMemory>;
    /// A new queue of background copies.
    fn copy_queue(&self) -> Result<Box<dyn CopyQueue>>;
    /// True if this device's kernels can load from and store to the memory of the device with that [`Device::bus_id`].
    fn reaches(&self, bus_id: u64) -> bool;
    /// True if that memory is this GPU's own: its copy engine reads there what its kernels have released to their GPU. False on
    /// the CPU device.
    fn holds(&self, memory: &dyn Physical) -> bool;
    /// Multicast objects, if the device says that it has them; `unasked`: without looking at what it says.
    fn multicast(&self, unasked: bool) -> Option<&dyn Multicast>;
    /// True if kernels reach several places by themselves at addresses of [`Self::fan_out`]: multicast without objects.
    fn fans_out(&self) -> bool {
        false
    }
    /// Addresses at which multimem instructions reach `targets`, byte by byte, until they are dropped.
    fn fan_out(&self, targets: Targets) -> Result<Arc<dyn Reservation>> {
        crate::bail!(InternalError, 86, "no multicast without objects on this device | {targets:?} | fix: report this")
    }
    /// The kernels of the collectives, loaded at the first call; an error that says what is missing. The same answer every time.
    fn kernels(&self) -> Result<Arc<dyn Kernels>>;
    /// The calling thread is the library's own and from now on works for this device alone: its calls are then cheaper.
    fn settle_in(&self) -> Result<()> {
        Ok(())
    }
    /// CPUs that are local to the device; empty for no preference.
    fn near_cpus(&self) -> Vec<usize>;
    /// True when no kernel is running, as far as the device can tell without waiting: on CUDA never.
    fn idle(&self) -> bool;
    /// Err once a kernel of this process on the device has failed for good (CUDA's sticky errors). Cheap, and waits for nothing;
    /// Ok while that cannot be told.
    fn health(&self) -> Result<()>;
    /// Drops `remains` once no kernel that runs now can touch them any more. Returns at once.
    fn bury(&self, remains: Box<dyn Any + Send>);
    /// Drops `remains`, which no kernel uses any more: the caller's caller has promised it. They have gone when it returns,
    /// unless that takes long. A device that knows for nothing whether kernels run does not rely on the promise.
    fn retire(&self, remains: Box<dyn Any + Send>) {
        self.bury(remains);
    }
    /// `step` runs between polls of waiting kernels (CPU device); dropped guard = removed. None where kernels cannot.
    fn add_progress(&self, step: Arc<dyn Fn() -> bool + Send + Sync>) -> Option<Box<dyn Send + Sync>>;
}
