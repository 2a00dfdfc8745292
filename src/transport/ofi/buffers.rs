//! Memory that messages are sent from and received into: equal places, in slabs that are registered where the provider asks for it and
//! that the device's copy engine reaches: on a GPU pinned.

use super::endpoint::Range;
use super::net::Net;
use super::registered::Memory;
use super::sys::{FI_RECV, FI_SEND};
use crate::device::{ControlMemory, DevPtr, Device};
use crate::error::Result;
use std::sync::Arc;

/// Bytes of a slab, about, and its places at the least: of the largest a slab fills a chunk of the device's pinned memory.
const SLAB: usize = 256 << 10;
const PLACES: u32 = 7;
/// A place begins so far behind a multiple of that much, and a message's first payload on one: copy engines like whole lines.
const LINE: usize = 64;
const BEFORE: usize = LINE - (super::wire::NUMBER + super::wire::HEADER) % LINE;

struct Slab {
    // The registration goes before its memory.
    registration: Option<Memory>,
    memory: ControlMemory,
}

/// Places of one size, each lent to one link at a time.
pub(super) struct Buffers {
    device: Arc<dyn Device>,
    bytes: usize,
    /// From one place to the next, in a slab of so many.
    stride: usize,
    places: u32,
    slabs: Vec<Slab>,
    free: Vec<u32>,
    /// By place: the link that has it.
    links: Vec<u32>,
}

impl Buffers {
    pub fn new(device: Arc<dyn Device>, bytes: usize) -> Self {
        let stride = (BEFORE + bytes).next_multiple_of(LINE);
        let places = ((SLAB / stride) as u32).clamp(PLACES, 16);
        Self { device, bytes, stride, places, slabs: Vec::new(), free: Vec::new(), links: Vec::new() }
    }

    /// Bytes of a place.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// A place for `link`; `give` it back.
    pub fn take(&mut self, net: &Arc<Net>, link: u32) -> Result<u32> {
        if self.free.is_empty() {
            self.grow(net)?;
        }
        let place = self.free.pop().expect("there is one now");
        self.links[place as usize] = link;
        Ok(place)
    }

    /// Makes `places` that nobody has yet, but no more than `most` bytes of them.
    pub fn reserve(&mut self, net: &Arc<Net>, places: usize, most: usize) -> Result<()> {
        let wanted = places.min(most / self.stride);
        while self.free.len() < wanted {
            self.grow(net)?;
        }
        Ok(())
    }

    fn grow(&mut self, net: &Arc<Net>) -> Result<()> {
        let memory = self.device.control(self.stride * self.places as usize)?;
        let mut slab = Slab { registration: None, memory };
        if net.traits.local {
            let (at, bytes) = (slab.memory.host().as_ptr(), slab.memory.bytes());
            // SAFETY: the slab keeps the memory until the registration has gone.
            slab.registration = Some(unsafe { net.register(at, bytes, FI_SEND | FI_RECV, super::random_key()?)? });
        }
        let first = self.slabs.len() as u32 * self.places;
        self.slabs.push(slab);
        self.free.extend((first..first + self.places).rev());
        self.links.resize((first + self.places) as usize, 0);
        Ok(())
    }

    pub fn give(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Nobody's are those that `link` has now.
    pub fn disown(&mut self, link: u32) {
        self.links.iter_mut().filter(|owner| **owner == link).for_each(|owner| *owner = u32::MAX);
    }

    /// Whose it is; None for a place that does not exist.
    pub fn link(&self, place: u32) -> Option<u32> {
        self.links.get(place as usize).copied()
    }

    fn slab(&self, place: u32) -> (&Slab, usize) {
        (&self.slabs[(place / self.places) as usize], BEFORE + (place % self.places) as usize * self.stride)
    }

    /// The first `bytes` of it, for a call.
    pub fn range(&self, place: u32, bytes: usize) -> Range {
        assert!(bytes <= self.bytes);
        let (slab, offset) = self.slab(place);
        let descriptor = slab.registration.as_ref().map_or(std::ptr::null_mut(), Memory::descriptor);
        // SAFETY: the place lies in its slab.
        let at = unsafe { slab.memory.host().as_ptr().add(offset) };
        Range { at, bytes, descriptor }
    }

    /// Where the device sees its first byte.
    pub fn device(&self, place: u32) -> DevPtr {
        let (slab, offset) = self.slab(place);
        slab.memory.device() + offset as u64
    }

    /// All of it, while no copy into it is under way.
    pub fn bytes(&mut self, place: u32) -> &mut [u8] {
        self.part(place, 0, self.bytes)
    }

    /// `bytes` of it from `begin` on, into which no copy is under way. The borrow ends before the next call of libfabric.
    pub fn part(&mut self, place: u32, begin: usize, bytes: usize) -> &mut [u8] {
        let Range { at, .. } = self.range(place, begin + bytes);
        // SAFETY: in its slab, as `range` has checked, initialised; libfabric touches it within its calls only, the device where a copy
        // is under way, and `self` is borrowed until the slice goes.
        unsafe { std::slice::from_raw_parts_mut(at.add(begin), bytes) }
    }
}
