//! Memory of the library's own on all ranks: a device communicator's, with a window that is in the table but not to be found by
//! address, and the signals of direct contexts, without one.

use super::agree::{self, Said};
use super::exchange::Offer;
use super::memory::SymMemory;
use super::obtain::{AGREED, Proposal};
use super::register::{add, adopt, release, remove, table_of};
use crate::comm::Comm;
use crate::device::DevPtr;
use crate::error::Result;
use crate::layout::ncclWindow_vidmem;
use std::sync::Arc;

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
        let place = comm.windows.state.lock().place(0, proposal.agreed()[0]);
        let (held, offer) = proposal.obtain(all);
        let made = held.and_then(|held| {
            let memory = adopt(&mut comm.windows.state.lock(), held);
            let window = add(comm, &memory, place, None)?;
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

/// Collective: `bytes` of zeroed memory at one offset in the flat space of every rank, without a window, until the communicator
/// goes or [`super::release`] is called for it on all ranks.
pub(crate) fn symmetric(comm: &Comm, what: &str, bytes: usize) -> Result<Arc<SymMemory>> {
    let proposal = Proposal::fresh(comm, bytes);
    let said = proposal.as_ref().map(|own| Said { agreed: own.agreed().to_vec(), own: own.own().to_vec() });
    let all = agree::round(comm, what, said.map_err(Clone::clone))?;
    agree::compare(what, &all, |i| AGREED[i].into(), |_, value| value.to_string())?;
    let (held, _offer) = proposal?.obtain(&all);
    let memory = held.map(|held| adopt(&mut comm.windows.state.lock(), held));
    let status = memory.as_ref().map(drop).map_err(Clone::clone);
    if let (Err(error), Ok(memory)) = (agree::done(comm, &format!("{what}, end"), status), &memory) {
        release(comm, memory);
        return Err(error);
    }
    memory
}
