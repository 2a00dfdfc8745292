//! GIN on the host: queue, proxy, ledger, signals. Listed in data-path order; `docs/data-path.md` walks it.
//!
//! A kernel's put is 64 bytes in a queue ([`queue`], [`descriptor`]). The proxy's [`proxy::Engine::step`] takes it, checks
//! it ([`plan`], [`handles`]), gives it to a transport, remembers it until it is done ([`ledger`]), and gives the slot back.
//! At the target a signal word has risen ([`signal`]).
mod carry;
pub mod context;
pub mod descriptor;
pub mod handles;
pub mod hints;
pub mod ledger;
#[doc(hidden)]
pub mod model;
pub mod plan;
pub mod proxy;
pub mod queue;
pub mod shared;
pub mod signal;
pub mod thread;

pub mod abort;
mod connect;
mod drain;
mod place;

use crate::device::{DevPtr, Device, Physical};
use crate::error::Result;
use crate::transport::Region;
use crate::{bail, log};
use abort::Abort;
use context::{Context, Shape};
use parking_lot::Mutex;
use proxy::{Engine, Routes};
use std::ops::Range;
use std::sync::Arc;
use thread::{ProxyThread, Pump};

/// What a [`Gin`] is built from, once the ranks have exchanged it.
pub struct Parts {
    /// The device whose kernels post.
    pub device: Arc<dyn Device>,
    /// This rank.
    pub rank: u32,
    /// Contexts, 1 to 4, equal on all ranks.
    pub n_contexts: u32,
    /// Shape of each context.
    pub shape: Shape,
    /// Signal memory of all contexts, by rank: this rank's own, and those of the peers that can be mapped.
    pub signals: Vec<Option<Arc<dyn Physical>>>,
    /// Who carries to whom.
    pub routes: Routes,
    /// The communicator's.
    pub abort: Arc<Abort>,
    /// Any number that differs between communicators.
    pub salt: u64,
}

/// While it lives, waiting blocks of the device run the step.
type Blocks = Option<Box<dyn Send + Sync>>;

/// One communicator's GIN: contexts that kernels post to, and the ids and handles they name.
pub struct Gin {
    device: Arc<dyn Device>,
    rank: u32,
    n_ranks: u32,
    contexts: Vec<DevPtr>,
    /// Of each context, see [`Context::claims`].
    claims: Vec<DevPtr>,
    pump: Arc<Pump>,
    /// In drop order: waiting blocks leave the step, then the thread.
    drivers: Mutex<Option<(Blocks, Arc<ProxyThread>)>>,
}

impl Gin {
    /// Builds the contexts. Nothing moves before [`Self::start`].
    pub fn from_parts(parts: Parts) -> Result<Arc<Self>> {
        let Parts { device, rank, n_contexts, shape, signals, routes, abort, salt } = parts;
        let own = signals[rank as usize].clone().expect("the caller made this rank's signal memory");
        let contexts = (0..n_contexts)
            .map(|index| Context::new(device.as_ref(), index, shape, &own, abort.device_address()))
            .collect::<Result<Vec<_>>>()?;
        let addresses = contexts.iter().map(Context::device).collect();
        let claims = contexts.iter().map(Context::claims).collect();
        let mut engine = Engine::new(rank, contexts, routes, abort.clone(), salt);
        let bytes = u64::from(n_contexts) * u64::from(shape.signals) * 8;
        engine.introduce(signal_region(rank, bytes, signals)?)?;
        let pump = Arc::new(Pump::new(engine, abort));
        Ok(Arc::new(Self { device, rank, n_ranks: shape.n_ranks, contexts: addresses, claims, pump, drivers: Mutex::new(None) }))
    }

    /// From now on the device's proxy thread, and its waiting blocks, run the step.
    pub fn start(&self, device: &Arc<dyn Device>) -> Result<()> {
        let thread = ProxyThread::of(device)?;
        thread.add(&self.pump);
        let pump = self.pump.clone();
        let blocks = device.add_progress(Arc::new(move || pump.step()));
        *self.drivers.lock() = Some((blocks, thread));
        Ok(())
    }

    /// How many contexts there are: min(4, NCCL_GIN_NCONTEXTS), equal on all ranks.
    pub fn n_contexts(&self) -> u32 {
        self.contexts.len() as u32
    }

    /// Device address of context `c`'s 48-byte ncclGinProxyGpuCtx (our extension stands at +64).
    pub fn context(&self, c: u32) -> DevPtr {
        self.contexts[c as usize]
    }

    /// Names a memory for descriptors; `region.id` is chosen here. The value is never 0 and fits 63 bits.
    pub fn register_region(&self, region: Region) -> Result<u64> {
        self.pump.engine().register(region)
    }

    /// Takes the value back: descriptors that still name it abort the communicator. Once this returns nothing touches the
    /// memory.
    pub fn deregister(&self, handle: u64) {
        if let Err(error) = self.pump.engine().deregister(handle) {
            log::error(&error);
        }
    }

    /// First-fit range of `n` signal ids, the same on every rank that makes the same calls.
    pub fn alloc_signals(&self, n: u32) -> Result<u32> {
        self.pump.engine().signals.alloc(n)
    }

    /// Gives a range back.
    pub fn free_signals(&self, base: u32, n: u32) {
        self.pump.engine().signals.free(base, n);
    }

    /// First-fit range of `n` counter ids.
    pub fn alloc_counters(&self, n: u32) -> Result<u32> {
        self.pump.engine().counters.alloc(n)
    }

    /// Gives a range back.
    pub fn free_counters(&self, base: u32, n: u32) {
        self.pump.engine().counters.free(base, n);
    }

    /// Zeroes this rank's words of the ranges in every context; before the closing barrier of devcomm create.
    pub fn zero(&self, signals: Range<u32>, counters: Range<u32>) {
        self.pump.engine().zero(signals, counters);
    }

    /// One step of the proxy by the calling thread, unless another is in one. True if anything moved.
    pub fn step(&self) -> bool {
        self.pump.step()
    }

    /// Ends the proxy's work for this communicator; call it once the device is idle. Memory goes with the last `Arc`.
    pub fn stop(&self) {
        if let Some((blocks, thread)) = self.drivers.lock().take() {
            drop(blocks);
            thread.remove(&self.pump);
            self.pump.stop();
        }
    }
}

/// The signal memories of all ranks as the region that work's signals go to.
fn signal_region(rank: u32, bytes: u64, signals: Vec<Option<Arc<dyn Physical>>>) -> Result<Region> {
    let host = |memory: &Arc<dyn Physical>| {
        memory.host().filter(|_| memory.bytes() as u64 >= bytes).map(|at| at.as_ptr().expose_provenance() as DevPtr)
    };
    let addresses = signals.iter().map(|memory| memory.as_ref().and_then(host)).collect();
    // SAFETY: a physical memory stays mapped at its host address while its Arc, kept by the region, lives.
    let region = unsafe { Region::new(u64::MAX, bytes, rank, addresses, Box::new(signals)) };
    match region {
        Some(region) => Ok(region),
        None => bail!(
            SystemError,
            28,
            "signal memory cannot be used | rank {rank}: {bytes:#x} bytes needed | the host cannot touch it | fix: report this"
        ),
    }
}

impl Drop for Gin {
    fn drop(&mut self) {
        self.stop();
    }
}
