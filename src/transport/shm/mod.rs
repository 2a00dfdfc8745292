//! Peers in other processes of this machine: their memory came as descriptors and is mapped here.
#![forbid(unsafe_code)]

use crate::device::Kind;
use crate::error::Result;
use crate::transport::Transport;
use crate::transport::factory::{self, Answer, ELSEWHERE, Pair, Setup};
use crate::transport::stores::Stores;

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
        Ok((Box::new(Stores::new(self.name(), setup.serves.clone())), Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn contract() {
        crate::transport::contract::all(|serves| vec![Box::new(super::Stores::new("shm", serves))]);
    }
}
