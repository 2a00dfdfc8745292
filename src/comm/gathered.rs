//! Collectives, and sends and receives, of one communicator in one group wait for each other's call, and go together when it ends.

use super::{Comm, group};
use crate::coll::{self, Call, Message, Messages};
use crate::device::Stream;
use crate::error::Result;
use crate::sync::{Mutex, OnceCell};
use std::sync::Arc;

/// Where there are two calls there will be more: a list that grows by and by takes as long as all else that is noted.
const MANY: usize = 31;

/// Those of one communicator in one group.
pub struct Gathered {
    comm: Arc<Comm>,
    calls: Mutex<Vec<Call>>,
    messages: Mutex<Messages>,
    /// Whoever runs first has looked at all of them.
    looked: OnceCell<()>,
}

impl Gathered {
    /// Notes a collective. `Some` for the first of its group: the caller sees to it that [`Gathered::run_calls`] is called when the group ends.
    pub fn add_call(comm: &Arc<Comm>, call: Call) -> Option<Arc<Self>> {
        let all = Self::of(comm);
        let mut calls = all.calls.lock();
        if calls.len() == 1 {
            calls.reserve(MANY);
        }
        calls.push(call);
        (calls.len() == 1).then(|| all.clone())
    }

    /// Notes a send or a receive; likewise, of [`Gathered::run_messages`].
    pub fn add_message(comm: &Arc<Comm>, message: Message, stream: Stream) -> Option<Arc<Self>> {
        let all = Self::of(comm);
        let mut messages = all.messages.lock();
        let is_first = messages.is_empty();
        messages.push(message, stream);
        is_first.then(|| all.clone())
    }

    /// Of the calling thread's group; outside one nobody else finds it.
    fn of(comm: &Arc<Comm>) -> Arc<Self> {
        let key = Arc::as_ptr(comm) as usize;
        group::shared::<Self>(key).unwrap_or_else(|| {
            let new = Arc::new(Self {
                comm: comm.clone(),
                calls: Mutex::default(),
                messages: Mutex::default(),
                looked: OnceCell::new(),
            });
            group::share(key, &new);
            new
        })
    }

    fn look(&self, calls: &[Call], messages: &Messages) {
        self.looked.get_or_init(|| self.comm.collectives.look_at_group(&self.comm.team, calls, messages));
    }

    /// Launches the collectives.
    pub fn run_calls(&self) -> Result<()> {
        let calls = std::mem::take(&mut *self.calls.lock());
        self.look(&calls, &self.messages.lock());
        coll::run(&self.comm.collectives, &self.comm.windows, &calls)
    }

    /// Launches the sends and receives.
    pub fn run_messages(&self) -> Result<()> {
        let messages = std::mem::take(&mut *self.messages.lock());
        self.look(&[], &messages);
        messages.run(&self.comm.collectives, &self.comm.windows)
    }
}
