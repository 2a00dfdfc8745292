//! How a communicator ends: finalize, destroy, abort.
//!
//! None of them waits for a peer: one thread may end its ranks one after the other. Memory that a running kernel may still
//! touch goes to the graveyard.

use super::Comm;
use crate::device::cpu::{Race, tell_race};
use crate::error::Result;
use crate::sync::{Mutex, PerProcess};
use crate::{bail, log, process};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long the end of the process waits for collectives that are at work.
const LAST_COLLECTIVES: Duration = Duration::from_secs(1);

/// ncclCommFinalize, the part that does not wait: nothing new can be made. A second call is an error.
pub fn begin_finalize(comm: &Comm) -> Result<()> {
    comm.team.not_revoked()?;
    comm.team.alive()?;
    if comm.team.finalized.swap(true, Ordering::AcqRel) {
        bail!(
            InvalidArgument,
            64,
            "communicator is already finalized | {} | second ncclCommFinalize | fix: finalize once, then ncclCommDestroy",
            comm.team.tag()
        );
    }
    Ok(())
}

/// The rest: what its kernels posted is done, and this rank's end is no death any more.
pub fn finalize(comm: &Comm) -> Result<()> {
    let drained = comm.windows.drain();
    comm.team.watch.leaving();
    drained
}

/// ncclCommDestroy, after the handle was taken out of the table. Where a call is under way, it ends the communicator when it is
/// done.
pub fn destroy(comm: Arc<Comm>) {
    comm.notice.destroyed();
    // Asked before anything is drained: what a collective posts in between would be lost.
    let at_work = !comm.collectives.idle();
    // The process may end right behind this call: a finalize that is under way is not left to its thread.
    if comm.team.finalized.load(Ordering::Acquire)
        && comm.team.failure().is_none()
        && let Err(error) = finalize(&comm)
    {
        log::error(&error);
    }
    if comm.destroy_later() {
        return;
    }
    if comm.team.failure().is_none() && !comm.team.finalized.swap(true, Ordering::AcqRel) {
        if let Err(error) = comm.windows.drain() {
            log::error(&error);
        }
        // In a destructor behind `goodbye`: nobody finishes what is at work.
        if !(at_work && process::is_ending()) {
            comm.team.watch.leaving();
        }
    }
    comm.devcomms.release.ended();
    tell_race(if comm.team.failure().is_none() { Race::Settled } else { Race::Failed }, comm.team.rank);
    let device = comm.team.device.clone();
    match comm.team.failure().is_some() || at_work {
        true => device.bury(Box::new(Unwaited::new(comm))),
        // Its kernels have ended: who calls ncclCommDestroy promises it.
        false => device.retire(Box::new(comm)),
    }
}

/// ncclCommAbort, after the handle was taken out of the table: releases every wait on every rank, then as destroy.
pub fn abort(comm: Arc<Comm>) {
    comm.notice.aborted();
    // After an error that named another rank, the abort is a reaction to a failure, which the watch
    // may not have seen yet. A rank that polls ncclCommGetAsyncError has to observe it.
    let is_reaction = comm.blamed.lock().is_some();
    if comm.team.failure().is_none() && !is_reaction && comm.is_quiescent() {
        comm.team.watch.quiescent();
    }
    comm.cancel_calls();
    comm.team.fail(comm.aborted());
    comm.devcomms.release.ended();
    tell_race(Race::Failed, comm.team.rank);
    // Kernels are on their way out.
    comm.team.device.clone().bury(Box::new(comm));
}

/// A communicator that was destroyed while collectives were at work. Peers need what these have yet to post: it is done when this
/// is dropped, behind the kernels, or when the process ends.
struct Unwaited(Arc<Comm>);

static UNWAITED: PerProcess<Mutex<Vec<Weak<Comm>>>> = PerProcess::new();

impl Unwaited {
    fn new(comm: Arc<Comm>) -> Self {
        if comm.windows.gin().is_some() {
            let mut all = UNWAITED.lock();
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(&comm));
        }
        Self(comm)
    }
}

impl Drop for Unwaited {
    fn drop(&mut self) {
        drain(&self.0);
    }
}

fn drain(comm: &Comm) {
    if comm.team.failure().is_none()
        && let Err(error) = comm.windows.drain()
    {
        log::error(&error);
    }
}

/// The process ends through exit() with `status`; `live` are its communicators that nobody destroyed. What destroyed ones have yet to
/// post is done; and where the process succeeded, the end of the others is no death to their ranks elsewhere, unless it cuts a collective short: who is in that
/// would wait for ever. Destructors of static objects may come behind this and still use them: nothing is taken away.
pub fn goodbye(status: i32, live: Vec<Arc<Comm>>) {
    let unwaited = std::mem::take(&mut *UNWAITED.lock());
    for comm in unwaited.iter().filter_map(Weak::upgrade) {
        comes_to_rest(&comm);
        drain(&comm);
        // Not the last owner in an exit handler: the memory of the process goes as a whole.
        std::mem::forget(comm);
    }
    if status != 0 {
        return;
    }
    for comm in live {
        if comm.idle().is_ok() && comes_to_rest(&comm) && comm.team.failure().is_none() {
            drain(&comm);
            comm.team.watch.leaving();
        }
        std::mem::forget(comm);
    }
}

/// True once no collective of `comm` is at work. False where that lasts, or another thread calls on.
fn comes_to_rest(comm: &Comm) -> bool {
    let called = || comm.team.watch.calls().said();
    let (before, deadline) = (called(), Instant::now() + LAST_COLLECTIVES);
    while !comm.collectives.idle() {
        if comm.team.failure().is_some() || called() != before || Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}
