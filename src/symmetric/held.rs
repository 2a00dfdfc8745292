//! The memories of one communicator and rank: held by those that use them, gone with the last.

use super::flat::FlatSpace;
use super::members::MulticastTeam;
use super::memory::{Held, SymMemory};
use super::offsets::Offsets;
use crate::bail;
use crate::device::Physical;
use crate::error::Result;
use crate::sync::Mutex;
use crate::team::Team;
use std::sync::Arc;

/// The symmetric memory of one communicator and rank.
pub struct Symmetric {
    pub(super) state: Mutex<Memories>,
    /// Whose.
    pub team: Arc<Team>,
}

/// Drops in this order: what stands on memory before the memory.
#[derive(Default)]
pub(super) struct Memories {
    /// Newest first.
    pub memories: Vec<Held>,
    pub teams: Vec<MulticastTeam>,
    pub space: Option<(Arc<FlatSpace>, Offsets)>,
    pub last_memory: u64,
}

impl Symmetric {
    /// None yet.
    pub fn new(team: Arc<Team>) -> Self {
        Self { state: Mutex::default(), team }
    }

    /// The memory that is over `physical`, if it is held.
    pub(crate) fn of(&self, physical: &Arc<dyn Physical>) -> Option<Arc<SymMemory>> {
        let state = self.state.lock();
        let held = state.memories.iter().find(|held| held.memory.physical.key() == physical.key());
        held.map(|held| held.memory.clone())
    }

    /// Takes new memory in, used once.
    pub(crate) fn adopt(&self, mut held: Held) -> Arc<SymMemory> {
        held.uses = 1;
        let memory = held.memory.clone();
        self.state.lock().memories.insert(0, held);
        memory
    }

    /// Uses it once more.
    pub(crate) fn share(&self, memory: Arc<SymMemory>) -> Result<Arc<SymMemory>> {
        match self.state.lock().memories.iter_mut().find(|held| Arc::ptr_eq(&held.memory, &memory)) {
            Some(held) => held.uses += 1,
            None => bail!(
                InvalidUsage,
                57,
                "memory went away while it was registered again | memory {} | fix: do not deregister its windows from another thread \
                 meanwhile",
                memory.id
            ),
        }
        Ok(memory)
    }

    /// Gives one use back; the last one takes memory out of the flat space.
    pub(crate) fn release(&self, memory: &Arc<SymMemory>) {
        let gone = {
            let mut state = self.state.lock();
            let Some(at) = state.memories.iter().position(|held| Arc::ptr_eq(&held.memory, memory)) else { return };
            state.memories[at].uses -= 1;
            if state.memories[at].uses > 0 {
                return;
            }
            state.memories.remove(at)
        };
        // Views and then the offset go here. After an abort kernels may still be on their way out: not under their feet.
        if self.team.failure().is_some() {
            self.team.device.bury(Box::new(gone));
        }
    }
}
