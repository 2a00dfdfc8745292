//! Peers in this process, this rank included: their memory is ours.
#![forbid(unsafe_code)]

use super::Transport;
use super::factory::{self, Answer, ELSEWHERE, Pair, Setup};
use super::stores::Stores;
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
        Ok((Box::new(Stores::new(self.name(), setup.serves.clone())), Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn contract() {
        crate::transport::contract::all(|serves| vec![Box::new(super::Stores::new("loopback", serves))]);
    }
}
