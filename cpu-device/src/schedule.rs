//! GINRS_SCHEDULE: the order in which the threads of a block run, where one is stopped, the order in which blocks begin and how long one
//! pauses, drawn from a seed. All of it is what CUDA allows: threads and blocks have no order but the one that the program makes.
//!
//! Each block draws from a stream of its own, which the seed, the rank, the device, the kernel's number there and the block's index
//! determine; so it makes the same choices whenever it sees the same, whatever other blocks do. A block has moods: where each thread is
//! stopped again and again, nothing ever runs far ahead of something else.
//!
//! Fair: who has been ready for the longest is passed over [`PASSES`] times at most, and threads that poll have their turns in the order of
//! the queue. So what ends without a seed ends with one.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::baton;
use crate::config::{Seed, config};

/// How often the thread at the head of the queue is passed over.
const PASSES: u32 = 16;
/// A thread that polls gets as many basic blocks as bring it to its next poll: one that is stopped before would look as if it worked.
const POLL: i32 = 64;
/// Turns, on average, from which on other threads are the favourites: PCT's points of change.
const CHANGE: u64 = 32;
/// The longest pause.
const LONGEST: u64 = 2000;

/// Numbers that a seed determines: splitmix64.
pub struct Draws(u64);

impl Draws {
    /// `of`: whose; streams of different owners have nothing to do with each other.
    fn new(seed: Seed, of: [u64; 3]) -> Draws {
        let mut draws = Draws(seed.number);
        for word in [seed.rank].into_iter().chain(of) {
            draws.0 = draws.next() ^ word;
        }
        draws
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Mostly short.
    fn pause(&mut self) -> Duration {
        let most = LONGEST >> self.below(6);
        Duration::from_micros(1 + self.below(most))
    }
}

fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The numbers below `count`, each once: as they are, from the last on, or from anywhere in steps.
pub struct Order {
    count: u64,
    first: u64,
    step: u64,
}

impl Order {
    fn new(draws: &mut Draws, count: u64) -> Order {
        let common = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let (first, step) = match draws.below(4) {
            0 => (0, 1),
            1 => (count - 1, count - 1),
            _ => (draws.below(count), 1 + draws.below(count)),
        };
        let step = (step.max(1)..).find(|&step| common(step, count) == 1).unwrap_or(1);
        Order { count, first, step }
    }

    /// Number `i` of them.
    pub fn at(&self, i: u64) -> u64 {
        ((u128::from(self.first) + u128::from(i) * u128::from(self.step)) % u128::from(self.count)) as u64
    }
}

/// The order in which the `blocks` of kernel number `kernel` on `device` begin; None: as they are.
pub fn of_grid(device: i32, kernel: u64, blocks: u64) -> Option<Order> {
    let seed = config().schedule.filter(|_| blocks > 1 && baton::draws())?;
    Some(Order::new(&mut Draws::new(seed, [device as u64, kernel, u64::MAX]), blocks))
}

/// Who of those that can go on does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pick {
    /// Who has been ready for the longest, as without a seed.
    Oldest,
    /// Who has just become ready, or was just stopped.
    Newest,
    Any,
    /// Those whose number stands first in an order that changes now and then.
    Favourites,
}

/// What one block draws.
pub struct Schedule {
    draws: Draws,
    pick: Pick,
    /// Of eight turns, so many end early.
    short: u64,
    /// Of eight times that a thread completes a rendezvous, so often it lets those go first that waited there.
    after_you: u64,
    /// Of 1024 rests, so many are pauses.
    pauses: u64,
    favourites: u64,
    passed: u32,
    /// The first so many of the queue were there when the round began.
    due: usize,
}

impl Schedule {
    /// Of block `block` of kernel number `kernel` on `device`; None without a seed.
    pub fn of_block(device: i32, kernel: u64, block: u64) -> Option<Schedule> {
        config().schedule.filter(|_| baton::draws()).map(|seed| Schedule::new(Draws::new(seed, [device as u64, kernel, block])))
    }

