//! Memory of a device as another device of the machine reaches it: a network card.
#![forbid(unsafe_code)]

use super::DevPtr;
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Memory at an address that stays as long as this; goes at drop.
pub struct Exposed {
    at: DevPtr,
    bytes: usize,
    /// The same as a DMA-BUF; or why there is none.
    descriptor: Result<OwnedFd, String>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Exposed {
    /// `bytes` at `at`, which `keep` keeps there.
    pub fn new(at: DevPtr, bytes: usize, descriptor: Result<OwnedFd, String>, keep: Box<dyn Any + Send + Sync>) -> Self {
        Self { at, bytes, descriptor, _keep: keep }
    }

    /// Its first byte, for kernels; of host memory for the host, too.
    pub fn at(&self) -> DevPtr {
        self.at
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A DMA-BUF of all of it; or why there is none.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, &str> {
        self.descriptor.as_ref().map(AsFd::as_fd).map_err(String::as_str)
    }
}

/// A card's register, or memory of another process, as kernels reach it, until it is dropped.
pub struct Mapped {
    /// Its address for kernels.
    pub at: DevPtr,
    /// Keeps it there.
    pub keep: Box<dyn Any + Send + Sync>,
}
