//! Plain stores of this process into the peers' memory, done at once. `loopback`: peers in this process, this rank included, whose
//! memory is ours; `shm`: peers in other processes of this machine, whose memory came as descriptors and is mapped here.
#![forbid(unsafe_code)]

use super::factory::{self, Answer, ELSEWHERE, Pair, Setup};
use super::mapped::Mapped;
use super::{Capabilities, Completion, Region, Submitted, Transport, Work};
use crate::device::Kind;
use crate::error::Result;

/// The two lines in the list.
pub enum Factory {
    Loopback,
    Shm,
}

impl factory::Factory for Factory {
    fn name(&self) -> &'static str {
        match self {
            Factory::Loopback => "loopback",
            Factory::Shm => "shm",
        }
    }

    fn can(&self, pair: &Pair) -> Answer {
        match (self, pair) {
            (_, Pair { same_machine: false, .. }) => ELSEWHERE,
            (_, Pair { kind: Kind::Cuda, .. }) => Err("the CPU cannot write GPU memory".into()),
            (Factory::Loopback, Pair { same_process: false, .. }) => Err("the peer is in another process".into()),
            (_, Pair { reached: false, .. }) => Err("the device does not reach the peer's memory".into()),
            (Factory::Loopback, _) => Ok("same process"),
            (Factory::Shm, _) => Ok("same machine, other process"),
        }
    }

    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        Ok((Box::new(Stores::new(self.name(), setup.serves.clone())), Vec::new()))
    }
}

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

#[cfg(test)]
mod tests {
    #[test]
    fn contract() {
        crate::transport::contract::all(|serves| vec![Box::new(super::Stores::new("shm", serves))]);
    }
}
