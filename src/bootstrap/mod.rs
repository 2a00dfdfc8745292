//! How the ranks of a communicator find each other and agree (being written).

use crate::bail;
use crate::error::{Error, Result};
use crate::gin::abort::Abort;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What ncclGetUniqueId hands out.
#[derive(Clone)]
pub struct UniqueId([u8; 128]);
impl UniqueId {
    /// A new id; the root of one communicator listens in this process.
    pub fn create() -> Result<Self> { bail!(InternalError, 1, "bootstrap is not wired yet") }
    /// Checks magic, version and checksum.
    pub fn from_bytes(bytes: &[u8; 128]) -> Result<Self> { Ok(Self(*bytes)) }
    /// For ncclUniqueId.
    pub fn bytes(&self) -> [u8; 128] { self.0 }
    /// Equal on all ranks, different for every id.
    pub fn comm_hash(&self) -> u64 { 0 }
}
/// Where a process serves descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdAddress([u8; 32]);
impl FdAddress {
    /// For PeerInfo.
    pub fn to_bytes(&self) -> [u8; 32] { self.0 }
    /// From PeerInfo; refuses what this version cannot reach.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self> { Ok(Self(*bytes)) }
}
/// One per communicator and rank.
pub struct Bootstrap { _rank: u32 }
#[allow(missing_docs)]
impl Bootstrap {
    pub fn join(_id: &UniqueId, _rank: u32, _n_ranks: u32) -> Result<Bootstrap> { bail!(InternalError, 1, "bootstrap is not wired yet") }
    pub fn rank(&self) -> u32 { 0 }
    pub fn n_ranks(&self) -> u32 { 0 }
    pub fn comm_hash(&self) -> u64 { 0 }
    pub fn attach_abort(&self, _abort: Arc<Abort>) {}
    pub fn allgather(&self, _what: &str, _mine: &[u8]) -> Result<Vec<Vec<u8>>> { bail!(InternalError, 1, "bootstrap is not wired yet") }
    pub fn barrier(&self, _what: &str) -> Result<()> { bail!(InternalError, 1, "bootstrap is not wired yet") }
    pub fn poison(&self, _cause: &Error) {}
    pub fn fd_address(&self) -> FdAddress { FdAddress([0; 32]) }
    pub fn publish(&self, _key: u64, _fd: OwnedFd) {}
    pub fn withdraw(&self, _key: u64) {}
    pub fn fetch(&self, _from: &FdAddress, _owner_rank: u32, _key: u64) -> Result<OwnedFd> { bail!(InternalError, 1, "bootstrap is not wired yet") }
}
