//! ginrs_cpu/runtime.h: what compiled kernels call. CUDA threads run these on their own small stacks.

use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;

use crate::barrier::Reduce;
use crate::beyond::{self, Beyond};
use crate::block::{Block, current};
use crate::entry::entry;
use crate::error::{Code, report};
use crate::kernel::{KernelInfo, LaunchInfo};
use crate::launch::{Place, text};
use crate::mbarrier_calls::{Arrive, Until};
use crate::race;
use crate::thread::Variables;
use crate::timeline;
use crate::waits::Wait;
use crate::warp::Purpose;

/// The block of the calling CUDA thread; a host thread must not call `what`.
fn device_only(what: &str) -> &'static Block {
    current().unwrap_or_else(|| {
        report(&format!("{what} was called on a host thread: only kernels may\nfix: call it from a __global__ function"));
        std::process::abort()
    })
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_shim_budget_spent(behind: usize) {
    match current() {
        Some(block) => block.budget_spent(behind),
        None => Variables::of_this_thread().set_budget(crate::baton::point()),
    }
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_yield(why: i32) {
    match current() {
        Some(block) if why == 1 => block.found_nothing(),
        Some(block) => block.turn_spent(0),
        None => std::thread::yield_now(),
    }
}

/// See waits.h.
///
/// # Safety
/// `wait` is valid, its word until the wait ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_wait_begin(wait: *const Wait) {
    // SAFETY: the caller's.
    current().inspect(|block| unsafe { block.note_wait(*wait) });
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_wait_end() {
    current().inspect(|block| block.wait_ended());
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_polled(owner: *const c_void, value: u64) {
    current().inspect(|block| block.polled(owner, value));
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_refused(what: *const c_char) {
    current().inspect(|block| block.refused(&text(what, "")));
}

/// See waits.h.
///
/// # Safety
/// `what` and `file` are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_no_rank(
    what: *const c_char,
    rank: i32,
    ranks: i32,
    at: *const c_void,
    bytes: usize,
    file: *const c_char,
    line: i32,
) {
    let at = at.addr();
    if !beyond::is_noted(at, rank, line) {
        beyond::note(Beyond { what: text(what, ""), rank, ranks, at, bytes, file: text(file, "?"), line });
    }
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_session_begin(word: *const c_void) {
    current().inspect(|block| block.session_begins(word.addr()));
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_session_end(word: *const c_void) {
    current().inspect(|block| block.session_ends(word.addr()));
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_aborted() {
    race::stop();
    current().inspect(|block| block.with_grid(|grid| grid.aborted.store(true, Ordering::Relaxed)));
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_timeline_now() -> u64 {
    ginrs_timeline::now()
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_timeline_post(began: u64, slot: *const c_void, index: u32) {
    if let Some((place, call)) = current().map(Block::running) {
        // SAFETY: the running thread's call, which is alive while it runs.
        unsafe { timeline::post(place, call, began, slot.addr() as u64, index) }
    }
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_timeline_direct(began: u64, bytes: u64, signal: u64, add: u64) {
    if let Some((place, call)) = current().map(Block::running) {
        // SAFETY: the running thread's call, which is alive while it runs.
        unsafe { timeline::direct(place, call, began, bytes, signal, add) }
    }
}

/// See waits.h.
///
/// # Safety
/// `wait` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_timeline_wait(wait: *const Wait) {
    if let Some((place, call)) = current().map(Block::running) {
        // SAFETY: the caller's; the running thread's call is alive while it runs.
        unsafe { timeline::wait(place, call, &*wait) }
    }
}

/// See waits.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_timeline_wait_end() {
    if let Some((place, _)) = current().map(Block::running) {
        timeline::wait_end(place);
    }
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_posted() {
    current().inspect(|block| block.posts.note());
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_barrier(id: u32, count: u32, what: *const c_char, file: *const c_char, line: i32) {
    device_only("a barrier").barrier(id, count, false, Place::new(what, file, line));
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_barrier_arrive(id: u32, count: u32, what: *const c_char, file: *const c_char, line: i32) {
    device_only("a barrier").barrier_arrive(id, count, Place::new(what, file, line));
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_barrier_reduce(predicate: i32, op: i32, what: *const c_char, file: *const c_char, line: i32) -> i32 {
    let op = match op {
        1 => Reduce::And,
        2 => Reduce::Or,
        _ => Reduce::Count,
    };
    device_only("a barrier").barrier_reduce(predicate != 0, op, Place::new(what, file, line))
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_warp_sync(mask: u32, what: *const c_char, file: *const c_char, line: i32) {
    let (block, place) = (device_only("a warp sync"), Place::new(what, file, line));
    // SAFETY: a sync has no out.
    unsafe { block.warp_meet(mask, Purpose::Sync, 0, std::ptr::null_mut(), place) };
}

/// See runtime.h.
///
/// # Safety
/// `out` takes 32 values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_warp_exchange(
    mask: u32,
    value: u64,
    out: *mut u64,
    what: *const c_char,
    file: *const c_char,
    line: i32,
) -> u32 {
    let (block, place) = (device_only("a warp exchange"), Place::new(what, file, line));
    // SAFETY: the caller's.
    unsafe { block.warp_meet(mask, Purpose::Exchange, value, out, place) }
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_active_mask(file: *const c_char, line: i32) -> u32 {
    device_only("__activemask()").active_mask(Place::new(c"__activemask()".as_ptr(), file, line))
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_grid_sync(file: *const c_char, line: i32) {
    device_only("grid sync").grid_sync(Place::new(c"grid sync".as_ptr(), file, line));
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_launch_is_cooperative() -> i32 {
    current().map_or(0, |block| block.with_grid(|grid| i32::from(grid.launch.cooperative)))
}

/// See runtime.h. A message that begins with "assert" (any case) is `cudaErrorAssert`, others are `cudaErrorLaunchFailure`.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_trap(message: *const c_char, file: *const c_char, line: i32) -> ! {
    let message = text(message, "trap");
    let at = Place::new(std::ptr::null(), file, line).line();
    let Some(block) = current() else {
        report(&format!("{message} at {at}, on a host thread"));
        std::process::abort();
    };
    let asserted = message.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("assert"));
    let (what, fix) =
        message.split_once(" | fix: ").map_or((&*message, String::new()), |(what, fix)| (what, format!("\nfix: {fix}")));
    // Where a call of the device API is known by the user's line, nobody looks for one of our headers.
    let called = block.called_at();
    let is_ours = ["/ginrs_device/", "/nccl_device/"].iter().any(|folder| at.contains(folder));
    let at = if is_ours && !called.is_empty() { String::new() } else { format!(" at {at}") };
    block.fatal(if asserted { Code::ASSERT } else { Code::LAUNCH_FAILURE }, &format!("{what}{at}{called}{fix}"))
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_dynamic_shared() -> *mut c_void {
    device_only("dynamic shared memory").dynamic_shared()
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_shared_address(pointer: *const c_void, file: *const c_char, line: i32) -> u32 {
    let block = device_only("__cvta_generic_to_shared");
    crate::space::address_of(pointer as usize).unwrap_or_else(|| {
        let at = Place::new(std::ptr::null(), file, line).line();
        block.fatal(Code::LAUNCH_FAILURE, &format!("{pointer:p} at {at} is no shared memory: it has no 32-bit address"))
    })
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_shared_pointer(address: u32, file: *const c_char, line: i32) -> *mut c_void {
    let block = device_only("an address of shared memory");
    let pointer = crate::space::pointer_to(address).unwrap_or_else(|| {
        let at = Place::new(std::ptr::null(), file, line).line();
        block.fatal(
            Code::LAUNCH_FAILURE,
            &format!(
                "{address:#x} at {at} is no address of shared memory\nfix: take it from __cvta_generic_to_shared, in the block that uses it"
            ),
        )
    });
    pointer as *mut c_void
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_mbarrier_init(at: *mut c_void, count: u32, file: *const c_char, line: i32) {
    device_only("mbarrier.init").mbarrier_init(at as usize, count, Place::new(c"mbarrier.init".as_ptr(), file, line));
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_mbarrier_inval(at: *mut c_void, file: *const c_char, line: i32) {
    device_only("mbarrier.inval").mbarrier_inval(at as usize, Place::new(c"mbarrier.inval".as_ptr(), file, line));
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_mbarrier_arrive(
    at: *mut c_void,
    count: u32,
    bytes: i64,
    how: i32,
    file: *const c_char,
    line: i32,
) -> u64 {
    let how = match how {
        1 => Arrive::Drop,
        2 => Arrive::NoComplete,
        _ => Arrive::Plain,
    };
    let place = Place::new(c"mbarrier.arrive".as_ptr(), file, line);
    crate::race::arrive_at(at as usize);
    device_only("mbarrier.arrive").mbarrier_arrive(at as usize, count, bytes, how, place)
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_mbarrier_bytes(at: *mut c_void, bytes: i64, what: *const c_char, file: *const c_char, line: i32) {
    // Who waits for the bytes of a copy knows what it wrote.
    race::arrive_at(at as usize);
    device_only("an mbarrier's count of bytes").mbarrier_bytes(at as usize, bytes, Place::new(what, file, line));
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_mbarrier_wait(
    at: *mut c_void,
    state: u64,
    by_parity: i32,
    for_ever: i32,
    what: *const c_char,
    file: *const c_char,
    line: i32,
) -> i32 {
    let until = if by_parity != 0 { Until::Parity(state as u32) } else { Until::Phase(state) };
    let place = Place::new(what, file, line);
    let is_over = device_only("a wait at an mbarrier").mbarrier_wait(at as usize, until, for_ever != 0, place);
    if is_over {
        crate::race::waited_at(at as usize);
    }
    i32::from(is_over)
}

/// See runtime.h.
///
/// # Safety
/// `master` is a variable of `bytes` bytes; `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_device_variable(master: *mut c_void, bytes: usize, name: *const c_char) -> *mut c_void {
    let device = current().map(|block| block.with_grid(|grid| grid.device.id));
    // SAFETY: the caller's.
    unsafe { crate::symbol::resolve(master, bytes, name, device) }
}

/// See runtime.h.
///
/// # Safety
/// `kernel` is a valid `ginrsCpuKernel`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_register_kernel(kernel: *const KernelInfo) {
    // SAFETY: the caller's.
    unsafe { crate::kernel::register(&*kernel) }
}

/// See runtime.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_bound_kernel(entry: *const c_void, threads: u32) {
    crate::kernel::set_bound(entry as usize, threads);
}

/// See runtime.h.
///
/// # Safety
/// `launch` is a valid `ginrsCpuLaunch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_launch(launch: *const LaunchInfo) -> i32 {
    // SAFETY: the caller's.
    entry(|| unsafe { crate::kernel::launch(&*launch) })
}
