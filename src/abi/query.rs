//! What a communicator can say of itself (nccl.h).

use super::entry::{Outcome, entry, out};
use super::handles::{self, Status};
use crate::comm::Comm;
use crate::error::Code;
use crate::layout::{ncclComm_t, ncclResult_t};
use std::ffi::c_int;

/// Number of ranks. Answered also while a call is in progress; not before the communicator is made.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t {
    entry!(ncclCommCount(comm, count) { ask(comm, "count", count, |c| c.team.n_ranks as c_int) })
}

/// Ordinal of the device that was current when it was made.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t {
    entry!(ncclCommCuDevice(comm, device) { ask(comm, "device", device, |c| c.team.device.ordinal()) })
}

/// This rank's number.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t {
    entry!(ncclCommUserRank(comm, rank) { ask(comm, "rank", rank, |c| c.team.rank as c_int) })
}

fn ask(comm: ncclComm_t, name: &str, at: *mut c_int, answer: impl Fn(&Comm) -> c_int) -> Outcome {
    let comm = handles::get(comm)?;
    out(name, at)?.write(answer(&comm));
    Ok(())
}

/// ncclSuccess, ncclInProgress while it is being made or a call on it is under way, or the code of the failure.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommGetAsyncError(comm: ncclComm_t, asyncError: *mut ncclResult_t) -> ncclResult_t {
    entry!(ncclCommGetAsyncError(comm, asyncError) {
        let state = out("asyncError", asyncError)?;
        let code = match handles::status(comm)? {
            Status::Pending => Code::InProgress,
            Status::Live(comm) => comm.state(),
            Status::Failed(error) => error.code,
        };
        state.write(code as ncclResult_t);
        Ok(())
    })
}
