//! How a communicator ends: finalize, destroy, abort.
//!
//! None of them waits for a peer: one thread may end its ranks one after the other. Memory that a running kernel may still
//! touch goes to the graveyard.

use super::Comm;
use crate::bail;
use crate::device::graveyard;
use crate::error::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// ncclCommFinalize: nothing new can be made, and this rank's end is no death any more. A second call is an error.
pub fn finalize(comm: &Comm) -> Result<()> {
    comm.abort.check()?;
    if comm.finalized.swap(true, Ordering::AcqRel) {
        bail!(
            InvalidArgument,
            64,
            "communicator is already finalized | {} | second ncclCommFinalize | fix: finalize once, then ncclCommDestroy",
            comm.tag()
        );
    }
    comm.watch.leaving();
    Ok(())
}

/// ncclCommDestroy, after the handle was taken out of the table.
pub fn destroy(comm: Arc<Comm>) {
    if !comm.abort.is_raised() && !comm.finalized.swap(true, Ordering::AcqRel) {
        comm.watch.leaving();
    }
    bury(comm);
}

/// ncclCommAbort, after the handle was taken out of the table: releases every wait on every rank, then as destroy.
pub fn abort(comm: Arc<Comm>) {
    let cause = Error::new(
        Code::RemoteError,
        41,
        format!(
            "ncclCommAbort was called | {} | pid {} | fix: look for the first error of that rank",
            comm.tag(),
            std::process::id()
        ),
    );
    comm.fail(cause.by(comm.rank));
    bury(comm);
}

fn bury(comm: Arc<Comm>) {
    let device = comm.device.clone();
    graveyard::bury(&device, Box::new(comm));
}
