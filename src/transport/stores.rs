//! Plain stores of this process into the peers' memory, done at once: what `loopback` and `shm` carry with.
#![forbid(unsafe_code)]

use super::mapped::Mapped;
use super::{Capabilities, Completion, Region, Submitted, Transport, Work};
use crate::error::Result;

/// Most bytes of one submission: about 100 us of copying, so that no step keeps other peers, or a waiting block, longer.
const PIECE: u64 = 1 << 20;

/// Stores into mapped memory.
pub struct Stores(Mapped);

impl Stores {
    /// Of the transport `name`, for the ranks with `serves[rank]`.
    pub fn new(name: &'static str, serves: Vec<bool>) -> Self {
        Self(Mapped::new(name, serves))
    }
}

impl Transport for Stores {
    fn capabilities(&self) -> Capabilities {
        Capabilities { inline: PIECE, align: 8, ..Capabilities::of(self.0.name, PIECE) }
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        self.0.register(region)
    }

    fn deregister(&mut self, region: u32) {
        self.0.deregister(region);
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        self.0.deliver(work)
    }

    fn progress(&mut self, _done: &mut Vec<Completion>) -> Result<bool> {
        Ok(false)
    }

    fn abort(&mut self) {}
}
