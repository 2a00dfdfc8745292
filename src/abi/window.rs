//! Windows (nccl.h): memory that other ranks reach. Registration is collective and waits for the end of a group.

use super::deferred::{collective, submit_checked};
use super::entry::{entry, nothing_yet, out};
use crate::comm::group::Stage;
use crate::device::DevPtr;
use crate::layout::*;
use std::ffi::{c_int, c_void};

/// Makes `size` bytes at `buff` a window. `*win` is NULL until the registration has run, and stays NULL where it failed or
/// where there is nothing to register (`buff` NULL, `size` 0). Collective; in a group it runs at ncclGroupEnd, and `win`
/// has to live until then.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommWindowRegister(
    comm: ncclComm_t,
    buff: *mut c_void,
    size: usize,
    win: *mut ncclWindow_t,
    winFlags: c_int,
) -> ncclResult_t {
    nothing_yet(win);
    entry!(ncclCommWindowRegister(comm; buff, size, win, winFlags) |c| {
        collective(|| {
            c.team.ready()?;
            let (comm, at, result) = (c.clone(), buff as DevPtr, win as usize);
            submit_checked(c, Stage::Window, out("win", win).map(drop), move |checked| {
                let handle = comm.windows.register_checked(at, size, winFlags, checked)?;
                // SAFETY: checked at the call; it lives until the registration has run, says the C contract.
                comm.deliver(|| unsafe { (result as *mut ncclWindow_t).write(handle as ncclWindow_t) });
                Ok(())
            })
        })
    })
}

/// Ends a window here, at once; the peers must have stopped using it. NULL is success.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommWindowDeregister(comm: ncclComm_t, win: ncclWindow_t) -> ncclResult_t {
    entry!(ncclCommWindowDeregister(comm; win) give back |c| {
        if !win.is_null() {
            c.windows.deregister(win as DevPtr)?;
        }
        Ok(())
    })
}
