//! Reductions: those of nccl.h, and those that a program makes with ncclRedOpCreatePreMulSum.

use super::datatype::DataType;
use super::work;
use crate::bail;
use crate::device::DevPtr;
use crate::error::Result;
use crate::layout::ncclRedOp_t;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};

/// `ncclNumOps`: handles of a program's own reductions begin here.
const BUILT_IN: ncclRedOp_t = 5;

/// Never given twice in a process, so that a handle of another communicator is unknown here.
static NEXT: AtomicI32 = AtomicI32::new(BUILT_IN);

/// The factor of a pre-mul-sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// The element's bits, in the low bytes.
    Value(u64),
    /// Device memory that holds it when the kernel runs.
    At(DevPtr),
}

/// What a kernel is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// One of `work::OP_*`.
    pub code: u32,
    /// Of a pre-mul-sum; else `Value(0)`.
    pub scalar: Scalar,
}

/// What the program calls the operation of this code (`work`).
pub fn name_of(code: u32) -> &'static str {
    match code {
        work::OP_SUM => "ncclSum",
        work::OP_PROD => "ncclProd",
        work::OP_MAX_S | work::OP_MAX_U => "ncclMax",
        work::OP_MIN_S | work::OP_MIN_U => "ncclMin",
        work::OP_AVG | work::OP_DIV_S | work::OP_DIV_U => "ncclAvg",
        work::OP_PRE_MUL => "an operation of ncclRedOpCreatePreMulSum",
        _ => "no operation",
    }
}

impl Operation {
    /// The operation of kinds that reduce nothing.
    pub const NONE: Self = Self { code: work::OP_SUM, scalar: Scalar::Value(0) };

    /// True where a rank has a factor of its own for its input: whoever adds that up has to be told.
    pub fn is_local(self) -> bool {
        self.code == work::OP_PRE_MUL
    }
}

/// The pre-mul-sums of one communicator.
#[derive(Default)]
pub struct Operations(Mutex<HashMap<ncclRedOp_t, (DataType, Scalar)>>);

impl Operations {
    /// ncclRedOpCreatePreMulSum: a handle for "each input times `scalar`, then the sum".
    pub fn create(&self, datatype: DataType, scalar: Scalar) -> Result<ncclRedOp_t> {
        let handle = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
        let Ok(handle) = handle else {
            bail!(InternalError, 97, "no handle left | ncclRedOpCreatePreMulSum | 2^31 were made | fix: make fewer, once");
        };
        self.0.lock().insert(handle, (datatype, scalar));
        Ok(handle)
    }

    /// ncclRedOpDestroy. Calls that were made with it keep what they copied.
    pub fn destroy(&self, op: ncclRedOp_t) -> Result<()> {
        if (0..BUILT_IN).contains(&op) {
            bail!(
                InvalidArgument,
                97,
                "operation is built in | ncclRedOpDestroy | {op} | fix: destroy only what ncclRedOpCreatePreMulSum gave"
            );
        }
        match self.0.lock().remove(&op) {
            Some(_) => Ok(()),
            None => Err(unknown(op)),
        }
    }

    /// What `op` means for elements of `datatype` and `n_ranks` inputs.
    pub fn find(&self, op: ncclRedOp_t, datatype: DataType) -> Result<Operation> {
        let plain = |code| Ok(Operation { code, scalar: Scalar::Value(0) });
        let unsigned = datatype.is_unsigned();
        match op {
            0 => plain(work::OP_SUM),
            1 => plain(work::OP_PROD),
            2 => plain(if unsigned { work::OP_MAX_U } else { work::OP_MAX_S }),
            3 => plain(if unsigned { work::OP_MIN_U } else { work::OP_MIN_S }),
            4 if datatype.is_float() => plain(work::OP_AVG),
            4 => plain(if unsigned { work::OP_DIV_U } else { work::OP_DIV_S }),
            _ => match self.0.lock().get(&op) {
                None => Err(unknown(op)),
                Some((made_for, _)) if *made_for != datatype => bail!(
                    InvalidArgument,
                    97,
                    "operation is of another data type | op {op} | made for {made_for:?}, the call has {datatype:?} | fix: make one \
                     for each data type"
                ),
                Some((_, scalar)) => Ok(Operation { code: work::OP_PRE_MUL, scalar: *scalar }),
            },
        }
    }
}

fn unknown(op: ncclRedOp_t) -> crate::error::Error {
    crate::error::Error::new(
        crate::error::Code::InvalidArgument,
        97,
        format!(
            "unknown operation | op {op} | 0 to 4 are built in, others live on the communicator that made them until \
             ncclRedOpDestroy | fix: pass an ncclRedOp_t of this communicator"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_operations_know_the_sign() {
        let ops = Operations::default();
        let code = |op, datatype| ops.find(op, datatype).unwrap().code;
        assert_eq!([0, 1, 2, 3, 4].map(|op| code(op, DataType::Int32)), [0, 1, 2, 4, 7]);
        assert_eq!([0, 1, 2, 3, 4].map(|op| code(op, DataType::Uint64)), [0, 1, 3, 5, 8]);
        assert_eq!([0, 1, 2, 3, 4].map(|op| code(op, DataType::Bfloat16)), [0, 1, 2, 4, 9]);
        for wrong in [-1, 5, 1 << 20, i32::MAX, i32::MIN] {
            assert_eq!(ops.find(wrong, DataType::Int8).unwrap_err().id, 97);
        }
    }

    #[test]
    fn a_made_operation_lives_on_its_communicator_for_its_type_until_destroyed() {
        let (here, elsewhere) = (Operations::default(), Operations::default());
        let op = here.create(DataType::Float32, Scalar::Value(0x4000_0000)).unwrap();
        assert!(op >= BUILT_IN);
        let found = here.find(op, DataType::Float32).unwrap();
        assert_eq!((found.code, found.scalar, found.is_local()), (work::OP_PRE_MUL, Scalar::Value(0x4000_0000), true));
        assert!(here.find(op, DataType::Float64).unwrap_err().text.contains("made for Float32"));
        assert_eq!(elsewhere.find(op, DataType::Float32).unwrap_err().id, 97);
        assert_eq!(elsewhere.destroy(op).unwrap_err().id, 97);
        assert!(here.destroy(0).unwrap_err().text.contains("built in"));
        here.destroy(op).unwrap();
        assert_eq!(here.destroy(op).unwrap_err().id, 97);
        assert_ne!(here.create(DataType::Float32, Scalar::At(64)).unwrap(), op);
    }
}
