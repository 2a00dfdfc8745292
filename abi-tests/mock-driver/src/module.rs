//! cuModule* and cuLaunchKernel. No code of an image runs here: a launch takes its turn in the stream and is written to the file
//! that GINRS_MOCK_LAUNCHES names, a line each: `kernel x y threads stream bytes`, the parameter in hex.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::queue::Operation;
use crate::{context, stream};
use parking_lot::Mutex;
use std::ffi::{CStr, c_char, c_void};
use std::fmt::Write as _;
use std::io::Write as _;

/// First word of a fatbin.
const FATBIN: u32 = 0xba55_ed50;
const MODULE: u64 = 0x6d6f_6475_0000;
const FUNCTION: u64 = 0x6675_6e63_0000;

/// Names of functions by number.
static FUNCTIONS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(out: *mut u64, image: *const c_void) -> i32 {
    enter("cuModuleLoadData", || {
        context::current()?;
        if image.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: see the crate; an image has a header. Also below.
        if unsafe { image.cast::<u32>().read_unaligned() } != FATBIN {
            return Err(Code::INVALID_IMAGE);
        }
        // SAFETY: as above.
        unsafe { give(out, MODULE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(out: *mut u64, module: u64, name: *const c_char) -> i32 {
    enter("cuModuleGetFunction", || {
        if module != MODULE {
            return Err(Code::INVALID_HANDLE);
        }
        if name.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let mut functions = FUNCTIONS.lock();
        functions.push(name);
        // SAFETY: as above.
        unsafe { give(out, FUNCTION + functions.len() as u64) }
    })
}

/// The parameter's bytes as the `extra` list gives them.
unsafe fn parameter(mut extra: *const *const c_void) -> Result<Vec<u8>> {
    let (mut at, mut bytes) = (std::ptr::null::<u8>(), 0);
    loop {
        if extra.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above: pairs of a word and its value, ended by 0.
        unsafe {
            match *extra as usize {
                0 => break,
                1 => at = (*extra.add(1)).cast(),
                2 => bytes = *(*extra.add(1)).cast::<usize>(),
                _ => return Err(Code::INVALID_VALUE),
            }
            extra = extra.add(2);
        }
    }
    if at.is_null() || bytes > 4096 {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(at, bytes) }.to_vec())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: u64,
    x: u32,
    y: u32,
    z: u32,
    threads_x: u32,
    threads_y: u32,
    threads_z: u32,
    _shared: u32,
    handle: *mut c_void,
    _parameters: *const *const c_void,
    extra: *const *const c_void,
) -> i32 {
    enter("cuLaunchKernel", || {
        let stream = stream::find(handle)?;
        let number = function.checked_sub(FUNCTION + 1).ok_or(Code::INVALID_HANDLE)?;
        let name = FUNCTIONS.lock().get(number as usize).cloned().ok_or(Code::INVALID_HANDLE)?;
        let threads = u64::from(threads_x) * u64::from(threads_y) * u64::from(threads_z);
        if x == 0 || y == 0 || z == 0 || threads == 0 || threads > 1024 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above.
        let parameter = unsafe { parameter(extra)? };
        let mut line = format!("{name} {x} {y} {threads} {:#x} ", handle as usize);
        for byte in &parameter {
            write!(line, "{byte:02x}").expect("a string takes all");
        }
        line.push('\n');
        stream.submit(Operation::Host(note, Box::into_raw(Box::new(line)) as usize));
        Ok(())
    })
}

/// The launch's turn in its stream.
unsafe extern "C" fn note(line: *mut c_void) {
    // SAFETY: made by cuLaunchKernel for this one call.
    let line = unsafe { Box::from_raw(line.cast::<String>()) };
    let Some(path) = std::env::var_os("GINRS_MOCK_LAUNCHES") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("GINRS_MOCK_LAUNCHES can be written");
}
