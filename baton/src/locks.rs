//! Locks and what waits with them. The system's own words say who has one; only the waiting is done here.

use crate::baton::{Turn, turn};
use crate::choose::At;
use crate::next;
use crate::state::{NEVER, On, What};
use crate::time;
use libc::{c_int, c_void, clockid_t, timespec};

fn lock(at: *mut c_void) -> On {
    On::new(What::Lock, at.addr())
}

/// Tries until it says something else than `busy`, or the deadline has passed.
fn take(turn: &Turn, on: On, busy: c_int, deadline: u64, attempt: impl Fn() -> c_int) -> c_int {
    turn.point(At::Step);
    loop {
        match attempt() {
            result if result != busy => return result,
            _ if !turn.wait(on, deadline) => return libc::ETIMEDOUT,
            _ => {}
        }
    }
}

/// Lets go with `release`; those who wait try again.
fn release(turn: &Turn, on: On, release: impl Fn() -> c_int) -> c_int {
    let result = release();
    turn.wake(on, usize::MAX);
    turn.point(At::Step);
    result
}

/// A mutex that refuses a thread which has it already: the system's function says so, in words that trylock lacks.
fn refuses(mutex: *mut c_void) -> bool {
    const ERRORCHECK: c_int = 2;
    // SAFETY: glibc's mutex: owner and kind are its third and fifth int; the caller's caller has one.
    let (owner, kind) = unsafe { (*mutex.cast::<c_int>().add(2), *mutex.cast::<c_int>().add(4)) };
    // SAFETY: takes nothing.
    kind & 3 == ERRORCHECK && owner == unsafe { libc::gettid() }
}

