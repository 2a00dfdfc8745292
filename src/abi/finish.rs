//! Finalize, destroy, abort (nccl.h). NULL is success, as in NCCL.

use super::entry::entry;
use super::types::{ncclComm_t, ncclResult_t};
use crate::comm::{finish, handles};

/// Announces this rank's end. Returns at once: it waits for no peer.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommFinalize(comm: ncclComm_t) -> ncclResult_t {
    if comm.is_null() {
        return 0;
    }
    entry!(ncclCommFinalize(comm;) |c| { Ok(finish::finalize(c)?) })
}

/// Ends this rank's use; the handle is dead afterwards. Memory that a running kernel uses stays until it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommDestroy(comm: ncclComm_t) -> ncclResult_t {
    if comm.is_null() {
        return 0;
    }
    entry!(ncclCommDestroy(comm) {
        if let Some(comm) = handles::remove(comm)? {
            finish::destroy(comm);
        }
        Ok(())
    })
}

/// Releases every wait on the communicator, on every rank, and ends this rank's use; the handle is dead afterwards.
/// Returns at once, also with kernels waiting.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommAbort(comm: ncclComm_t) -> ncclResult_t {
    if comm.is_null() {
        return 0;
    }
    entry!(ncclCommAbort(comm) {
        if let Some(comm) = handles::remove(comm)? {
            finish::abort(comm);
        }
        Ok(())
    })
}
