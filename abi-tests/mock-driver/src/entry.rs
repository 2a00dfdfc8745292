//! What every call goes through: initialised, in this process, and not told to fail.

use crate::error::{Code, Result};
use crate::{device, inject};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process that called cuInit; a forked child has another number and, as on the real driver, no driver.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn number(result: Result) -> i32 {
    result.map_or_else(|code| code.0, |()| 0)
}

/// A call that needs no cuInit.
pub fn enter_early(body: impl FnOnce() -> Result) -> i32 {
    number(body())
}

/// A call that needs cuInit. `name` is what GINRS_MOCK_FAIL calls it.
pub fn enter(name: &str, body: impl FnOnce() -> Result) -> i32 {
    if OWNER.load(Ordering::Acquire) != std::process::id() {
        return Code::NOT_INITIALIZED.0;
    }
    note(name);
    number(inject::due(name).map_or_else(body, Err))
}

/// A line of GINRS_MOCK_CALLS.
fn note(name: &str) {
    static CALLS: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let path = std::env::var_os("GINRS_MOCK_CALLS")?;
        Some(OpenOptions::new().create(true).append(true).open(path).expect("GINRS_MOCK_CALLS can be written"))
    };
    if let Some(mut file) = CALLS.get_or_init(open).as_ref() {
        // SAFETY: a call without arguments.
        let line = format!("{} {name}\n", unsafe { libc::gettid() });
        file.write_all(line.as_bytes()).expect("GINRS_MOCK_CALLS can be written");
    }
}

/// Writes an output.
///
/// # Safety
/// `out` is NULL (an error) or valid for a write.
pub unsafe fn give<T>(out: *mut T, value: T) -> Result {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes an output that the caller may not want.
///
/// # Safety
/// `out` is NULL or valid for a write.
pub unsafe fn give_if<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: the caller's.
        unsafe { out.write(value) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> i32 {
    enter_early(|| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if let Some(code) = inject::due("cuInit") {
            return Err(code);
        }
        if device::count() == 0 {
            return Err(Code::NO_DEVICE);
        }
        let process = std::process::id();
        match OWNER.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
            Err(owner) if owner != process => Err(Code::NOT_INITIALIZED),
            _ => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(out: *mut i32) -> i32 {
    // SAFETY: see the crate.
    enter_early(|| unsafe { give(out, 13000) })
}
