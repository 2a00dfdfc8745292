//! How a communicator ends: finalize, destroy, abort.
//!
//! None of them waits for a peer: one thread may end its ranks one after the other. Memory that a running kernel may still
//! touch goes to the graveyard.

use super::Comm;
use crate::error::Result;
use crate::sync::Mutex;
use crate::{bail, log};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once, Weak};

/// ncclCommFinalize, the part that does not wait: nothing new can be made. A second call is an error.
pub fn begin_finalize(comm: &Comm) -> Result<()> {
    comm.not_revoked()?;
    comm.alive()?;
    if comm.finalized.swap(true, Ordering::AcqRel) {
        bail!(
            InvalidArgument,
            64,
            "communicator is already finalized | {} | second ncclCommFinalize | fix: finalize once, then ncclCommDestroy",
            comm.tag()
        );
    }
    Ok(())
}

/// The rest: what its kernels posted is done, and this rank's end is no death any more.
pub fn finalize(comm: &Comm) -> Result<()> {
    let drained = comm.drain();
    comm.watch.leaving();
    drained
}

impl Comm {
    /// Until what kernels of this rank have posted is done. Kernels may have ended with signals still on their way: nobody
    /// waits for those at the sender. After an abort nothing is left to wait for.
    pub fn drain(&self) -> Result<()> {
        let gin = self.gin.lock().clone();
        match gin.map_or(Ok(()), |gin| gin.drain()) {
            Err(_) if self.abort.is_raised() => Ok(()),
            result => result,
        }
    }
}

/// ncclCommDestroy, after the handle was taken out of the table. Where a call is under way, it ends the communicator when it is
/// done.
pub fn destroy(comm: Arc<Comm>) {
    comm.notice.print();
    // Asked before anything is drained: what a collective posts in between would be lost.
    let at_work = !comm.collectives.idle();
    // The process may end right behind this call: a finalize that is under way is not left to its thread.
    if comm.finalized.load(Ordering::Acquire)
        && !comm.abort.is_raised()
        && let Err(error) = finalize(&comm)
    {
        log::error(&error);
    }
    if comm.destroy_later() {
        return;
    }
    if !comm.abort.is_raised() && !comm.finalized.swap(true, Ordering::AcqRel) {
        if let Err(error) = comm.drain() {
            log::error(&error);
        }
        comm.watch.leaving();
    }
    comm.release.ended();
    let device = comm.device.clone();
    match comm.abort.is_raised() || at_work {
        true => device.bury(Box::new(Unwaited::new(comm))),
        // Its kernels have ended: who calls ncclCommDestroy promises it.
        false => device.retire(Box::new(comm)),
    }
}

/// ncclCommAbort, after the handle was taken out of the table: releases every wait on every rank, then as destroy.
pub fn abort(comm: Arc<Comm>) {
    comm.notice.aborted();
    comm.cancel_calls();
    comm.fail(comm.aborted());
    comm.release.ended();
    // Kernels are on their way out.
    comm.device.clone().bury(Box::new(comm));
}

/// A communicator that was destroyed while collectives were at work. Peers need what these have yet to post: it is done when this
/// is dropped, behind the kernels, or when the process ends.
struct Unwaited(Arc<Comm>);

/// With the process that made them: a child of fork() has none.
static UNWAITED: Mutex<Vec<(u32, Weak<Comm>)>> = Mutex::new(Vec::new());

impl Unwaited {
    fn new(comm: Arc<Comm>) -> Self {
        if comm.gin.lock().is_some() {
            static HANDLER: Once = Once::new();
            // Exit handlers run in reverse order: this one comes before the end of the service threads.
            // SAFETY: the handler touches statics only. Registered from this library, so it also runs if that is closed.
            HANDLER.call_once(|| _ = unsafe { libc::atexit(at_exit) });
            let mut all = UNWAITED.lock();
            all.retain(|(_, other)| other.strong_count() > 0);
            all.push((std::process::id(), Arc::downgrade(&comm)));
        }
        Self(comm)
    }
}

impl Drop for Unwaited {
    fn drop(&mut self) {
        settle(&self.0);
    }
}

fn settle(comm: &Comm) {
    if !comm.abort.is_raised()
        && let Err(error) = comm.drain()
    {
        log::error(&error);
    }
}

extern "C" fn at_exit() {
    // A forked child may find it locked for ever.
    let Some(all) = UNWAITED.try_lock().map(|mut all| std::mem::take(&mut *all)) else { return };
    for comm in all.iter().filter(|(owner, _)| *owner == std::process::id()).filter_map(|(_, comm)| comm.upgrade()) {
        settle(&comm);
        // Not the last owner in an exit handler: the memory of the process goes as a whole.
        std::mem::forget(comm);
    }
}
