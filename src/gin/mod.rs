//! GIN on the host: queue, proxy, ledger, signals. Listed in data-path order; `docs/internals/data-path.md` walks it.
//!
//! A kernel's put is 64 bytes in a queue ([`queue`], [`descriptor`]). The proxy's [`proxy::Engine::step`] takes it, checks
//! it ([`plan`], [`handles`]), gives it to a transport, remembers it until it is done ([`ledger`]), and gives the slot back.
//! At the target a signal word has risen ([`signal`]).
//!
//! `connect` makes it over a team, as `settings` say, `context` is what kernels see, `sets` gives each device communicator its own queues, `direct` are
//! contexts whose kernels store to peers themselves, `lanes` what the proxy keeps of each queue, `regions` what transports know,
//! `pump` has the lock of the step, `thread` runs it and `sleep`s in between. `beside` tells what has come where nobody waits, `tally` what was raised.
//!
//! Traps: kernels write queues at any time, also after their communicator has gone, so a slot is copied out before it is believed;
//! nothing of a queue moves behind an operation that was refused; a signal word has one home and one kind of writer.
mod carry;
pub mod context;
pub mod descriptor;
pub mod handles;
pub mod hints;
pub mod ledger;
pub mod plan;
pub mod proxy;
pub mod queue;
pub mod shared;
pub mod signal;
pub mod thread;

mod backend;
mod beside;
mod connect;
pub mod direct;
mod drain;
mod gdaki;
mod image;
mod lanes;
mod naps;
mod place;
mod pump;
mod regions;
mod sets;
mod settings;
mod sleep;
mod tally;

pub use backend::Backend;
pub(crate) use connect::Announced;
pub use connect::{Prepared, Registered};
pub use gdaki::Card;
pub(crate) use gdaki::fuzz;
pub use sets::Asked;

use crate::abort::Abort;
use crate::device::{DevPtr, Device, Physical};
use crate::error::Result;
use crate::sync::Mutex;
use crate::sync::OnceCell;
use crate::transport::{Region, Words};
use crate::{bail, log};
use context::Shape;
use direct::DirectSet;
use proxy::{Engine, Routes};
use pump::Pump;
use sets::Sets;
use std::ops::Range;
use std::sync::Arc;
use thread::ProxyThread;

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
    /// None: proxied contexts. Else GDAKI's, on that card.
    pub card: Option<Card>,
    /// Any number that differs between communicators.
    pub salt: u64,
}

/// While it lives, waiting blocks of the device run the step.
type Blocks = Option<Box<dyn Send + Sync>>;

/// One communicator's GIN: contexts that kernels post to, and the ids and handles they name.
pub struct Gin {
    device: Arc<dyn Device>,
    rank: u32,
    n_contexts: u32,
    shape: Shape,
    abort: Arc<Abort>,
    /// This rank's, of all proxied contexts: what ids in use need of it is backed.
    signals: Arc<dyn Physical>,
    /// Contexts are GDAKI's, on that card.
    card: Option<Card>,
    /// Of the proxied contexts, by number.
    words: Vec<Arc<context::Words>>,
    sets: Mutex<Sets>,
    direct: OnceCell<DirectSet>,
    pump: Arc<Pump>,
    /// In drop order: waiting blocks leave the step, then the thread.
    drivers: Mutex<Option<(Blocks, Arc<ProxyThread>)>>,
    owner: u32,
}

impl Gin {
    /// Builds the contexts. Nothing moves before [`Self::start`].
    pub fn from_parts(parts: Parts) -> Result<Arc<Self>> {
        Self::with_words(parts, Arc::default())
    }

    /// The same with what the transports of all ranks said of the signal memory.
    fn with_words(parts: Parts, words: Arc<Vec<Words>>) -> Result<Arc<Self>> {
        let Parts { device, rank, n_contexts, shape, signals, routes, abort, card, salt } = parts;
        let own = signals[rank as usize].clone().expect("the caller made this rank's signal memory");
        let card = card.map(|card| Card { salt, ..card });
        let hardware = card.as_ref().and_then(Card::hardware);
        let of_contexts = (0..n_contexts).map(|index| match hardware.and_then(|hardware| hardware.words_of(index)) {
            Some(words) => Ok(Arc::new(words)),
            None => Ok(Arc::new(context::Words::proxied(&*device, index, shape, &own)?)),
        });
        let of_contexts = of_contexts.collect::<Result<Vec<_>>>()?;
        for (index, words) in (0..).zip(&of_contexts) {
            log::timeline::words(abort.host_address(), index, words.addresses().0, shape.signals);
        }
        let (contexts, images) = sets::build(&device, shape, &of_contexts, card.as_ref(), (rank, 0), &abort)?;
        let backend = if card.is_some() { Backend::Gdaki } else { Backend::Proxy };
        let sets = Mutex::new(Sets::new(backend, &contexts, images));
        let mut engine = Engine::new(rank, contexts, routes, abort.clone(), salt);
        engine.watch = hardware.cloned().map(gdaki::Watch::new).transpose()?;
        let bytes = u64::from(n_contexts) * u64::from(shape.signals) * 8;
        engine.introduce(signal_region(rank, bytes, signals)?.with_words(words))?;
        let pump = Arc::new(Pump::new(engine, rank, abort.clone()));
        let (direct, drivers, owner) = (OnceCell::new(), Mutex::new(None), std::process::id());
        let words = of_contexts;
        Ok(Arc::new(Self {
            device,
            rank,
            n_contexts,
            shape,
            abort,
            card,
            signals: own,
            words,
            sets,
            direct,
            pump,
            drivers,
            owner,
        }))
    }

