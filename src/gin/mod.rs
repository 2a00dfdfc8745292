//! GIN on the host: queue, proxy, ledger, signals. Listed in data-path order.
pub mod abort;

use crate::bail;
use crate::device::DevPtr;
use crate::error::Result;
use std::ops::Range;

/// One communicator's GIN: contexts that kernels post to, and the ids and handles they name.
pub struct Gin {
    contexts: Vec<DevPtr>,
}

impl Gin {
    /// Collective: contexts, transports, proxy.
    pub fn connect(_comm: &crate::comm::Comm) -> Result<std::sync::Arc<Gin>> {
        bail!(InternalError, 1, "GIN is not wired yet")
    }

    /// Makes memory known; the value for `ginWins`.
    pub fn register(&self, _memory: &crate::window::SymMemory) -> Result<u64> {
        bail!(InternalError, 1, "GIN is not wired yet")
    }

    /// How many contexts there are: min(4, NCCL_GIN_NCONTEXTS), equal on all ranks.
    pub fn n_contexts(&self) -> u32 {
        self.contexts.len() as u32
    }

    /// Device address of context `c`'s 48-byte ncclGinProxyGpuCtx (our extension stands at +64).
    pub fn context(&self, c: u32) -> DevPtr {
        self.contexts[c as usize]
    }

    /// Takes the value back: descriptors that still name it abort the communicator.
    pub fn deregister(&self, _handle: u64) {}

    /// First-fit range of `n` signal ids, the same on every rank that makes the same calls.
    pub fn alloc_signals(&self, _n: u32) -> Result<u32> {
        bail!(InternalError, 1, "signals are not wired yet")
    }

    /// Gives a range back.
    pub fn free_signals(&self, _base: u32, _n: u32) {}

    /// First-fit range of `n` counter ids.
    pub fn alloc_counters(&self, _n: u32) -> Result<u32> {
        bail!(InternalError, 1, "counters are not wired yet")
    }

    /// Gives a range back.
    pub fn free_counters(&self, _base: u32, _n: u32) {}

    /// Zeroes this rank's words of the ranges in every context; before the closing barrier of devcomm create.
    pub fn zero(&self, _signals: Range<u32>, _counters: Range<u32>) {}

    /// Ends the proxy's work for this communicator; call it once the device is idle.
    pub fn stop(&self) {}
}
