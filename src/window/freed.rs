//! ncclMemFree of memory that a window still stands on. It is lawful where the communicator has ended, and a mistake before: other ranks,
//! and cards, may still reach what the program takes for free. Here the window keeps the memory, so it is told and nothing more.

use crate::device::DevPtr;
use crate::sync::{Mutex, PerProcess};
use crate::team::Team;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// The windows that the program has registered in this process, with whatever communicator.
static STANDING: PerProcess<Mutex<Standing>> = PerProcess::new();

#[derive(Default)]
struct Standing {
    last: u64,
    windows: BTreeMap<u64, Known>,
}

struct Known {
    range: Range<DevPtr>,
    /// Of the communicator's.
    number: u64,
    team: Weak<Team>,
}

/// Keeps a window known for as long as it stands.
pub(super) struct Noted(u64);

impl Noted {
    /// The `number`th window of `team`, over so much of the program's memory.
    pub fn new(team: &Arc<Team>, range: Range<DevPtr>, number: u64) -> Self {
        let mut standing = STANDING.lock();
        standing.last += 1;
        let key = standing.last;
        standing.windows.insert(key, Known { range, number, team: Arc::downgrade(team) });
        Self(key)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        // In a forked child none is known.
        STANDING.lock().windows.remove(&self.0);
    }
}

/// What is wrong with freeing `memory` now: the first window that stands on it. Nothing is said of a communicator that has failed or was
/// finalized, for then no kernel may use it any more.
pub fn standing_on(memory: &Range<DevPtr>) -> Option<String> {
    let standing = STANDING.lock();
    let is_on = |known: &&Known| known.range.start < memory.end && memory.start < known.range.end;
    standing.windows.values().filter(is_on).find_map(|Known { range, number, team }| {
        let team = team.upgrade().filter(|team| team.ready().is_ok())?;
        let bytes = range.end - range.start;
        Some(format!(
            "memory is freed that a window stands on | {} | ncclMemFree({:#x}): window {number} of those that this rank has \
             registered has {bytes} bytes at {:#x}",
            team.tag(),
            memory.start,
            range.start
        ))
    })
}
