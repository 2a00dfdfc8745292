//! FENCE: memory that a device also sees. Two devices stand behind [`Device`]: `cpu` (sealed memfd) and `cuda` (the driver).
//!
//! A device is four traits: `memory` (physical memory, addresses, whose it reaches), `transfers` (bytes to and from it, queues of
//! copies), `lifetime` (when what kernels used may go) and `execution` (kernels, threads that serve them). `control` is memory that
//! host and kernels share word by word, `kernels` the order among launches, `memfd` host memory that other processes can map,
//! `graveyard` what waits for a CPU device to be idle, `courier` a kernel that makes small copies, `select` says which device a thread has.
//!
//! Traps: memory that kernels may touch is buried, never dropped; on a GPU nothing may wait for a kernel (freeing host memory,
//! unregistering pages, a memset do), for that kernel may wait for us; a caller's context and capture are as before on every path;
//! two handles on one memory are one object, so compare [`Physical::key`].

pub mod courier;
pub mod cpu;
pub mod cpus;
pub mod cuda;

mod addresses;
mod control;
mod execution;
mod exposed;
pub mod graveyard;
mod kernels;
mod lifetime;
mod limits;
mod memfd;
mod memory;
mod multicast;
mod select;
mod transfers;
pub use control::{ControlMemory, DeviceMemory};
pub use execution::{Execution, PostBell};
pub use exposed::{Exposed, Mapped};
pub use kernels::{Events, Kernels, Launch, Order, OwnStream, Span, Stream, StreamCopies};
pub use lifetime::Lifetime;
pub use limits::with_descriptors;
pub use memory::{Allocated, Allocation, Holding, Lends, Memory, Physical, Reservation};
pub use multicast::{Multicast, Targets};
pub use select::{count, current, get, set_current};
pub use transfers::{CopyQueue, MemCopy, Transfers, Word};

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

/// One device as the library needs it: who it is, and what it can in four parts.
pub trait Device: Memory + Transfers + Lifetime + Execution + Send + Sync {
    /// Which kind.
    fn kind(&self) -> Kind;
    /// Number among the devices that this process sees.
    fn ordinal(&self) -> i32;
    /// Domain, bus, device and function as one number; equal means the same device.
    fn bus_id(&self) -> u64;
}
