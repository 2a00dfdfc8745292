//! Peers in this process, this rank included: their memory is ours.
#![forbid(unsafe_code)]

use super::factory::{self, Answer, ELSEWHERE, Pair, Setup};
use super::mapped::{self, Mapped};
use super::{Capabilities, Completion, Region, Submitted, Transport, Work};
use crate::device::Kind;
use crate::error::Result;

/// Its line in the list.
pub struct Factory;

impl factory::Factory for Factory {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn can(&self, pair: &Pair) -> Answer {
        match pair {
            Pair { same_machine: false, .. } => ELSEWHERE,
            Pair { kind: Kind::Cuda, .. } => Err("the CPU cannot write GPU memory".into()),
            Pair { same_process: false, .. } => Err("the peer is in another process".into()),
            Pair { reached: false, .. } => Err("the device does not reach the peer's memory".into()),
            _ => Ok("same process"),
        }
    }

    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        Ok((Box::new(Loopback::new(setup.serves.clone())), Vec::new()))
    }
}

/// Stores into memory of the same process.
pub struct Loopback(Mapped);

impl Loopback {
    /// For the ranks with `serves[rank]`.
    pub fn new(serves: Vec<bool>) -> Self {
        Self(Mapped::new("loopback", serves))
    }
}

impl Transport for Loopback {
    fn capabilities(&self) -> Capabilities {
        mapped::capabilities("loopback")
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
        crate::transport::contract::all(|serves| vec![Box::new(super::Loopback::new(serves))]);
    }
}
