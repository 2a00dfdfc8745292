//! One answer from one thread to another, which waits for it with a deadline.
//!
//! Not a channel of crossbeam's: waiting at one needs the thread's own data, which has gone when a destructor of a static object
//! calls the library.

#![forbid(unsafe_code)]

use super::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Open,
    Given(T),
    Never,
}

/// The end that answers, once; dropped without it: there will be none.
pub struct Give<T>(Arc<Shared<T>>);

/// The end that waits.
pub struct Hear<T>(Arc<Shared<T>>);

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// The answer; a later wait hears that there is none.
    Answer(T),
    /// The time was up.
    Late,
    /// Who would have answered has gone.
    Never,
}

/// Both ends.
pub fn answer<T>() -> (Give<T>, Hear<T>) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Open), changed: Condvar::new() });
    (Give(shared.clone()), Hear(shared))
}

impl<T> Give<T> {
    /// Answers; never waits.
    pub fn give(self, what: T) {
        *self.0.state.lock() = State::Given(what);
    }
}

impl<T> Drop for Give<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Open) {
            *state = State::Never;
        }
        self.0.changed.notify_all();
    }
}

impl<T> Hear<T> {
    /// Waits for as long as `patience`.
    pub fn wait(&self, patience: Duration) -> Heard<T> {
        let end = Instant::now() + patience;
        let mut state = self.0.state.lock();
        while matches!(*state, State::Open) {
            if self.0.changed.wait_until(&mut state, end).timed_out() {
                break;
            }
        }
        match std::mem::replace(&mut *state, State::Never) {
            State::Given(what) => Heard::Answer(what),
            State::Never => Heard::Never,
            State::Open => {
                *state = State::Open;
                Heard::Late
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hang_limit::HANG_LIMIT;

    #[test]
    fn an_answer_no_answer_and_none_any_more() {
        let (give, hear) = answer();
        assert_eq!(hear.wait(Duration::from_millis(1)), Heard::Late);
        let thread = std::thread::spawn(move || give.give(7));
        assert_eq!(hear.wait(HANG_LIMIT), Heard::Answer(7));
        thread.join().unwrap();
        assert_eq!(hear.wait(HANG_LIMIT), Heard::Never);
        let (give, hear) = answer::<u32>();
        drop(give);
        assert_eq!(hear.wait(HANG_LIMIT), Heard::Never);
    }
}
