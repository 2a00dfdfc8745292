//! Barriers, and what is done once: who waits there is known here alone.

use crate::baton::turn;
use crate::choose::At;
use crate::next;
use crate::state::{NEVER, On, What};
use libc::{c_int, c_void};
use std::cell::UnsafeCell;

/// What the thread with the baton alone touches.
struct WithBaton<T>(UnsafeCell<T>);
// SAFETY: see there.
unsafe impl<T> Sync for WithBaton<T> {}

/// Barriers at which somebody waits: the address, and how many.
static BARRIERS: WithBaton<Vec<(usize, u32)>> = WithBaton(UnsafeCell::new(Vec::new()));
/// What is being done once.
static ONCES: WithBaton<Vec<usize>> = WithBaton(UnsafeCell::new(Vec::new()));

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut c_void) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::pthread_barrier_wait(barrier) };
    };
    // SAFETY: glibc's barrier: its third int is how many it waits for. The caller's.
    let all = unsafe { *barrier.cast::<u32>().add(2) };
    let on = On::new(What::Barrier, barrier.addr());
    // SAFETY: this thread has the baton, until it waits below.
    let barriers = unsafe { &mut *BARRIERS.0.get() };
    let place = barriers.iter().position(|(at, _)| *at == on.at).unwrap_or_else(|| {
        barriers.push((on.at, 0));
        barriers.len() - 1
    });
    barriers[place].1 += 1;
    if barriers[place].1 < all {
        turn.wait(on, NEVER);
        return 0;
    }
    barriers.swap_remove(place);
    turn.wake(on, usize::MAX);
    turn.point(At::Step);
    libc::PTHREAD_BARRIER_SERIAL_THREAD
}

/// Marks that a thing is being done, until it is or has thrown.
struct Doing(On);

impl Drop for Doing {
    fn drop(&mut self) {
        // A thread that ends inside has the baton, too.
        let turn = turn();
        // SAFETY: this thread has the baton.
        unsafe { &mut *ONCES.0.get() }.retain(|at| *at != self.0.at);
        turn.iter().for_each(|turn| _ = turn.wake(self.0, usize::MAX));
    }
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_once(once: *mut c_void, call: extern "C-unwind" fn()) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::pthread_once(once, call) };
    };
    let on = On::new(What::Once, once.addr());
    // SAFETY: this thread has the baton whenever it looks.
    while unsafe { &*ONCES.0.get() }.contains(&on.at) {
        turn.wait(on, NEVER);
    }
    // SAFETY: as above.
    unsafe { &mut *ONCES.0.get() }.push(on.at);
    drop(turn);
    let _doing = Doing(on);
    // SAFETY: the caller's.
    unsafe { next::pthread_once(once, call) }
}
