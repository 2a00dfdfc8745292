//! The engine of a rank's GIN and who runs it: the proxy's thread, waiting blocks of the CPU device, or for a while whoever sets something up.
#![forbid(unsafe_code)]

use super::proxy::Engine;
use crate::abort::Abort;
use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, MutexGuard};
use crate::{config, panic};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How long a step that is under way is waited for, at the end: it is some microseconds long, unless the driver does not come back.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How often the engine is asked for before the first nap.
const TRIES: u32 = 100;

/// An engine with its lock: whoever gets it runs the step, nobody waits for it.
pub struct Pump {
    engine: Mutex<Engine>,
    pub(super) abort: Arc<Abort>,
    rank: u32,
    stopped: AtomicBool,
    /// No step has been since its transports were armed. Written under the engine's lock.
    armed: AtomicBool,
    /// Steps of waiting blocks. Written under the engine's lock.
    beside: AtomicU64,
    /// Somebody has waited for a step in vain.
    stuck: AtomicBool,
    /// How many wait for the engine. No step begins meanwhile: a thread that spins would have it again before they look, and making a device communicator
    /// took 10 to 40 ms on two H200 (benchmark `setup`).
    wanted: AtomicU32,
    /// Copies of the transports', so that none is another file's by the time a sleeper lets go of it.
    descriptors: Vec<OwnedFd>,
}

impl Pump {
    /// Wraps the `engine` of rank `rank`, which raises `abort`.
    pub fn new(engine: Engine, rank: u32, abort: Arc<Abort>) -> Self {
        // Without one the thread only naps: slower, not wrong.
        let of_card = engine.watch.iter().flat_map(|watch| watch.descriptors());
        let all = engine.transports().filter_map(|transport| transport.descriptor()).chain(of_card);
        let descriptors = all.filter_map(|descriptor| descriptor.try_clone_to_owned().ok()).collect();
        let [stopped, armed, stuck] = std::array::from_fn(|_| AtomicBool::new(false));
        let (beside, wanted) = (AtomicU64::new(0), AtomicU32::new(0));
        Self { engine: Mutex::new(engine), abort, rank, stopped, armed, beside, stuck, wanted, descriptors }
    }

    /// What wakes a thread that sleeps for this engine.
    pub(super) fn descriptors(&self) -> &[OwnedFd] {
        &self.descriptors
    }

    /// One step, unless another thread is in one, or waits for the engine. True if anything moved.
    pub fn step(&self) -> bool {
        self.step_by(false)
    }

    /// The same by a block that waits.
    pub fn step_beside(&self) -> bool {
        self.step_by(true)
    }

    /// Grows while blocks look for what there is to do.
    pub(super) fn beside(&self) -> u64 {
        self.beside.load(Ordering::Relaxed)
    }

    fn step_by(&self, block: bool) -> bool {
        if self.stopped.load(Ordering::Relaxed) || self.wanted.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let Some(mut engine) = self.engine.try_lock() else { return false };
        // Again under the lock: `stop` may have come in between, and then the memory goes.
        if self.stopped.load(Ordering::Relaxed) {
            return false;
        }
        self.armed.store(false, Ordering::Relaxed);
        self.beside.store(self.beside() + u64::from(block), Ordering::Relaxed);
        let moved = panic::catch("the GIN proxy", || Ok::<_, Error>(engine.step())).unwrap_or_else(|error| {
            // The next step drains; if that panics too, kernels have only the abort word.
            if !self.abort.raise(error) {
                self.stopped.store(true, Ordering::Relaxed);
            }
            false
        });
        if moved {
            self.abort.moved();
        }
        moved
    }

