//! One address for the memory of several devices.
#![forbid(unsafe_code)]

use super::{DevPtr, Physical};
use crate::error::Result;
use std::sync::Arc;

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
