//! Memory of a device, and addresses for it.
#![forbid(unsafe_code)]

use super::{ControlMemory, DevPtr, DeviceMemory, Exposed, Mapped, Multicast, Targets};
use crate::error::{Code, Error, Result};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Physical memory with an identity that other processes can map. Windows are made of it.
///
/// Freed when the last `Arc` goes; a mapping keeps its own reference.
pub trait Physical: Send + Sync {
    /// Size in bytes, a multiple of the device's granularity.
    fn bytes(&self) -> usize;
    /// A new descriptor for SCM_RIGHTS.
    fn export(&self) -> Result<OwnedFd>;
    /// Host address where the host may touch it (CPU device, and [`Memory::create_shared`]), mapped for as long as self lives.
    fn host(&self) -> Option<NonNull<u8>>;
    /// Where kernels of the device that made it see it without a [`Reservation`]; None for memory of a GPU, and for
    /// imported memory on CUDA.
    fn device_address(&self) -> Option<DevPtr>;
    /// Equal for two handles on the same memory of this process, unique within it.
    fn key(&self) -> u64;
    /// Backs `bytes` from `start` on of memory that [`Memory::create_sparse`] made. Err where the machine has no more.
    fn back(&self, _start: usize, _bytes: usize) -> Result<()> {
        Ok(())
    }
    /// For downcasts inside a device's own module.
    fn as_any(&self) -> &dyn Any;
}

/// A new [`Physical::key`]: of one counter, since memories of the device and of the host stand in one list.
pub(super) fn next_key() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
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

/// Memory of one device that a buffer lies in: an allocation, or what the program has mapped there piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// First byte.
    pub base: DevPtr,
    /// All of it, in bytes.
    pub bytes: u64,
    /// Other memory at the same addresses has another.
    pub id: u64,
    /// To ranks of other processes.
    pub lends: Lends,
}

/// How other processes can be given a [`Holding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lends {
    /// They cannot.
    Nothing,
    /// [`Memory::lend_handle`].
    Handle,
    /// As the physical memory that it is.
    Descriptor,
    /// As so many pieces of physical memory, of one size, one behind the other (cuMemMap).
    Pieces(u32),
}

impl Holding {
    /// A buffer in more pieces has none: each costs a question of the driver (1 us) at every launch, and a descriptor and a mapping when it is lent.
    /// PyTorch's expandable segments have pieces of 20 MiB.
    pub const MOST_PIECES: u32 = 128;

    /// True if `bytes` from `at` on lie in it.
    pub fn covers(&self, at: DevPtr, bytes: u64) -> bool {
        at.checked_sub(self.base).is_some_and(|before| before <= self.bytes && bytes <= self.bytes - before)
    }

    /// Of physical memory.
    pub fn pieces(&self) -> u64 {
        if let Lends::Pieces(count) = self.lends { count.into() } else { 1 }
    }

    /// Kernels of other devices of this process reach it at its own addresses, once they were let in ([`Memory::see`]): what is of cudaMalloc or
    /// ncclMemAlloc. What the program has mapped only it lets others into.
    pub fn is_open(&self) -> bool {
        !matches!(self.lends, Lends::Pieces(_))
    }
}

/// What the program has got at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// Where it begins.
    pub base: DevPtr,
    /// As many.
    pub bytes: u64,
}

/// What memory a device has, and whose it reaches. All sizes in bytes.
pub trait Memory {
    /// Total memory: the automatic LSA slice size is its maximum over ranks.
    fn total_memory(&self) -> u64;
    /// What of it is free, if that can be told.
    fn free_memory(&self) -> Option<u64> {
        None
    }
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
    /// The same, of which only what [`Physical::back`] is asked for takes memory, where the device can do that.
    fn create_sparse(&self, bytes: usize) -> Result<Arc<dyn Physical>> {
        self.create_shared(bytes)
    }
    /// Memory that another process made with [`Memory::create_shared`]: for the host only.
    fn import_shared(&self, fd: OwnedFd, bytes: usize) -> Result<Arc<dyn Physical>>;
    /// Reserves addresses.
    fn reserve(&self, bytes: usize, align: usize) -> Result<Arc<dyn Reservation>>;
    /// ncclMemAlloc: physical memory with an address of its own.
    fn alloc(&self, bytes: usize) -> Result<DevPtr>;
    /// ncclMemFree. Windows over it keep the memory.
    fn free(&self, ptr: DevPtr) -> Result<()>;
    /// The allocation that holds `ptr`; an error that says what the pointer is when it cannot be a window.
    fn lookup(&self, ptr: DevPtr) -> Result<Allocation>;
    /// The allocation that `ptr` is in and that ends before `bytes` from there do. None where that is not known: it is on the CPU device, of
    /// memory that nothing of the program's can follow on.
    fn overrun(&self, _ptr: DevPtr, _bytes: u64) -> Option<Allocated> {
        None
    }
    /// The holding that `bytes` from `ptr` on begin in: it may end before they do. None for memory of another kind (of the host, managed,
    /// of a pool) or of another device.
    fn holding(&self, ptr: DevPtr, bytes: u64) -> Option<Holding>;
    /// Lets this device's kernels into the holdings of device `ordinal` of this process.
    fn see(&self, ordinal: i32) -> Result<()>;
    /// A holding for [`Memory::borrow_handle`] in other processes.
    fn lend_handle(&self, holding: &Holding) -> Result<[u64; 8]> {
        crate::bail!(InternalError, 25, "no handles of memory on this device | {holding:?} | fix: report this")
    }
    /// What another process lends, as this device's kernels see it, until it is dropped.
    fn borrow_handle(&self, lent: [u64; 8]) -> Result<Mapped> {
        crate::bail!(InternalError, 25, "no handles of memory on this device | {lent:x?} | fix: report this")
    }
    /// Device memory for structs that kernels read (windows, tables, contexts): zeroed, 256-aligned, freed at drop.
    fn objects(&self, bytes: usize) -> Result<DeviceMemory>;
    /// Host memory that kernels see too (queues, indices, the abort word): zeroed, page-aligned, freed at drop.
    fn control(&self, bytes: usize) -> Result<ControlMemory>;
    /// `physical`, which this device may use, at an address for cards that read and write it.
    fn expose(&self, physical: &Arc<dyn Physical>) -> Result<Exposed>;
    /// The 8 bytes of a card's register that this process has mapped at `at` for as long as `keep` lives, as kernels store to them.
    fn map_register(&self, at: NonNull<u8>, keep: Arc<dyn Any + Send + Sync>) -> Result<Mapped>;
    /// True if this device's kernels can load from and store to the memory of the device with that [`super::Device::bus_id`].
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
}

/// [`Memory::free`] of what is no allocation's start: one that lies in the allocation at `inside`, or in none that `others` frees.
pub(super) fn not_freed(ptr: DevPtr, inside: Option<DevPtr>, others: &str) -> Error {
    let text = match inside {
        Some(base) => format!(
            "ncclMemFree: not the start of an allocation | {ptr:#x} lies {:#x} bytes inside the one at {base:#x} | fix: pass the \
             pointer that ncclMemAlloc gave",
            ptr - base
        ),
        None => format!(
            "ncclMemFree: not memory of ncclMemAlloc, or freed before | {ptr:#x} | fix: free each allocation once, {others}"
        ),
    };
    Error::new(Code::InvalidArgument, 62, text)
}
