//! Sends and receives of one communicator in one group wait for each other's call, and go together when it ends.

use super::{Comm, group};
use crate::coll::{Message, Messages};
use crate::device::Stream;
use crate::error::Result;
use crate::sync::Mutex;
use std::sync::Arc;

/// The sends and receives of one communicator in one group.
pub struct PointToPoint {
    comm: Arc<Comm>,
    gathered: Mutex<Messages>,
}

impl PointToPoint {
    /// Notes a message. `Some` for the first of its group: the caller sees to it that [`PointToPoint::run`] is called when the
    /// group ends.
    pub fn add(comm: &Arc<Comm>, message: Message, stream: Stream) -> Option<Arc<Self>> {
        let key = Arc::as_ptr(comm) as usize;
        if let Some(known) = group::shared::<Self>(key) {
            known.gathered.lock().push(message, stream);
            return None;
        }
        let new = Arc::new(Self { comm: comm.clone(), gathered: Mutex::default() });
        new.gathered.lock().push(message, stream);
        group::share(key, &new);
        Some(new)
    }

    /// Launches them all.
    pub fn run(&self) -> Result<()> {
        let gathered = std::mem::take(&mut *self.gathered.lock());
        gathered.run(&self.comm.collectives, &self.comm.windows)
    }
}
