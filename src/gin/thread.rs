//! The thread around [`Engine::step`]: one per device, shared by all communicators of that device.
//!
//! On the CPU device a waiting block runs the same step itself, so the thread serves kernels that put and leave, and naps
//! when nothing has moved for a while: a thread that spins would take the core from the kernels.

use super::abort::Abort;
use super::proxy::Engine;
use crate::device::{Device, Kind};
use crate::error::{Error, Result};
use crate::process::{self, PerProcess};
use crate::{log, panic};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An engine with its lock: whoever gets it runs the step, nobody waits for it.
pub struct Pump {
    engine: Mutex<Engine>,
    abort: Arc<Abort>,
    stopped: AtomicBool,
}

impl Pump {
    /// Wraps `engine`, which raises `abort`.
    pub fn new(engine: Engine, abort: Arc<Abort>) -> Self {
        Self { engine: Mutex::new(engine), abort, stopped: AtomicBool::new(false) }
    }

    /// One step, unless another thread is in one. True if anything moved.
    pub fn step(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return false;
        }
        let Some(mut engine) = self.engine.try_lock() else { return false };
        panic::catch("the GIN proxy", || Ok::<_, Error>(engine.step())).unwrap_or_else(|error| {
            // The next step drains; if that panics too, kernels have only the abort word.
            if !self.abort.raise(error) {
                self.stopped.store(true, Ordering::Relaxed);
            }
            false
        })
    }

    /// The engine, for set-up; waits for a step in progress.
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock()
    }

    /// `Err(cause)` once the communicator is aborted.
    pub fn check(&self) -> Result<()> {
        self.abort.check()
    }

    /// No step after this returns.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(self.engine.lock());
    }
}

/// When to spin, yield and nap.
#[derive(Clone, Copy)]
struct Idle {
    spins: u32,
    yields: u32,
    naps: (Duration, Duration),
    /// The nap once no kernel has run for [`QUIET`].
    quiet: Duration,
}

const QUIET: Duration = Duration::from_millis(100);

impl Idle {
    fn of(kind: Kind) -> Self {
        let us = Duration::from_micros;
        match kind {
            Kind::Cpu => Self { spins: 64, yields: 32, naps: (us(50), us(1000)), quiet: us(5000) },
            Kind::Cuda => Self { spins: 20_000, yields: 1000, naps: (us(20), us(200)), quiet: us(1000) },
        }
    }
}

struct Members {
    pumps: Vec<Arc<Pump>>,
    version: u64,
    quit: bool,
}

struct Common {
    members: Mutex<Members>,
    changed: Condvar,
}

/// One device's proxy thread; ends when the last communicator lets go of it.
pub struct ProxyThread {
    common: Arc<Common>,
    handle: Option<JoinHandle<()>>,
    owner: u32,
}

type Running = Mutex<Vec<((Kind, i32), Weak<ProxyThread>)>>;
static RUNNING: PerProcess<Running> = PerProcess::new();

impl ProxyThread {
    /// The thread of `device`, started if there is none.
    pub fn of(device: &Arc<dyn Device>) -> Result<Arc<Self>> {
        let key = (device.kind(), device.ordinal());
        let mut running = RUNNING.get(|| Mutex::new(Vec::new())).lock();
        running.retain(|(_, thread)| thread.strong_count() > 0);
        if let Some(thread) = running.iter().find(|entry| entry.0 == key).and_then(|entry| entry.1.upgrade()) {
            return Ok(thread);
        }
        let common = Arc::new(Common {
            members: Mutex::new(Members { pumps: Vec::new(), version: 0, quit: false }),
            changed: Condvar::new(),
        });
        let (body, orphans, theirs) = (common.clone(), common.clone(), device.clone());
        let handle = process::service_thread(
            &format!("ginrs gin {}", device.ordinal()),
            move || run(&body, theirs.as_ref()),
            move |error| orphans.members.lock().pumps.iter().for_each(|pump| _ = pump.abort.raise(error.clone())),
        )?;
        let thread = Arc::new(Self { common, handle: Some(handle), owner: std::process::id() });
        running.push((key, Arc::downgrade(&thread)));
        Ok(thread)
    }

    /// From now on the thread steps `pump`.
    pub fn add(&self, pump: &Arc<Pump>) {
        self.change(|pumps| pumps.push(pump.clone()));
    }

    /// The thread forgets `pump`; it may still be inside one step of it.
    pub fn remove(&self, pump: &Arc<Pump>) {
        self.change(|pumps| pumps.retain(|member| !Arc::ptr_eq(member, pump)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Pump>>)) {
        let mut members = self.common.members.lock();
        change(&mut members.pumps);
        members.version += 1;
        self.common.changed.notify_all();
    }
}

impl Drop for ProxyThread {
    fn drop(&mut self) {
        self.common.members.lock().quit = true;
        self.common.changed.notify_all();
        if let Some(handle) = self.handle.take()
            && self.owner == std::process::id()
        {
            // A panic in it has been told; a forked child has no such thread.
            let _ = handle.join();
        }
    }
}

/// The loop around the step.
fn run(common: &Common, device: &dyn Device) {
    log::set_device(device.ordinal());
    let idle = Idle::of(device.kind());
    let mut pumps: Vec<Arc<Pump>> = Vec::new();
    let mut version = 0;
    let mut still = 0u32;
    let mut last_kernel = Instant::now();
    loop {
        let mut moved = false;
        for pump in &pumps {
            moved |= Pump::step(pump);
        }
        still = if moved { 0 } else { still.saturating_add(1) };
        if still > idle.spins && still <= idle.spins + idle.yields {
            std::thread::yield_now();
        } else if still > 0 && still <= idle.spins {
            std::hint::spin_loop();
        }
        let mut members = common.members.lock();
        if still > idle.spins + idle.yields && members.version == version && !members.quit {
            if device.idle() {
                let quiet = last_kernel.elapsed() > QUIET;
                let nap = if quiet { idle.quiet } else { idle.naps.1 };
                common.changed.wait_for(&mut members, nap);
            } else {
                last_kernel = Instant::now();
                let doubled = idle.naps.0 * (1 << (still - idle.spins - idle.yields).min(10));
                common.changed.wait_for(&mut members, doubled.min(idle.naps.1));
            }
        }
        if members.quit {
            return;
        }
        if members.version != version {
            version = members.version;
            still = 0;
            pumps.clone_from(&members.pumps);
        }
    }
}
