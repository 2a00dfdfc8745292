//! Buffer registration (nccl.h): local, counted, and of no effect on the device API.

use super::entry::{entry, out};
use crate::layout::{ncclComm_t, ncclResult_t};
use std::ffi::c_void;

/// Notes a buffer of `size` bytes. The handle is a number, not an address.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommRegister(comm: ncclComm_t, buff: *mut c_void, size: usize, handle: *mut *mut c_void) -> ncclResult_t {
    entry!(ncclCommRegister(comm; buff, size, handle) |c| {
        let at = out("handle", handle)?;
        c.team.ready()?;
        at.write(c.windows.register_buffer(buff as usize, size) as *mut c_void);
        Ok(())
    })
}

/// Forgets it. NULL is success, an unknown handle ncclInvalidUsage.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t {
    entry!(ncclCommDeregister(comm; handle) give back |c| {
        if !handle.is_null() {
            c.windows.deregister_buffer(handle as usize)?;
        }
        Ok(())
    })
}
