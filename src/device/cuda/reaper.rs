//! Drops things off the caller's way: those that kernels may still touch when the device is done with all that runs now, those
//! that nobody uses any more at once.
//!
//! Two threads, because the first may wait for ever: for a kernel that an abort could not release.

use super::CudaDevice;
use super::context::Context;
use super::driver::{code, driver};
use crate::device::Lifetime;
use crate::error::Result;
use crate::log;
use crate::process::service_thread;
use crate::sync::OnceCell;
use crate::sync::answer;
use crate::sync::channel::{Receiver, Sender, unbounded};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

type Remains = Box<dyn Any + Send>;

/// The way to a thread that drops things. It never holds the end of the process up: nobody joins it.
pub struct Reaper {
    graves: Sender<Remains>,
}

impl Reaper {
    /// Starts a thread that waits for the device before it drops.
    pub fn after_kernels(context: Arc<Context>) -> Result<Self> {
        let name = format!("ginrs reap {}", context.device);
        Self::start(&name, move |waiting| {
            while let Ok(first) = waiting.recv() {
                let remains: Vec<Remains> = std::iter::once(first).chain(waiting.try_iter()).collect();
                wait_for(&context);
                drop_in(&context, remains);
            }
        })
    }

    /// Starts a thread that drops at once.
    pub fn at_once(context: Arc<Context>) -> Result<Self> {
        let name = format!("ginrs drop {}", context.device);
        Self::start(&name, move |waiting| waiting.iter().for_each(|remains| drop_in(&context, remains)))
    }

    fn start(name: &str, body: impl FnOnce(&Receiver<Remains>) + Send + 'static) -> Result<Self> {
        let (graves, waiting) = unbounded();
        service_thread(name, move || body(&waiting), |_| ())?;
        Ok(Self { graves })
    }

    /// Returns at once.
    pub fn take(&self, remains: Remains) {
        if let Err(unsent) = self.graves.send(remains) {
            // The thread has panicked: keeping memory for ever is the lesser evil.
            std::mem::forget(unsent);
        }
    }

    /// Waits until all that was given before has gone, but not for ever.
    pub fn drain(&self) {
        let (gone, hear) = answer::<()>();
        // Dropped when its turn has come.
        self.take(Box::new(gone));
        hear.wait(PATIENCE);
    }
}

/// This thread has no context of its own, and the driver unregisters host memory in none. Where the context has gone, all of it has.
fn drop_in<T>(context: &Context, remains: T) {
    let _inside = context.enter();
    drop(remains);
}

/// How long somebody waits for memory that is on its way out.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often a capture is looked for that forbids waiting.
const AGAIN: Duration = Duration::from_millis(5);

/// Until everything that was launched so far has ended. A context that has failed runs nothing any more.
///
/// The driver refuses to wait for a context while one of its streams is captured, and ends the capture. Captures of blocking
/// streams show, and are waited out; one of a non-blocking stream does not, which is why only an abort comes here.
fn wait_for(context: &Context) {
    let Ok(driver) = driver() else { return };
    loop {
        {
            let Ok(_inside) = context.enter() else { return };
            let mut status = 0;
            // CU_STREAM_LEGACY.
            let legacy = std::ptr::without_provenance_mut(1);
            // SAFETY: a handle that every context has; a valid place to write to, which the driver fills with one of three ints.
            let seen = unsafe { (driver.f.cuStreamIsCapturing)(legacy, (&raw mut status).cast()) };
            // SAFETY: no arguments; a context is current.
            let wait = || unsafe { (driver.f.cuCtxSynchronize)() };
            if seen != code::STREAM_CAPTURE_IMPLICIT && wait() != code::STREAM_CAPTURE_UNSUPPORTED {
                return;
            }
        }
        std::thread::sleep(AGAIN);
    }
}

/// Gives `remains` to the thread in `reaper`, started at first use.
fn give(reaper: &OnceCell<Option<Reaper>>, start: impl FnOnce() -> Result<Reaper>, remains: Box<dyn Any + Send>) {
    match reaper.get_or_init(|| start().inspect_err(log::error).ok()) {
        Some(reaper) => reaper.take(remains),
        // No thread to be had: what kernels may use is kept for ever.
        None => std::mem::forget(remains),
    }
}

impl CudaDevice {
    /// Drops `remains` on a thread of its own; for what [`Lifetime::retire`] drops in its turn.
    pub(super) fn drop_later(&self, remains: Box<dyn Any + Send>) {
        give(&self.at_once, || Reaper::at_once(self.context.clone()), remains);
    }

    /// Waits until memory that is on its way out has gone, but not for ever.
    pub(super) fn reap(&self) {
        for reaper in [&self.at_once, &self.after_kernels] {
            if let Some(Some(reaper)) = reaper.get() {
                reaper.drain();
            }
        }
    }
}

impl Lifetime for CudaDevice {
    fn idle(&self) -> bool {
        false
    }

    fn bury(&self, remains: Box<dyn Any + Send>) {
        give(&self.after_kernels, || Reaper::after_kernels(self.context.clone()), remains);
    }

    fn retire(&self, remains: Box<dyn Any + Send>) {
        self.drop_later(remains);
        if let Some(Some(reaper)) = self.at_once.get() {
            reaper.drain();
        }
    }
}
