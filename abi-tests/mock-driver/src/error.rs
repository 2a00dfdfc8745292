//! CUresult.

use crate::entry::{enter_early, give};
use std::ffi::{CStr, c_char};

/// A CUresult that is not success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

pub type Result<T = ()> = std::result::Result<T, Code>;

macro_rules! codes {
    ($($number:literal $short:ident $name:literal $text:literal)*) => {
        impl Code { $(pub const $short: Code = Code($number);)* }
        fn known(code: i32) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                0 => Some((c"CUDA_SUCCESS", c"no error")),
                $($number => Some(($name, $text)),)*
                _ => None,
            }
        }
    };
}

codes! {
    1 INVALID_VALUE c"CUDA_ERROR_INVALID_VALUE" c"invalid argument"
    2 OUT_OF_MEMORY c"CUDA_ERROR_OUT_OF_MEMORY" c"out of memory"
    3 NOT_INITIALIZED c"CUDA_ERROR_NOT_INITIALIZED" c"initialization error"
    100 NO_DEVICE c"CUDA_ERROR_NO_DEVICE" c"no CUDA-capable device is detected"
    101 INVALID_DEVICE c"CUDA_ERROR_INVALID_DEVICE" c"invalid device ordinal"
    200 INVALID_IMAGE c"CUDA_ERROR_INVALID_IMAGE" c"device kernel image is invalid"
    201 INVALID_CONTEXT c"CUDA_ERROR_INVALID_CONTEXT" c"invalid device context"
    217 PEER_ACCESS_UNSUPPORTED c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" c"peer access is not supported between these two devices"
    304 OPERATING_SYSTEM c"CUDA_ERROR_OPERATING_SYSTEM" c"OS call failed or operation not supported on this OS"
    400 INVALID_HANDLE c"CUDA_ERROR_INVALID_HANDLE" c"invalid resource handle"
    401 ILLEGAL_STATE c"CUDA_ERROR_ILLEGAL_STATE" c"the operation cannot be performed in the present state"
    500 NOT_FOUND c"CUDA_ERROR_NOT_FOUND" c"named symbol not found"
    600 NOT_READY c"CUDA_ERROR_NOT_READY" c"device not ready"
    700 ILLEGAL_ADDRESS c"CUDA_ERROR_ILLEGAL_ADDRESS" c"an illegal memory access was encountered"
    704 PEER_ACCESS_ALREADY_ENABLED c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" c"peer access is already enabled"
    705 PEER_ACCESS_NOT_ENABLED c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" c"peer access has not been enabled"
    709 CONTEXT_IS_DESTROYED c"CUDA_ERROR_CONTEXT_IS_DESTROYED" c"context is destroyed"
    712 ALREADY_REGISTERED c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" c"part or all of the requested memory range is already mapped"
    713 NOT_REGISTERED c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" c"pointer does not correspond to a registered memory region"
    719 LAUNCH_FAILED c"CUDA_ERROR_LAUNCH_FAILED" c"unspecified launch failure"
    800 NOT_PERMITTED c"CUDA_ERROR_NOT_PERMITTED" c"operation not permitted"
    801 NOT_SUPPORTED c"CUDA_ERROR_NOT_SUPPORTED" c"operation not supported"
    900 CAPTURE_UNSUPPORTED c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" c"operation not permitted when stream is capturing"
    901 CAPTURE_INVALIDATED c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" c"operation failed due to a previous error during capture"
    905 CAPTURE_ISOLATION c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION" c"dependency created on uncaptured work in another stream"
    906 CAPTURE_IMPLICIT c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" c"operation would make the legacy stream depend on a capturing blocking stream"
    999 UNKNOWN c"CUDA_ERROR_UNKNOWN" c"unknown error"
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: i32, out: *mut *const c_char) -> i32 {
    let name = known(code).map_or(std::ptr::null(), |(name, _)| name.as_ptr());
    // SAFETY: see the crate.
    enter_early(|| unsafe { give(out, name).and(if name.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: i32, out: *mut *const c_char) -> i32 {
    let text = known(code).map_or(std::ptr::null(), |(_, text)| text.as_ptr());
    // SAFETY: see the crate.
    enter_early(|| unsafe { give(out, text).and(if text.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }) })
}
