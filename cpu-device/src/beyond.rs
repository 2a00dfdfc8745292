//! Pointers into windows that were made for ranks which the LSA team does not have. To compute one is lawful (the neighbours of the first and
//! the last rank, say), so it is told where it is touched: around a team's memory there is nothing.

use std::collections::VecDeque;
use std::fmt::{Display, Formatter, Result};

use parking_lot::Mutex;

/// As many are kept, the latest.
const KEPT: usize = 64;

/// One such pointer.
#[derive(Clone, Debug, PartialEq)]
pub struct Beyond {
    /// The function that gave it.
    pub what: String,
    /// Its argument.
    pub rank: i32,
    /// Of the LSA team.
    pub ranks: i32,
    /// Where the rank's part of the window would be, in bytes.
    pub at: usize,
    pub bytes: usize,
    /// Of the call.
    pub file: String,
    pub line: i32,
}

static NOTED: Mutex<VecDeque<Beyond>> = Mutex::new(VecDeque::new());

/// Whether that call's is known: most ask for the same again and again.
pub fn is_noted(at: usize, rank: i32, line: i32) -> bool {
    NOTED.lock().iter().any(|known| (known.at, known.rank, known.line) == (at, rank, line))
}

/// From now on it is known what is touched there.
pub fn note(pointer: Beyond) {
    let mut noted = NOTED.lock();
    if noted.len() == KEPT {
        noted.pop_front();
    }
    noted.push_back(pointer);
}

/// Hands `tell` the latest that `address` comes from. Waits for nobody.
pub fn tell(address: usize, tell: impl FnOnce(&Beyond)) -> bool {
    let Some(noted) = NOTED.try_lock() else { return false };
    let found = noted.iter().rfind(|known| address.wrapping_sub(known.at) < known.bytes);
    found.inspect(|known| tell(known)).is_some()
}

impl Display for Beyond {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let Beyond { what, rank, ranks, file, line, .. } = self;
        let s = if *ranks == 1 { "" } else { "s" };
        write!(out, "{what} gave it at {file}:{line} for rank {rank}, which the LSA team of {ranks} rank{s} does not have")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_call_is_told_and_what_no_call_gave_is_not() {
        let pointer = |line, at| Beyond { what: "f".into(), rank: -1, ranks: 1, at, bytes: 16, file: "a.cu".into(), line };
        let told = |address| {
            let mut said = None;
            assert_eq!(tell(address, |found| said = Some(found.to_string())), said.is_some());
            said
        };
        note(pointer(7, 1 << 60));
        note(pointer(8, 1 << 60));
        assert!(is_noted(1 << 60, -1, 8) && !is_noted(1 << 60, -1, 9) && !is_noted(1 << 60, 0, 8) && !is_noted(1, -1, 8));
        let said = "f gave it at a.cu:8 for rank -1, which the LSA team of 1 rank does not have";
        assert_eq!(told((1 << 60) + 15).as_deref(), Some(said));
        assert_eq!((told((1 << 60) + 16), told((1 << 60) - 1)), (None, None));
        (0..KEPT as i32).for_each(|line| note(pointer(line, 1 << 61)));
        assert_eq!(told(1 << 60), None, "the oldest go");
    }
}
