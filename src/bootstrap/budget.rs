//! How much work connections may make that do not authenticate. A connection that leads nowhere costs some microseconds, so whoever can connect could keep
//! the service thread, and with it the job, from its work. So they are let in a few at a turn, and the core time that went into
//! those who were turned away is followed by a rest in which nothing is accepted: their connections wait in the kernel's queue
//! meanwhile, or fail there, at their own cost. Core time, because it says what a machine can take, and a busy one stretches it not.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Connections accepted in one turn of the event loop: the ranks' links have their turn in between.
pub const PER_TURN: usize = 32;
/// Parts of rest for each part of work: while nobody joins here, and while ranks do, which may wait behind others.
const QUIET: u32 = 9;
const JOINING: u32 = 1;
/// The shortest and the longest rest, also where there is no place for another handshake.
pub const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// Most connections accepted in one turn of the event loop, and all that were turned away.
static MOST_ACCEPTED: AtomicUsize = AtomicUsize::new(0);
static TURNED_AWAY: AtomicU32 = AtomicU32::new(0);

/// Notes a turn.
pub(super) fn count(accepted: usize, turned_away: u32) {
    MOST_ACCEPTED.fetch_max(accepted, Ordering::Relaxed);
    TURNED_AWAY.store(turned_away, Ordering::Relaxed);
}

/// For tests: the most connections that this process accepted in one turn of its service thread, and all that it turned away.
#[doc(hidden)]
pub fn accept_counts() -> (usize, u32) {
    (MOST_ACCEPTED.load(Ordering::Relaxed), TURNED_AWAY.load(Ordering::Relaxed))
}

/// The rest after connections that were turned away took so much of a core.
pub fn rest(took: Duration, joining: bool) -> Duration {
    (took * if joining { JOINING } else { QUIET }).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_a_tenth_of_a_core_and_half_of_one_while_ranks_join() {
        for (joining, share) in [(false, 0.1), (true, 0.5)] {
            for turn in [Duration::from_millis(1), Duration::from_millis(5)] {
                let took = turn.as_secs_f64();
                let got = took / (took + rest(turn, joining).as_secs_f64());
                assert!((got - share).abs() < 0.001, "{got} of {share}");
            }
        }
        assert_eq!((rest(Duration::ZERO, false), rest(Duration::from_secs(1), true)), (SHORTEST, LONGEST));
    }
}
