//! Functions of nccl.h that are not implemented: each checks nothing and returns ncclInvalidUsage with a message that
//! names it. MATRIX.md lists them as stubs.
#![allow(unused_variables)]

use super::entry::run;
use super::types::*;
use crate::error::{Code, Error};
use std::ffi::c_int;

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
pub extern "C" fn pncclGroupSimulateEnd(simInfo: *mut ncclSimInfo_t) -> ncclResult_t {
    stub("ncclGroupSimulateEnd")
}
