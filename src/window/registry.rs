//! A communicator's windows and the memory under them, as one rank holds them.

use super::flat::FlatSpace;
use super::memory::{Held, SymMemory};
use super::multicast::Team;
use super::offsets::Offsets;
use super::structs::Structs;
use super::table::{Entry, WindowTable};
use crate::comm::Comm;
use crate::device::DevPtr;
use crate::gin::Registered;
use crate::layout::ncclWindow_vidmem;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// One per communicator.
#[derive(Default)]
pub struct Registry {
    /// Held through each collective call, so that two threads cannot mix their rounds.
    pub(crate) turn: Mutex<Turn>,
    pub(super) state: Mutex<State>,
}

/// Numbers that advance alike on all ranks.
#[derive(Default)]
pub(crate) struct Turn {
    pub registrations: u64,
    pub dev_comms: u64,
}

/// Drops in this order: what stands on memory before the memory.
#[derive(Default)]
pub(super) struct State {
    pub windows: HashMap<DevPtr, Window>,
    pub table: Option<WindowTable>,
    pub structs: Structs,
    /// Newest first.
    pub memories: Vec<Held>,
    pub teams: Vec<Team>,
    pub space: Option<(Arc<FlatSpace>, Offsets)>,
    /// Key of the last offer to other processes; see `exchange`.
    pub last_key: u64,
    pub last_memory: u64,
    pub last_window: u64,
}

impl State {
    /// The place of a new window. Every rank that comes this far calls it, also one that fails afterwards: numbers stay alike.
    pub fn place(&mut self, start: u64, bytes: u64) -> Place {
        self.last_window += 1;
        Place { number: self.last_window, start, bytes }
    }
}

/// Which part of its memory a window is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Equal on all ranks of the communicator, never used twice.
    pub number: u64,
    /// From the start of the memory. Bytes.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
}

/// A window that stands in the table.
pub(super) struct Window {
    /// Once GIN is active. Goes before the memory.
    pub gin: Option<Registered>,
    pub memory: Arc<SymMemory>,
    pub place: Place,
    pub shadow: ncclWindow_vidmem,
    pub entry: Entry,
    /// Made by ncclCommWindowRegister, over these; the others belong to device communicators.
    pub user: Option<UserRange>,
}

/// What a user registered.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserRange {
    /// In the user's addresses.
    pub base: DevPtr,
    pub bytes: u64,
    /// NCCL_WIN_COLL_SYMMETRIC.
    pub symmetric: bool,
}

/// A symmetric window that holds all of `bytes` at the user's address `at`, and where in it. Any, should there be several: the
/// same offset in it means the same bytes on every rank.
pub(crate) fn symmetric_at(comm: &Comm, at: DevPtr, bytes: u64) -> Option<(DevPtr, u64)> {
    let state = comm.windows.state.lock();
    let holds = |user: &UserRange| {
        user.symmetric && at.checked_sub(user.base).is_some_and(|o| o <= user.bytes && bytes <= user.bytes - o)
    };
    state.windows.iter().find_map(|(win, window)| Some((*win, at - window.user.filter(holds)?.base)))
}

impl Registry {
    /// Nothing registered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Windows that stand, for reports and tests.
    pub fn len(&self) -> usize {
        self.state.lock().windows.len()
    }

    /// True if there is no window.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