    /// The engine, for set-up; waits for a step in progress. One that does not end within GINRS_TIMEOUT fails the communicator.
    pub fn engine(&self) -> Result<MutexGuard<'_, Engine>> {
        let patience = config::seconds("GINRS_TIMEOUT");
        let patience = if self.stuck.load(Ordering::Relaxed) { Duration::ZERO } else { patience };
        if let Some(engine) = self.wait(patience) {
            return Ok(engine);
        }
        self.stuck.store(true, Ordering::Relaxed);
        let waited =
            if patience.is_zero() { "it was waited for before".into() } else { format!("waited for {} s", patience.as_secs()) };
        let text = format!(
            "a step of the GIN proxy does not end | rank {}, pid {} | {waited}; most likely it is inside a call of the driver | fix: look at \
             dmesg for Xid lines, or raise GINRS_TIMEOUT",
            self.rank,
            std::process::id(),
        );
        let error = Error::new(Code::SystemError, 5, text).by(self.rank);
        self.abort.raise(error.clone());
        Err(error)
    }

    /// The engine, unless somebody else has it.
    pub fn engine_now(&self) -> Option<MutexGuard<'_, Engine>> {
        self.engine.try_lock()
    }

    /// The engine, if it can be had within so long. Time is counted in naps: while the whole process stands still none passes.
    fn wait(&self, patience: Duration) -> Option<MutexGuard<'_, Engine>> {
        let _wanted = Wanted::of(self);
        let (mut tries, mut waited, mut nap) = (0, Duration::ZERO, Duration::from_micros(20));
        loop {
            tries += 1;
            match self.engine.try_lock() {
                // A step is over before a nap is.
                None if tries <= TRIES => std::thread::yield_now(),
                None if waited < patience => {
                    std::thread::sleep(nap);
                    waited += nap;
                    nap = (2 * nap).min(Duration::from_millis(1));
                }
                engine => return engine,
            }
        }
    }

    /// Before its thread sleeps: true if no transport has anything to do by now, or somebody else sees to it.
    pub(super) fn arm(&self) -> bool {
        let Some(mut engine) = self.engine.try_lock() else { return true };
        let armed = self.stopped.load(Ordering::Relaxed) || engine.arm();
        self.armed.store(armed, Ordering::Relaxed);
        armed
    }

    /// A kernel has posted something since the last look at hints.
    pub(super) fn is_hinted(&self) -> bool {
        let Some(engine) = self.engine.try_lock() else { return false };
        !self.stopped.load(Ordering::Relaxed) && engine.is_hinted()
    }

    /// Behind a sleep that nothing has ended: true if there is still nothing to do. No call of a transport or of the system.
    pub(super) fn rests(&self) -> bool {
        let Some(mut engine) = self.engine.try_lock() else { return true };
        self.stopped.load(Ordering::Relaxed) || (self.armed.load(Ordering::Relaxed) && engine.rests())
    }

    /// `Err(cause)` once the communicator is aborted.
    pub fn check(&self) -> Result<()> {
        self.abort.check()
    }

    /// No step after this returns, no peer waits for one, and no region is known any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Where it cannot be had, that is told where the thread is waited for; it keeps the engine and all that this stands on.
        if let Some(mut engine) = self.wait(PATIENCE) {
            engine.close();
        }
    }
}

/// Somebody waits for the engine for as long as this lives.
struct Wanted<'a>(&'a AtomicU32);

impl<'a> Wanted<'a> {
    fn of(pump: &'a Pump) -> Self {
        pump.wanted.fetch_add(1, Ordering::Relaxed);
        Self(&pump.wanted)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::{Context, Shape, Words};
    use super::super::proxy::Routes;
    use super::*;
    use crate::device::ControlMemory;
    use crate::device::cpu::CpuDevice;
    use crate::seq::Seq;

    #[test]
    fn no_step_begins_while_somebody_waits_for_the_engine() {
        let abort = Arc::new(Abort::new(ControlMemory::anonymous(4096).unwrap()));
        let shape = Shape { n_ranks: 1, depth: 2, signals: 1, counters: 1, start: Seq(0) };
        let (contexts, _images) = Context::build(&*CpuDevice::new(0), shape, vec![Arc::new(Words::Foreign)], &abort).unwrap();
        let routes = Routes { transports: Vec::new(), by_peer: Vec::new() };
        let pump = Pump::new(Engine::new(0, contexts, routes, abort.clone(), 1), 0, abort);
        // A step says that nothing is armed any more.
        let steps = || {
            pump.armed.store(true, Ordering::Relaxed);
            pump.step();
            !pump.armed.load(Ordering::Relaxed)
        };
        assert!(steps());
        let held = pump.engine().unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| drop(pump.engine().unwrap()));
            while pump.wanted.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert!(!steps());
            drop(held);
            waits.join().unwrap();
        });
        assert!(steps(), "nobody waits any more");
        let waiting = Wanted::of(&pump);
        assert!(!steps());
        drop(waiting);
        assert!(steps());
    }
}