    fn new(mut draws: Draws) -> Schedule {
        Schedule {
            pick: draws.pick(&[Pick::Oldest, Pick::Newest, Pick::Any, Pick::Favourites, Pick::Favourites]),
            short: draws.pick(&[0, 1, 4, 8]),
            after_you: draws.pick(&[0, 4, 7]),
            pauses: draws.pick(&[0, 2, 16]),
            favourites: draws.next(),
            passed: 0,
            due: 0,
            draws,
        }
    }

    /// The order of the first turns of `threads`, and, where the block pauses among them, after how many and for how long. A pause after
    /// none is one before the block begins.
    pub fn first_turns(&mut self, threads: u32) -> (Order, Option<(u32, Duration)>) {
        let order = Order::new(&mut self.draws, threads.into());
        let pauses = self.draws.below(2) == 0;
        let pause = pauses.then(|| (self.draws.below(u64::from(threads) + 1) as u32, self.draws.pause()));
        (order, pause)
    }

    /// The place in a queue of `ready` threads of the one that goes on; `keen` says which one stands at a place, None if it only polls.
    pub fn next(&mut self, ready: usize, keen: impl Fn(usize) -> Option<u32>) -> usize {
        if self.pick == Pick::Favourites && self.draws.below(CHANGE) == 0 {
            self.favourites = self.draws.next();
        }
        let key = self.favourites;
        let at = match self.pick {
            _ if self.passed >= PASSES => 0,
            Pick::Oldest => 0,
            Pick::Newest => ready - 1,
            Pick::Any => self.draws.below(ready as u64) as usize,
            Pick::Favourites => {
                let first = (0..ready).filter_map(|at| Some((mixed(key ^ u64::from(keen(at)?)), at))).min();
                first.map_or(0, |(_, at)| at)
            }
        };
        let at = if keen(at).is_some() { at } else { 0 };
        self.passed = if at == 0 { 0 } else { self.passed + 1 };
        at
    }

    /// The one at that place of the queue goes on, be it drawn or the only one.
    pub fn has_turn(&mut self, at: usize) {
        self.due -= usize::from(at < self.due);
    }

    /// Whether all threads have had a turn that were `ready` when the last round began; then the next one does.
    pub fn is_round_over(&mut self, ready: usize) -> bool {
        let over = self.due == 0;
        if over {
            self.due = ready;
        }
        over
    }

    /// Basic blocks until the thread that goes on is stopped, `whole` at most; `polls`: it did when it had its last turn.
    pub fn budget(&mut self, whole: i32, polls: bool) -> i32 {
        if self.draws.below(8) >= self.short {
            return whole;
        }
        let most = 2 << self.draws.below(10);
        let budget = 1 + self.draws.below(most) as i32;
        budget.max(if polls { POLL } else { 1 }).min(whole)
    }

    /// Whether the thread that has just completed a rendezvous gives the core away.
    pub fn lets_others_go_first(&mut self) -> bool {
        self.draws.below(8) < self.after_you
    }

