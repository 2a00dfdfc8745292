//! How an error reaches the caller: the last error of the thread, the message on stderr, the boundary that no panic crosses.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;

pub use crate::code::Code;
use parking_lot::Mutex;

/// What the functions behind the C API return.
pub type Result<T = ()> = std::result::Result<T, Code>;

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(Code::SUCCESS) };
}

static LAST_REPORT: Mutex<String> = Mutex::new(String::new());

/// Writes one message to stderr, whole, with our name before each line.
pub fn report(text: &str) {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.lines() {
        out.push_str("ginrs-cpu: ");
        out.push_str(line);
        out.push('\n');
    }
    // A closed stderr is no reason to fail.
    // Not std's: a thread of a forked child's parent may have held its lock, and the other one.
    // SAFETY: out is a live string.
    unsafe { libc::write(2, out.as_ptr().cast(), out.len()) };
    if let Some(mut last) = LAST_REPORT.try_lock() {
        *last = out;
    }
}

/// The last message of [`report`] in this process: for tests, and for a debugger.
pub fn last_report() -> String {
    LAST_REPORT.lock().clone()
}

/// Says what was wrong and returns the code for it.
pub fn refuse<T>(code: Code, text: &str) -> Result<T> {
    report(text);
    Err(code)
}

/// Runs the body of an exported function: remembers its error for `cudaGetLastError`, turns a panic into an error.
pub fn entry(body: impl FnOnce() -> Result) -> i32 {
    let body = || crate::device::not_forked().and_then(|()| body());
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

/// [`entry`] for the driver API, whose errors `cudaGetLastError` never reports.
pub fn entry_of_driver(body: impl FnOnce() -> Result) -> i32 {
    let before = LAST.get();
    let code = entry(body);
    LAST.set(before);
    code
}

/// [`entry`] for what a failed kernel makes useless: returns the device's sticky error instead.
pub fn entry_on_device(body: impl FnOnce(&'static crate::device::Device) -> Result) -> i32 {
    entry(|| {
        let device = crate::device::current()?;
        device.healthy()?;
        body(device)
    })
}

/// The last error of this thread; `clear` forgets it (a failed kernel's error comes back from its device).
pub fn last(clear: bool) -> Code {
    let sticky = crate::device::sticky_of_current();
    if sticky != Code::SUCCESS {
        return sticky;
    }
    let code = LAST.get();
    if clear {
        LAST.set(Code::SUCCESS);
    }
    code
}
