//! When a block gives its core away, and for how long.
//!
//! Two cores may carry 4096 block threads: a poll that found nothing is answered by sched_yield (40 ms per global barrier
//! of 4096 threads; with sleeps of 50 us, 1024 threads were 100 times slower). But that gives the core to threads of the same
//! scheduling group only: under mpirun, in containers and in other sessions each rank is a group of its own, and one whose
//! threads all poll keeps its cores until its slice ends. So where block threads share cores they nap, soon when all blocks of the process
//! have seen nothing happen, and the longer the longer they wait (benches/alltoall.cu with 30 rounds on 2 cores, 4 ranks of 16 blocks:
//! a round as threads 34 to 46 ms, as processes of one group 33 to 46; in cgroups of their own mostly 30 to 60 and now and then 200, without
//! naps 120 to 1900, with naps that begin after 1.6 ms 190 to 1500).
//!
//! A nap ends early when the library has moved something ([`crate::naps`]).

use crate::config::config;
use crate::naps::Naps;
use crate::once::OnceLock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Rounds in which a block has found nothing before it naps though others of the process have work; where each has a core, a time.
const IDLE_ROUNDS: u32 = 4;
const IDLE_TIME: Duration = Duration::from_millis(200);
/// The least nap, for each block of the process: to wake many is work. At most [`LONGEST`]. Who naps has waited for twice as long.
const NAP: Duration = Duration::from_micros(10);
const LONGEST: Duration = Duration::from_millis(2);
/// Where each block has a core, it spins for so long before its first nap.
const PATIENCE: Duration = Duration::from_micros(100);

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

/// Block threads of the process that have a block.
pub(crate) static BUSY: AtomicU32 = AtomicU32::new(0);

/// How many block threads of the process have a block.
pub fn busy() -> u32 {
    BUSY.load(Ordering::Relaxed)
}

/// Whether block threads share cores, if the job's other processes on this machine have as many as this one's `busy`.
fn is_crowded(busy: u32) -> bool {
    busy.saturating_mul(config().processes) > cores()
}

/// Block threads of the process whose blocks are idle.
static IDLE: AtomicU32 = AtomicU32::new(0);

/// How a round ends in which nobody found anything.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    Spin,
    Yield,
    Nap(Duration),
}

/// After `rounds` such rounds, and `waited` since the first; `idle` of the process's `busy` blocks have found nothing either.
fn rest_of(rounds: u32, waited: Duration, idle: u32, busy: u32, crowded: bool) -> Rest {
    let all_idle = idle >= busy;
    let naps = match crowded {
        true => all_idle && rounds > 1 || rounds >= IDLE_ROUNDS,
        false => all_idle && waited >= PATIENCE || waited >= IDLE_TIME,
    };
    if naps {
        Rest::Nap((waited / 2).clamp((NAP * busy).min(LONGEST), LONGEST))
    } else if crowded || rounds.is_multiple_of(SPINS) {
        Rest::Yield
    } else {
        Rest::Spin
    }
}

/// A host thread that asks so often, without doing more than [`HOST_WORK`] in between, waits.
const HOST_POLLS: u32 = 64;
const HOST_WORK: Duration = Duration::from_micros(100);
const HOST_NAP: Duration = Duration::from_micros(50);

/// How often a host thread has asked in a row, and when last.
#[derive(Clone, Copy)]
struct Asked {
    times: u32,
    last: Option<Instant>,
}

impl Asked {
    const NEVER: Asked = Asked { times: 0, last: None };

    /// It asks again. True if it is waiting.
    fn again(&mut self, now: Instant) -> bool {
        let in_a_row = self.last.is_some_and(|last| now - last < HOST_WORK);
        self.times = if in_a_row { self.times.saturating_add(1) } else { 1 };
        self.last = Some(now);
        self.times > HOST_POLLS
    }
}

