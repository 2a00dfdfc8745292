//! What libginrs_cpu and libginrs ask for, by name: where they are alone there is nothing of that name, and nothing is asked.

use crate::baton::{self, Held, turn};
use crate::choose::At;

/// From here on nothing is drawn (ginrs-run shrinks a seed with it).
const UNTIL: &str = "GINRS_SCHEDULE_UNTIL";

/// libginrs_cpu is here, and its GINRS_SCHEDULE is `seed`. 0: nothing is drawn.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_baton_begin(seed: u64) -> i32 {
    let until = std::env::var(UNTIL).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    baton::begin(seed, until);
    i32::from(until > 0)
}

/// A block's `thread` has its turn: a point, and a choice that the seed has made there. 0: nothing is drawn any more.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_baton_turn(thread: u32) -> i32 {
    let Some(turn) = turn() else { return 1 };
    let mut state = Held::take();
    state.chooser.note(thread.into());
    let draws = state.chooser.draws();
    drop(state);
    turn.point(At::Step);
    draws.into()
}

/// A counted point inside of plain code; how many basic blocks lie before the next one.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_baton_point() -> i32 {
    let Some(turn) = turn() else { return i32::MAX };
    turn.point(At::Step);
    Held::take().chooser.budget()
}

/// The calling thread is about to load a library (1), or has done so (0, if the first call said 1). In between it keeps the baton, and its calls and its clock
/// are the system's: who waits for the loader's lock is not seen here, and a constructor may compare clocks with the processor's counter.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_baton_alone(begins: i32) -> i32 {
    baton::alone(begins != 0).into()
}

/// How many turns the thread of this number has had if it waits for others alone, without a deadline, and at which address of memory
/// (0: for the end of a thread, or for ever); -1: it does not; -2: no baton.
///
/// # Safety
/// `at` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_baton_parked(tid: i32, at: *mut usize) -> i64 {
    if !baton::is_on() {
        return -2;
    }
    let Some((turns, address)) = baton::parked(tid) else { return -1 };
    // SAFETY: the caller's.
    unsafe { *at = address };
    turns as i64
}
