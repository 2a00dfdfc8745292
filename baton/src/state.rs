//! Who there is and what each one waits for; which of them has the baton.
#![forbid(unsafe_code)]

use crate::choose::{At, Chooser};
use std::sync::atomic::AtomicU32;

/// Nobody: all wait, or are where nobody sees them.
pub const NOBODY: usize = 0;
/// Virtual nanoseconds of a step.
pub const STEP: u64 = 200;
/// No deadline.
pub const NEVER: u64 = u64::MAX;

/// What kind of thing is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Time alone.
    Time,
    /// A futex.
    Word,
    /// A mutex or a lock of another kind.
    Lock,
    /// A condition variable.
    Condition,
    /// The end of a thread.
    Thread,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// What another thread does once.
    Once,
}

/// What a thread waits for: which one, and of a futex which bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct On {
    /// Its kind.
    pub what: What,
    /// Its address, or the thread's number.
    pub at: usize,
    /// A wake-up that has none of them is another's.
    pub bits: u32,
}

impl On {
    /// All bits.
    pub fn new(what: What, at: usize) -> On {
        On { what, at, bits: u32::MAX }
    }
}

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Run {
    /// It may go on.
    Ready,
    /// Its deadline, and its place among those who wait.
    Waits(On, u64, u64),
    /// It runs without the baton: in a call of the system that lasts.
    Outside,
    /// It has ended.
    Gone,
}

/// A thread.
pub struct Thread {
    /// What it does.
    pub run: Run,
    /// Its last wait ended by its deadline.
    pub late: bool,
    /// 1: it has been given the baton.
    pub go: &'static AtomicU32,
    /// The system's numbers for it; 0 until it runs.
    pub tid: i32,
    /// See [`Thread::tid`].
    pub handle: usize,
    /// How often it has been given the baton.
    pub turns: u64,
}

/// All of them.
pub struct State {
    /// By number; 0 is nobody.
    pub threads: Vec<Thread>,
    /// Who has the baton.
    pub current: usize,
    /// What chooses.
    pub chooser: Chooser,
    /// Virtual nanoseconds since the beginning.
    pub now: u64,
    /// Steps ever.
    pub steps: u64,
    waits: u64,
    ready: Vec<usize>,
}

impl State {
    /// Nobody yet.
    pub fn new(chooser: Chooser) -> State {
        let mut state = State { threads: Vec::new(), current: NOBODY, chooser, now: 0, steps: 0, waits: 0, ready: Vec::new() };
        state.join(Run::Gone);
        state
    }

    /// A new thread; its number.
    pub fn join(&mut self, run: Run) -> usize {
        let go: &'static AtomicU32 = Box::leak(Box::default());
        self.threads.push(Thread { run, late: false, go, tid: 0, handle: 0, turns: 0 });
        self.chooser.joins(self.threads.len() - 1);
        self.threads.len() - 1
    }

    /// `thread` waits, until `deadline` at the longest.
    pub fn wait(&mut self, thread: usize, on: On, deadline: u64) {
        self.waits += 1;
        self.threads[thread].run = Run::Waits(on, deadline, self.waits);
        self.threads[thread].late = false;
    }

    /// Up to `most` that wait for it may go on, who has waited longest first; how many.
    pub fn wake(&mut self, on: On, most: usize) -> usize {
        let mut woken: Vec<(u64, usize)> = Vec::new();
        for (number, thread) in self.threads.iter().enumerate() {
            if let Run::Waits(its, _, since) = thread.run
                && (its.what, its.at) == (on.what, on.at)
                && its.bits & on.bits != 0
            {
                woken.push((since, number));
            }
        }
        woken.sort_unstable();
        woken.truncate(most);
        woken.iter().for_each(|(_, number)| self.threads[*number].run = Run::Ready);
        woken.len()
    }

