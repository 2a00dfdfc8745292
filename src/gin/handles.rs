//! The values that stand in `ginWins`: names of windows, never pointers. Windows over one memory have each its own, so that an
//! operation is bounded by what was registered and not by the allocation around it.
//!
//! A descriptor carries 63 bits of a handle: 20 bits of slot, 43 of generation. Generations start at a number that differs
//! between communicators and rise at each reuse, so a stale handle, one of another communicator and stack garbage are all
//! told apart from a live one.
#![forbid(unsafe_code)]

use crate::bail;
use crate::error::Result;

const SLOT_BITS: u32 = 20;
const GENERATION: u64 = u64::MAX >> (1 + SLOT_BITS);

fn handle(generation: u64, slot: u32) -> u64 {
    generation << SLOT_BITS | u64::from(slot)
}

/// Slot and generation of a handle.
pub fn parts(handle: u64) -> (u32, u64) {
    (handle as u32 & ((1 << SLOT_BITS) - 1), handle >> SLOT_BITS)
}

#[derive(Clone, Copy)]
struct Issued {
    generation: u64,
    start: u64,
    bytes: u64,
    live: bool,
}

/// What a descriptor's handle names. Descriptors count offsets from the start of the allocation (`ginOffset4K`), transports
/// from that of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Number of the region that transports know.
    pub region: u32,
    /// Where it starts in its allocation. Bytes.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Why a handle names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its memory was deregistered.
    Gone,
    /// This communicator never gave it out.
    Unknown,
}

/// All windows of one communicator.
pub struct Handles {
    first: u64,
    entries: Vec<Issued>,
    free: Vec<u32>,
}

impl Handles {
    /// `salt` is any number that differs between communicators.
    pub fn new(salt: u64) -> Self {
        let first = (salt & GENERATION >> 1) | 1;
        // Slot 0 is the signal memory (transport::SIGNALS), which no handle names.
        Self { first, entries: vec![Issued { generation: 0, start: 0, bytes: 0, live: false }], free: Vec::new() }
    }

    /// A slot and a handle for `bytes` from byte `start` of an allocation.
    pub fn insert(&mut self, start: u64, bytes: u64) -> Result<(Memory, u64)> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.entries.len() < 1 << SLOT_BITS => {
                self.entries.push(Issued { generation: self.first - 1, start: 0, bytes: 0, live: false });
                self.entries.len() as u32 - 1
            }
            None => bail!(
                InternalError,
                20,
                "too many windows registered for GIN | {} in one communicator | fix: deregister windows that are not used",
                self.entries.len() - 1
            ),
        };
        let generation = (self.entries[slot as usize].generation + 1) & GENERATION;
        self.entries[slot as usize] = Issued { generation, start, bytes, live: true };
        Ok((Memory { region: slot, start, bytes }, handle(generation, slot)))
    }

    /// Takes a handle back and says which region it was.
    pub fn remove(&mut self, handle: u64) -> std::result::Result<Memory, Refused> {
        let memory = self.lookup(handle)?;
        self.entries[memory.region as usize].live = false;
        self.free.push(memory.region);
        Ok(memory)
    }

    /// What `handle` names.
    #[inline]
    pub fn lookup(&self, handle: u64) -> std::result::Result<Memory, Refused> {
        let (slot, generation) = parts(handle);
        match self.entries.get(slot as usize) {
            Some(entry) if entry.live && entry.generation == generation => {
                Ok(Memory { region: slot, start: entry.start, bytes: entry.bytes })
            }
            other => Err(self.why_not(other, generation)),
        }
    }

    /// What is in a slot now, and its handle.
    pub fn in_slot(&self, slot: u32) -> Option<(Memory, u64)> {
        let entry = self.entries.get(slot as usize).filter(|entry| entry.live)?;
        Some((Memory { region: slot, start: entry.start, bytes: entry.bytes }, handle(entry.generation, slot)))
    }

    #[cold]
    fn why_not(&self, entry: Option<&Issued>, generation: u64) -> Refused {
        match entry {
            Some(entry) if (self.first..=entry.generation).contains(&generation) => Refused::Gone,
            _ => Refused::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_one_life_of_one_slot() {
        let mut handles = Handles::new(u64::MAX);
        let (first, old) = handles.insert(0, 4096).unwrap();
        assert_eq!(first.region, 1, "slot 0 is the signals'");
        assert_eq!(old >> 63, 0, "63 bits survive the descriptor");
        assert_eq!(handles.lookup(old), Ok(first));
        assert_eq!(handles.remove(old), Ok(first));
        let (again, new) = handles.insert(64, 8192).unwrap();
        assert_eq!(again, Memory { region: 1, start: 64, bytes: 8192 });
        assert_eq!(handles.lookup(old), Err(Refused::Gone));
        assert_eq!(handles.remove(old), Err(Refused::Gone));
        assert_eq!(handles.lookup(new), Ok(again));
        for garbage in [0, 1, new + 1, new + (1 << SLOT_BITS), 0x7fff_dead_beef_0000, u64::MAX >> 1] {
            assert_eq!(handles.lookup(garbage), Err(Refused::Unknown), "{garbage:#x}");
        }
        assert_eq!(Handles::new(5).lookup(new), Err(Refused::Unknown), "another communicator's");
    }
}
