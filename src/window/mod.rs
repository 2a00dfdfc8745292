//! Windows: parts of symmetric memory that kernels and GIN know by a handle.
//!
//! `register` makes one of a user's memory, `resource` one of the library's own, `host` one of host memory; `standing` enters it in what kernels read (`structs`,
//! `table`) and takes it away; `gin` connects GIN at its first use and tells it of all windows. `freed` knows what stands on memory that the program frees.
//! `buffers` are ncclCommRegister's, which are no windows.
//!
//! Traps: numbers of windows advance alike on all ranks, also where a step fails; a window's memory goes only when it is told to GIN no
//! more; after an abort structs and entries stay, for kernels that are on their way out.
#![cfg_attr(not(test), forbid(unsafe_code))]

mod buffers;
mod freed;
mod gin;
mod host;
mod register;
mod resource;
mod standing;
mod structs;
mod table;

pub(crate) use freed::standing_on;
pub(crate) use gin::Activation;
pub(crate) use host::HostWindow;
pub use register::supported;
pub(crate) use resource::{Proposed, Resource};

use crate::device::DevPtr;
use crate::error::Result;
use crate::gin::Gin;
use crate::symmetric::Symmetric;
use crate::sync::Mutex;
use crate::team::Team;
use buffers::Buffers;
use standing::Standing;
use std::sync::Arc;

/// The windows of one communicator and rank. Drops what stands on memory before the memory.
pub struct Windows {
    /// Held through each collective call, so that two threads cannot mix their rounds.
    pub(crate) turn: Mutex<Turn>,
    state: Mutex<Standing>,
    /// Made at the first use; see `gin`.
    gin: Mutex<Option<Arc<Gin>>>,
    buffers: Mutex<Buffers>,
    /// What they are parts of.
    pub symmetric: Symmetric,
}

/// Numbers that advance alike on all ranks.
#[derive(Default)]
pub(crate) struct Turn {
    pub registrations: u64,
    dev_comms: u64,
}

impl Turn {
    /// What ranks call the next ncclDevCommCreate.
    pub fn next_dev_comm(&mut self) -> String {
        self.dev_comms += 1;
        format!("devcomm create #{}", self.dev_comms)
    }
}

impl Windows {
    /// None yet.
    pub fn new(team: Arc<Team>) -> Self {
        let (turn, state, gin, buffers) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Self { turn, state, gin, buffers, symmetric: Symmetric::new(team) }
    }

    /// Whose they are.
    pub fn team(&self) -> &Arc<Team> {
        &self.symmetric.team
    }

    /// Windows that stand, for reports and tests.
    pub fn len(&self) -> usize {
        self.state.lock().windows.len()
    }

    /// True if there is no window.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A symmetric window that holds all of `bytes` at the user's address `at`, and where in it. Any, should there be several: the
    /// same offset in it means the same bytes on every rank.
    pub(crate) fn symmetric_at(&self, at: DevPtr, bytes: u64) -> Option<(DevPtr, u64)> {
        self.state.lock().symmetric_at(at, bytes)
    }

    /// Where the first rank of the LSA team has, as this one sees it, what is in a window of the program's at this one's `at`, all of `bytes`.
    pub(crate) fn flat_at(&self, at: DevPtr, bytes: u64) -> Option<DevPtr> {
        self.state.lock().flat_at(at, bytes)
    }

    /// Device address of the window table, made at first use.
    pub(crate) fn table_address(&self) -> Result<DevPtr> {
        Ok(self.state.lock().table(self.team())?.device())
    }
}
