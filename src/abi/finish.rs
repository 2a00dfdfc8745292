//! Finalize, revoke, destroy, abort (nccl.h). NULL is success, as in NCCL.

use super::deferred::{collective, submit};
use super::entry::{Outcome, entry};
use super::handles::{self, Removed};
use crate::bail;
use crate::comm::group::{self, Stage};
use crate::comm::{Comm, finish, revoke};
use crate::error::{Code, Error, Result};
use crate::layout::{ncclComm_t, ncclResult_t};
use std::ffi::c_int;
use std::sync::Arc;

/// Announces this rank's end, once what its kernels posted is done: it waits for no peer. Non-blocking communicators: in
/// progress until then.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommFinalize(comm: ncclComm_t) -> ncclResult_t {
    if comm.is_null() {
        return 0;
    }
    entry!(ncclCommFinalize(comm;) |c| {
        collective(|| {
            finish::begin_finalize(c)?;
            unless_blocking(c, finish::finalize)
        })
    })
}

/// Ends every wait on the communicator, on every rank, and leaves it good for ncclCommSplit, ncclCommShrink, ncclCommDestroy and
/// ncclCommAbort only. `revokeFlags` is NCCL_REVOKE_DEFAULT. Waits until kernels have left; non-blocking communicators: in progress
/// until then.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommRevoke(comm: ncclComm_t, revokeFlags: c_int) -> ncclResult_t {
    if comm.is_null() {
        return 0;
    }
    entry!(ncclCommRevoke(comm, revokeFlags) {
        collective(|| {
            // Also while a call is in progress, which ends then.
            let c = handles::get(comm)?;
            known(revokeFlags)?;
            revoke::begin(&c)?;
            unless_blocking(&c, revoke::finish)
        })
    })
}

fn known(flags: c_int) -> Result<()> {
    if flags != 0 {
        bail!(InvalidArgument, 62, "unknown flags | ncclCommRevoke | {flags:#x}, must be 0 | fix: pass NCCL_REVOKE_DEFAULT");
    }
    Ok(())
}

/// Now, or on a thread where the communicator is non-blocking. A group does not put it off: it waits for no peer.
fn unless_blocking(comm: &Arc<Comm>, work: fn(&Comm) -> Result<()>) -> Outcome {
    if comm.team.config.blocking || group::open() {
        return Ok(work(comm)?);
    }
    let on = comm.clone();
    submit(comm, Stage::Create, move |before| before.and_then(|()| work(&on)))
}

/// Ends this rank's use; the handle is dead afterwards. Memory that a running kernel uses stays until it has ended. What is in
/// progress goes on without the handle, and then ends too.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommDestroy(comm: ncclComm_t) -> ncclResult_t {
    if comm.is_null() {
        return 0;
    }
    entry!(ncclCommDestroy(comm) {
        collective(|| {
            match handles::remove(comm, false)? {
                Removed::Live(comm) => finish::destroy(comm),
                // Whoever creates it finds the handle gone.
                Removed::Pending(_) | Removed::Failed => {}
            }
            Ok(())
        })
    })
}

/// Releases every wait on the communicator, on every rank, and ends this rank's use; the handle is dead afterwards.
/// Returns at once, also with kernels waiting or the communicator still being made.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommAbort(comm: ncclComm_t) -> ncclResult_t {
    if comm.is_null() {
        return 0;
    }
    entry!(ncclCommAbort(comm) {
        collective(|| {
            match handles::remove(comm, true)? {
                Removed::Live(comm) => finish::abort(comm),
                Removed::Pending(pending) => {
                    let text = format!(
                        "ncclCommAbort was called | ncclComm_t 0x{:x}, which was being created | pid {} | fix: look for the first error of that rank",
                        comm as u64,
                        std::process::id()
                    );
                    pending.cancel.cancel(Error::new(Code::RemoteError, 41, text));
                }
                Removed::Failed => {}
            }
            Ok(())
        })
    })
}
