//! How an error reaches the caller: the boundary that no panic crosses, and the last error of the thread.

use std::any::type_name;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use crate::block;
use crate::device::{self, Device};
use crate::error::{Code, Result, ask_for_caller, refuse, report};
use crate::executor;
use crate::race;

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(Code::SUCCESS) };
}

/// Runs the body of an exported function: remembers its error for `cudaGetLastError`, turns a panic into an error.
pub fn entry<F: FnOnce() -> Result>(body: F) -> i32 {
    enter(type_name::<F>, body)
}

fn enter(whose: fn() -> &'static str, body: impl FnOnce() -> Result) -> i32 {
    ask_for_caller(caller);
    let body = || device::not_forked().and_then(|()| permitted(whose)).and_then(|()| body());
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

/// Host functions and callbacks call nothing of CUDA: what they wait for may stand behind them. `whose` is the name of a closure of the call's.
fn permitted(whose: fn() -> &'static str) -> Result {
    if !executor::is_in_call() {
        return Ok(());
    }
    let mut words = whose().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_call = |word: &&str| {
        word.strip_prefix("cuda").or(word.strip_prefix("cu")).is_some_and(|rest| rest.starts_with(char::is_uppercase))
    };
    let name = words.rfind(is_call).unwrap_or("a call of the CUDA API");
    refuse(
        Code::NOT_PERMITTED,
        &format!(
            "{name} in a host function (cudaLaunchHostFunc, cudaStreamAddCallback), which CUDA forbids\nfix: call it from a thread of your own, that the function wakes"
        ),
    )
}

/// The line of the host's call that is in the library now. A block is none of the host's.
fn caller() -> Option<String> {
    if block::current().is_some() { None } else { race::caller() }
}

/// [`entry`] for the driver API, whose errors `cudaGetLastError` never reports.
pub fn entry_of_driver<F: FnOnce() -> Result>(body: F) -> i32 {
    let before = LAST.get();
    let code = enter(type_name::<F>, body);
    LAST.set(before);
    code
}

/// [`entry`] for what a failed kernel makes useless: returns the device's sticky error instead.
pub fn entry_on_device<F: FnOnce(&'static Device) -> Result>(body: F) -> i32 {
    enter(type_name::<F>, || {
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
