//! Collectives (nccl.h): checked and copied at the call, put on the caller's stream at once or at the end of the group.

use super::deferred::{collective, submit};
use super::entry::{Outcome, entry};
use crate::coll::{Call, Kind, Operation, datatype::DataType, rank_of};
use crate::comm::group::Stage;
use crate::comm::{Comm, Gathered};
use crate::device::DevPtr;
use crate::device::cpu::call_site;
use crate::layout::*;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// What the functions have in common.
struct Request {
    kind: Kind,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    op: Option<ncclRedOp_t>,
    root: Option<c_int>,
    stream: cudaStream_t,
}

fn run(comm: &Arc<Comm>, request: Request) -> Outcome {
    collective(|| {
        comm.team.ready()?;
        let Request { kind, send, recv, count, datatype, op, root, stream } = request;
        let datatype = DataType::from_c(datatype)?;
        let op = op.map_or(Ok(Operation::NONE), |op| comm.collectives.operations.find(op, datatype))?;
        let root = root.map_or(Ok(0), |root| rank_of(kind.name(), "root", root, comm.team.n_ranks))?;
        let (send, recv, count) = (send as DevPtr, recv as DevPtr, count as u64);
        let call = Call { kind, send, recv, count, datatype, op, root, stream: stream as usize, site: call_site() };
        call.check(&*comm.team.device, comm.team.rank, comm.team.n_ranks)?;
        if count == 0 {
            return Ok(());
        }
        match Gathered::add_call(comm, call) {
            // The first of its group brings them all to their launches.
            Some(calls) => submit(comm, Stage::Launch, move |before| before.and_then(|()| calls.run_calls())),
            None => Ok(()),
        }
    })
}

/// Reduces `count` elements of every rank; all ranks get the result. In place where `sendbuff` is `recvbuff`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclAllReduce(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclAllReduce(comm; sendbuff, recvbuff, count, datatype, op, stream) |c| {
        run(c, Request { kind: Kind::AllReduce, send: sendbuff, recv: recvbuff, count, datatype, op: Some(op), root: None, stream })
    })
}

/// Reduces `count` elements of every rank; `root` alone gets the result, and the others' `recvbuff` is not looked at. In place
/// where `sendbuff` is `recvbuff`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclReduce(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclReduce(comm; sendbuff, recvbuff, count, datatype, op, root, stream) |c| {
        run(c, Request { kind: Kind::Reduce, send: sendbuff, recv: recvbuff, count, datatype, op: Some(op), root: Some(root), stream })
    })
}

/// Reduces `recvcount` elements for each rank; rank i gets the i-th part of the result. In place where `recvbuff` is the own
/// part of `sendbuff`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclReduceScatter(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    recvcount: usize,
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclReduceScatter(comm; sendbuff, recvbuff, recvcount, datatype, op, stream) |c| {
        let kind = Kind::ReduceScatter;
        run(c, Request { kind, send: sendbuff, recv: recvbuff, count: recvcount, datatype, op: Some(op), root: None, stream })
    })
}

/// Gives every rank the `sendcount` elements of all ranks, in the order of ranks. In place where `sendbuff` is the own part of
/// `recvbuff`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclAllGather(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    sendcount: usize,
    datatype: ncclDataType_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclAllGather(comm; sendbuff, recvbuff, sendcount, datatype, stream) |c| {
        let kind = Kind::AllGather;
        run(c, Request { kind, send: sendbuff, recv: recvbuff, count: sendcount, datatype, op: None, root: None, stream })
    })
}

/// Copies `count` elements of `root` to all ranks; the others' `sendbuff` is not looked at.
#[unsafe(no_mangle)]
pub extern "C" fn pncclBroadcast(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclBroadcast(comm; sendbuff, recvbuff, count, datatype, root, stream) |c| {
        let kind = Kind::Broadcast;
        run(c, Request { kind, send: sendbuff, recv: recvbuff, count, datatype, op: None, root: Some(root), stream })
    })
}

/// ncclBroadcast in place.
#[unsafe(no_mangle)]
pub extern "C" fn pncclBcast(
    buff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclBcast(comm; buff, count, datatype, root, stream) |c| {
        let kind = Kind::Broadcast;
        run(c, Request { kind, send: buff, recv: buff, count, datatype, op: None, root: Some(root), stream })
    })
}

/// Sends `count` elements to every rank and receives as many from each: part i of `sendbuff` goes to rank i, part i of
/// `recvbuff` comes from it. Never in place.
#[unsafe(no_mangle)]
pub extern "C" fn pncclAlltoAll(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclAlltoAll(comm; sendbuff, recvbuff, count, datatype, stream) |c| {
        run(c, Request { kind: Kind::AlltoAll, send: sendbuff, recv: recvbuff, count, datatype, op: None, root: None, stream })
    })
}

/// Gives `root` the `count` elements of all ranks, in the order of ranks; the others' `recvbuff` is not looked at. In place
/// where the root's `sendbuff` is its own part of `recvbuff`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGather(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclGather(comm; sendbuff, recvbuff, count, datatype, root, stream) |c| {
        let kind = Kind::Gather;
        run(c, Request { kind, send: sendbuff, recv: recvbuff, count, datatype, op: None, root: Some(root), stream })
    })
}

/// Gives rank i part i of the root's `sendbuff`, `count` elements; the others' `sendbuff` is not looked at. In place where the
/// root's `recvbuff` is its own part of `sendbuff`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclScatter(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    entry!(ncclScatter(comm; sendbuff, recvbuff, count, datatype, root, stream) |c| {
        let kind = Kind::Scatter;
        run(c, Request { kind, send: sendbuff, recv: recvbuff, count, datatype, op: None, root: Some(root), stream })
    })
}
