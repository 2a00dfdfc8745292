//! ncclGroupSimulateEnd (nccl.h): ends a group without its kernels. Communicators, windows and device communicators of the group are
//! made; collectives, sends and receives are left out.
//!
//! The library has no model of how long they would take: the estimate is 0 where there was nothing to launch, else -1, which is
//! the header's "undefined".

use super::entry::{Outcome, Stop, entry};
use crate::bail;
use crate::comm::group;
use crate::error::{Code, Result};
use crate::layout::{NCCL_SIM_INFO_MAGIC, ncclResult_t, ncclSimInfo_t};

/// Bytes that every version of the struct has: size, magic, version.
const HEAD: usize = 16;
/// NCCL_UNDEF_FLOAT.
const UNKNOWN: f32 = -1.0;

/// Closes a group as ncclGroupEnd does, but launches nothing. Writes as much of the struct as the caller's `size` says it has; an
/// inner group writes nothing.
///
/// # Safety
/// `simInfo` is a struct whose `size` field is right.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclGroupSimulateEnd(simInfo: *mut ncclSimInfo_t) -> ncclResult_t {
    entry!(ncclGroupSimulateEnd(simInfo) {
        // SAFETY: the contract above.
        let checked = unsafe { check(simInfo) };
        if let Err(error) = &checked {
            // The group ends all the same; what stands in it is dropped.
            group::note(error.code);
        }
        let ended = group::simulate_end();
        let size = checked?;
        let (told, left_out) = ended?;
        if let (Ok(()) | Err(Code::InProgress), Some(left_out)) = (told, left_out) {
            // SAFETY: the contract above, and `check` found room for the field.
            unsafe { write(simInfo, size, if left_out == 0 { 0.0 } else { UNKNOWN }) };
        }
        finish(told)
    })
}

fn finish(told: group::Told) -> Outcome {
    told.map_err(Stop::Said)
}

/// The caller's size of the struct.
///
/// # Safety
/// As [`pncclGroupSimulateEnd`].
unsafe fn check(at: *mut ncclSimInfo_t) -> Result<usize> {
    if at.is_null() || !at.is_aligned() {
        bail!(
            InvalidArgument,
            61,
            "argument is NULL or misaligned | simInfo | {at:p} | fix: pass the address of a ncclSimInfo_t"
        );
    }
    // SAFETY: every version of the struct begins with these; readable by the contract above.
    let (size, magic, version) = unsafe { ((*at).size, (*at).magic, (*at).version) };
    if magic != NCCL_SIM_INFO_MAGIC || size < HEAD || version == 0 {
        bail!(
            InvalidArgument,
            62,
            "simulation info is not initialised | ncclSimInfo_t | magic 0x{magic:08x}, must be 0x{NCCL_SIM_INFO_MAGIC:08x}; size {size}, at least \
             {HEAD}; version {version} | fix: begin with ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER"
        );
    }
    Ok(size)
}

/// # Safety
/// `at` is writable for `size` bytes.
unsafe fn write(at: *mut ncclSimInfo_t, size: usize, estimate: f32) {
    if size >= std::mem::offset_of!(ncclSimInfo_t, estimatedTime) + size_of::<f32>() {
        // SAFETY: the field lies within `size` bytes.
        unsafe { (&raw mut (*at).estimatedTime).write(estimate) };
    }
}
