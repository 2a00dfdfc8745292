//! The element types of nccl.h, and which kernel reduces them.

use super::work;
use crate::bail;
use crate::error::Result;
use crate::layout::ncclDataType_t;
use std::ffi::CStr;

/// One of `ncclDataType_t`; the numbers are the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DataType {
    Int8 = 0,
    Uint8 = 1,
    Int32 = 2,
    Uint32 = 3,
    Int64 = 4,
    Uint64 = 5,
    Float16 = 6,
    Float32 = 7,
    Float64 = 8,
    Bfloat16 = 9,
    Float8e4m3 = 10,
    Float8e5m2 = 11,
}

use DataType::*;

/// By number.
const ALL: [DataType; 12] =
    [Int8, Uint8, Int32, Uint32, Int64, Uint64, Float16, Float32, Float64, Bfloat16, Float8e4m3, Float8e5m2];

/// The kernel of a way for each type, by its name in cuda/collectives/kernels.cuh.
macro_rules! kernel {
    ($way:literal, $datatype:expr) => {
        kernel!(@ $way, $datatype, Int8 | Uint8 = "i8", Int32 | Uint32 = "i32", Int64 | Uint64 = "i64", Float16 = "f16", Float32 = "f32",
            Float64 = "f64", Bfloat16 = "bf16", Float8e4m3 = "e4m3", Float8e5m2 = "e5m2")
    };
    (@ $way:literal, $datatype:expr, $($($type:ident)|+ = $name:literal),+) => {
        match $datatype {
            $($($type)|+ => const {
                match CStr::from_bytes_with_nul(concat!("ginrs_", $way, "_", $name, "\0").as_bytes()) {
                    Ok(kernel) => kernel,
                    Err(_) => panic!("one NUL, at the end"),
                }
            }),+
        }
    };
}

impl DataType {
    /// What a caller's number means.
    pub fn from_c(value: ncclDataType_t) -> Result<Self> {
        match usize::try_from(value).ok().and_then(|i| ALL.get(i)) {
            Some(found) => Ok(*found),
            None => bail!(
                InvalidArgument,
                93,
                "unknown data type | datatype | {value}, must be 0 to {} | fix: pass an ncclDataType_t",
                ALL.len() - 1
            ),
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Int8 | Uint8 | Float8e4m3 | Float8e5m2 => 1,
            Float16 | Bfloat16 => 2,
            Int32 | Uint32 | Float32 => 4,
            Int64 | Uint64 | Float64 => 8,
        }
    }

    /// False for integers.
    pub fn is_float(self) -> bool {
        matches!(self, Float16 | Float32 | Float64 | Bfloat16 | Float8e4m3 | Float8e5m2)
    }

    /// True for integers that compare and divide without a sign.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Uint8 | Uint32 | Uint64)
    }

    /// `ginrsCollType` of cuda/collectives/work.h: integers go by their width.
    pub fn code(self) -> u32 {
        match self {
            Int8 | Uint8 => 0,
            Int32 | Uint32 => 1,
            Int64 | Uint64 => 2,
            Float16 => 3,
            Bfloat16 => 4,
            Float32 => 5,
            Float64 => 6,
            Float8e4m3 => 7,
            Float8e5m2 => 8,
        }
    }

    /// The kernel that reduces it in one LSA team, but for small calls.
    pub fn reduce_kernel(self) -> &'static CStr {
        kernel!("reduce", self)
    }

    /// The kernel that reduces small calls ([`super::table::How::Ll`]).
    pub fn reduce_ll_kernel(self) -> &'static CStr {
        kernel!("reduce_ll", self)
    }

    /// Programs reduce many buffers in a group where they are gradients. A kernel for each other type would cost a second of ptxas for each
    /// architecture.
    fn is_grouped(self) -> bool {
        matches!(self, Float16 | Bfloat16 | Float32)
    }

    /// [`Self::reduce_kernel`] for several calls in one launch. None: each has its own launch.
    pub fn several_reduce_kernel(self) -> Option<&'static CStr> {
        self.is_grouped().then_some(kernel!("several_reduce", self))
    }

    /// [`Self::reduce_ll_kernel`] for several calls in one launch.
    pub fn several_reduce_ll_kernel(self) -> Option<&'static CStr> {
        self.is_grouped().then_some(kernel!("several_reduce_ll", self))
    }

    /// Whether the switch has the operation: sums, and maxima and minima of integers and half-precision floats. An average of the latter
    /// needs the sum that is not yet rounded.
    pub fn is_switched(self, op: u32) -> bool {
        let sums = matches!(op, work::OP_SUM | work::OP_DIV_S | work::OP_DIV_U);
        let compares = matches!(op, work::OP_MAX_S | work::OP_MAX_U | work::OP_MIN_S | work::OP_MIN_U);
        match self {
            Int32 | Uint32 | Int64 | Uint64 | Float16 | Bfloat16 => sums || compares,
            Float32 | Float64 => sums || op == work::OP_AVG,
            Int8 | Uint8 | Float8e4m3 | Float8e5m2 => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_has_no_average_of_sums_that_it_rounds_and_no_products() {
        for datatype in ALL {
            let has = |op| datatype.is_switched(op);
            assert_eq!(has(work::OP_AVG), matches!(datatype, Float32 | Float64), "{datatype:?}");
            assert_eq!(has(work::OP_SUM), datatype.bytes() > 1, "{datatype:?}");
            assert_eq!(has(work::OP_MAX_S), datatype.bytes() > 1 && !matches!(datatype, Float32 | Float64), "{datatype:?}");
            assert!(!has(work::OP_PROD) && !has(work::OP_PRE_MUL));
        }
    }

    #[test]
    fn numbers_are_the_abis_and_others_are_refused() {
        for (i, datatype) in ALL.iter().enumerate() {
            assert_eq!((DataType::from_c(i as i32).unwrap(), *datatype as usize), (*datatype, i));
            let name = datatype.reduce_kernel().to_str().unwrap();
            assert_eq!(datatype.reduce_ll_kernel().to_str().unwrap(), name.replace("reduce", "reduce_ll"));
            for (kernel, way) in
                [(datatype.several_reduce_kernel(), "several_reduce"), (datatype.several_reduce_ll_kernel(), "several_reduce_ll")]
            {
                assert!(kernel.is_none_or(|kernel| kernel.to_str().unwrap() == name.replace("reduce", way)));
                assert_eq!(kernel.is_some(), matches!(datatype, Float16 | Bfloat16 | Float32), "{datatype:?}");
            }
            let bits = name.trim_start_matches("ginrs_reduce_").trim_start_matches(char::is_alphabetic);
            let bits = if bits.contains('m') { "8" } else { bits };
            assert_eq!(bits.parse::<u32>().unwrap(), datatype.bytes() * 8, "{name}");
        }
        for wrong in [-1, 12, i32::MAX, i32::MIN] {
            let error = DataType::from_c(wrong).unwrap_err();
            assert!(error.id == 93 && error.text.contains(&wrong.to_string()), "{error}");
        }
    }
}
