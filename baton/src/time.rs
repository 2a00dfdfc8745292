//! Time is virtual: a step of the baton takes a little of it, and where all threads sleep it goes on to the first that wakes.

use crate::baton::{Turn, turn};
use crate::choose::At;
use crate::next;
use crate::state::NEVER;
use crate::trace;
use libc::{c_int, c_uint, c_void, clockid_t, timespec};

const SECOND: u64 = 1_000_000_000;
/// What clocks show at the beginning: 2026-01-01, and a while after the machine's start.
const CALENDAR: u64 = 1_767_225_600 * SECOND;
const OTHERS: u64 = 1000 * SECOND;

fn base(clock: clockid_t) -> Option<u64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(CALENDAR),
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => Some(OTHERS),
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => Some(0),
        _ => None,
    }
}

/// Nanoseconds of it; more than there are: for ever.
///
/// # Safety
/// NULL, or to be read.
pub unsafe fn length(time: *const timespec) -> u64 {
    // SAFETY: the caller's.
    let Some(time) = (unsafe { time.as_ref() }) else { return NEVER };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(SECOND).saturating_add(time.tv_nsec as u64)
}

/// The virtual nanosecond of a time that `clock` shows.
///
/// # Safety
/// As for [`length`].
pub unsafe fn deadline(clock: clockid_t, time: *const timespec) -> u64 {
    // SAFETY: the caller's.
    match unsafe { length(time) } {
        NEVER => NEVER,
        at => at.saturating_sub(base(clock).unwrap_or(0)),
    }
}

fn timespec_of(nanoseconds: u64) -> timespec {
    timespec { tv_sec: (nanoseconds / SECOND) as i64, tv_nsec: (nanoseconds % SECOND) as i64 }
}

/// What `clock` shows; who asks may be waiting for it to go on.
fn shown(turn: &Turn, clock: clockid_t) -> Option<timespec> {
    turn.point(At::Step);
    let now = match clock {
        libc::CLOCK_THREAD_CPUTIME_ID => turn.time_of_own(),
        _ => turn.now(),
    };
    base(clock).map(|base| timespec_of(base + now))
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, now: *mut timespec) -> c_int {
    if let Some(shown) = turn().and_then(|turn| shown(&turn, clock)) {
        // SAFETY: the caller's.
        unsafe { *now = shown };
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { next::clock_gettime(clock, now) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(now: *mut libc::timeval, zone: *mut c_void) -> c_int {
    if let Some(shown) = turn().and_then(|turn| shown(&turn, libc::CLOCK_REALTIME)) {
        // SAFETY: the caller's.
        unsafe { *now = libc::timeval { tv_sec: shown.tv_sec, tv_usec: shown.tv_nsec / 1000 } };
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { next::gettimeofday(now, zone) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(now: *mut libc::time_t) -> libc::time_t {
    if let Some(shown) = turn().and_then(|turn| shown(&turn, libc::CLOCK_REALTIME)) {
        // SAFETY: the caller's: NULL, or to be written.
        unsafe { now.as_mut() }.into_iter().for_each(|now| *now = shown.tv_sec);
        return shown.tv_sec;
    }
    // SAFETY: the caller's.
    unsafe { next::time(now) }
}

/// Sleeps for so long; false: not here.
fn sleeps(length: u64) -> bool {
    let Some(turn) = turn() else { return false };
    match length {
        0 => turn.point(At::Poll),
        _ => turn.sleep_until(turn.now().saturating_add(length)),
    }
    true
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(how_long: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's.
    if !is_time(how_long) || !sleeps(unsafe { length(how_long) }) {
        // SAFETY: the caller's.
        return unsafe { next::nanosleep(how_long, left) };
    }
    0
}

/// What the system would not refuse.
fn is_time(time: *const timespec) -> bool {
    // SAFETY: the caller's caller's: NULL, or to be read.
    unsafe { time.as_ref() }.is_some_and(|time| time.tv_sec >= 0 && (0..SECOND as i64).contains(&time.tv_nsec))
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    how_long: *const timespec,
    left: *mut timespec,
) -> c_int {
    if base(clock).is_some() && is_time(how_long) {
        if flags & libc::TIMER_ABSTIME == 0 {
            // SAFETY: the caller's.
            if sleeps(unsafe { length(how_long) }) {
                return 0;
            }
        } else if let Some(turn) = turn() {
            // SAFETY: the caller's.
            turn.sleep_until(unsafe { deadline(clock, how_long) });
            return 0;
        }
    }
    // SAFETY: the caller's.
    unsafe { next::clock_nanosleep(clock, flags, how_long, left) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usleep(how_long: c_uint) -> c_int {
    if !sleeps(u64::from(how_long) * 1000) {
        // SAFETY: takes a number.
        return unsafe { next::usleep(how_long) };
    }
    0
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleep(how_long: c_uint) -> c_uint {
    if !sleeps(u64::from(how_long) * SECOND) {
        // SAFETY: takes a number.
        return unsafe { next::sleep(how_long) };
    }
    0
}

fn has_timer() {
    if turn().is_some() {
        trace::inexact("the program has a timer: its signal comes in real time");
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setitimer(which: c_int, new: *const c_void, old: *mut c_void) -> c_int {
    has_timer();
    // SAFETY: the caller's.
    unsafe { next::setitimer(which, new, old) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_create(clock: clockid_t, event: *mut c_void, timer: *mut c_void) -> c_int {
    has_timer();
    // SAFETY: the caller's.
    unsafe { next::timer_create(clock, event, timer) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alarm(how_long: c_uint) -> c_uint {
    has_timer();
    // SAFETY: takes a number.
    unsafe { next::alarm(how_long) }
}
