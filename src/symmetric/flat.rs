//! The flat LSA space: byte `b` of memory at offset `o` of LSA rank `r` stands at `base + r * stride + o + b`.
//!
//! On the CPU device all ranks of one LSA team that live in this process share one space. So a page has one address however many of them look
//! at it, 64 thread-ranks cost no more mappings than one, and ThreadSanitizer sees every access to a word as one word.

use crate::bail;
use crate::device::{DevPtr, Device, Kind, Physical, Reservation};
use crate::error::Result;
use crate::sync::{Mutex, PerProcess};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Alignment of the reservation, as the reference asks for. Bytes.
const ALIGN: usize = 512 << 20;

/// Which team a space belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TeamKey {
    /// The communicator.
    pub comm: u64,
    /// World rank of the team's first member.
    pub first: u32,
    /// On CUDA each device has a space of its own: a mapping is open to one device. None on the CPU device.
    pub device: Option<i32>,
}

impl TeamKey {
    /// The team of communicator `comm` whose first member is `first`, as `device` sees it.
    pub fn of(comm: u64, first: u32, device: &dyn Device) -> Self {
        Self { comm, first, device: (device.kind() == Kind::Cuda).then(|| device.ordinal()) }
    }
}

static SPACES: PerProcess<Mutex<BTreeMap<TeamKey, Weak<FlatSpace>>>> = PerProcess::new();

/// One reservation of `slots * stride` bytes and what is mapped in it. On the CPU device there is nothing for a stride before it and behind, so
/// that a kernel which takes a rank too many for a peer touches nobody's memory.
pub struct FlatSpace {
    reservation: Arc<dyn Reservation>,
    stride: u64,
    slots: u32,
    /// Bytes before slot 0.
    before: u64,
    mapped: Mutex<BTreeMap<u64, Mapped>>,
}

/// Keyed by its offset in the whole space.
struct Mapped {
    bytes: u64,
    users: u32,
    physical: Arc<dyn Physical>,
}

impl FlatSpace {
    /// The space of `team` in this process, made by whichever of its ranks asks first. `stride` in bytes.
    pub fn join(device: &dyn Device, team: TeamKey, slots: u32, stride: u64) -> Result<Arc<Self>> {
        let mut spaces = SPACES.lock();
        if let Some(space) = spaces.get(&team).and_then(Weak::upgrade) {
            if (space.stride, space.slots) != (stride, slots) {
                bail!(
                    InternalError,
                    56,
                    "ranks of one process disagree on the flat space | stride {} and {stride} bytes | fix: report this",
                    space.stride
                );
            }
            return Ok(space);
        }
        let Some(bytes) = stride.checked_mul(slots.into()).and_then(|bytes| usize::try_from(bytes).ok()) else {
            bail!(InvalidArgument, 56, "flat space is too large | {slots} ranks of {stride} bytes | fix: lower NCCL_WIN_STRIDE");
        };
        spaces.retain(|_, space| space.strong_count() > 0);
        // Where there are no addresses for more, it goes without.
        let alone = bytes.checked_add(2 * stride as usize).filter(|_| device.kind() == Kind::Cpu);
        let (reservation, before) = match alone.and_then(|bytes| device.reserve(bytes, ALIGN).ok()) {
            Some(reservation) => (reservation, stride),
            None => (device.reserve(bytes, ALIGN)?, 0),
        };
        let space = Arc::new(Self { reservation, stride, slots, before, mapped: Mutex::new(BTreeMap::new()) });
        spaces.insert(team, Arc::downgrade(&space));
        Ok(space)
    }

    /// Address of slot 0.
    pub fn base(&self) -> DevPtr {
        self.reservation.base() + self.before
    }

    /// Bytes per slot, a multiple of 4 GiB.
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// `physical` at `offset` of `slot`; one mapping for all who ask for the same.
    pub fn view(self: &Arc<Self>, slot: u32, offset: u64, physical: &Arc<dyn Physical>) -> Result<View> {
        Ok(self.views(offset, &[(slot, physical)])?.remove(0))
    }

    /// [`Self::view`] of several slots at one offset, in their order: all, or none.
    pub fn views(self: &Arc<Self>, offset: u64, members: &[(u32, &Arc<dyn Physical>)]) -> Result<Vec<View>> {
        let mut mapped = self.mapped.lock();
        let mut missing = Vec::new();
        let mut places = Vec::with_capacity(members.len());
        for &(slot, physical) in members {
            let at = self.place(&mapped, slot, offset, physical)?;
            places.push(at);
            if !mapped.contains_key(&at) {
                missing.push(((self.before + at) as usize, physical.clone()));
            }
        }
        if !missing.is_empty() {
            self.reservation.map_all(&missing)?;
        }
        for (&at, &(_, physical)) in places.iter().zip(members) {
            let new = || Mapped { bytes: physical.bytes() as u64, users: 0, physical: physical.clone() };
            mapped.entry(at).or_insert_with(new).users += 1;
        }
        Ok(places.into_iter().map(|at| View { space: self.clone(), at }).collect())
    }

