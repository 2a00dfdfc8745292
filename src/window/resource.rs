//! Windows of the library's own: a device communicator's memory, in the table but not to be found by address.

use super::Windows;
use crate::device::DevPtr;
use crate::error::Result;
use crate::gin::{Gin, Prepared};
use crate::layout::ncclWindow_vidmem;
use crate::symmetric::Proposal;
use crate::team::{Offer, Said, Team};
use std::sync::Arc;

/// A window that no user registered. [`Windows::remove`] takes it away.
pub(crate) struct Resource {
    /// Its handle.
    pub window: DevPtr,
    /// What the handle points to.
    pub shadow: ncclWindow_vidmem,
    /// Flat address of this rank's copy.
    pub local: DevPtr,
}

/// Memory that this rank would add as such a window. Dropped: nothing happened.
pub(crate) struct Proposed<'a> {
    proposal: Proposal<'a>,
    gin: Option<Prepared>,
}

impl Proposed<'_> {
    /// Must be equal on all ranks; [`crate::symmetric::AGREED`] names the words.
    pub fn agreed(&self) -> [u64; 3] {
        self.proposal.agreed()
    }

    /// This rank's own words.
    pub fn own(&self) -> Vec<u64> {
        let mut own = self.proposal.own().to_vec();
        own.extend(self.gin.iter().flat_map(Prepared::own));
        own
    }
}

impl Windows {
    /// New memory of `bytes`, and room for it; `gin`, active or about to be, is to know it.
    pub(crate) fn propose(&self, bytes: usize, gin: Option<&Arc<Gin>>) -> Result<Proposed<'_>> {
        let proposal = Proposal::fresh(&self.symmetric, bytes)?;
        let gin = gin.map(|gin| gin.prepare(proposal.physical(), 0, proposal.agreed()[0])).transpose()?;
        Ok(Proposed { proposal, gin })
    }

    /// Maps what was proposed and agreed on. The offer must stand through the closing round, also on error.
    pub(crate) fn make_resource<'a>(&'a self, proposed: Proposed<'a>, all: &[Said]) -> (Result<Resource>, Offer<'a>) {
        let Proposed { proposal, gin } = proposed;
        let at = proposal.own().len();
        let place = self.state.lock().place(0, proposal.agreed()[0]);
        let (held, offer) = proposal.obtain(all);
        let made = held.and_then(|held| {
            let memory = self.symmetric.adopt(held);
            let gin = gin.map(|gin| |team: &Team, place| gin.register(team, &memory, place, all, at));
            let window = self.add(&memory, place, None, gin)?;
            let shadow = self.state.lock().windows[&window].shadow;
            Ok(Resource { window, shadow, local: memory.address() })
        });
        (made, offer)
    }
}
