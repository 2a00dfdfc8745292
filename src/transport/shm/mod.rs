//! Peers in other processes of this machine: their memory came as descriptors and is mapped here.

use crate::error::Result;
use crate::transport::mapped::{self, Mapped};
use crate::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};

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
        Capabilities { name: "shm", piece: mapped::PIECE, polled: false }
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
