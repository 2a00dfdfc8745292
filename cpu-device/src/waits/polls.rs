//! Threads that read a signal or counter over and over by themselves, and always find the same: waitSignal written as a loop. For which value they wait
//! nobody knows, and a loop can end by other reasons: so it is told to who asks, and nothing is judged by it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::code::is_long;
use super::{Call, Seen, Wait};
use crate::launch::{Dim3, Launch};

/// So often, and for long, until it is a wait; a choice.
const OFTEN: u32 = 16;
/// It goes on as long as the last time was not earlier.
const PAUSE: Duration = Duration::from_secs(2);

struct Poll {
    calls: (Call, Call),
    owner: *const c_void,
    value: u64,
    times: u32,
    since: Instant,
    last: Instant,
    who: (Dim3, Dim3),
    /// Keeps the program's strings.
    _launch: Arc<Launch>,
}

// SAFETY: the pointers are to string literals of a program whose launch stands here, and an address that is only compared.
unsafe impl Send for Poll {}

/// Of a block, by thread and by what is read.
#[derive(Default)]
pub struct Polls(Mutex<HashMap<(u32, [u32; 3]), Poll>>);

impl Polls {
    /// `thread` finds `value`, in these calls; `who` are its block, its place there and its launch.
    pub fn read(
        &self,
        thread: u32,
        calls: (Call, Call),
        owner: *const c_void,
        value: u64,
        who: impl FnOnce() -> (Dim3, Dim3, Arc<Launch>),
    ) {
        let (key, now) = ((thread, calls.1.what()), Instant::now());
        let mut polls = self.0.lock();
        match polls.get_mut(&key) {
            Some(poll) if (poll.value, poll.calls.0.line()) == (value, calls.0.line()) && now - poll.last < PAUSE => {
                poll.times = poll.times.saturating_add(1);
                poll.last = now;
            }
            _ => {
                let (block, at, launch) = who();
                let new = Poll { calls, owner, value, times: 1, since: now, last: now, who: (block, at), _launch: launch };
                polls.insert(key, new);
            }
        }
    }

    /// The block is over.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// Those that last.
    pub fn each(&self, see: &mut impl FnMut(&Seen)) {
        for poll in self.0.lock().values() {
            if poll.times >= OFTEN && is_long(poll.since) && poll.last.elapsed() < PAUSE {
                see(&Seen::of(Some(poll.calls), Wait::of_reads(poll.owner), poll.value, poll.who, poll.since));
            }
        }
    }
}
