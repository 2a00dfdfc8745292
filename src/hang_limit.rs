//! Guard against hangs, for tests.

use std::time::{Duration, Instant};

/// Longest time that a test waits for an event before it reports a hang, on a machine with several busy processes per core. No
/// behaviour is measured against it.
pub const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Returns the instant at which a wait that begins now counts as a hang.
pub fn hang_deadline() -> Instant {
    Instant::now() + HANG_LIMIT
}
