//! Memory of the host that this rank's kernels and CPUs touch, and nobody else: what a network carries from and to without the help of
//! the GPU's copy engine.
#![forbid(unsafe_code)]

use super::held::Symmetric;
use super::memory::{Held, SymMemory};
use crate::device::Physical;
use crate::error::Result;
use crate::sync::Mutex;
use std::sync::Arc;

impl Symmetric {
    /// `bytes` of it, zeroed. Every rank that makes a window of such memory calls it, also where it fails: numbers stay alike.
    pub(crate) fn host(&self, bytes: usize) -> Result<Held> {
        let id = {
            let mut state = self.state.lock();
            state.last_memory += 1;
            state.last_memory
        };
        let team = &self.team;
        let physical: Arc<dyn Physical> = team.device.create_shared(bytes)?;
        let address = physical.device_address().expect("kernels see what create_shared makes");
        let mut peers = vec![None; team.n_ranks as usize];
        peers[team.rank as usize] = Some(physical.clone());
        let memory = SymMemory {
            id,
            bytes,
            big_offset: 0,
            on_gpu: false,
            physical,
            peers,
            stride: 0,
            lsa_first: team.rank,
            lsa_rank: 0,
            own_mappings: Mutex::default(),
            addresses: vec![address],
        };
        Ok(Held { memory: Arc::new(memory), uses: 0, bindings: Vec::new(), _views: Vec::new(), _span: None })
    }
}
