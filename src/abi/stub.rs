//! Functions of nccl.h that are not implemented: each checks nothing and returns ncclInvalidUsage with a message that
//! names it. MATRIX.md lists them as stubs.
#![allow(unused_variables)]

use super::entry::run;
use super::types::*;
use crate::error::{Code, Error};
use std::ffi::{c_int, c_void};

fn stub(name: &'static str) -> ncclResult_t {
    run(name, &[], || {
        Err(Error::new(
            Code::InvalidUsage,
            67,
            format!(
                "{name} is not implemented in this version of ginrs | see MATRIX.md | fix: use the device API (ncclGin, \
                 LSA, barriers), or link NVIDIA's library for {name}"
            ),
        )
        .into())
    })
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommInitRankScalable(
    newcomm: *mut ncclComm_t,
    nranks: c_int,
    myrank: c_int,
    nId: c_int,
    commIds: *mut ncclUniqueId,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    stub("ncclCommInitRankScalable")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommSplit(
    comm: ncclComm_t,
    color: c_int,
    key: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    stub("ncclCommSplit")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommShrink(
    comm: ncclComm_t,
    excludeRanksList: *mut c_int,
    excludeRanksCount: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
    shrinkFlags: c_int,
) -> ncclResult_t {
    stub("ncclCommShrink")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommRevoke(comm: ncclComm_t, revokeFlags: c_int) -> ncclResult_t {
    stub("ncclCommRevoke")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclRedOpCreatePreMulSum(
    op: *mut ncclRedOp_t,
    scalar: *mut c_void,
    datatype: ncclDataType_t,
    residence: ncclScalarResidence_t,
    comm: ncclComm_t,
) -> ncclResult_t {
    stub("ncclRedOpCreatePreMulSum")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t {
    stub("ncclRedOpDestroy")
}

/// Not implemented: ncclInvalidUsage.
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
    stub("ncclReduce")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclBcast(
    buff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    stub("ncclBcast")
}

/// Not implemented: ncclInvalidUsage.
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
    stub("ncclBroadcast")
}

/// Not implemented: ncclInvalidUsage.
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
    stub("ncclAllReduce")
}

/// Not implemented: ncclInvalidUsage.
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
    stub("ncclReduceScatter")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclAllGather(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    sendcount: usize,
    datatype: ncclDataType_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    stub("ncclAllGather")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclAlltoAll(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    stub("ncclAlltoAll")
}

/// Not implemented: ncclInvalidUsage.
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
    stub("ncclGather")
}

/// Not implemented: ncclInvalidUsage.
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
    stub("ncclScatter")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclSend(
    sendbuff: *const c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    stub("ncclSend")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclRecv(
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    stub("ncclRecv")
}

/// Not implemented: ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGroupSimulateEnd(simInfo: *mut ncclSimInfo_t) -> ncclResult_t {
    stub("ncclGroupSimulateEnd")
}
