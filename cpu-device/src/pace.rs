//! When a block gives its core away, and for how long.
//!
//! Two cores may carry 4096 block threads: a poll that found nothing is answered by sched_yield (40 ms per global barrier
//! of 4096 threads; with sleeps of 50 us, 1024 threads were 100 times slower). Only a block that has seen nothing happen
//! for long sleeps, and then shortly.

use crate::once::OnceLock;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Idle at least this long, and for at least this many rounds (a round of 4096 block threads takes 40 ms), before sleeping.
const IDLE_TIME: Duration = Duration::from_millis(200);
const IDLE_ROUNDS: u32 = 1024;
/// Turns that a block with few threads takes before it looks after the rest of the machine: a sched_yield per turn would
/// cost such a block a tenth of its time.
const LEAST_TURNS: u32 = 8;

/// Polls between two sched_yields while cores are left: two blocks that hand a word to and fro (examples/switch_cost) need
/// 230 ns a round trip on two free cores, 1200 ns with a sched_yield at each poll; on busy cores 3 us instead of 2.
const SPINS: u32 = 32;

/// The machine's cores.
pub fn cores() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(2, |n| n.get() as u32))
}

/// The pace of one block.
#[derive(Default)]
pub struct Pace {
    /// Polls in a row in which nobody found anything.
    polls: Cell<u32>,
    /// Polls and preemptions since the last rest.
    turns: Cell<u32>,
    idle_rounds: Cell<u32>,
    idle_since: Cell<Option<Instant>>,
    asleep: Cell<bool>,
}

impl Pace {
    /// A block begins.
    pub fn reset(&self) {
        self.turns.set(0);
        self.moved();
    }

    /// A thread polled; `differently` if it did something since its last poll.
    pub fn polled(&self, differently: bool) {
        if differently {
            self.awake();
        }
        self.polls.set(self.polls.get() + 1);
        self.turns.set(self.turns.get() + 1);
    }

    /// A thread was stopped in the middle of its work (or of a plain spin).
    pub fn preempted(&self) {
        self.moved();
        self.turns.set(self.turns.get() + 1);
    }

    /// Something happened.
    pub fn moved(&self) {
        self.polls.set(0);
        self.awake();
    }

    /// Whether all of `ready` threads only poll, or all have had a turn.
    pub fn is_round_over(&self, ready: u32) -> bool {
        let (polls, turns) = (self.polls.get(), self.turns.get());
        polls > 0 && polls >= ready || turns >= ready.max(LEAST_TURNS)
    }

    /// Gives the core away; not each time while there is a core for each of `busy` block threads.
    pub fn rest(&self, busy: u32) {
        let idle = self.polls.replace(0) > 0;
        self.turns.set(0);
        if idle && self.is_long_idle() {
            std::thread::sleep(Duration::from_micros(100));
        } else if !idle || busy > cores() || self.idle_rounds.get().is_multiple_of(SPINS) {
            std::thread::yield_now();
        }
    }

    fn is_long_idle(&self) -> bool {
        let rounds = self.idle_rounds.get().saturating_add(1);
        self.idle_rounds.set(rounds);
        if !self.asleep.get() && rounds.is_multiple_of(64) {
            let now = Instant::now();
            let since = self.idle_since.get().unwrap_or(now);
            self.idle_since.set(Some(since));
            self.asleep.set(rounds >= IDLE_ROUNDS && now - since >= IDLE_TIME);
        }
        self.asleep.get()
    }

    fn awake(&self) {
        if self.idle_rounds.replace(0) > 0 {
            self.idle_since.set(None);
            self.asleep.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_idleness_sleeps() {
        let pace = Pace::default();
        let begin = Instant::now();
        while !pace.asleep.get() {
            pace.polled(false);
            assert!(pace.is_round_over(1));
            pace.rest(1);
            assert!(begin.elapsed() < Duration::from_secs(20), "never slept");
        }
        assert!(begin.elapsed() >= IDLE_TIME);
        pace.polled(true);
        assert!(!pace.asleep.get());
    }

    #[test]
    fn a_round_is_all_polls_or_enough_turns() {
        let pace = Pace::default();
        (0..3).for_each(|_| pace.polled(false));
        assert!(pace.is_round_over(3) && !pace.is_round_over(4));
        pace.preempted();
        assert!(!pace.is_round_over(1), "four turns only");
        (0..4).for_each(|_| pace.preempted());
        assert!(pace.is_round_over(1) && !pace.is_round_over(9));
    }
}