fn take_mutex(turn: &Turn, mutex: *mut c_void, deadline: u64) -> c_int {
    // SAFETY: the callers' callers'.
    let attempt = || match unsafe { next::pthread_mutex_trylock(mutex) } {
        libc::EBUSY if refuses(mutex) => libc::EDEADLK,
        result => result,
    };
    take(turn, lock(mutex), libc::EBUSY, deadline, attempt)
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut c_void) -> c_int {
    match turn() {
        Some(turn) => take_mutex(&turn, mutex, NEVER),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_mutex_lock(mutex) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut c_void) -> c_int {
    turn().iter().for_each(|turn| turn.point(At::Step));
    // SAFETY: the caller's.
    unsafe { next::pthread_mutex_trylock(mutex) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(mutex: *mut c_void, until: *const timespec) -> c_int {
    match turn() {
        // SAFETY: the caller's.
        Some(turn) => take_mutex(&turn, mutex, unsafe { time::deadline(libc::CLOCK_REALTIME, until) }),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_mutex_timedlock(mutex, until) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int {
    // SAFETY: the caller's.
    let unlock = || unsafe { next::pthread_mutex_unlock(mutex) };
    turn().map_or_else(unlock, |turn| release(&turn, lock(mutex), unlock))
}

/// Waits for a notice of `cond`. Nobody comes between the unlock and the wait: the thread has the baton.
fn await_notice(turn: &Turn, cond: *mut c_void, mutex: *mut c_void, deadline: u64) -> c_int {
    // SAFETY: the callers' callers', here and below.
    let unlocked = unsafe { next::pthread_mutex_unlock(mutex) };
    if unlocked != 0 {
        return unlocked;
    }
    turn.wake(lock(mutex), usize::MAX);
    let notified = turn.wait(On::new(What::Condition, cond.addr()), deadline);
    match take_mutex(turn, mutex, NEVER) {
        0 if !notified => libc::ETIMEDOUT,
        result => result,
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(cond: *mut c_void, mutex: *mut c_void) -> c_int {
    match turn() {
        Some(turn) => await_notice(&turn, cond, mutex, NEVER),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_cond_wait(cond, mutex) },
    }
}

/// The clock of a condition variable's deadlines: the second bit of glibc's count of references.
fn clock_of(cond: *mut c_void) -> clockid_t {
    // SAFETY: glibc's: `__wrefs` is its tenth word (of 4 bytes); the caller's caller has one.
    match unsafe { *cond.cast::<u32>().add(9) } & 2 {
        0 => libc::CLOCK_REALTIME,
        _ => libc::CLOCK_MONOTONIC,
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(cond: *mut c_void, mutex: *mut c_void, until: *const timespec) -> c_int {
    match turn() {
        // SAFETY: the caller's.
        Some(turn) => await_notice(&turn, cond, mutex, unsafe { time::deadline(clock_of(cond), until) }),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_cond_timedwait(cond, mutex, until) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut c_void,
    mutex: *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    match turn() {
        // SAFETY: the caller's.
        Some(turn) => await_notice(&turn, cond, mutex, unsafe { time::deadline(clock, until) }),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_cond_clockwait(cond, mutex, clock, until) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *mut c_void) -> c_int {
    // SAFETY: the caller's. Another process may wait for it, too.
    let signal = || unsafe { next::pthread_cond_signal(cond) };
    let Some(turn) = turn() else { return signal() };
    if turn.wake(On::new(What::Condition, cond.addr()), 1) == 0 {
        signal();
    }
    turn.point(At::Step);
    0
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *mut c_void) -> c_int {
    // SAFETY: the caller's, as above.
    let broadcast = || unsafe { next::pthread_cond_broadcast(cond) };
    turn().map_or_else(broadcast, |turn| release(&turn, On::new(What::Condition, cond.addr()), broadcast))
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_rdlock(at: *mut c_void) -> c_int {
    match turn() {
        // SAFETY: the caller's.
        Some(turn) => take(&turn, lock(at), libc::EBUSY, NEVER, || unsafe { next::pthread_rwlock_tryrdlock(at) }),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_rwlock_rdlock(at) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_wrlock(at: *mut c_void) -> c_int {
    match turn() {
        // SAFETY: the caller's.
        Some(turn) => take(&turn, lock(at), libc::EBUSY, NEVER, || unsafe { next::pthread_rwlock_trywrlock(at) }),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_rwlock_wrlock(at) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(at: *mut c_void) -> c_int {
    // SAFETY: the caller's.
    let unlock = || unsafe { next::pthread_rwlock_unlock(at) };
    turn().map_or_else(unlock, |turn| release(&turn, lock(at), unlock))
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_lock(at: *mut c_void) -> c_int {
    match turn() {
        // SAFETY: the caller's.
        Some(turn) => take(&turn, lock(at), libc::EBUSY, NEVER, || unsafe { next::pthread_spin_trylock(at) }),
        // SAFETY: the caller's.
        None => unsafe { next::pthread_spin_lock(at) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(at: *mut c_void) -> c_int {
    // SAFETY: the caller's.
    let unlock = || unsafe { next::pthread_spin_unlock(at) };
    turn().map_or_else(unlock, |turn| release(&turn, lock(at), unlock))
}

fn take_semaphore(turn: &Turn, at: *mut c_void, deadline: u64) -> c_int {
    let attempt = || {
        // SAFETY: the callers' callers'; errno is the calling thread's.
        match unsafe { next::sem_trywait(at) } {
            0 => 0,
            // SAFETY: as above.
            _ => unsafe { *libc::__errno_location() },
        }
    };
    take(turn, On::new(What::Semaphore, at.addr()), libc::EAGAIN, deadline, attempt)
}

/// As semaphores and calls of the system say what they come to.
fn in_errno(result: c_int) -> c_int {
    if result == 0 {
        return 0;
    }
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = result };
    -1
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(at: *mut c_void) -> c_int {
    match turn().map(|turn| take_semaphore(&turn, at, NEVER)) {
        Some(result) => in_errno(result),
        // SAFETY: the caller's.
        None => unsafe { next::sem_wait(at) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(at: *mut c_void, until: *const timespec) -> c_int {
    // SAFETY: the caller's.
    match turn().map(|turn| take_semaphore(&turn, at, unsafe { time::deadline(libc::CLOCK_REALTIME, until) })) {
        Some(result) => in_errno(result),
        // SAFETY: the caller's.
        None => unsafe { next::sem_timedwait(at, until) },
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(at: *mut c_void) -> c_int {
    // SAFETY: the caller's.
    let post = || unsafe { next::sem_post(at) };
    turn().map_or_else(post, |turn| release(&turn, On::new(What::Semaphore, at.addr()), post))
}
