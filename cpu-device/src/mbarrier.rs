//! mbarrier objects: barriers in shared memory that count arrivals and bytes of asynchronous copies (PTX `mbarrier.*`).
//!
//! The state stands in a table of the block, by address; the 8 bytes in shared memory hold a mark. So what a GPU leaves undefined
//! is told: an object that was never initialised, or whose memory was written over. Only threads of the block can end a phase,
//! so a wait that none of them can end is a deadlock, and told as one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Arrivals and bytes that an object can count.
pub(crate) const MOST: i64 = (1 << 20) - 1;
/// So long a wait holds its thread at least before it says "not yet", while others of the block go on.
const TURN: Duration = Duration::from_millis(1);
/// So long all threads of a block may wait in a loop, for an end that only they can bring.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Object {
    pub expected: i64,
    /// Arrivals that the phase still needs.
    pub pending: i64,
    /// Bytes that were announced and have not come.
    pub bytes: i64,
    pub phase: u32,
    pub waiters: Vec<Waiter>,
}

pub(crate) struct Waiter {
    pub thread: u32,
    /// None: it waits for ever, for its loop does nothing else.
    pub since: Option<Instant>,
}

/// The objects of a block.
#[derive(Default)]
pub struct Mbarriers {
    pub(crate) objects: HashMap<usize, Object>,
    /// Threads whose wait has lasted long enough.
    pub(crate) expired: Vec<u32>,
    /// Counts what may bring a wait to its end.
    pub(crate) operations: u64,
    /// Since when nothing but waiting has happened: operations and live threads, then.
    quiet: Option<(u64, u32, Instant)>,
}

impl Mbarriers {
    /// Forgets all objects: a new block begins.
    pub fn reset(&mut self) {
        self.objects.clear();
        self.expired.clear();
        self.quiet = None;
    }

    /// Lets waits say "not yet" that have lasted a turn, or all if `none_ready`: no other of the block's `live` threads can
    /// go on. Who is to be made ready; None: none of them has had a reason to go on for long.
    pub fn expire(&mut self, none_ready: bool, live: u32) -> Option<Vec<u32>> {
        if !self.may_expire() {
            return None;
        }
        let now = Instant::now();
        match self.quiet {
            Some((was, alive, since)) if none_ready && (was, alive) == (self.operations, live) => {
                if now - since > PATIENCE {
                    return None;
                }
            }
            _ => self.quiet = Some((self.operations, live, now)),
        }
        let mut woken = Vec::new();
        for object in self.objects.values_mut() {
            object.waiters.retain(|waiter| {
                let over = waiter.since.is_some_and(|since| none_ready || now - since > TURN);
                if over {
                    woken.push(waiter.thread);
                }
                !over
            });
        }
        self.expired.extend_from_slice(&woken);
        Some(woken)
    }

    /// Whether a thread waits that goes on after a while, whatever happens.
    pub fn may_expire(&self) -> bool {
        let waits = |object: &Object| object.waiters.iter().any(|waiter| waiter.since.is_some());
        self.objects.values().any(waits)
    }

    /// For the deadlock report: what the object that `thread` waits for lacks.
    pub fn describe(&self, thread: u32) -> Option<String> {
        let object = self.objects.values().find(|object| object.waiters.iter().any(|w| w.thread == thread))?;
        Some(format!(
            "(mbarrier in phase {}: {} of {} arrivals and {} bytes are missing)",
            object.phase, object.pending, object.expected, object.bytes
        ))
    }
}

impl Object {
    pub fn expect(&mut self, bytes: i64) -> Result<(), String> {
        let sum = self.bytes + bytes;
        if sum.abs() > MOST {
            return Err(format!("{sum} bytes in a phase\nfix: an mbarrier counts up to {MOST} bytes at a time"));
        }
        self.bytes = sum;
        Ok(())
    }
}
