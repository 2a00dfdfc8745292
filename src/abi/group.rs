//! Groups (nccl.h): calls between start and end of one thread run together at the outermost end. `simulate` has the end that
//! launches nothing.

use super::entry::{Stop, entry};
use crate::comm::group;
use crate::layout::ncclResult_t;

/// Opens a group on the calling thread; groups nest.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGroupStart() -> ncclResult_t {
    entry!(ncclGroupStart() {
        group::start();
        Ok(())
    })
}

/// Closes it; the outermost end runs the queued calls and returns the first failure.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGroupEnd() -> ncclResult_t {
    entry!(ncclGroupEnd() { group::end()?.map_err(Stop::Said) })
}
