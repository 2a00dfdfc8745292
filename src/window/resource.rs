//! Windows of the library's own: a device communicator's memory, in the table but not to be found by address.

use super::Windows;
use crate::device::DevPtr;
use crate::error::Result;
use crate::layout::ncclWindow_vidmem;
use crate::symmetric::Proposal;
use crate::team::{Offer, Said};

/// A window that no user registered. [`Windows::remove`] takes it away.
pub(crate) struct Resource {
    /// Its handle.
    pub window: DevPtr,
    /// What the handle points to.
    pub shadow: ncclWindow_vidmem,
    /// Flat address of this rank's copy.
    pub local: DevPtr,
}

impl Windows {
    /// Maps what was proposed and agreed on. The offer must stand through the closing round, also on error.
    pub(crate) fn make_resource<'a>(&'a self, proposal: Proposal<'a>, all: &[Said]) -> (Result<Resource>, Offer<'a>) {
        let place = self.state.lock().place(0, proposal.agreed()[0]);
        let (held, offer) = proposal.obtain(all);
        let made = held.and_then(|held| {
            let memory = self.symmetric.adopt(held);
            let window = self.add(&memory, place, None)?;
            let shadow = self.state.lock().windows[&window].shadow;
            Ok(Resource { window, shadow, local: memory.address() })
        });
        (made, offer)
    }
}
