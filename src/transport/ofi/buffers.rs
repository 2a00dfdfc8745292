//! Memory that messages are sent from and received into: equal places, in slabs that are registered where the provider asks for it.

use super::endpoint::Range;
use super::net::{Memory, Net};
use super::sys::{FI_RECV, FI_SEND};
use crate::error::Result;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

/// Places of a slab.
const SLAB: u32 = 16;

struct Slab {
    memory: Option<Memory>,
    at: *mut u8,
    layout: Layout,
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.memory = None;
        // SAFETY: allocated with this layout, once; who owns endpoints drops them before their buffers.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// Places of one size, each lent to one link at a time.
pub(super) struct Buffers {
    bytes: usize,
    slabs: Vec<Slab>,
    free: Vec<u32>,
    /// By place: the link that has it.
    links: Vec<u32>,
}

// SAFETY: the slabs are this struct's own.
unsafe impl Send for Buffers {}

impl Buffers {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, slabs: Vec::new(), free: Vec::new(), links: Vec::new() }
    }

    /// A place for `link`; `give` it back.
    pub fn take(&mut self, net: &Arc<Net>, link: u32) -> Result<u32> {
        if self.free.is_empty() {
            let layout = Layout::from_size_align(self.bytes * SLAB as usize, 4096).expect("a few pages");
            // SAFETY: not of size zero.
            let at = unsafe { alloc_zeroed(layout) };
            if at.is_null() {
                handle_alloc_error(layout);
            }
            let mut slab = Slab { memory: None, at, layout };
            if net.traits.local {
                // SAFETY: the slab keeps the memory until the registration has gone.
                slab.memory = Some(unsafe { net.register(at, layout.size(), FI_SEND | FI_RECV, super::random_key()?)? });
            }
            let first = self.slabs.len() as u32 * SLAB;
            self.slabs.push(slab);
            self.free.extend((first..first + SLAB).rev());
            self.links.resize((first + SLAB) as usize, 0);
        }
        let place = self.free.pop().expect("there is one now");
        self.links[place as usize] = link;
        Ok(place)
    }

    pub fn give(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Whose it is; None for a place that does not exist.
    pub fn link(&self, place: u32) -> Option<u32> {
        self.links.get(place as usize).copied()
    }

    /// The first `bytes` of it, for a call.
    pub fn range(&self, place: u32, bytes: usize) -> Range {
        let slab = &self.slabs[(place / SLAB) as usize];
        assert!(bytes <= self.bytes);
        let descriptor = slab.memory.as_ref().map_or(std::ptr::null_mut(), Memory::descriptor);
        // SAFETY: the place lies in its slab.
        let at = unsafe { slab.at.add((place % SLAB) as usize * self.bytes) };
        Range { at, bytes, descriptor }
    }

    /// All of it. The borrow ends before the next call of libfabric.
    pub fn bytes(&mut self, place: u32) -> &mut [u8] {
        let Range { at, bytes, .. } = self.range(place, self.bytes);
        // SAFETY: in its slab, initialised; libfabric touches it within its calls only, and `self` is borrowed until the slice goes.
        unsafe { std::slice::from_raw_parts_mut(at, bytes) }
    }
}
