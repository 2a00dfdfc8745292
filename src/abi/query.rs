//! What a communicator can say of itself (nccl.h).

use super::entry::{entry, out};
use super::types::{ncclComm_t, ncclResult_t};
use crate::comm::handles::{self, Status};
use crate::error::Code;
use crate::log;
use std::ffi::c_int;

/// Number of ranks.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t {
    entry!(ncclCommCount(comm; count) |c| {
        out("count", count)?.write(c.n_ranks as c_int);
        Ok(())
    })
}

/// Ordinal of the device that was current when it was made.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t {
    entry!(ncclCommCuDevice(comm; device) |c| {
        out("device", device)?.write(c.device.ordinal());
        Ok(())
    })
}

/// This rank's number.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t {
    entry!(ncclCommUserRank(comm; rank) |c| {
        out("rank", rank)?.write(c.rank as c_int);
        Ok(())
    })
}

/// ncclSuccess, ncclInProgress until the group that creates it has ended, or the code of its failure.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommGetAsyncError(comm: ncclComm_t, asyncError: *mut ncclResult_t) -> ncclResult_t {
    entry!(ncclCommGetAsyncError(comm, asyncError) {
        let state = out("asyncError", asyncError)?;
        let code = match handles::status(comm)? {
            Status::Pending => Code::InProgress,
            // The cause stands before it has been printed: whoever asks now finds its text all the same.
            Status::Live(comm) => comm.abort.cause().inspect(|cause| log::recall(cause)).map_or(Code::Success, |cause| cause.code),
            Status::Failed(error) => error.code,
        };
        state.write(code as ncclResult_t);
        Ok(())
    })
}
