//! How a communicator ends: finalize, destroy, abort.
//!
//! None of them waits for a peer: one thread may end its ranks one after the other. Memory that a running kernel may still
//! touch goes to the graveyard.

use super::Comm;
use crate::error::Result;
use crate::{bail, log};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// ncclCommFinalize, the part that does not wait: nothing new can be made. A second call is an error.
pub fn begin_finalize(comm: &Comm) -> Result<()> {
    comm.not_revoked()?;
    comm.abort.check()?;
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
    bury(comm);
}

/// ncclCommAbort, after the handle was taken out of the table: releases every wait on every rank, then as destroy.
pub fn abort(comm: Arc<Comm>) {
    comm.cancel_calls();
    comm.fail(comm.aborted());
    bury(comm);
}

fn bury(comm: Arc<Comm>) {
    comm.release.ended();
    let device = comm.device.clone();
    match comm.abort.is_raised() || !comm.collectives.idle() {
        // Kernels are on their way out, or collectives that nobody has waited for are still at work.
        true => device.bury(Box::new(comm)),
        // They have ended: who calls ncclCommDestroy promises it.
        false => device.retire(Box::new(comm)),
    }
}
