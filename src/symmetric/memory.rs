//! Symmetric memory: one physical allocation of every rank, mapped over the LSA team, shared by all windows over it.

use super::flat::View;
use super::members::Binding;
use super::offsets::Span;
use crate::device::cpu::{Bounds, tell_bounds};
use crate::device::{DevPtr, Device, Physical, Reservation};
use crate::error::Result;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One allocation as all ranks know it.
pub struct SymMemory {
    /// Equal on all ranks of the communicator, never used twice.
    pub id: u64,
    /// The whole allocation. Bytes, equal on all ranks.
    pub bytes: usize,
    /// Where it stands in every rank's slice of the flat space. Bytes, equal on all ranks.
    pub big_offset: u64,
    /// This rank's memory.
    pub physical: Arc<dyn Physical>,
    /// Every rank's memory, by world rank; ours included. `None` for one on another machine.
    pub peers: Vec<Option<Arc<dyn Physical>>>,
    /// This rank's part is memory of its own GPU.
    pub on_gpu: bool,
    /// Bytes from one LSA member's copy to the next; 0 where only this rank's is mapped.
    pub stride: u64,
    /// World rank of the first LSA member, ours, and the flat address of every member's copy.
    pub(super) lsa_first: u32,
    pub(super) lsa_rank: u32,
    pub(super) addresses: Vec<DevPtr>,
    /// Copies out of the team's reach that GIN moves bytes to, by world rank.
    pub(super) own_mappings: Mutex<BTreeMap<u32, Arc<dyn Reservation>>>,
}

impl SymMemory {
    /// Flat address of this rank's copy.
    pub fn address(&self) -> DevPtr {
        self.addresses[self.lsa_rank as usize]
    }

    /// True if it is this rank's alone: nobody else's kernels or CPUs touch it ([`super::host`]).
    pub fn is_apart(&self) -> bool {
        self.stride == 0
    }

    /// Flat address of the first LSA member's copy; of this rank's where no other is mapped.
    pub fn first_address(&self) -> DevPtr {
        self.addresses[0]
    }

    /// Flat address of the copy of world rank `rank`, if it is in our LSA team.
    pub fn flat_address(&self, rank: u32) -> Option<DevPtr> {
        let slot = rank.checked_sub(self.lsa_first)?;
        self.addresses.get(slot as usize).copied()
    }

    /// Tells AddressSanitizer which part of each mapping of it is a window, and of the program's own mapping, where that begins at `user`.
    pub fn bound(&self, window: Place, user: DevPtr) {
        if self.on_gpu {
            return;
        }
        let part = window.start as usize..(window.start + window.bytes) as usize;
        tell_bounds(user - window.start, self.bytes, part.clone(), Bounds::Allocation);
        for &at in &self.addresses {
            tell_bounds(at, self.bytes, part.clone(), Bounds::Window);
        }
    }

    /// Where this rank's device reaches the copy of world rank `rank`: at its flat address if it has one here, so that a
    /// page keeps one address; else at a mapping of its own. None for memory of another machine. Valid as long as self.
    pub fn reach(&self, device: &dyn Device, rank: u32) -> Result<Option<DevPtr>> {
        if let Some(flat) = self.flat_address(rank) {
            return Ok(Some(flat));
        }
        let Some(theirs) = self.peers.get(rank as usize).and_then(Option::as_ref) else { return Ok(None) };
        if let Some(there) = theirs.device_address() {
            return Ok(Some(there));
        }
        let mut mappings = self.own_mappings.lock();
        if let Some(mapping) = mappings.get(&rank) {
            return Ok(Some(mapping.base()));
        }
        let mapping = device.reserve(theirs.bytes(), device.granularity())?;
        mapping.map(0, theirs)?;
        let base = mapping.base();
        mappings.insert(rank, mapping);
        Ok(Some(base))
    }
}

/// A memory, how many windows use it, and what goes with the last of them: multicast first, then mappings, then their offset.
pub(crate) struct Held {
    pub memory: Arc<SymMemory>,
    pub uses: u32,
    pub bindings: Vec<Binding>,
    pub _views: Vec<View>,
    /// In the flat space, if it stands there.
    pub _span: Option<Span>,
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
