//! The baton (the crate of that name), where ginrs-run has loaded it: threads of the process run one at a time, as GINRS_SCHEDULE has it.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static TURN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static POINT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Nothing is drawn any more.
static OVER: AtomicBool = AtomicBool::new(false);

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a name that ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// What the loader calls before the program begins: threads have numbers from the first on.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let begin = find(c"ginrs_baton_begin");
    let seed = std::env::var("GINRS_SCHEDULE").ok().and_then(|text| text.trim().parse().ok());
    if let Some(seed) = seed.filter(|_| !begin.is_null()) {
        // SAFETY: baton/src/hooks.rs: the function of this name has this type.
        let begin: extern "C" fn(u64) -> i32 = unsafe { std::mem::transmute(begin) };
        TURN.store(find(c"ginrs_baton_turn"), Ordering::Relaxed);
        POINT.store(find(c"ginrs_baton_point"), Ordering::Relaxed);
        OVER.store(begin(seed) == 0, Ordering::Relaxed);
    }
}

/// A CUDA thread has its turn: others of the process may go first.
#[inline]
pub fn turn(thread: u32) {
    let turn = TURN.load(Ordering::Relaxed);
    if !turn.is_null() {
        // SAFETY: as in `at_load`.
        let turn: extern "C" fn(u32) -> i32 = unsafe { std::mem::transmute(turn) };
        OVER.store(turn(thread) == 0, Ordering::Relaxed);
    }
}

/// Whether it is there: clocks are virtual then.
pub fn is_there() -> bool {
    !TURN.load(Ordering::Relaxed).is_null()
}

/// A counted point in code of the host; how many basic blocks lie before the next one.
pub fn point() -> i32 {
    let point = POINT.load(Ordering::Relaxed);
    if point.is_null() {
        return i32::MAX; // host code has no one to give way to
    }
    // SAFETY: as in `at_load`.
    let point: extern "C" fn() -> i32 = unsafe { std::mem::transmute(point) };
    point()
}

/// Whether choices are still drawn.
pub fn draws() -> bool {
    !OVER.load(Ordering::Relaxed)
}