    /// Where a mapping goes: it is there already, or nothing is in its way.
    fn place(&self, mapped: &BTreeMap<u64, Mapped>, slot: u32, offset: u64, physical: &Arc<dyn Physical>) -> Result<u64> {
        let bytes = physical.bytes() as u64;
        let at = u64::from(slot) * self.stride + offset;
        if offset.checked_add(bytes).is_none_or(|end| end > self.stride) {
            bail!(
                InternalError,
                56,
                "mapping outside its slot | offset {offset:#x}, {bytes} bytes, slot of {:#x} | fix: report this",
                self.stride
            );
        }
        if mapped.get(&at).is_some_and(|there| there.physical.key() == physical.key()) {
            return Ok(at);
        }
        // Agreed offsets rule this out; a fixed mapping over another rank's memory would be silent corruption.
        let before = mapped.range(..at + bytes).next_back();
        if let Some((&start, there)) = before
            && start + there.bytes > at
        {
            bail!(
                InternalError,
                56,
                "flat space is in use | {bytes} bytes at {offset:#x} of slot {slot} overlap {} bytes mapped by {} ranks | fix: \
                 deregister windows in the same order on every rank",
                there.bytes,
                there.users
            );
        }
        Ok(at)
    }

    /// Number of mappings, for tests and reports.
    pub fn mapped(&self) -> usize {
        self.mapped.lock().len()
    }
}

/// One rank's use of a mapping; the last to go takes the mapping with it.
pub struct View {
    space: Arc<FlatSpace>,
    at: u64,
}

impl View {
    /// Where it starts.
    pub fn address(&self) -> DevPtr {
        self.space.base() + self.at
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let mut mapped = self.space.mapped.lock();
        let Some(there) = mapped.get_mut(&self.at) else { return };
        there.users -= 1;
        if there.users == 0 {
            // An entry that could not be unmapped stays: its addresses are not free.
            if self.space.reservation.unmap((self.space.before + self.at) as usize, there.bytes as usize).is_ok() {
                mapped.remove(&self.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, Transfers, cpu::CpuDevice};

    const STRIDE: u64 = 4 << 30;
    const PAGE: usize = 2 << 20;

    fn space(comm: u64, slots: u32) -> Arc<FlatSpace> {
        FlatSpace::join(&*CpuDevice::new(0), TeamKey { comm, first: 0, device: None }, slots, STRIDE).unwrap()
    }

    #[test]
    fn ranks_of_one_process_share_the_space_and_its_mappings() {
        let device = CpuDevice::new(0);
        let (mine, theirs) = (space(0xf1a7_0001, 2), space(0xf1a7_0001, 2));
        assert!(Arc::ptr_eq(&mine, &theirs));
        assert_ne!(space(0xf1a7_0002, 2).base(), mine.base());
        let memory = device.create(PAGE).unwrap();
        let a = mine.view(1, 0, &memory).unwrap();
        let b = theirs.view(1, 0, &memory).unwrap();
        assert_eq!((a.address(), mine.mapped()), (mine.base() + STRIDE, 1));
        drop(a);
        assert_eq!(mine.mapped(), 1);
        device.write(b.address(), &7u64.to_le_bytes()).unwrap();
        drop(b);
        assert_eq!(mine.mapped(), 0);
    }

    #[test]
    fn other_memory_never_lands_on_a_mapping() {
        let device = CpuDevice::new(0);
        let space = space(0xf1a7_0003, 2);
        let (two, one) = (device.create(2 * PAGE).unwrap(), device.create(PAGE).unwrap());
        let _held = space.view(0, PAGE as u64, &two).unwrap();
        for offset in [PAGE, 2 * PAGE] {
            assert!(space.view(0, offset as u64, &one).err().unwrap().text.contains("in use"));
        }
        assert!(space.view(0, 0, &two).is_err());
        assert!(space.view(0, STRIDE - PAGE as u64, &two).err().unwrap().text.contains("outside its slot"));
        let _below = space.view(0, 0, &one).unwrap();
        let _above = space.view(0, 3 * PAGE as u64, &one).unwrap();
        let _other = space.view(1, PAGE as u64, &one).unwrap();
        assert_eq!(space.mapped(), 4);
        assert!(space.views(PAGE as u64, &[(1, &two), (0, &one)]).err().unwrap().text.contains("in use"), "one is in the way");
        assert_eq!(space.mapped(), 4, "then none is mapped");
        let all = space.views(4 * PAGE as u64, &[(1, &one), (0, &two)]).unwrap();
        assert_eq!((space.mapped(), all[1].address()), (6, space.base() + 4 * PAGE as u64));
    }

    #[test]
    fn a_space_that_cannot_be_reserved_names_the_variable() {
        let error = FlatSpace::join(&*CpuDevice::new(0), TeamKey { comm: 0xf1a7_0004, first: 0, device: None }, 64, 1 << 44)
            .err()
            .unwrap();
        assert!(error.text.contains("NCCL_WIN_STRIDE"), "{error}");
    }
}
