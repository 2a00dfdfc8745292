//! What kernels see of windows: a struct for each, and their table.

use super::Windows;
use super::freed::Noted;
use super::structs::Structs;
use super::table::{Slot, WindowTable};
use crate::device::DevPtr;
use crate::device::Kind;
use crate::device::cpu::{RaceWindow, tell_landing, tell_registered};
use crate::error::Result;
use crate::gin::Registered;
use crate::layout::{ExtendedWindow, MARKER_CPU, MARKER_GPU, NCCL_GIN_MAX_CONTEXTS, ncclWindow_vidmem};
use crate::symmetric::{Place, SymMemory};
use crate::team::Team;
use crate::watch::GONE;
use crate::{bail, log};
use std::collections::HashMap;
use std::sync::Arc;

/// Drops in this order: what stands on memory before the memory.
#[derive(Default)]
pub(super) struct Standing {
    pub windows: HashMap<DevPtr, Window>,
    table: Option<WindowTable>,
    structs: Structs,
    last_window: u64,
    /// By rank, for kernels of the CPU device: see `Watch::gone_windows`.
    gone: Option<Box<[DevPtr]>>,
    /// Windows that the program has registered, ever.
    registered: u64,
}

/// A window that stands in the table.
pub(super) struct Window {
    /// Once GIN is active. Goes before the memory.
    pub gin: Option<Registered>,
    pub memory: Arc<SymMemory>,
    pub place: Place,
    pub shadow: ncclWindow_vidmem,
    pub entry: Slot,
    /// Made by ncclCommWindowRegister, over these; the others belong to device communicators.
    pub user: Option<UserRange>,
    /// Of those: for who frees the memory.
    _noted: Option<Noted>,
}

impl Window {
    /// Tells the race detector where puts of any rank to this window land.
    pub fn tell_landing(&self, team: &Team) {
        if let Some(gin) = &self.gin {
            tell_landing(team.hash, team.rank, gin.handle(), self.place.number, self.memory.address() + self.place.start);
        }
    }
}

