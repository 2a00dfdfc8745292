//! What all grids that have ended knew, and what was posted to device communicators that are gone: a grid begins with it.

use parking_lot::Mutex;

use super::arena::{Key, kind};
use super::clock::Clock;
use super::{handed, job};

/// In this process; in a job its arena has it.
static KNOWN: Mutex<Clock> = Mutex::new(Clock::NOTHING);
const KEY: Key = Key { kind: kind::KNOWN, of: [0; 2] };

/// As it is now. A number of grids that have ended, asked for behind this, is no smaller than what was forgotten for it.
pub fn now() -> Clock {
    if job::is_joined() { handed::take(KEY).map(|clock| (*clock).clone()).unwrap_or_default() } else { KNOWN.lock().clone() }
}

/// Makes more of it, one caller at a time.
pub fn change(how: impl FnOnce(&mut Clock)) {
    if job::is_joined() { handed::change(KEY, how) } else { how(&mut KNOWN.lock()) }
}

/// This process has joined a job just now.
pub fn join() {
    let own = KNOWN.lock().clone();
    change(|clock| clock.join(&own));
}
