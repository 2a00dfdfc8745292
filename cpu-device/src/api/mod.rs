//! The CUDA runtime API, one file per chapter. Each function checks its arguments, calls the modules above, and converts the
//! result; outputs are written only on success.
//!
//! All of them share these rules. Pointers come from C: an output that is NULL is `cudaErrorInvalidValue`, other pointers are
//! the caller's word. A panic becomes `cudaErrorUnknown`. After a kernel failed on the thread's device, what needs a device
//! returns that failure.
#![allow(clippy::missing_safety_doc, missing_docs, reason = "the contract is stated here; what each call does is CUDA's")]

pub mod device;
pub mod driver;
pub mod event;
pub mod graph;
pub mod ipc;
pub mod launch;
pub mod memory;
pub mod pool;
pub mod properties;
pub mod stream;
pub mod transfer;
pub mod virtual_memory;

use crate::error::{Code, Result};

/// Writes an output.
///
/// # Errors
/// `InvalidValue` if it is NULL.
///
/// # Safety
/// `to` is NULL or valid.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> Result {
    if to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's.
    unsafe { to.write(value) };
    Ok(())
}

/// Refuses a NULL output before work is done for it.
pub(crate) fn need<T>(to: *mut T) -> Result {
    if to.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }
}
