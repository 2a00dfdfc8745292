//! One communicator's mailbox in this process: what its ranks here have brought for an exchange, what other processes have sent, and what
//! came of it.
#![forbid(unsafe_code)]

use super::gathered::Gathered;
use super::wire::{Block, Blocks};
use crate::error::Result;
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// See the module.
#[derive(Default)]
pub struct Mailbox {
    inbox: Mutex<Inbox>,
    /// Rings for the rank that exchanges with other processes.
    bell: Condvar,
    /// And for those that wait for what it brings.
    done: Condvar,
}

/// Its contents.
#[derive(Default)]
pub struct Inbox {
    /// Of other processes, by exchange and round.
    messages: HashMap<(u32, u8), Blocks>,
    /// Exchanges that some ranks here are in.
    steps: HashMap<u32, Step>,
    /// The latest one that a rank here has entered.
    seq: u32,
}

/// What came of an exchange that all ranks were in: the same for all of them.
pub type Outcome = Result<Gathered>;

#[derive(Default)]
struct Step {
    parts: BTreeMap<u32, Block>,
    outcome: Option<Outcome>,
    /// Ranks that have still to read it.
    readers: usize,
}

impl Mailbox {
    /// Of another process. It can be one exchange ahead of us and no further; anything else is not kept.
    pub fn put(&self, message: Blocks) {
        let mut inbox = self.inbox.lock();
        if message.seq.wrapping_sub(inbox.seq) <= 1 && message.round < 32 {
            inbox.messages.insert((message.seq, message.round), message);
            self.bell.notify_all();
        }
    }

    /// To look and wait without missing a ring.
    pub fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock()
    }

    /// Until something has come from another process, or `until`.
    pub fn wait_for_message(&self, inbox: &mut MutexGuard<'_, Inbox>, until: Instant) {
        self.bell.wait_until(inbox, until);
    }

    /// Until an exchange is over, or `until`.
    pub fn wait_for_outcome(&self, inbox: &mut MutexGuard<'_, Inbox>, until: Instant) {
        self.done.wait_until(inbox, until);
    }

    /// Exchange `seq` is over here.
    pub fn publish(&self, seq: u32, outcome: Outcome) {
        let mut inbox = self.inbox.lock();
        inbox.messages.retain(|(of, _), _| *of != seq);
        let readers = inbox.steps.get(&seq).map_or(0, |step| step.readers);
        inbox.steps.insert(seq, Step { outcome: Some(outcome), readers, ..Step::default() });
        self.done.notify_all();
    }

    /// Wakes all: what they wait for may never come.
    pub fn ring(&self) {
        let _inbox = self.inbox.lock();
        self.bell.notify_all();
        self.done.notify_all();
    }
}

impl Inbox {
    /// `rank`, of `here` in this process, brings its part to exchange `seq`. The last one gets the parts of all, to exchange them with other
    /// processes and publish what comes of it.
    pub fn bring(&mut self, seq: u32, rank: u32, part: Block, here: usize) -> Option<Vec<Block>> {
        self.seq = seq;
        let step = self.steps.entry(seq).or_default();
        step.parts.insert(rank, part);
        step.readers = here;
        (step.parts.len() == here).then(|| step.parts.values().cloned().collect())
    }

    /// True for one that has brought its part.
    pub fn has_come(&self, seq: u32, rank: u32) -> bool {
        self.steps.get(&seq).is_some_and(|step| step.parts.contains_key(&rank))
    }

    /// What came of exchange `seq`, once it is over: each rank here reads it once.
    pub fn outcome(&mut self, seq: u32) -> Option<Outcome> {
        let step = self.steps.get_mut(&seq)?;
        let outcome = step.outcome.clone()?;
        step.readers -= 1;
        if step.readers == 0 {
            self.steps.remove(&seq);
        }
        Some(outcome)
    }

    /// The message of a round, once there.
    pub fn take(&mut self, seq: u32, round: u8) -> Option<Blocks> {
        self.messages.remove(&(seq, round))
    }
}
