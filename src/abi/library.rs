//! Version, unique id, error strings: nccl.h's functions that need no communicator.

use super::entry::{entry, out};
use crate::bootstrap::UniqueId;
use crate::layout::*;
use crate::log;
use std::ffi::{c_char, c_int};

/// The version of the API, 22809. NULL is ncclInvalidArgument.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetVersion(version: *mut c_int) -> ncclResult_t {
    entry!(ncclGetVersion(version) {
        out("version", version)?.write(NCCL_VERSION_CODE);
        Ok(())
    })
}

/// A new id, good for one communicator; its secret is what lets a rank in, so pass it only to the ranks.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetUniqueId(uniqueId: *mut ncclUniqueId) -> ncclResult_t {
    entry!(ncclGetUniqueId(uniqueId) {
        let at = out("uniqueId", uniqueId)?;
        let id = UniqueId::create()?;
        at.write(ncclUniqueId { internal: id.bytes().map(|b| b as c_char) });
        Ok(())
    })
}

/// What a result code means; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetErrorString(result: ncclResult_t) -> *const c_char {
    let text = match result {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

/// The latest warning of this process, at most 1023 bytes; `comm` is ignored and may be anything.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGetLastError(comm: ncclComm_t) -> *const c_char {
    let _ = comm;
    log::last_error_ptr()
}

/// Does nothing: the environment is read once (marked "differs" in MATRIX.md).
#[unsafe(no_mangle)]
pub extern "C" fn pncclResetDebugInit() {}
