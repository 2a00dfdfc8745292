//! Links that closed without a word. A death looks like that for a moment: it is told by the pidfd, which knows more, a little later.
//! Where the process lives on, it has lost its links: it has called exec, or something in it closed descriptors that it does not own.
#![forbid(unsafe_code)]

use super::{Program, how_ended, is_collected, is_ending, is_stopped};
use std::time::{Duration, Instant};

/// How long a death may take to show.
const GRACE: Duration = Duration::from_millis(300);
/// The same for a process that is on its way: closing a GPU takes seconds.
const DYING: Duration = Duration::from_secs(10);
/// Between two looks.
pub(crate) const AGAIN: Duration = Duration::from_millis(20);

/// What became of the process `pid`, whose links have closed at `since`: None while that cannot be told. `program` is what it ran before.
pub(crate) fn look(pid: u32, since: Instant, program: Option<&Program>) -> Option<Became> {
    if is_ending(pid) {
        return (since.elapsed() > DYING).then_some(Became::Ended);
    }
    if is_stopped(pid) || since.elapsed() < GRACE {
        return None;
    }
    let now = Program::of(pid)?;
    Some(Became::Lives(match program {
        Some(program) if *program != now => format!("it has called exec and runs {} now", now.name()),
        _ => format!("{} runs on, but descriptors of the library in it were closed or overwritten", now.name()),
    }))
}

/// As [`look`], for a caller that can wait for a moment, until it is `told`; what its messages say of a process whose links have closed.
pub(crate) fn what_became_of(pid: u32, told: impl Fn() -> bool) -> Became {
    let since = Instant::now();
    loop {
        match look(pid, since, None) {
            None if told() || is_collected(pid) || is_ending(pid) && !how_ended(pid).is_empty() => return Became::Ended,
            None if since.elapsed() < 2 * GRACE => std::thread::sleep(AGAIN),
            None => return Became::Ended,
            Some(became) => return became,
        }
    }
}

/// What became of a process whose links have closed.
pub(crate) enum Became {
    /// It has ended, or is about to.
    Ended,
    /// It lives on, and how.
    Lives(String),
}
