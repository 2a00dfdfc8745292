//! Signals and counters, as what is told of a hang names them.
#![forbid(unsafe_code)]

use crate::device::DevPtr;

/// A signal or counter, as the program calls it, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where it is.
    pub at: DevPtr,
    /// Its context.
    pub context: u32,
    /// Its number among all of its context.
    pub word: u32,
    /// Its id.
    pub id: u32,
    /// What it holds.
    pub value: u64,
    /// What of it was waited for last, or read, since it was reset; None where nobody ever has.
    pub awaited: Option<u64>,
}

impl Held {
    /// It holds more than anybody waits for.
    pub fn is_idle(&self) -> bool {
        self.value > self.awaited.unwrap_or(0)
    }
}

/// Around a word that a kernel waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Its context and its number among all of that, if it is a signal of a proxied context.
    pub signal: Option<(u32, u32)>,
    /// Words of its kind that hold more than anybody waits for, without it, the nearest first. None where that cannot be said now.
    pub held: Vec<Held>,
}

/// What a rank has added to a signal of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// Whose signal.
    pub peer: u32,
    /// Its context.
    pub context: u32,
    /// Its number among all of its context.
    pub word: u32,
    /// Its id, as the program calls it.
    pub id: u32,
    /// All together.
    pub sum: u64,
}

/// What a rank knows of its signals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// What it has added, where that is not 0.
    pub raised: Vec<Raised>,
    /// There may be more that it has added.
    pub uncounted: bool,
    /// Its own, but for those that hold 0 and were never waited for.
    pub own: Vec<Held>,
}
