//! ginrs_cpu/library.h: what libginrs finds with dlsym and calls.

use std::ffi::{CString, c_void};

use crate::device::{self, StepFn};
use crate::executor;
use crate::launch::Launch;
use crate::memory;
use crate::race;
use crate::waits::{self, Seen, Stillness};

/// `ginrsCpuRuntimeV1`.
#[repr(C)]
pub struct RuntimeV1 {
    version: u32,
    bytes: u32,
    device_count: extern "C" fn() -> i32,
    current_device: extern "C" fn() -> i32,
    set_device: extern "C" fn(i32) -> i32,
    kernels_running: extern "C" fn(i32) -> i32,
    add_progress: extern "C" fn(i32, StepFn, *mut c_void),
    remove_progress: extern "C" fn(i32, StepFn, *mut c_void),
    note_allocation: extern "C" fn(*mut c_void, usize, i32),
    forget_allocation: extern "C" fn(*mut c_void),
    find_allocation: unsafe extern "C" fn(*const c_void, *mut *mut c_void, *mut usize, *mut i32) -> i32,
    failure: extern "C" fn(i32) -> i32,
    add_multicast: extern "C" fn(usize, usize, usize, usize, u32),
    remove_multicast: extern "C" fn(usize),
    wake: extern "C" fn(i32),
    each_wait: extern "C" fn(SeeWait, *mut c_void),
    stillness: unsafe extern "C" fn(*mut Stillness, SeeThread, *mut c_void),
    bell: unsafe extern "C" fn(i32, *mut *mut u32) -> i32,
    each_lasting: extern "C" fn(SeeWait, *mut c_void),
}

type SeeWait = unsafe extern "C" fn(*mut c_void, *const Seen);
type SeeThread = unsafe extern "C" fn(*mut c_void, i32);

static RUNTIME: RuntimeV1 = RuntimeV1 {
    version: 1,
    bytes: size_of::<RuntimeV1>() as u32,
    device_count,
    current_device,
    set_device,
    kernels_running,
    add_progress,
    remove_progress,
    note_allocation,
    forget_allocation,
    find_allocation,
    failure,
    add_multicast: crate::multicast::add,
    remove_multicast: crate::multicast::remove,
    wake,
    each_wait,
    stillness,
    bell,
    each_lasting,
};

/// See library.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_runtime_v1() -> *const RuntimeV1 {
    crate::fault::follow_reports();
    &raw const RUNTIME
}

/// See library.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_in_host_function() -> i32 {
    executor::is_in_call().into()
}

extern "C" fn each_wait(see: SeeWait, context: *mut c_void) {
    if !device::is_forked() {
        // SAFETY: library.h: see takes the context and a wait.
        let see = |wait: &Seen| unsafe { see(context, wait) };
        waits::each(see, is_own, |wait, launch| {
            let Some(touched) = &launch.touched else { return };
            let name = CString::new(touched.name.as_str()).unwrap_or_default();
            let place = place_of(race::collectives::called_at(touched));
            see(&wait.called(&name, touched.number, place.as_ref().map(|(file, line)| (file.as_c_str(), *line))));
        });
    }
}

extern "C" fn each_lasting(see: SeeWait, context: *mut c_void) {
    if !device::is_forked() {
        // SAFETY: as above.
        let see = |wait: &Seen| unsafe { see(context, wait) };
        waits::code::each_lasting(see, is_own, |code| {
            let name = CString::new(code.running.launch.describe()).unwrap_or_default();
            let place = place_of(code.behind().and_then(race::users_line));
            see(&code.seen(&name, place.as_ref().map(|(file, line)| (file.as_c_str(), *line))));
        });
    }
}

/// A kernel of the library's own.
fn is_own(launch: &Launch) -> bool {
    launch.touched.is_some()
}

/// `halo.cu:41` in its parts.
fn place_of(line: Option<String>) -> Option<(CString, i32)> {
    let line = line?;
    let (file, line) = line.rsplit_once(':')?;
    Some((CString::new(file).ok()?, line.parse().ok()?))
}

unsafe extern "C" fn stillness(still: *mut Stillness, see: SeeThread, context: *mut c_void) {
    if device::is_forked() {
        return;
    }
    // SAFETY: library.h: see takes the context and a thread.
    let mut found = waits::stillness(|thread| unsafe { see(context, thread) });
    found.others += u32::from(crate::pool::has_unbegun());
    // SAFETY: the caller's.
    unsafe { *still = found };
}

extern "C" fn device_count() -> i32 {
    device::count() as i32
}

extern "C" fn current_device() -> i32 {
    device::current_id()
}

extern "C" fn set_device(id: i32) -> i32 {
    crate::entry::entry(|| device::set_current(id))
}

extern "C" fn kernels_running(id: i32) -> i32 {
    device::usable(id).map_or(0, |device| device.kernels_running())
}

extern "C" fn failure(id: i32) -> i32 {
    device::usable(id).and_then(|device| device.healthy().err()).map_or(0, |code| code.0)
}

extern "C" fn add_progress(id: i32, step: StepFn, context: *mut c_void) {
    if let Some(device) = device::usable(id) {
        device.add_progress(step, context);
    }
}

extern "C" fn remove_progress(id: i32, step: StepFn, context: *mut c_void) {
    if let Some(device) = device::usable(id) {
        device.remove_progress(step, context);
    }
}

extern "C" fn wake(id: i32) {
    if let Some(device) = device::usable(id) {
        device.naps.ring();
    }
}

unsafe extern "C" fn bell(id: i32, asleep: *mut *mut u32) -> i32 {
    let Some(device) = device::usable(id) else { return -1 };
    let (descriptor, word) = device.bell.of_library();
    // SAFETY: the caller's to write.
    unsafe { *asleep = word };
    descriptor
}

extern "C" fn note_allocation(base: *mut c_void, bytes: usize, id: i32) {
    if !device::is_forked() {
        // SAFETY: library.h.
        unsafe { memory::note(base as usize, bytes, id) };
    }
}

extern "C" fn forget_allocation(base: *mut c_void) {
    if !device::is_forked() {
        memory::forget(base as usize);
    }
}

/// See library.h.
///
/// # Safety
/// `base` and `size` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_overrun(at: u64, bytes: u64, base: *mut u64, size: *mut u64) -> i32 {
    let found = if device::is_forked() { None } else { memory::overrun(at as usize, bytes as usize) };
    // SAFETY: the caller's.
    found.map_or(0, |found| unsafe {
        (*base, *size) = (found.base as u64, found.bytes as u64);
        1
    })
}

unsafe extern "C" fn find_allocation(p: *const c_void, base: *mut *mut c_void, bytes: *mut usize, kind: *mut i32) -> i32 {
    if device::is_forked() {
        return 0;
    }
    let Some(found) = memory::find(p as usize).filter(|found| !found.is_noted()) else { return 0 };
    // SAFETY: each output is NULL or valid.
    unsafe {
        if let Some(base) = base.as_mut() {
            *base = found.base as *mut c_void;
        }
        if let Some(bytes) = bytes.as_mut() {
            *bytes = found.bytes;
        }
        if let Some(kind) = kind.as_mut() {
            *kind = found.kind as i32;
        }
    }
    1
}
