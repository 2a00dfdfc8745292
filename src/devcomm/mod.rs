//! Device communicators: what ncclDevCommCreate hands to kernels.
//!
//! `requirements` lays out what a caller asks for, `create` makes it on all ranks and takes it back, `registry` keeps what stands,
//! `release` lets kernels out of their waits after an abort: by the words that they wait on, for those that read no abort word.
//!
//! Traps: ids and memory are zeroed before the round that lets kernels start anywhere, or an earlier owner's signal ends a wait too
//! early; behind that round nothing may fail on one rank alone; a caller may destroy by a copy of its struct.
#![forbid(unsafe_code)]

mod create;
mod registry;
pub mod release;
mod requirements;
#[cfg(test)]
mod vectors;
mod watched;

pub use create::{create, create_own, decline, destroy, rcp32};
pub use registry::DevComms;
pub use release::Release;
pub use requirements::{Layout, Outputs, Requirements, Resource, TeamRequest};

use crate::device::DevPtr;
use crate::layout::ncclDevComm;

/// A device communicator, and what the out pointers of its requirement list get.
#[derive(Clone, Debug)]
pub struct Created {
    /// For the caller's `ncclDevComm`.
    pub dev_comm: ncclDevComm,
    /// One per entry of [`Requirements::resources`].
    pub outputs: Vec<Outputs>,
    /// One per entry of [`Requirements::teams`]: where its multicast addresses begin, if it asked for them.
    pub multicast: Vec<Option<DevPtr>>,
}
