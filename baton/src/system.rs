//! Calls of the system by number: futexes, and those that others of this crate have by name. Random numbers.

use crate::baton::{Held, Turn, turn};
use crate::choose::At;
use crate::files;
use crate::next;
use crate::state::{On, What};
use crate::time;
use libc::{c_int, c_long, c_uint, c_void, timespec};

/// What a call of the system comes to: an error's number below zero goes to errno.
pub(crate) fn result_of(result: c_long) -> c_long {
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
        // SAFETY: the caller's.
        libc::SYS_ppoll => unsafe { files::ppoll_of(turn, [a, b, c, d, e]) },
        // SAFETY: the caller's.
        libc::SYS_epoll_pwait => unsafe { files::epoll_of(turn, [a, b, c, d, e, f]) },
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
