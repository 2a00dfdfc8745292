//! Calls of the system that wait: futexes, and descriptors, at which a thread looks again and again.

use crate::baton::{Held, Turn, turn};
use crate::choose::At;
use crate::next;
use crate::state::{NEVER, On, What};
use crate::time;
use libc::{c_int, c_long, c_uint, c_void, timespec};

fn errno() -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// What a call of the system comes to: an error's number below zero goes to errno.
fn result_of(result: c_long) -> c_long {
    if result >= 0 {
        return result;
    }
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}

/// A futex's call; None: the system's affair. Others than the threads of this process may wait for a word, too: they are woken as ever.
///
/// # Safety
/// As the system's.
unsafe fn futex(turn: &Turn, [at, operation, value, fourth, fifth, sixth]: [c_long; 6]) -> Option<c_long> {
    let word = at as usize;
    let (flags, value) = (operation as c_int, value as u32);
    let on = |bits| On { what: What::Word, at: word, bits };
    match flags & libc::FUTEX_CMD_MASK {
        command @ (libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) => {
            turn.point(At::Step);
            // SAFETY: the caller's.
            if unsafe { (*(word as *const std::sync::atomic::AtomicU32)).load(std::sync::atomic::Ordering::SeqCst) } != value {
                return Some(-c_long::from(libc::EAGAIN));
            }
            let until = fourth as *const timespec;
            // SAFETY: the caller's.
            let deadline = unsafe {
                match command {
                    libc::FUTEX_WAIT => time::length(until).saturating_add(if until.is_null() { 0 } else { turn.now() }),
                    _ if flags & libc::FUTEX_CLOCK_REALTIME != 0 => time::deadline(libc::CLOCK_REALTIME, until),
                    _ => time::deadline(libc::CLOCK_MONOTONIC, until),
                }
            };
            let bits = if command == libc::FUTEX_WAIT { u32::MAX } else { sixth as u32 };
            // A word that another process may change, or that has another address here: looked at again now and then.
            if flags & libc::FUTEX_PRIVATE_FLAG == 0 {
                let changed = || {
                    // SAFETY: as above.
                    let now =
                        unsafe { (*(word as *const std::sync::atomic::AtomicU32)).load(std::sync::atomic::Ordering::SeqCst) };
                    (now != value).then_some(())
                };
                return Some(turn.look(deadline, changed).map_or(-c_long::from(libc::ETIMEDOUT), |()| 0));
            }
            Some(if turn.wait(on(bits), deadline) { 0 } else { -c_long::from(libc::ETIMEDOUT) })
        }
        command @ (libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET) => {
            let bits = if command == libc::FUTEX_WAKE { u32::MAX } else { sixth as u32 };
            let woken = turn.wake(on(bits), value as c_int as usize);
            // SAFETY: the caller's.
            let others = unsafe { next::syscall(libc::SYS_futex, at, operation, value.into(), fourth, fifth, sixth) };
            turn.point(At::Step);
            Some(woken as c_long + others.max(0))
        }
        command @ (libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE) => {
            // SAFETY: the caller's.
            let now = unsafe { (*(word as *const std::sync::atomic::AtomicU32)).load(std::sync::atomic::Ordering::SeqCst) };
            if command == libc::FUTEX_CMP_REQUEUE && now != sixth as u32 {
                return Some(-c_long::from(libc::EAGAIN));
            }
            let mut state = Held::take();
            let woken = state.wake(on(u32::MAX), value as usize);
            Some((woken + state.move_waits(word, fifth as usize, fourth as usize)) as c_long)
        }
        _ => None,
    }
}

/// For so many milliseconds; below zero: for ever.
fn patience(turn: &Turn, milliseconds: c_int) -> u64 {
    u64::try_from(milliseconds).map_or(NEVER, |length| turn.now() + length * 1_000_000)
}

/// As long as `call`, which does not wait, finds nothing.
fn await_files(turn: &Turn, deadline: u64, call: impl Fn() -> c_long) -> c_long {
    turn.look(deadline, || Some(call()).filter(|found| *found != 0)).unwrap_or(0)
}

/// The system's call of any number. Numbers of more arguments than it has are not looked at.
///
/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    let turn = match number {
        libc::SYS_futex | libc::SYS_ppoll | libc::SYS_epoll_pwait | libc::SYS_getrandom | libc::SYS_sched_yield => turn(),
        _ => None,
    };
    // SAFETY: the caller's, here and below.
    let next = || unsafe { next::syscall(number, a, b, c, d, e, f) };
    let Some(turn) = turn else { return next() };
    match number {
        // SAFETY: the caller's.
        libc::SYS_futex => match unsafe { futex(&turn, [a, b, c, d, e, f]) } {
            Some(result) => {
                drop(turn);
                result_of(result)
            }
            None => next(),
        },
        libc::SYS_ppoll => {
            let none = timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the caller's.
            let length = unsafe { time::length(c as *const timespec) };
            let deadline = if length == NEVER { NEVER } else { turn.now().saturating_add(length) };
            // SAFETY: the caller's, but for the time, which is none.
            let look = || unsafe { next::syscall(number, a, b, (&raw const none) as c_long, d, e, f) };
            kept(turn, |turn| await_files(turn, deadline, look))
        }
        libc::SYS_epoll_pwait => {
            let deadline = patience(&turn, d as c_int);
            // SAFETY: as above.
            let look = || unsafe { next::syscall(number, a, b, c, 0, e, f) };
            kept(turn, |turn| await_files(turn, deadline, look))
        }
        libc::SYS_getrandom => {
            random(&turn, a as *mut c_void, b as usize);
            b
        }
        _ => {
            turn.point(At::Poll);
            0
        }
    }
}

/// What a call says, with the errno of that call.
fn kept(turn: Turn, call: impl FnOnce(&Turn) -> c_long) -> c_long {
    let result = call(&turn);
    let error = errno();
    drop(turn);
    if result < 0 { result_of(-c_long::from(error)) } else { result }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(files: *mut libc::pollfd, count: libc::nfds_t, patience_ms: c_int) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::poll(files, count, patience_ms) };
    };
    let deadline = patience(&turn, patience_ms);
    // SAFETY: the caller's.
    kept(turn, |turn| await_files(turn, deadline, || unsafe { next::poll(files, count, 0) }.into())) as c_int
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(set: c_int, events: *mut libc::epoll_event, most: c_int, patience_ms: c_int) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::epoll_wait(set, events, most, patience_ms) };
    };
    let deadline = patience(&turn, patience_ms);
    // SAFETY: the caller's.
    kept(turn, |turn| await_files(turn, deadline, || unsafe { next::epoll_wait(set, events, most, 0) }.into())) as c_int
}

/// What is random is the seed's: hash tables begin with it, and names and ids are keys of theirs. So a run with a seed has no secrets.
fn random(turn: &Turn, buffer: *mut c_void, bytes: usize) {
    let mut state = Held::take();
    for at in (0..bytes).step_by(8) {
        let number = state.chooser.number().to_ne_bytes();
        let count = (bytes - at).min(8);
        // SAFETY: the caller's caller's buffer, which ends behind these.
        unsafe { std::ptr::copy_nonoverlapping(number.as_ptr(), buffer.cast::<u8>().add(at), count) };
    }
    drop(state);
    turn.point(At::Step);
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, bytes: usize, flags: c_uint) -> isize {
    match turn() {
        Some(turn) => random(&turn, buffer, bytes),
        // SAFETY: the caller's.
        None => return unsafe { next::getrandom(buffer, bytes, flags) },
    }
    bytes as isize
}
