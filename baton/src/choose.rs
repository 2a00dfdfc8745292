//! Who goes on: what a seed draws at each point where another thread may.
//!
//! Two ways, and the seed has one of them: at random, or by priorities that change at points which are drawn (PCT: a bug that needs d orders
//! is found with few points of change). A thread that polls in vain comes last then, so nobody waits for ever for one that never runs.
#![forbid(unsafe_code)]

/// What the running thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// It may go on.
    Step,
    /// It may, but it polls: somebody else has to change what it looks at.
    Poll,
    /// It cannot.
    Wait,
}

/// So often in a row a thread goes on while others could: then it counts as one that polls.
const STREAK: u32 = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Of 64 steps, so many are ends of a turn.
    Random(u64),
    /// Of so many steps, one is a point of change.
    Priorities(u64),
}

/// What is drawn, and what has been.
pub struct Chooser {
    draws: u64,
    how: How,
    /// By thread.
    priorities: Vec<u64>,
    /// Below all that were given.
    lowest: u64,
    streak: u32,
    /// From this choice on nothing is drawn: threads go on until they wait or poll, and then the next one does.
    until: u64,
    /// Choices so far, where there was one.
    pub choices: u64,
    /// Of all of them.
    pub hash: u64,
}

fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

impl Chooser {
    /// Of a seed; `until`: see there.
    pub fn new(seed: u64, until: u64) -> Chooser {
        let mut chooser = Chooser {
            draws: mixed(seed ^ 0x6261_746f_6e00),
            how: How::Random(0),
            priorities: Vec::new(),
            lowest: u64::MAX / 2,
            streak: 0,
            until,
            choices: 0,
            hash: 0,
        };
        chooser.how = match chooser.below(6) {
            0 => How::Random(1),
            1 => How::Random(8),
            2 => How::Random(32),
            3 => How::Priorities(64),
            4 => How::Priorities(1024),
            _ => How::Priorities(16384),
        };
        chooser
    }

    fn draw(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.draws)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// Whether choices are still drawn.
    pub fn draws(&self) -> bool {
        self.choices < self.until
    }

    /// A choice that somebody else has made, as the seed has it.
    pub fn note(&mut self, what: u64) {
        self.choices += 1;
        self.hash = mixed(self.hash ^ what);
    }

    /// Steps until the next point inside of plain code.
    pub fn budget(&mut self) -> i32 {
        if !self.draws() {
            return 1 << 14;
        }
        let most = 64 << self.below(9);
        1 + self.below(most) as i32
    }

    /// A number for the program: what a hash table begins with.
    pub fn number(&mut self) -> u64 {
        self.draw()
    }

    /// A thread that is new: its priority.
    pub fn joins(&mut self, thread: usize) {
        let priority = u64::MAX / 2 + 1 + (self.draw() >> 2);
        if self.priorities.len() <= thread {
            self.priorities.resize(thread + 1, 0);
        }
        self.priorities[thread] = priority;
    }

    /// Which of `ready` (rising, not empty) goes on now that `me` is `at`; `me` is among them unless it waits.
    pub fn next(&mut self, me: usize, at: At, ready: &[usize]) -> usize {
        if let [only] = ready {
            self.streak = 0;
            return *only;
        }
        let at = if at == At::Step && self.streak >= STREAK { At::Poll } else { at };
        let chosen = self.pick(me, at, ready);
        self.streak = if chosen == me { self.streak + 1 } else { 0 };
        self.note((chosen as u64) << 32 | ready.len() as u64);
        chosen
    }

    fn pick(&mut self, me: usize, at: At, ready: &[usize]) -> usize {
        if !self.draws() {
            let behind = ready.iter().find(|thread| **thread > me).or(ready.first());
            return if at == At::Step { me } else { *behind.unwrap_or(&me) };
        }
        let how = self.how;
        match how {
            How::Random(often) if at == At::Step && self.below(64) >= often => me,
            How::Random(_) => {
                let others = ready.len() - usize::from(at == At::Poll);
                let others: usize = self.below(others as u64) as usize;
                match ready.iter().position(|thread| *thread == me) {
                    Some(own) if at == At::Poll && others >= own => ready[others + 1],
                    _ => ready[others],
                }
            }
            How::Priorities(every) => {
                if at == At::Poll || at == At::Step && self.below(every) == 0 {
                    self.lowest -= 1;
                    self.priorities[me] = self.lowest;
                }
                *ready.iter().max_by_key(|thread| self.priorities[**thread]).unwrap_or(&me)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn run(seed: u64, until: u64, at: impl Fn(usize) -> At) -> (Vec<usize>, u64) {
        let mut chooser = Chooser::new(seed, until);
        (0..5).for_each(|thread| chooser.joins(thread));
        let mut me = 0;
        let had = (0..5000).map(|step| {
            me = chooser.next(me, at(step), &[0, 1, 2, 3, 4]);
            me
        });
        let had = had.collect();
        (had, chooser.hash)
    }

    #[test]
    fn a_seed_determines_all_and_another_does_something_else() {
        let at = |step| if step % 7 == 0 { At::Poll } else { At::Step };
        assert_eq!(run(3, u64::MAX, at), run(3, u64::MAX, at));
        let hashes: HashSet<u64> = (0..50).map(|seed| run(seed, u64::MAX, at).1).collect();
        // Those that change priorities seldom may agree.
        assert!(hashes.len() > 40, "{}", hashes.len());
    }

    #[test]
    fn who_polls_lets_all_others_have_a_turn() {
        for seed in 0..30 {
            let (had, _) = run(seed, u64::MAX, |_| At::Poll);
            assert!(had.windows(2).all(|two| two[0] != two[1]));
            assert!(had.chunks(200).all(|some| some.iter().collect::<HashSet<_>>().len() == 5), "seed {seed}");
        }
    }

    #[test]
    fn who_never_waits_is_stopped_in_the_end() {
        for seed in 0..30 {
            let (had, _) = run(seed, 0, |_| At::Step);
            assert!(had.iter().collect::<HashSet<_>>().len() > 1);
        }
    }

    #[test]
    fn behind_the_last_choice_nothing_is_drawn() {
        let at = |step: usize| if step.is_multiple_of(3) { At::Poll } else { At::Step };
        let (all, part) = (run(9, u64::MAX, at).0, run(9, 100, at).0);
        assert_eq!(all[..100], part[..100]);
        let turns = |had: &[usize]| {
            had.windows(2).filter(|two| two[1] != two[0]).map(|two| (two[1] + 5 - two[0]) % 5).collect::<Vec<_>>()
        };
        assert!(turns(&part[101..]).iter().all(|step| *step == 1), "one after the other");
    }

    #[test]
    fn alone_there_is_no_choice() {
        let mut chooser = Chooser::new(1, u64::MAX);
        chooser.joins(7);
        assert_eq!((chooser.next(7, At::Poll, &[7]), chooser.choices), (7, 0));
    }
}
