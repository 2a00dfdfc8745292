//! Who there is and what each one waits for; which of them has the baton.
#![forbid(unsafe_code)]

use crate::choose::{At, Chooser};
use libc::pollfd;
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
    /// Descriptors, of which one has to be ready.
    Files,
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
    /// Until then nobody gives it the baton: it stands still.
    pub held: u64,
    /// What it waits for, if that is [`What::Files`].
    pub files: Vec<pollfd>,
    /// The step from which on they are worth another look.
    look: u64,
}

/// Steps between two looks at the files of one thread while others can go on.
const LOOK: u64 = 16;
/// Where all wait, and some for files: time goes on so far to the next look, and further each time.
const NAP: u64 = 20_000;
const LONGEST_NAP: u64 = 1_000_000;

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
    /// Who has it and is the system's for a while: it may sleep there.
    pub alone: usize,
    waits: u64,
    ready: Vec<usize>,
    /// Whether one of them is ready, of itself.
    are_ready: fn(&mut [pollfd]) -> bool,
}

impl State {
    /// Nobody yet.
    pub fn new(chooser: Chooser, are_ready: fn(&mut [pollfd]) -> bool) -> State {
        let (threads, ready) = (Vec::new(), Vec::new());
        let mut state = State { threads, current: NOBODY, chooser, now: 0, steps: 0, alone: NOBODY, waits: 0, ready, are_ready };
        state.join(Run::Gone);
        state
    }

    /// A new thread; its number.
    pub fn join(&mut self, run: Run) -> usize {
        let go: &'static AtomicU32 = Box::leak(Box::default());
        self.threads.push(Thread { run, late: false, go, tid: 0, handle: 0, turns: 0, held: 0, files: Vec::new(), look: 0 });
        self.chooser.joins(self.threads.len() - 1);
        self.threads.len() - 1
    }

    /// `thread` waits, until `deadline` at the longest.
    pub fn wait(&mut self, thread: usize, on: On, deadline: u64) {
        self.waits += 1;
        self.threads[thread].run = Run::Waits(on, deadline, self.waits);
        self.threads[thread].late = false;
    }

    /// `thread` waits for one of these, until `deadline` at the longest.
    pub fn wait_for_files(&mut self, thread: usize, files: Vec<pollfd>, deadline: u64) {
        self.threads[thread].files = files;
        self.threads[thread].look = 0;
        self.wait(thread, On::new(What::Files, thread), deadline);
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

    /// When the next one can go on because time has come.
    fn earliest(&self) -> Option<u64> {
        let times = self.threads.iter().filter_map(|thread| match thread.run {
            Run::Waits(_, deadline, _) if deadline != NEVER => Some(deadline.max(thread.held)),
            Run::Ready => Some(thread.held),
            _ if thread.waits_for_files() && thread.held > self.now => Some(thread.held),
            _ => None,
        });
        times.min()
    }

    /// Whether somebody waits for files: then nobody but the system knows who can go on.
    pub fn has_files(&self) -> bool {
        self.threads.iter().any(Thread::waits_for_files)
    }

    /// Whether somebody runs without the baton: then time passes as it does.
    pub fn has_outsiders(&self) -> bool {
        self.threads.iter().any(|thread| thread.run == Run::Outside)
    }

    /// Gives the baton to who goes on, now that `me` is `at`; nobody if none can. Where all sleep, time goes on to the first who wakes.
    pub fn pass(&mut self, me: usize, at: At) -> usize {
        self.now += STEP;
        self.steps += 1;
        let mut nap = NAP;
        loop {
            self.expire();
            self.current = self.choose(me, at);
            if self.current != NOBODY {
                self.threads[self.current].turns += 1;
                return self.current;
            }
            let next = if self.has_files() { self.now + nap } else { NEVER };
            match self.earliest() {
                Some(time) if !self.has_outsiders() => self.now = time.min(next).max(self.now),
                _ => return NOBODY,
            }
            nap = (2 * nap).min(LONGEST_NAP);
        }
    }

    /// Who goes on, of those who can.
    fn choose(&mut self, me: usize, at: At) -> usize {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let can = |thread: &Thread| thread.run == Run::Ready && thread.held <= self.now;
        let alone = !self.threads.iter().any(can);
        let may = |thread: &Thread| {
            can(thread) || thread.waits_for_files() && thread.held <= self.now && (alone || thread.look <= self.steps)
        };
        ready.extend((0..self.threads.len()).filter(|number| may(&self.threads[*number])));
        let mut chosen = NOBODY;
        // Files are looked at when their thread is chosen.
        while !ready.is_empty() {
            chosen = self.chooser.next(me, at, &ready);
            let thread = &mut self.threads[chosen];
            if thread.run == Run::Ready || (self.are_ready)(&mut thread.files) {
                thread.run = Run::Ready;
                break;
            }
            thread.look = self.steps + LOOK;
            ready.retain(|number| *number != chosen);
            chosen = NOBODY;
        }
        self.ready = ready;
        chosen
    }
}

impl Thread {
    /// See [`What::Files`].
    pub fn waits_for_files(&self) -> bool {
        matches!(self.run, Run::Waits(On { what: What::Files, .. }, ..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(threads: usize) -> State {
        let mut state = State::new(Chooser::new(1, u64::MAX), |files| files[0].fd == 1);
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
    #[test]
    fn who_waits_for_files_goes_on_once_they_are_ready_and_is_late_at_its_deadline() {
        let file = |fd| vec![pollfd { fd, events: 0, revents: 0 }];
        let mut state = of(2);
        state.wait_for_files(1, file(0), 5_000_000);
        assert_eq!((0..100).map(|_| state.pass(2, At::Poll)).filter(|chosen| *chosen != 2).count(), 0);
        state.threads[1].files = file(1);
        assert!((0..100).any(|_| state.pass(2, At::Poll) == 1));
        assert!(!state.threads[1].late);
        state.wait_for_files(1, file(0), 5_000_000);
        state.wait(2, On::new(What::Word, 8), NEVER);
        assert_eq!((state.pass(2, At::Wait), state.now, state.threads[1].late), (1, 5_000_000, true));
        state.wait_for_files(1, file(0), NEVER);
        assert_eq!((state.pass(1, At::Wait), state.has_files()), (NOBODY, true));
        state.threads[1].files = file(1);
        assert_eq!(state.pass(NOBODY, At::Wait), 1);
    }

    #[test]
    fn who_is_held_stands_still_until_its_time_has_come() {
        let mut state = of(2);
        state.threads[1].held = 4_000_000;
        assert!((0..100).all(|_| state.pass(2, At::Poll) == 2));
        state.wait(2, On::new(What::Time, 0), 3_000_000);
        assert_eq!((state.pass(2, At::Wait), state.now), (2, 3_000_000));
        state.wait(2, On::new(What::Word, 8), NEVER);
        assert_eq!((state.pass(2, At::Wait), state.now), (1, 4_000_000));
    }
}
