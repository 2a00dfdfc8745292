//! Peers in other processes of this machine: their memory came as descriptors and is mapped here.
#![forbid(unsafe_code)]

use crate::device::Kind;
use crate::error::Result;
use crate::transport::factory::{self, Answer, ELSEWHERE, Pair, Setup};
use crate::transport::mapped::{self, Mapped};
use crate::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};

/// Its line in the list.
pub struct Factory;

impl factory::Factory for Factory {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn can(&self, pair: &Pair) -> Answer {
        match pair {
            Pair { same_machine: false, .. } => ELSEWHERE,
            Pair { kind: Kind::Cuda, .. } => Err("the CPU cannot write GPU memory".into()),
            Pair { reached: false, .. } => Err("the device does not reach the peer's memory".into()),
            _ => Ok("same machine, other process"),
        }
    }

    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        Ok((Box::new(Shm::new(setup.serves.clone())), Vec::new()))
    }
}

/// Stores into the mapped memory of other processes.
pub struct Shm(Mapped);

impl Shm {
    /// For the ranks with `serves[rank]`.
    pub fn new(serves: Vec<bool>) -> Self {
        Self(Mapped::new("shm", serves))
    }
}

impl Transport for Shm {
    fn capabilities(&self) -> Capabilities {
        mapped::capabilities("shm")
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
        crate::transport::contract::all(|serves| vec![Box::new(super::Shm::new(serves))]);
    }
}
