//! What has arrived for one rank, and where the rank stands.
#![forbid(unsafe_code)]

use super::wire::{Blocks, MAX_WHAT, Standing};
use crate::sync::{Condvar, Mutex, MutexGuard, OnceCell};
use std::collections::HashMap;
use std::time::Instant;

type OnStep = Box<dyn Fn(&str) + Send + Sync>;

/// One rank's mailbox: other ranks' threads and the service thread put in, the rank's own thread takes out.
pub struct Mailbox {
    rank: u32,
    inbox: Mutex<Inbox>,
    bell: Condvar,
    /// Hears what the rank does now; called under the inbox's lock, so one at a time.
    on_step: OnceCell<OnStep>,
}

/// Its contents.
#[derive(Default)]
pub struct Inbox {
    messages: HashMap<(u32, u8), Blocks>,
    seq: u32,
    inside: bool,
    what: String,
    step: String,
}

impl Mailbox {
    /// Empty.
    pub fn new(rank: u32) -> Self {
        Self { rank, inbox: Mutex::default(), bell: Condvar::new(), on_step: OnceCell::new() }
    }

    /// Puts a message in. A rank can be one exchange ahead of us and no further; anything else is not kept.
    pub fn put(&self, message: Blocks) {
        let mut inbox = self.inbox.lock();
        if message.seq.wrapping_sub(inbox.seq) <= 1 && message.round < 32 {
            inbox.messages.insert((message.seq, message.round), message);
            self.bell.notify_all();
        }
    }

    /// The rank enters an exchange.
    pub fn enter(&self, seq: u32, what: &str) {
        let mut inbox = self.inbox.lock();
        (inbox.seq, inbox.inside) = (seq, true);
        inbox.what = what[..what.floor_char_boundary(MAX_WHAT)].to_owned();
        self.step_is(&inbox.what);
    }

    /// Hears from now on what the rank does. The first hearer stays.
    pub fn on_step(&self, hears: impl Fn(&str) + Send + Sync + 'static) {
        self.on_step.get_or_init(|| Box::new(hears));
    }

    fn step_is(&self, step: &str) {
        if let Some(hears) = self.on_step.get() {
            hears(step);
        }
    }

    /// The rank is done with it.
    pub fn leave(&self) {
        let mut inbox = self.inbox.lock();
        inbox.inside = false;
        let done = inbox.seq;
        inbox.messages.retain(|(seq, _), _| *seq != done);
        self.step_is(&inbox.step);
    }

    /// What the rank does between exchanges.
    pub fn set_step(&self, step: &str) {
        let mut inbox = self.inbox.lock();
        inbox.step = step[..step.floor_char_boundary(MAX_WHAT)].to_owned();
        self.step_is(&inbox.step);
    }

    /// Where the rank stands.
    pub fn standing(&self) -> Standing {
        let inbox = self.inbox.lock();
        let what = if inbox.inside { &inbox.what } else { &inbox.step };
        Standing { rank: self.rank, seq: inbox.seq, inside: inbox.inside, what: what.clone() }
    }

    /// To look and wait without missing a ring.
    pub fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock()
    }

    /// Waits for a ring or for `until`.
    pub fn wait(&self, inbox: &mut MutexGuard<'_, Inbox>, until: Instant) {
        self.bell.wait_until(inbox, until);
    }

    /// Wakes the rank: what it waits for may never come.
    pub fn ring(&self) {
        let _inbox = self.inbox.lock();
        self.bell.notify_all();
    }
}

impl Inbox {
    /// The message of a round, once there.
    pub fn take(&mut self, seq: u32, round: u8) -> Option<Blocks> {
        self.messages.remove(&(seq, round))
    }
}
