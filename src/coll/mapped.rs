//! Buffers in no window, where kernels of other ranks see them: what a launch of How::Mapped tells them (cuda/collectives/mapped.cuh).
//!
//! Ranks of one process see cudaMalloc and ncclMemAlloc memory of each other at its own addresses: nothing is kept of it, so memory may be
//! freed, and its addresses used again, from one call to the next. A rank that cannot tell where all others see its buffer tells 0, and
//! the call is staged on all of them.

use super::table::How;
use super::work::MAPPED_RANKS;
use crate::device::DevPtr;
use crate::error::Result;
use crate::team::Team;
use crate::{config, info};

/// How a rank's buffers are told to the others.
pub struct Maps {
    /// Handle of the boards.
    pub board: u32,
    /// Every rank is in this process, and this rank's kernels see its memory.
    near: bool,
}

/// Whether ranks tell each other: equal on all of them.
pub fn wanted(team: &Team, forced: Option<How>) -> bool {
    let (size, most) = (team.topo.lsa_size, MAPPED_RANKS as u32);
    (config::int("GINRS_MAP_BUFFERS") != 0 || forced == Some(How::Mapped)) && size == team.n_ranks && (2..=most).contains(&size)
}

impl Maps {
    /// Lets this rank's kernels into the memory of the others.
    pub fn new(team: &Team, board: u32) -> Self {
        let own = &team.peers[team.rank as usize];
        let see = || -> Result<()> { team.peers.iter().try_for_each(|peer| team.device.see(peer.device)) };
        let near = team.peers.iter().all(|peer| peer.process == own.process);
        let sees = !near || see().inspect_err(|error| info!(COLL, "{} maps no buffers: {error}", team.tag())).is_ok();
        Self { board, near: near && sees }
    }

    /// By rank of the team: where its kernels see `bytes` from `at` on, or 0 for all.
    pub fn places(&self, team: &Team, at: DevPtr, bytes: u64) -> [DevPtr; MAPPED_RANKS] {
        let mut places = [0; MAPPED_RANKS];
        if self.near && team.device.holding(at).is_some_and(|holding| holding.covers(at, bytes)) {
            places[..team.n_ranks as usize].fill(at);
        }
        places
    }
}
