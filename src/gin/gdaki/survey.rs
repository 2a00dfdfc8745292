//! Looks for failed completions in a GPU's memory, on a thread of its own. A copy may wait for a program that is inside the driver (cudaFree waits for
//! kernels, and keeps everybody's copies from being issued), and those kernels may wait for the proxy's thread to ring: that one makes none.
#![forbid(unsafe_code)]

use super::hardware::Hardware;
use super::rings::Failed;
use crate::error::{Error, Result};
use crate::process::{self, Joinable};
use crate::sync::{Condvar, Mutex, pid};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks. A kernel that waits for what failed sees it at once; this is for what no kernel waits for.
const PERIOD: Duration = Duration::from_secs(1);
/// The end of a rank waits so long for a look under way.
const PATIENCE: Duration = Duration::from_secs(10);
/// A copy that is late: what it waits for is no failure of the card.
const LATE: u16 = 4;

/// Row, peer and what failed; or why nobody can look.
pub type Found = Result<(u32, u32, Failed)>;

#[derive(Default)]
struct State {
    asked: bool,
    looking: bool,
    over: bool,
    found: Option<Found>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// See the head of this file; ends at drop.
pub struct Survey {
    shared: Arc<Shared>,
    thread: Option<Joinable>,
    owner: u32,
}

impl Survey {
    /// Of all queues of one rank and communicator.
    pub fn start(hardware: &Arc<Hardware>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (body, lost, hardware) = (shared.clone(), shared.clone(), hardware.clone());
        let told = move |error: Error| lost.state.lock().found = Some(Err(error));
        let thread = Joinable::start("ginrs card", move || run(&body, &hardware), told)?;
        Ok(Self { shared, thread: Some(thread), owner: pid() })
    }

    /// What was found since the last call.
    pub fn found(&self) -> Option<Found> {
        self.shared.state.lock().found.take()
    }

    /// Looks once more, and waits so long for what that finds.
    #[cold]
    pub fn now(&self, patience: Duration) -> Option<Found> {
        let end = Instant::now() + patience;
        let mut state = self.shared.state.lock();
        state.asked = true;
        self.shared.changed.notify_all();
        while (state.asked || state.looking) && !self.shared.changed.wait_until(&mut state, end).timed_out() {}
        state.found.take()
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        if self.owner != pid() {
            return; // a forked child has no such thread, and its copy of the lock may be held by it
        }
        self.shared.state.lock().over = true;
        self.shared.changed.notify_all();
        self.thread.take().into_iter().for_each(|thread| _ = thread.join(PATIENCE));
    }
}

fn run(shared: &Shared, hardware: &Hardware) {
    let mut state = shared.state.lock();
    while !state.over && state.found.is_none() {
        if !state.asked {
            shared.changed.wait_for(&mut state, PERIOD);
        }
        if state.over {
            return;
        }
        (state.asked, state.looking) = (false, true);
        drop(state);
        let Some(at_work) = process::at_work() else { return };
        let found = look(hardware);
        drop(at_work);
        state = shared.state.lock();
        (state.looking, state.found) = (false, found);
        shared.changed.notify_all();
    }
}

fn look(hardware: &Hardware) -> Option<Found> {
    match hardware.survey() {
        Err(error) if error.id == LATE => None,
        found => found.transpose(),
    }
}
