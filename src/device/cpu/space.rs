//! Reserved addresses: PROT_NONE anonymous memory, into which memfds are mapped and out of which they go again.

use super::runtime::{tell_mapped, tell_unmapped};
use crate::bail;
use crate::device::addresses::{NOTHING, check_inside, reserve_aligned};
use crate::device::memfd::Memfd;
use crate::device::{DevPtr, Physical, Reservation};
use crate::error::Result;
use crate::fault;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ptr::NonNull;
use std::sync::Arc;

/// A range of addresses of this process.
pub struct CpuReservation {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the type only maps and unmaps inside its own range; accesses through the addresses are argued where they are made.
unsafe impl Send for CpuReservation {}
// SAFETY: as above; mmap calls of several threads on one range are ordered by the kernel.
unsafe impl Sync for CpuReservation {}

impl CpuReservation {
    /// Reserves; see [`crate::device::Memory::reserve`].
    pub fn new(bytes: usize, align: usize) -> Result<Self> {
        Ok(Self { base: reserve_aligned(bytes, align)?, bytes })
    }

    fn at(&self, offset: usize, bytes: usize) -> Result<*mut std::ffi::c_void> {
        check_inside(offset, bytes, self.bytes, 4096)?;
        Ok(self.base.as_ptr().wrapping_add(offset).cast())
    }
}

impl Reservation for CpuReservation {
    fn base(&self) -> DevPtr {
        self.base.as_ptr() as DevPtr
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn map(&self, offset: usize, physical: &Arc<dyn Physical>) -> Result<()> {
        let Some(memory) = physical.as_any().downcast_ref::<Memfd>() else {
            bail!(InternalError, 25, "memory of another device in a CPU address range | fix: report this");
        };
        let at = self.at(offset, memory.bytes())?;
        // SAFETY: the target lies inside this reservation (checked), which holds nothing but mappings made by this function.
        let map = || unsafe {
            mmap(at, memory.bytes(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED, memory.fd(), 0)
        };
        match fault::step("mapping").and_then(|()| map()) {
            Ok(_) => {
                tell_mapped(at as DevPtr, memory.bytes(), memory.fd());
                Ok(())
            }
            Err(e) => bail!(
                SystemError,
                25,
                "memory could not be mapped | {} bytes: {e}, {} mappings in this process | fix: raise vm.max_map_count",
                memory.bytes(),
                mappings()
            ),
        }
    }

    fn unmap(&self, offset: usize, bytes: usize) -> Result<()> {
        let at = self.at(offset, bytes)?;
        tell_unmapped(at as DevPtr, bytes);
        // SAFETY: as in `map`; the range becomes inaccessible, never free for another mmap.
        match unsafe { mmap_anonymous(at, bytes, ProtFlags::empty(), NOTHING | MapFlags::FIXED) } {
            Ok(_) => Ok(()),
            Err(e) => bail!(SystemError, 25, "memory could not be unmapped | {bytes} bytes: {e} | fix: raise vm.max_map_count"),
        }
    }
}

impl Drop for CpuReservation {
    fn drop(&mut self) {
        tell_unmapped(self.base(), self.bytes);
        // SAFETY: the whole range is ours, and whoever used addresses inside held an Arc of self.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Number of mappings of this process, for error texts and tests.
pub fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memfd::GRANULARITY;

    fn memory(bytes: usize) -> Arc<dyn Physical> {
        Memfd::create(bytes).unwrap()
    }

    #[test]
    fn one_memory_at_two_places() {
        let space = CpuReservation::new(8 << 30, 512 << 20).unwrap();
        assert_eq!(space.base() % (512 << 20), 0);
        let shared = memory(GRANULARITY);
        space.map(0, &shared).unwrap();
        space.map(4 << 30, &shared).unwrap();
        let (a, b) = (space.base() as *mut u64, (space.base() + (4 << 30)) as *mut u64);
        // SAFETY: both are mapped read-write above and only this thread has them.
        unsafe {
            a.add(3).write_volatile(42);
            assert_eq!(b.add(3).read_volatile(), 42);
        }
    }

    #[test]
    fn unmapping_leaves_no_hole_and_no_trace() {
        let space = CpuReservation::new(64 * GRANULARITY, GRANULARITY).unwrap();
        let shared = memory(GRANULARITY);
        let inside = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let starts = maps.lines().filter_map(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
            starts.filter(|at| (space.base()..space.base() + space.bytes() as u64).contains(at)).count()
        };
        for round in 0..200 {
            let offset = round % 64 * GRANULARITY;
            space.map(offset, &shared).unwrap();
            space.unmap(offset, GRANULARITY).unwrap();
        }
        // One, or none of its own where the kernel has merged it with a reservation next to it.
        assert!(inside() <= 1, "{} mappings", inside());
        // The range is still ours: a mapping of the kernel's choice never falls into it.
        let (low, high) = (space.base(), space.base() + space.bytes() as u64);
        let others: Vec<_> = (0..8).map(|_| CpuReservation::new(GRANULARITY, 4096).unwrap()).collect();
        assert!(others.iter().all(|other| other.base() >= high || other.base() + GRANULARITY as u64 <= low));
    }

    #[test]
    fn nothing_is_mapped_outside() {
        let space = CpuReservation::new(2 * GRANULARITY, 4096).unwrap();
        assert!(space.map(GRANULARITY, &memory(2 * GRANULARITY)).is_err());
        assert!(space.map(100, &memory(1)).is_err());
        assert!(space.unmap(usize::MAX - 4095, 4096).is_err());
    }
}
