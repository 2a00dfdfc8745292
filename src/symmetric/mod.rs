//! Symmetric memory: one allocation of every rank, at one offset of every rank's slice of the flat space.
//!
//! `obtain` gets it: every rank proposes, all agree, each maps its LSA team's; `flat` is the space and `offsets` what is free in it,
//! `memory` what is held of it. `multicast` gives the same offsets at addresses that reach all ranks of a team. Windows stand on this,
//! and so do the signals of direct GIN contexts.
//!
//! Traps: numbers of memories advance alike on all ranks, also where a step fails; after an abort nothing is unmapped under kernels
//! that are on their way out.
#![forbid(unsafe_code)]

mod flat;
mod memory;
pub mod multicast;
mod obtain;
mod offsets;

pub use flat::{FlatSpace, TeamKey, View};
pub use memory::{Place, SymMemory};
pub use obtain::stride;
pub use offsets::{Offsets, Span};

pub(crate) use obtain::{AGREED, Proposal};

use crate::bail;
use crate::device::Physical;
use crate::error::Result;
use crate::sync::Mutex;
use crate::team::{Said, Team};
use memory::Held;
use multicast::MulticastTeam;
use std::sync::Arc;

/// The symmetric memory of one communicator and rank.
pub struct Symmetric {
    state: Mutex<Memories>,
    /// Whose.
    pub team: Arc<Team>,
}

/// Drops in this order: what stands on memory before the memory.
#[derive(Default)]
struct Memories {
    /// Newest first.
    memories: Vec<Held>,
    teams: Vec<MulticastTeam>,
    space: Option<(Arc<FlatSpace>, Offsets)>,
    last_memory: u64,
}

impl Symmetric {
    /// None yet.
    pub fn new(team: Arc<Team>) -> Self {
        Self { state: Mutex::default(), team }
    }

    /// The flat space, made at first use.
    pub fn space(&self) -> Result<Arc<FlatSpace>> {
        Ok(self.space_and_offsets()?.0)
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

    /// Collective: `bytes` of zeroed memory on every rank, until the communicator goes or [`Self::release`] is called for it on all.
    pub(crate) fn allocate(&self, what: &str, bytes: usize) -> Result<Arc<SymMemory>> {
        let proposal = Proposal::fresh(self, bytes);
        let said = proposal.as_ref().map(|own| Said { agreed: own.agreed().to_vec(), own: own.own().to_vec() });
        let all = self.team.round(what, said.map_err(Clone::clone))?;
        crate::team::compare(what, &all, |i| AGREED[i].into(), |_, value| value.to_string())?;
        let (held, _offer) = proposal?.obtain(&all);
        let memory = held.map(|held| self.adopt(held));
        if let (Err(error), Ok(memory)) = (self.team.done(&format!("{what}, end"), &memory), &memory) {
            self.release(memory);
            return Err(error);
        }
        memory
    }
}
