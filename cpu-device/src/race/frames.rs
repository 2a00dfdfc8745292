//! The user's line among the callers of the running thread, by the unwinder that C++ exceptions have.

use std::ffi::{c_char, c_int, c_void};

use super::lines::{module_of, users_line};

/// As many callers as are looked through.
const MOST: usize = 64;

#[repr(C)]
struct Context([u8; 0]);

unsafe extern "C" {
    fn _Unwind_Backtrace(see: unsafe extern "C" fn(*mut Context, *mut c_void) -> c_int, frames: *mut c_void) -> c_int;
    fn _Unwind_GetIPInfo(context: *mut Context, is_at: *mut c_int) -> usize;
}

/// Addresses behind the calls, from the innermost outwards.
struct Frames {
    behind: [usize; MOST],
    used: usize,
}

impl Frames {
    fn here() -> Frames {
        unsafe extern "C" fn see(context: *mut Context, frames: *mut c_void) -> c_int {
            const ENOUGH: c_int = 4; // anything but 0 ends the walk
            // SAFETY: `here` passes these frames, for the time of the walk; the unwinder its context.
            let (frames, (ip, is_at)) = unsafe {
                let mut is_at = 0;
                (&mut *frames.cast::<Frames>(), (_Unwind_GetIPInfo(context, &raw mut is_at), is_at))
            };
            let Some(frame) = frames.behind.get_mut(frames.used) else { return ENOUGH };
            // What a signal has interrupted is the instruction itself.
            *frame = ip + usize::from(is_at != 0);
            frames.used += 1;
            0
        }
        let mut frames = Frames { behind: [0; MOST], used: 0 };
        // SAFETY: `see` gets the frames, for the time of the call.
        unsafe { _Unwind_Backtrace(see, (&raw mut frames).cast()) };
        frames
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.behind[..self.used].iter().copied()
    }
}

/// The line of the program's at which a signal has interrupted a kernel at `pc`, or of the call that it was in; `kernel` is its code.
///
/// Only code of the kernel's own object is looked at: it holds no lock and is in no allocation that this needs, as libraries may be.
pub fn interrupted_at(pc: usize, kernel: usize) -> Option<String> {
    let object = |address| module_of(address).map(|(name, _)| name);
    if object(pc)? != object(kernel)? {
        return None;
    }
    let is_its = |&behind: &usize| object(behind - 1) == object(kernel);
    Frames::here().iter().skip_while(|&behind| behind != pc + 1).take_while(is_its).find_map(users_line)
}

/// The line from which host code has called the CUDA API; not for a block's thread. Asked where a call fails, in a program that is looked at.
pub fn caller() -> Option<String> {
    let behind = called_beyond(0)?;
    // What libginrs calls it calls for the program.
    let (object, _) = module_of(behind.checked_sub(1)?)?;
    let name = std::path::Path::new(&object).file_name()?.to_string_lossy();
    let is_ours = ["libginrs.", "libnccl."].iter().any(|begin| name.starts_with(begin));
    users_line(if is_ours { called_beyond(1)? } else { behind })
}

/// Where host code has called the CUDA API, which [`line_of`](super::lines::line_of) names; 0: that is not looked at, or not known.
pub fn called_at() -> usize {
    if !super::on() {
        return 0;
    }
    let own = module_of(called_at as fn() -> usize as usize).map(|own| own.0);
    let frames = Frames::here();
    frames.iter().find(|&behind| module_of(behind - 1).map(|found| found.0) != own).unwrap_or(0)
}

/// Where the caller behind our own frames and those of `others` objects more has called, for [`line_of`](super::lines::line_of).
pub fn called_beyond(others: usize) -> Option<usize> {
    if !super::on() {
        return None;
    }
    let frames = Frames::here();
    let mut passed = Vec::with_capacity(2);
    for behind in frames.iter() {
        let object = module_of(behind.checked_sub(1)?)?.0;
        if passed.contains(&object) {
            continue;
        }
        if passed.len() > others {
            return Some(behind);
        }
        passed.push(object);
    }
    None
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_site() -> u64 {
    called_beyond(1).unwrap_or(0) as u64
}

/// See race.h.
///
/// # Safety
/// There is room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_line(site: u64, line: *mut c_char, room: usize) -> usize {
    let Some(found) = users_line(site as usize).filter(|found| found.len() <= room) else { return 0 };
    // SAFETY: the caller's.
    unsafe { line.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), found.len()) };
    found.len()
}