    /// Those who wait for the word at `from` wait for the one at `to`, up to `most`.
    pub fn move_waits(&mut self, from: usize, to: usize, mut most: usize) -> usize {
        let before = most;
        for thread in &mut self.threads {
            if let Run::Waits(On { what: What::Word, at, .. }, ..) = &mut thread.run
                && *at == from
                && most > 0
            {
                *at = to;
                most -= 1;
            }
        }
        before - most
    }

    /// Deadlines that have passed.
    pub fn expire(&mut self) {
        let now = self.now;
        for thread in &mut self.threads {
            if let Run::Waits(_, deadline, _) = thread.run
                && deadline <= now
            {
                (thread.run, thread.late) = (Run::Ready, true);
            }
        }
    }

    fn earliest(&self) -> Option<u64> {
        let deadlines = self.threads.iter().filter_map(|thread| match thread.run {
            Run::Waits(_, deadline, _) if deadline != NEVER => Some(deadline),
            _ => None,
        });
        deadlines.min()
    }

    /// Whether somebody runs without the baton: then time passes as it does.
    pub fn has_outsiders(&self) -> bool {
        self.threads.iter().any(|thread| thread.run == Run::Outside)
    }

    /// Gives the baton to who goes on, now that `me` is `at`; nobody if none can. Where all sleep, time goes on to the first who wakes.
    pub fn pass(&mut self, me: usize, at: At) -> usize {
        self.now += STEP;
        self.steps += 1;
        loop {
            self.expire();
            let mut ready = std::mem::take(&mut self.ready);
            ready.clear();
            ready.extend((0..self.threads.len()).filter(|number| self.threads[*number].run == Run::Ready));
            self.current = if ready.is_empty() { NOBODY } else { self.chooser.next(me, at, &ready) };
            self.ready = ready;
            if self.current != NOBODY {
                self.threads[self.current].turns += 1;
                return self.current;
            }
            match self.earliest() {
                Some(deadline) if !self.has_outsiders() => self.now = deadline,
                _ => return NOBODY,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(threads: usize) -> State {
        let mut state = State::new(Chooser::new(1, u64::MAX));
        (0..threads).for_each(|_| _ = state.join(Run::Ready));
        state
    }

    #[test]
    fn where_all_sleep_time_goes_on_to_the_first_that_wakes() {
        let mut state = of(2);
        state.wait(1, On::new(What::Time, 0), 5_000_000);
        state.wait(2, On::new(What::Time, 0), 3_000_000);
        assert_eq!((state.pass(2, At::Wait), state.now), (2, 3_000_000));
        assert!(state.threads[2].late && !state.threads[1].late);
        state.threads[2].run = Run::Gone;
        assert_eq!((state.pass(2, At::Wait), state.now), (1, 5_000_000));
        state.wait(1, On::new(What::Word, 8), NEVER);
        assert_eq!(state.pass(1, At::Wait), NOBODY);
    }

    #[test]
    fn time_does_not_go_ahead_of_who_is_outside() {
        let mut state = of(2);
        state.threads[1].run = Run::Outside;
        state.wait(2, On::new(What::Time, 0), 3_000_000);
        assert_eq!(state.pass(2, At::Wait), NOBODY);
        assert!(state.now < 1000);
    }

    #[test]
    fn who_has_waited_longest_is_woken_first_and_bits_have_to_fit() {
        let mut state = of(3);
        state.wait(3, On { what: What::Word, at: 8, bits: 1 }, NEVER);
        state.wait(1, On::new(What::Word, 8), NEVER);
        state.wait(2, On::new(What::Word, 16), NEVER);
        assert_eq!(state.wake(On { what: What::Word, at: 8, bits: 2 }, 9), 1);
        assert_eq!(state.threads[1].run, Run::Ready);
        state.wait(1, On::new(What::Word, 8), NEVER);
        assert_eq!(state.wake(On::new(What::Word, 8), 1), 1);
        assert_eq!(state.threads[3].run, Run::Ready);
        assert_eq!(state.move_waits(8, 16, 9), 1);
        assert_eq!((state.wake(On::new(What::Lock, 16), 9), state.wake(On::new(What::Word, 16), 9)), (0, 2));
    }
}