    /// From now on the device's proxy thread, and its waiting blocks, run the step.
    pub fn start(&self, device: &Arc<dyn Device>) -> Result<()> {
        let thread = ProxyThread::of(device)?;
        thread.add(&self.pump);
        let pump = self.pump.clone();
        let blocks = device.add_progress(Arc::new(move || pump.step_beside()));
        *self.drivers.lock() = Some((blocks, thread));
        Ok(())
    }

    /// Names a window for descriptors, which count offsets from `start` bytes before it; `region.id` is chosen here. The value
    /// is never 0 and fits 63 bits.
    pub fn register_region(&self, region: Region, start: u64) -> Result<u64> {
        self.pump.engine()?.register(region, start)
    }

    /// Takes the value back: descriptors that still name it abort the communicator. Once this returns nothing touches the
    /// memory.
    pub fn deregister(&self, handle: u64) {
        self.give_back(|engine| engine.deregister(handle));
    }

    /// For what takes something out of the engine: where that cannot be had, it keeps it.
    fn give_back(&self, work: impl FnOnce(&mut Engine) -> Result<()>) {
        if let Err(error) = self.pump.engine().and_then(|mut engine| work(&mut engine)) {
            log::error(&error);
        }
    }

    /// First-fit range of `n` signal ids of that kind of context, the same on every rank that makes the same calls.
    pub fn alloc_signals(&self, backend: Backend, n: u32) -> Result<u32> {
        self.pump.engine()?.pools(backend).signals.alloc(n)
    }

    /// Gives a range back.
    pub fn free_signals(&self, backend: Backend, base: u32, n: u32) {
        self.give_back(|engine| {
            engine.pools(backend).signals.free(base, n);
            Ok(())
        });
    }

    /// First-fit range of `n` counter ids.
    pub fn alloc_counters(&self, backend: Backend, n: u32) -> Result<u32> {
        self.pump.engine()?.pools(backend).counters.alloc(n)
    }

    /// Gives a range back.
    pub fn free_counters(&self, backend: Backend, base: u32, n: u32) {
        self.give_back(|engine| {
            engine.pools(backend).counters.free(base, n);
            Ok(())
        });
    }

    /// Zeroes this rank's words of the ranges in every context of that kind; before the closing barrier of devcomm create.
    pub fn zero(&self, backend: Backend, signals: Range<u32>, counters: Range<u32>) -> Result<()> {
        match (backend, self.direct.get()) {
            (Backend::Direct, Some(direct)) => direct.zero(self, signals, counters),
            _ => {
                for (at, n) in self.apart(&signals, &counters) {
                    self.device.zero(at, n as usize * 8)?;
                }
                let of_context = 8 * self.shape.signals as usize;
                let (first, bytes) = (8 * signals.start as usize, 8 * signals.len());
                (0..self.n_contexts as usize).try_for_each(|c| self.signals.back(c * of_context + first, bytes))?;
                self.pump.engine()?.zero(signals, counters);
                Ok(())
            }
        }
    }

    /// Words in device memory that kernels of a device communicator, whose first context is at `contexts`, wait on and that the proxy does not move
    /// after an abort: address and how many.
    pub fn kernel_words(
        &self,
        (backend, contexts): (Backend, DevPtr),
        signals: Range<u32>,
        counters: Range<u32>,
    ) -> Vec<(DevPtr, u32)> {
        match (backend, self.direct.get()) {
            (Backend::Direct, Some(direct)) => direct.spans(self, &signals, &counters),
            (Backend::Gdaki, _) => [self.sets.lock().known(contexts), self.apart(&signals, &counters)].concat(),
            _ => Vec::new(),
        }
    }

    /// Where the words of the ids are that a card adds to in a GPU's memory: address and how many.
    fn apart(&self, signals: &Range<u32>, counters: &Range<u32>) -> Vec<(DevPtr, u32)> {
        let span = |first: DevPtr, ids: &Range<u32>| (first + u64::from(ids.start) * 8, ids.end - ids.start);
        let of = |words: &Arc<context::Words>| match **words {
            context::Words::Card { signals: of_signals, counters: of_counters } => {
                vec![span(of_signals, signals), span(of_counters, counters)]
            }
            _ => Vec::new(),
        };
        self.words.iter().flat_map(of).filter(|(_, n)| *n > 0).collect()
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
        }
        self.pump.stop();
    }
}

/// The signal memories of all ranks as the region that work's signals go to.
fn signal_region(rank: u32, bytes: u64, signals: Vec<Option<Arc<dyn Physical>>>) -> Result<Region> {
    let host = |memory: &Arc<dyn Physical>| {
        memory.host().filter(|_| memory.bytes() as u64 >= bytes).map(|at| at.as_ptr().expose_provenance() as DevPtr)
    };
    let addresses = signals.iter().map(|memory| memory.as_ref().and_then(host)).collect();
    let kept: Vec<Arc<dyn Physical>> = signals.into_iter().flatten().collect();
    // SAFETY: a physical memory stays mapped at its host address while its Arc, kept by the region, lives.
    let region = unsafe { Region::new(u64::MAX, bytes, rank, addresses, Box::new(kept)) };
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
        if self.owner != std::process::id() {
            // A forked child: the thread and whoever holds its locks are the parent's.
            std::mem::forget((self.drivers.get_mut().take(), self.pump.clone()));
            return;
        }
        self.stop();
    }
}
