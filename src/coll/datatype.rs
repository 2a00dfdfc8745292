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

    /// The kernel that reduces it: integers go by their width.
    pub fn reduce_kernel(self) -> &'static CStr {
        kernel!("reduce", self)
    }

    /// The kernel that reduces it by messages.
    pub fn pass_kernel(self) -> &'static CStr {
        kernel!("pass", self)
    }

    /// The kernel that reduces it between buffers that all ranks see.
    pub fn mapped_kernel(self) -> &'static CStr {
        kernel!("mapped", self)
    }

    /// Of several small calls ([`super::table::How::Ll`]).
    pub fn several_ll_kernel(self) -> &'static CStr {
        kernel!("several_ll", self)
    }

    /// Of several calls between buffers that all ranks see, or by messages.
    pub fn several_kernel(self) -> &'static CStr {
        kernel!("several_mapped", self)
    }

    /// The kernel that reduces it through the switch, if that has the operation: sums, and maxima and minima of integers and half-precision floats.
    /// An average of the latter needs the sum that is not yet rounded.
    pub fn multicast_kernel(self, op: u32) -> Option<&'static CStr> {
        let sums = matches!(op, work::OP_SUM | work::OP_DIV_S | work::OP_DIV_U);
        let compares = matches!(op, work::OP_MAX_S | work::OP_MAX_U | work::OP_MIN_S | work::OP_MIN_U);
        match self {
            Int32 | Uint32 if sums || compares => Some(c"ginrs_multicast_i32"),
            Int64 | Uint64 if sums || compares => Some(c"ginrs_multicast_i64"),
            Float16 if sums || compares => Some(c"ginrs_multicast_f16"),
            Bfloat16 if sums || compares => Some(c"ginrs_multicast_bf16"),
            Float32 if sums || op == work::OP_AVG => Some(c"ginrs_multicast_f32"),
            Float64 if sums || op == work::OP_AVG => Some(c"ginrs_multicast_f64"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_has_no_average_of_sums_that_it_rounds_and_no_products() {
        for datatype in ALL {
            let has = |op| datatype.multicast_kernel(op).is_some();
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
            assert_eq!(datatype.pass_kernel().to_str().unwrap(), name.replace("reduce", "pass"));
            assert_eq!(datatype.mapped_kernel().to_str().unwrap(), name.replace("reduce", "mapped"));
            assert_eq!(datatype.several_ll_kernel().to_str().unwrap(), name.replace("reduce", "several_ll"));
            assert_eq!(datatype.several_kernel().to_str().unwrap(), name.replace("reduce", "several_mapped"));
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
