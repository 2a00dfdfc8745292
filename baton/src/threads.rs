//! Threads that the program makes: in the order in which they are made they have their numbers, and their ends are waited for here.

use crate::baton::{Held, first_turn, turn};
use crate::choose::At;
use crate::next::{self, Begin};
use crate::state::{NEVER, On, Run, What};
use crate::time;
use crate::trace;
use libc::{c_int, c_void, pthread_attr_t, pthread_t, timespec};

struct Start {
    begin: Begin,
    argument: *mut c_void,
    number: usize,
}

/// What a thread of the program begins with. A thread may end by pthread_exit, which unwinds through it.
extern "C-unwind" fn begins(start: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below has given it to this thread alone. Memory is given back with the baton only: in which order threads come
    // to the allocator decides what addresses they get.
    let Start { begin, argument, .. } = *unsafe {
        first_turn((*start.cast::<Start>()).number);
        Box::from_raw(start.cast::<Start>())
    };
    begin(argument)
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    how: *const pthread_attr_t,
    begin: Begin,
    argument: *mut c_void,
) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::pthread_create(thread, how, begin, argument) };
    };
    let number = Held::take().join(Run::Ready);
    let start = Box::into_raw(Box::new(Start { begin, argument, number }));
    // SAFETY: the caller's, but for what it begins with, which takes the box.
    let result = unsafe { next::pthread_create(thread, how, begins, start.cast()) };
    if result != 0 {
        // SAFETY: nobody has taken it.
        drop(unsafe { Box::from_raw(start) });
        Held::take().threads[number].run = Run::Gone;
    } else {
        // SAFETY: the system has written it; the new thread has not run yet, so it is there.
        Held::take().threads[number].handle = unsafe { *thread } as usize;
    }
    turn.point(At::Step);
    result
}

/// The number of a thread that has not been joined: the youngest of this handle, which the system may have used before.
fn number_of(thread: pthread_t) -> Option<(usize, bool)> {
    let state = Held::take();
    let number = state.threads.iter().rposition(|other| other.handle == thread as usize)?;
    Some((number, state.threads[number].run == Run::Gone))
}

/// Waits for the end of `thread`; false if the deadline has passed.
fn await_end(turn: &crate::baton::Turn, thread: pthread_t, deadline: u64) -> bool {
    match number_of(thread) {
        // Its own end it waits for as ever: the system's function refuses.
        Some((number, false)) if number != turn.me => turn.wait(On::new(What::Thread, number), deadline),
        _ => {
            turn.point(At::Step);
            true
        }
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    let turn = turn();
    turn.iter().for_each(|turn| _ = await_end(turn, thread, NEVER));
    // SAFETY: the caller's. The thread is about to end, without the baton.
    unsafe { next::pthread_join(thread, result) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    if let Some(turn) = turn()
        && let Some((number, false)) = number_of(thread)
        && number != turn.me
    {
        turn.point(At::Poll);
        return libc::EBUSY;
    } else if turn_is_on() {
        // SAFETY: the caller's. It has ended but for the system's part.
        return unsafe { next::pthread_join(thread, result) };
    }
    // SAFETY: the caller's.
    unsafe { next::pthread_tryjoin_np(thread, result) }
}

fn turn_is_on() -> bool {
    turn().is_some()
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::pthread_timedjoin_np(thread, result, until) };
    };
    // SAFETY: the caller's.
    match await_end(&turn, thread, unsafe { time::deadline(libc::CLOCK_REALTIME, until) }) {
        // SAFETY: the caller's; as in pthread_join.
        true => unsafe { next::pthread_join(thread, result) },
        false => libc::ETIMEDOUT,
    }
}

/// Who is told to end waits in no call of the system: it goes on, and ends at the next one that asks.
///
/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: pthread_t) -> c_int {
    if let Some(_turn) = turn() {
        trace::inexact("pthread_cancel was called");
    }
    // SAFETY: the caller's.
    unsafe { next::pthread_cancel(thread) }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_yield() -> c_int {
    match turn() {
        Some(turn) => turn.point(At::Poll),
        // SAFETY: takes nothing.
        None => return unsafe { next::sched_yield() },
    }
    0
}