/// The host program was told that something is not ready. One that asks again and again, as nccl-tests does, naps: with sched_yield
/// alone it would keep a core from the blocks of other ranks.
pub fn host_polled() {
    thread_local!(static ASKED: Cell<Asked> = const { Cell::new(Asked::NEVER) });
    let mut asked = ASKED.get();
    if asked.again(Instant::now()) {
        std::thread::sleep(HOST_NAP);
        asked.last = Some(Instant::now());
    }
    ASKED.set(asked);
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
    /// Since then, when last looked at.
    waited: Cell<Duration>,
    /// Rings of the device's naps before this round.
    rung: Cell<u32>,
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

    /// Gives the core away; not each time while there is a core for each of `busy` block threads. `before_nap` comes before a nap.
    pub fn rest(&self, busy: u32, naps: &Naps, before_nap: impl FnOnce()) {
        self.turns.set(0);
        if self.polls.replace(0) == 0 {
            std::thread::yield_now();
        } else {
            self.rest_idle(busy, naps, before_nap);
        }
        self.rung.set(naps.rung());
    }

    fn rest_idle(&self, busy: u32, naps: &Naps, before_nap: impl FnOnce()) {
        let crowded = is_crowded(busy);
        let rounds = self.idle_round(crowded);
        match rest_of(rounds, self.waited.get(), IDLE.load(Ordering::Relaxed), busy, crowded) {
            Rest::Spin => {}
            Rest::Yield => std::thread::yield_now(),
            Rest::Nap(nap) => {
                before_nap();
                naps.nap(self.rung.get(), nap);
                self.look();
            }
        }
    }

    /// Counts an idle round. The clock is looked at often only where a round is long.
    fn idle_round(&self, crowded: bool) -> u32 {
        let rounds = self.idle_rounds.get().saturating_add(1);
        self.idle_rounds.set(rounds);
        if rounds == 1 {
            IDLE.fetch_add(1, Ordering::Relaxed);
        }
        if crowded || rounds.is_multiple_of(64) {
            self.look();
        }
        rounds
    }

    fn look(&self) {
        let now = Instant::now();
        let since = self.idle_since.get().unwrap_or(now);
        self.idle_since.set(Some(since));
        self.waited.set(now - since);
    }

    fn awake(&self) {
        if self.idle_rounds.replace(0) > 0 {
            IDLE.fetch_sub(1, Ordering::Relaxed);
            self.idle_since.set(None);
            self.waited.set(Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_naps_once_its_process_is_still_or_it_has_waited_for_long() {
        let us = Duration::from_micros;
        // Blocks that share cores: the next to find something may be in another process.
        assert_eq!(rest_of(1, us(0), 66, 66, true), Rest::Yield);
        assert_eq!(rest_of(2, us(0), 66, 66, true), Rest::Nap(us(660)));
        assert_eq!(rest_of(2, us(1800), 66, 66, true), Rest::Nap(us(900)));
        assert_eq!(rest_of(2, us(5000), 4096, 4096, true), Rest::Nap(LONGEST));
        // Others of the process have work: the core is theirs, for a while.
        assert_eq!(rest_of(IDLE_ROUNDS - 1, us(100_000), 65, 66, true), Rest::Yield);
        assert_eq!(rest_of(IDLE_ROUNDS, us(700), 65, 66, true), Rest::Nap(us(660)));
        // A core for each block: a word that is about to come is found soonest by a spin.
        assert_eq!((rest_of(1, us(0), 2, 2, false), rest_of(SPINS, us(99), 2, 2, false)), (Rest::Spin, Rest::Yield));
        assert_eq!(rest_of(1, us(100), 2, 2, false), Rest::Nap(us(50)));
        assert_eq!(rest_of(SPINS, us(199_999), 1, 2, false), Rest::Yield);
        assert_eq!(rest_of(SPINS, IDLE_TIME, 1, 2, false), Rest::Nap(LONGEST));
    }

    #[test]
    fn a_host_that_does_nothing_but_ask_waits() {
        let (mut asked, begin) = (Asked::NEVER, Instant::now());
        assert!((0..HOST_POLLS).all(|i| !asked.again(begin + Duration::from_micros(i.into()))));
        assert!(asked.again(begin + Duration::from_micros(70)));
        assert!(!asked.again(begin + Duration::from_micros(70) + HOST_WORK), "it did something");
    }

    #[test]
    fn a_block_counts_as_idle_until_something_happens() {
        let pace = Pace::default();
        let begin = Instant::now();
        while pace.waited.get() < PATIENCE {
            pace.polled(false);
            assert!(pace.is_round_over(1));
            pace.rest(u32::MAX, &Naps::default(), || ());
            assert!(begin.elapsed() < Duration::from_secs(120), "never idle");
        }
        assert!(pace.idle_rounds.get() > 0 && IDLE.load(Ordering::Relaxed) == 1);
        pace.polled(true);
        assert!(pace.idle_rounds.get() == 0 && pace.waited.get().is_zero() && IDLE.load(Ordering::Relaxed) == 0);
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
