//! How an error reaches the caller: the boundary that no panic crosses, and the last error of the thread.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use crate::block;
use crate::device::{self, Device};
use crate::error::{Code, Result, ask_for_caller, report};
use crate::race;

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(Code::SUCCESS) };
}

/// Runs the body of an exported function: remembers its error for `cudaGetLastError`, turns a panic into an error.
pub fn entry(body: impl FnOnce() -> Result) -> i32 {
    ask_for_caller(caller);
    let body = || device::not_forked().and_then(|()| body());
    let result = std::panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        report("internal error: a panic in the CPU device (its message is above)");
        Err(Code::UNKNOWN)
    });
    match result {
        Ok(()) => 0,
        Err(code) => {
            LAST.set(code);
            code.0
        }
    }
}

/// The line of the host's call that is in the library now. A block is none of the host's.
fn caller() -> Option<String> {
    if block::current().is_some() { None } else { race::caller() }
}

/// [`entry`] for the driver API, whose errors `cudaGetLastError` never reports.
pub fn entry_of_driver(body: impl FnOnce() -> Result) -> i32 {
    let before = LAST.get();
    let code = entry(body);
    LAST.set(before);
    code
}

/// [`entry`] for what a failed kernel makes useless: returns the device's sticky error instead.
pub fn entry_on_device(body: impl FnOnce(&'static Device) -> Result) -> i32 {
    entry(|| {
        let device = device::current()?;
        device.healthy()?;
        body(device)
    })
}

/// The last error of this thread; `clear` forgets it (a failed kernel's error comes back from its device).
pub fn last(clear: bool) -> Code {
    let sticky = device::sticky_of_current();
    if sticky != Code::SUCCESS {
        return sticky;
    }
    let code = LAST.get();
    if clear {
        LAST.set(Code::SUCCESS);
    }
    code
}
