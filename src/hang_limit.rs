//! Guard against hangs, for tests: of this crate, and of others that include this file.
#![forbid(unsafe_code)]
#![allow(dead_code)]

use std::time::{Duration, Instant};

/// Longest time that a test waits for an event before it reports a hang, on a machine with several busy
/// processes per core. No behaviour is measured against it.
pub const HANG_LIMIT: Duration = Duration::from_secs(120);

/// A test that repeats a race ends after this time, if its rounds take longer on a busy machine.
pub const RACE_TIME: Duration = Duration::from_secs(5);

/// Polls until `done`: the other thread is about to make it so, if it has a core.
pub fn spin_until(mut done: impl FnMut() -> bool) {
    while !(0..1000).any(|_| {
        std::hint::spin_loop();
        done()
    }) {
        std::thread::yield_now();
    }
}

/// Returns the instant at which a wait that begins now counts as a hang.
pub fn hang_deadline() -> Instant {
    Instant::now() + HANG_LIMIT
}