    /// How long the block pauses now that the other OS threads have their turn.
    pub fn pause(&mut self) -> Option<Duration> {
        (self.draws.below(1024) < self.pauses).then(|| self.draws.pause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashSet, VecDeque};

    fn draws(number: u64, block: u64) -> Draws {
        Draws::new(Seed { number, rank: 0 }, [1, 2, block])
    }

    /// Runs 200 turns of a queue of `threads`, of which those below `polling` poll; who had them.
    fn turns(schedule: &mut Schedule, threads: u32, polling: u32) -> Vec<u32> {
        let mut queue: VecDeque<u32> = (0..threads).collect();
        let turn = |_| {
            let at = schedule.next(queue.len(), |at| Some(queue[at]).filter(|thread| *thread >= polling));
            let thread = queue.remove(at).unwrap();
            queue.push_back(thread);
            thread
        };
        (0..200).map(turn).collect()
    }

    #[test]
    fn a_seed_and_a_place_determine_what_a_block_does_and_another_seed_does_something_else() {
        let run = |seed, block| {
            let mut schedule = Schedule::new(draws(seed, block));
            let (order, pause) = schedule.first_turns(7);
            let order: Vec<u64> = (0..7).map(|i| order.at(i)).collect();
            let budgets: Vec<i32> = (0..20).map(|_| schedule.budget(2000, false)).collect();
            (order, pause, turns(&mut schedule, 5, 0), budgets, schedule.lets_others_go_first(), schedule.pause())
        };
        assert_eq!(run(7, 3), run(7, 3));
        let different: HashSet<_> = (0..50).flat_map(|seed| [run(seed, 0), run(seed, 1)]).collect();
        // Those whose moods are none do as they would without a seed.
        assert!(different.len() > 90, "{}", different.len());
    }

    #[test]
    fn an_order_has_each_number_once_and_each_order_of_two_comes() {
        for count in [1, 2, 3, 64, 97, 1024] {
            for seed in 0..20 {
                let order = Order::new(&mut draws(seed, 0), count);
                assert_eq!((0..count).map(|i| order.at(i)).collect::<HashSet<_>>().len() as u64, count);
            }
        }
        let firsts: HashSet<u64> = (0..20).map(|seed| Order::new(&mut draws(seed, 0), 2).at(0)).collect();
        assert_eq!(firsts.len(), 2);
        let huge = Order { count: u64::MAX, first: u64::MAX - 1, step: u64::MAX - 1 };
        assert_eq!([huge.at(0), huge.at(1)], [u64::MAX - 1, u64::MAX - 2]);
    }

    #[test]
    fn nobody_is_passed_over_for_long_and_who_polls_keeps_nobody_from_working() {
        let mut longest = 0;
        for seed in 0..100 {
            let (threads, mut schedule) = (6, Schedule::new(draws(seed, 0)));
            let had = turns(&mut schedule, threads, 0);
            for thread in 0..threads {
                let gaps = had.split(|other| *other == thread).map(<[u32]>::len);
                longest = longest.max(gaps.max().unwrap());
            }
            // Five of six poll: none of them has two turns before the others had one.
            let mut schedule = Schedule::new(draws(seed, 0));
            let had: Vec<u32> = turns(&mut schedule, threads, 5).into_iter().filter(|thread| *thread < 5).collect();
            assert!(had.windows(5).all(|five| five.iter().collect::<HashSet<_>>().len() == 5), "{had:?}");
        }
        // Each thread ahead of it in the queue may be passed over so often before it leaves, and so may it.
        assert!(longest <= 6 * (PASSES as usize + 1) && longest > 6, "{longest}");
    }

    #[test]
    fn a_round_is_over_when_all_that_were_ready_had_a_turn() {
        for seed in 0..50 {
            let mut schedule = Schedule::new(draws(seed, 0));
            let mut queue: VecDeque<u32> = (0..6).collect();
            assert!(schedule.is_round_over(queue.len()));
            let mut had = HashSet::new();
            loop {
                let at = schedule.next(queue.len(), |at| Some(queue[at]));
                schedule.has_turn(at);
                let thread = queue.remove(at).unwrap();
                had.insert(thread);
                queue.push_back(thread);
                if schedule.is_round_over(queue.len()) {
                    break;
                }
            }
            assert_eq!(had.len(), 6);
        }
        // Nothing is drawn of one alone.
        let mut schedule = Schedule::new(draws(0, 0));
        let rounds = (0..5).map(|_| {
            schedule.has_turn(0);
            schedule.is_round_over(1)
        });
        assert!(rounds.last().unwrap());
    }

    #[test]
    fn turns_end_anywhere_but_not_before_a_poll() {
        let budgets = |polls| {
            (0..40).flat_map(move |seed| {
                let mut schedule = Schedule::new(draws(seed, 0));
                (0..50).map(move |_| schedule.budget(2000, polls))
            })
        };
        assert!(budgets(false).all(|budget| (1..=2000).contains(&budget)));
        for (least, most) in [(1, 1), (2, 10), (11, 100), (101, 1000), (2000, 2000)] {
            assert!(budgets(false).any(|budget| (least..=most).contains(&budget)), "{least} to {most}");
        }
        assert!(budgets(true).all(|budget| budget >= POLL) && budgets(true).any(|budget| budget < 2000));
    }
}