/// Tells the race detector where each LSA rank's part of it is: kernels may take pointers alone.
fn tell_user_window(team: &Team, shadow: &ncclWindow_vidmem, base: DevPtr, bytes: u64, number: u64) {
    let window = RaceWindow {
        base,
        bytes,
        first: shadow.lsaFlatBase,
        stride: u64::from(shadow.stride4G) << 32,
        rank: shadow.worldRank,
        lsa_rank: shadow.lsaRank,
        lsa_size: team.topo.lsa_size as i32,
    };
    tell_registered(team.device.ordinal(), &window, number, team.hash);
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

impl Standing {
    /// The place of a new window. Every rank that comes this far calls it, also one that fails afterwards: numbers stay alike.
    pub fn place(&mut self, start: u64, bytes: u64) -> Place {
        self.last_window += 1;
        Place { number: self.last_window, start, bytes }
    }

    /// The table, made at first use.
    pub fn table(&mut self, team: &Team) -> Result<&mut WindowTable> {
        if self.table.is_none() {
            self.table = Some(WindowTable::new(&*team.device, &team.abort, team.topo.lsa_size)?);
        }
        Ok(self.table.as_mut().expect("made above"))
    }

    /// Where kernels find what each rank has taken away, made at first use.
    fn gone(&mut self, team: &Team) -> DevPtr {
        let gone = self.gone.get_or_insert_with(|| team.watch.gone_windows(team.n_ranks).into());
        gone.as_ptr().expose_provenance() as DevPtr
    }

    /// See [`Windows::symmetric_at`].
    pub fn symmetric_at(&self, at: DevPtr, bytes: u64) -> Option<(DevPtr, u64)> {
        let (win, _, offset) = self.holding(at, bytes, |_, user| user.symmetric)?;
        Some((win, offset))
    }

    /// See [`Windows::flat_at`].
    pub fn flat_at(&self, at: DevPtr, bytes: u64) -> Option<DevPtr> {
        let (_, window, offset) = self.holding(at, bytes, |window, _| !window.memory.is_apart())?;
        Some(window.memory.first_address() + window.place.start + offset)
    }

    /// One of the program's windows that holds all of `bytes` at the user's address `at`, and where in it.
    fn holding(&self, at: DevPtr, bytes: u64, is_fit: impl Fn(&Window, &UserRange) -> bool) -> Option<(DevPtr, &Window, u64)> {
        self.windows.iter().find_map(|(win, window)| {
            let user = window.user.as_ref().filter(|user| is_fit(window, user))?;
            let offset = at.checked_sub(user.base).filter(|&offset| offset <= user.bytes && bytes <= user.bytes - offset)?;
            Some((*win, window, offset))
        })
    }
}

impl Windows {
    /// Makes the window `place` over `memory`, whose use it takes over (and gives back on error). `user` is what the user
    /// registered; None for a window that cannot be found by address.
    pub(super) fn add(
        &self,
        memory: &Arc<SymMemory>,
        place: Place,
        user: Option<UserRange>,
        gin: Option<impl FnOnce(&Team, Place) -> Result<Registered>>,
    ) -> Result<DevPtr> {
        let gin = gin.map(|register| register(self.team(), place)).transpose();
        let made = gin.and_then(|gin| self.enter(memory, place, user, gin));
        if made.is_err() {
            self.symmetric.release(memory);
        }
        made
    }

    /// Its struct and its entry in the table.
    fn enter(&self, memory: &Arc<SymMemory>, place: Place, user: Option<UserRange>, gin: Option<Registered>) -> Result<DevPtr> {
        let contexts = self.gin().map_or(0, |gin| gin.n_contexts());
        let team = self.team();
        let offset = memory.big_offset + place.start;
        let shadow = ncclWindow_vidmem {
            winHost: memory.id,
            lsaFlatBase: memory.first_address() + place.start,
            lsaRank: team.topo.lsa_rank as i32,
            worldRank: team.rank as i32,
            stride4G: (memory.stride >> 32) as u32,
            mcOffset4K: (offset >> 12) as u32,
            ginOffset4K: (place.start >> 12) as u32,
            marker: match team.device.kind() {
                Kind::Cpu => MARKER_CPU,
                Kind::Cuda if memory.on_gpu => MARKER_GPU,
                Kind::Cuda => 0,
            },
            ginWins: gin_wins(gin.as_ref(), contexts),
        };
        let device = &*team.device;
        let mut state = self.state.lock();
        let table = state.table(team)?.device();
        let number = if user.is_some() { state.registered + 1 } else { 0 };
        let mut told = ExtendedWindow { window: shadow, bytes: place.bytes, table, number, ..Default::default() };
        if user.is_some() && place.number < GONE as u64 && team.device.kind() == Kind::Cpu {
            (told.place, told.gone) = (place.number as u32, state.gone(team));
        }
        let at = state.structs.put(device, &told)?;
        let base = user.map_or(0, |user| user.base);
        let entry = match state.table(team)?.insert(device, base, place.bytes, at) {
            Ok(entry) => entry,
            Err(error) => {
                state.structs.take_back(device, at).unwrap_or_else(|left| log::error(&left));
                return Err(error);
            }
        };
        state.registered = state.registered.max(number);
        if let Some(user) = user {
            memory.bound(place, user.base);
            tell_user_window(team, &shadow, user.base, place.bytes, number);
        }
        let noted = user.map(|user| Noted::new(team, user.base..user.base + user.bytes, number));
        let window = Window { gin, memory: memory.clone(), place, shadow, entry, user, _noted: noted };
        window.tell_landing(team);
        state.windows.insert(at, window);
        Ok(at)
    }

    /// Takes a window away, whoever made it. Local and at once.
    ///
    /// An error of the device is told, and takes nothing back: the window is gone and its memory given back all the same.
    pub(crate) fn remove(&self, win: DevPtr) -> Result<()> {
        let team = self.team();
        let mut cleared = Ok(());
        let window = {
            let mut state = self.state.lock();
            let Some(window) = state.windows.remove(&win) else {
                bail!(
                    InvalidArgument,
                    57,
                    "unknown window | {} | {win:#x} is no window of this communicator | fix: pass what ncclCommWindowRegister gave, \
                     once",
                    team.tag()
                );
            };
            // As with memory (`symmetric`): a kernel that an abort released may still read them.
            if team.failure().is_none() {
                let entry = state.table.as_mut().map_or(Ok(()), |table| table.remove(&*team.device, window.entry));
                cleared = entry.and(state.structs.take_back(&*team.device, win));
            }
            window
        };
        let Window { gin, memory, .. } = window;
        drop(gin);
        self.symmetric.release(&memory);
        cleared
    }
}

/// `ginWins`: the window's handle in each context that there is.
pub(super) fn gin_wins(gin: Option<&Registered>, contexts: u32) -> [u64; NCCL_GIN_MAX_CONTEXTS] {
    let handle = gin.map_or(0, Registered::handle);
    std::array::from_fn(|context| if context < contexts as usize { handle } else { 0 })
}
