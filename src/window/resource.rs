//! The window of a device communicator's own memory: in the table, but not to be found by address.

use super::agree::Said;
use super::exchange::Offer;
use super::obtain::Proposal;
use super::register::{add, adopt, remove, table_of};
use crate::abi::types::ncclWindow_vidmem;
use crate::comm::Comm;
use crate::device::DevPtr;
use crate::error::Result;

/// A window that no user registered.
pub(crate) struct Resource {
    /// Its handle.
    pub window: DevPtr,
    /// What the handle points to.
    pub shadow: ncclWindow_vidmem,
    /// Flat address of this rank's copy.
    pub local: DevPtr,
}

impl Resource {
    /// Maps what was proposed and agreed on. The offer must stand through the closing round, also on error.
    pub fn make<'a>(comm: &'a Comm, proposal: Proposal<'a>, all: &[Said]) -> (Result<Self>, Offer<'a>) {
        let bytes = proposal.agreed()[0];
        let (held, offer) = proposal.obtain(all);
        let made = held.and_then(|held| {
            let memory = adopt(&mut comm.windows.state.lock(), held);
            let window = add(comm, &memory, 0, 0, bytes)?;
            let shadow = comm.windows.state.lock().windows[&window].shadow;
            Ok(Self { window, shadow, local: memory.address() })
        });
        (made, offer)
    }
}

/// Takes such a window away.
pub(crate) fn remove_resource(comm: &Comm, window: DevPtr) -> Result<()> {
    remove(comm, window)
}

/// Device address of the window table, made at first use.
pub(crate) fn table_address(comm: &Comm) -> Result<DevPtr> {
    let mut state = comm.windows.state.lock();
    Ok(table_of(&mut state.table, comm)?.device())
}
