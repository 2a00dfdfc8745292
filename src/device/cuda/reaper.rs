//! Drops things once no kernel can touch them any more: a thread per device waits for the device and then drops.

use super::context::Context;
use super::driver::{code, driver};
use crate::process::service_thread;
use crate::sync::channel::{Receiver, Sender, bounded, unbounded};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// What waits for the device: something to drop, or somebody to tell.
type Remains = Box<dyn Any + Send>;

/// The way to the thread.
pub struct Reaper {
    graves: Sender<Remains>,
}

impl Reaper {
    /// Starts the thread. It never holds the end of the process up: nobody joins it.
    pub fn start(context: Arc<Context>) -> crate::error::Result<Self> {
        let (graves, waiting) = unbounded();
        let name = format!("ginrs reap {}", context.device);
        service_thread(&name, move || reap(&context, &waiting), |_| ())?;
        Ok(Self { graves })
    }

    /// Returns at once.
    pub fn bury(&self, remains: Remains) {
        if let Err(unsent) = self.graves.send(remains) {
            // The thread has panicked: keeping memory for ever is the lesser evil.
            std::mem::forget(unsent);
        }
    }

    /// Waits at most that long until all that was buried before has gone; true if it has.
    pub fn settle(&self, patience: Duration) -> bool {
        let (told, news) = bounded(1);
        self.bury(Box::new(Tell(told)));
        news.recv_timeout(patience).is_ok()
    }
}

/// Says so when it is dropped.
struct Tell(Sender<()>);

impl Drop for Tell {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

fn reap(context: &Context, waiting: &Receiver<Remains>) {
    while let Ok(first) = waiting.recv() {
        // In order: whoever asks to be told comes after what he asks about.
        let remains: Vec<Remains> = std::iter::once(first).chain(waiting.try_iter()).collect();
        wait_for(context);
        drop(remains);
    }
}

/// Until everything that was launched so far has ended. A context that has failed runs nothing any more.
fn wait_for(context: &Context) {
    let Ok(driver) = driver() else { return };
    loop {
        let Ok(_inside) = context.enter() else { return };
        // SAFETY: no arguments; a context is current.
        match unsafe { (driver.f.cuCtxSynchronize)() } {
            // A stream of this context is being captured, and the driver refuses to wait meanwhile.
            code::STREAM_CAPTURE_UNSUPPORTED => {}
            _ => return,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
