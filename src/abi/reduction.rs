//! Reductions that a program makes (nccl.h).

use super::deferred::collective;
use super::entry::{entry, out};
use crate::bail;
use crate::coll::Scalar;
use crate::coll::datatype::DataType;
use crate::device::DevPtr;
use crate::error::Result;
use crate::layout::*;
use std::ffi::{c_int, c_void};

/// `ncclScalarDevice`: read by the kernels, each time.
const ON_DEVICE: c_int = 0;
/// `ncclScalarHostImmediate`: read now.
const ON_HOST: c_int = 1;

/// An operation of this communicator: each rank's input times its own `*scalar`, then the sum.
///
/// # Safety
/// With ncclScalarHostImmediate, `scalar` points to an element of `datatype` that can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclRedOpCreatePreMulSum(
    op: *mut ncclRedOp_t,
    scalar: *mut c_void,
    datatype: ncclDataType_t,
    residence: ncclScalarResidence_t,
    comm: ncclComm_t,
) -> ncclResult_t {
    entry!(ncclRedOpCreatePreMulSum(comm; op, scalar, datatype, residence) |c| {
        collective(|| {
            let at = out("op", op)?;
            c.team.ready()?;
            let datatype = DataType::from_c(datatype)?;
            // SAFETY: the contract above.
            let scalar = unsafe { read(scalar, datatype, residence) }?;
            at.write(c.collectives.operations.create(datatype, scalar)?);
            Ok(())
        })
    })
}

/// Forgets it; calls that were made with it, also those that wait for the end of a group, are not touched.
#[unsafe(no_mangle)]
pub extern "C" fn pncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t {
    entry!(ncclRedOpDestroy(comm; op) give back |c| { Ok(c.collectives.operations.destroy(op)?) })
}

/// # Safety
/// As pncclRedOpCreatePreMulSum.
unsafe fn read(scalar: *const c_void, datatype: DataType, residence: ncclScalarResidence_t) -> Result<Scalar> {
    if scalar.is_null() {
        bail!(InvalidArgument, 61, "argument is NULL | scalar | 0x0 | fix: pass the address of an element");
    }
    match residence {
        ON_DEVICE => Ok(Scalar::At(scalar as DevPtr)),
        ON_HOST => {
            let mut bits = [0u8; 8];
            // SAFETY: the caller promised an element there; no element has more than 8 bytes.
            unsafe { std::ptr::copy_nonoverlapping(scalar.cast(), bits.as_mut_ptr(), datatype.bytes() as usize) };
            Ok(Scalar::Value(u64::from_le_bytes(bits)))
        }
        _ => bail!(
            InvalidArgument,
            93,
            "unknown residence | ncclRedOpCreatePreMulSum | {residence}, must be {ON_DEVICE} (ncclScalarDevice) or {ON_HOST} \
             (ncclScalarHostImmediate) | fix: pass an ncclScalarResidence_t"
        ),
    }
}
