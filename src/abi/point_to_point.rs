//! Send and receive (nccl.h). Those of one communicator in one group become one launch, behind the group's collectives.

use super::deferred::{collective, submit};
use super::entry::{Outcome, entry};
use crate::coll::datatype::DataType;
use crate::coll::{Message, bytes_of, check_buffer, rank_of};
use crate::comm::group::Stage;
use crate::comm::{Comm, Gathered};
use crate::device::DevPtr;
use crate::device::cpu::call_site;
use crate::layout::*;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Sends `count` elements to `peer`, which must receive as many bytes. Outside a group it waits on the stream for the receiver.
#[unsafe(no_mangle)]
pub extern "C" fn pncclSend(
    sendbuff: *const c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclSend(comm; sendbuff, count, datatype, peer, stream) |c| {
        run(c, "ncclSend", true, sendbuff as DevPtr, count, datatype, peer, stream)
    })
}

/// Receives `count` elements from `peer`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclRecv(
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclRecv(comm; recvbuff, count, datatype, peer, stream) |c| {
        run(c, "ncclRecv", false, recvbuff as DevPtr, count, datatype, peer, stream)
    })
}

#[allow(clippy::too_many_arguments)]
fn run(
    comm: &Arc<Comm>,
    function: &'static str,
    sends: bool,
    at: DevPtr,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    stream: cudaStream_t,
) -> Outcome {
    collective(|| {
        comm.team.ready()?;
        let datatype = DataType::from_c(datatype)?;
        let peer = rank_of(function, "peer", peer, comm.team.n_ranks)?;
        let bytes = bytes_of(function, count as u64, datatype, 1)?;
        let name = if sends { "sendbuff" } else { "recvbuff" };
        check_buffer(&*comm.team.device, function, name, comm.team.rank, at, bytes)?;
        match Gathered::add_message(comm, Message { sends, peer, at, bytes, site: call_site() }, stream as usize) {
            // The first of its group brings them all to their launch.
            Some(messages) => submit(comm, Stage::PointToPoint, move |before| before.and_then(|()| messages.run_messages())),
            None => Ok(()),
        }
    })
}
