//! Host memory with an identity: a sealed memfd. All memory of the CPU device, and the words that a GPU shares with CPUs of
//! several processes. It has no name, cannot shrink under a mapping, and goes with its last
//! descriptor and mapping, whoever dies first.

use crate::bail;
use crate::device::addresses::NOTHING;
use crate::device::cpu::{Bounds, is_sanitized, tell_bounds, tell_mapped, tell_unmapped};
use crate::device::memory::next_key;
use crate::device::{DevPtr, Physical};
use crate::error::Result;
use crate::fault;
use crate::sync::OnceCell;
use crate::sync::{Mutex, PerProcess};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What CUDA's virtual memory functions use too, so that offsets agree with a GPU's.
pub const GRANULARITY: usize = 2 << 20;

/// Seals that a mapping relies on: without them a peer could shrink the file and a load would end in SIGBUS.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// One memfd, mapped for the host on first use.
pub struct Memfd {
    fd: OwnedFd,
    bytes: usize,
    key: u64,
    view: OnceCell<View>,
}

struct View(NonNull<u8>, usize);
// SAFETY: View only owns a mapping; what is done through its address is argued where it is done.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl Drop for View {
    fn drop(&mut self) {
        let (at, bytes) = (self.0.as_ptr(), self.1);
        if is_sanitized() && KEPT.fetch_add(bytes as u64, Ordering::Relaxed) < MOST_KEPT {
            tell_bounds(at as DevPtr, bytes, 0..bytes, Bounds::Freed);
            // SAFETY: the mapping was made by `Memfd::view` with this length and is given up only here.
            let _ = unsafe { rustix::mm::mmap_anonymous(at.cast(), bytes, ProtFlags::empty(), NOTHING | MapFlags::FIXED) };
            return;
        }
        tell_unmapped(at as DevPtr, bytes);
        // SAFETY: the mapping was made by `Memfd::view` with this length and is unmapped only here.
        let _ = unsafe { rustix::mm::munmap(at.cast(), bytes) };
    }
}

/// Bytes of addresses that nobody gets again, so that AddressSanitizer finds who still has them.
static KEPT: AtomicU64 = AtomicU64::new(0);
const MOST_KEPT: u64 = 1 << 40;

/// By device and inode.
type Live = BTreeMap<(u64, u64), Weak<Memfd>>;
/// Every live memfd of this process: two imports of one peer's memory are one object, so that its mappings in a shared flat
/// space are shared too.
static LIVE: PerProcess<Mutex<Live>> = PerProcess::new();

impl Memfd {
    /// New zeroed memory of `bytes` rounded up to the granularity.
    ///
    /// The bytes asked for are backed at once, so that a full machine is an error here and not a SIGBUS or a killed process
    /// at a kernel's store; the rounding costs only addresses.
    pub fn create(bytes: usize) -> Result<Arc<Self>> {
        let memory = Self::create_sparse(bytes)?;
        memory.back(0, bytes)?;
        Ok(memory)
    }

    /// The same without its bytes: [`Physical::back`] asks for them.
    pub fn create_sparse(bytes: usize) -> Result<Arc<Self>> {
        let Some(rounded) = bytes.max(1).checked_next_multiple_of(GRANULARITY).filter(|&n| i64::try_from(n).is_ok()) else {
            bail!(InvalidArgument, 23, "allocation is too large | {bytes} bytes | fix: ask for less");
        };
        super::limits::check_memory(bytes)?;
        super::limits::check_file(rounded as u64)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = super::limits::with_descriptors(|| {
            fault::step("memfd")?;
            rustix::fs::memfd_create("ginrs", flags)
        });
        let fd = match fd {
            Ok(fd) => fd,
            Err(e) => bail!(SystemError, 24, "memfd_create failed | {e} | fix: raise the limit of open files (ulimit -n)"),
        };
        if let Err(e) = rustix::fs::ftruncate(&fd, rounded as u64) {
            bail!(
                UnhandledCudaError,
                23,
                "no memory for an allocation | {rounded} bytes: {e} | fix: raise the file size limit (ulimit -f)"
            );
        }
        if let Err(e) = rustix::fs::fcntl_add_seals(&fd, SEALS) {
            bail!(UnhandledCudaError, 23, "a memfd could not be sealed | {e} | fix: needs Linux 3.17 or later");
        }
        Self::enlist(fd, rounded)
    }

    /// Memory of another process. The descriptor is a stranger's: kind, seals and size are checked before it is used.
    pub fn import(fd: OwnedFd, bytes: usize) -> Result<Arc<Self>> {
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(SEALS) {
            bail!(
                RemoteError,
                24,
                "a peer's memory is not a sealed memfd | seals {:#x}, needed {:#x} | fix: report this",
                seals.bits(),
                SEALS.bits()
            );
        }
        match rustix::fs::fstat(&fd) {
            Ok(stat) if stat.st_size as u64 == bytes as u64 && bytes.is_multiple_of(GRANULARITY) && bytes > 0 => {}
            Ok(stat) => bail!(
                RemoteError,
                24,
                "a peer's memory has another size | {} bytes, said {bytes} | fix: report this",
                stat.st_size
            ),
            Err(e) => bail!(SystemError, 24, "a peer's memory cannot be read | fstat: {e} | fix: report this"),
        }
        Self::enlist(fd, bytes)
    }

    fn enlist(fd: OwnedFd, bytes: usize) -> Result<Arc<Self>> {
        let stat = match rustix::fs::fstat(&fd) {
            Ok(stat) => stat,
            Err(e) => bail!(SystemError, 24, "a memfd cannot be read | fstat: {e} | fix: report this"),
        };
        let mut live = LIVE.lock();
        let id = (stat.st_dev, stat.st_ino);
        if let Some(known) = live.get(&id).and_then(Weak::upgrade) {
            return Ok(known);
        }
        // The kernel gives an inode number anew only when the file has gone, and then so has our Weak's object.
        if live.len() >= 64 && live.len().is_power_of_two() {
            live.retain(|_, memory| memory.strong_count() > 0);
        }
        let memory = Arc::new(Self { fd, bytes, key: next_key(), view: OnceCell::new() });
        live.insert(id, Arc::downgrade(&memory));
        Ok(memory)
    }

    /// For `mmap` of it elsewhere.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where the host sees it, aligned to the granularity; mapped on first use.
    pub fn view(&self) -> Result<NonNull<u8>> {
        if let Some(view) = self.view.get() {
            return Ok(view.0);
        }
        // Under AddressSanitizer a granule on each side is nobody's.
        let gap = if is_sanitized() { GRANULARITY } else { 0 };
        let reserved = super::addresses::reserve_aligned(self.bytes + 2 * gap, GRANULARITY)?;
        // SAFETY: within the range just reserved.
        let at = unsafe { reserved.add(gap) };
        let view = View(at, self.bytes);
        // SAFETY: the target range was reserved just now and nobody else knows of it; `view` unmaps it on error.
        let map = || unsafe {
            rustix::mm::mmap(
                at.as_ptr().cast(),
                self.bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                &self.fd,
                0,
            )
        };
        if let Err(e) = fault::step("mapping").and_then(|()| map()) {
            bail!(
                SystemError,
                25,
                "memory could not be mapped | {} bytes: {e} | fix: raise vm.max_map_count or the address space limit (ulimit -v)",
                self.bytes
            );
        }
        let at = self.view.get_or_init(|| view).0;
        tell_mapped(at.as_ptr() as DevPtr, self.bytes, self.fd());
        Ok(at)
    }
}

impl Physical for Memfd {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn back(&self, start: usize, bytes: usize) -> Result<()> {
        let first = start / 4096 * 4096;
        let backed = (start + bytes).next_multiple_of(4096) - first;
        if bytes > 0
            && let Err(e) = rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), first as u64, backed as u64)
        {
            bail!(
                UnhandledCudaError,
                23,
                "no memory for an allocation | {backed} bytes: {e} | fix: raise the memory limit or ask for less"
            );
        }
        Ok(())
    }

    fn export(&self) -> Result<OwnedFd> {
        match super::limits::with_descriptors(|| {
            fault::step("descriptor")?;
            rustix::io::fcntl_dupfd_cloexec(&self.fd, 3)
        }) {
            Ok(fd) => Ok(fd),
            Err(e) => bail!(
                SystemError,
                24,
                "a descriptor could not be duplicated | {e} | fix: raise the limit of open files (ulimit -n)"
            ),
        }
    }

    fn host(&self) -> Option<NonNull<u8>> {
        self.view().ok()
    }

    fn device_address(&self) -> Option<DevPtr> {
        self.host().map(|at| at.as_ptr() as DevPtr)
    }

    fn key(&self) -> u64 {
        self.key
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_handles_on_one_memory_are_one_object() {
        let memory = Memfd::create(100).unwrap();
        assert_eq!(memory.bytes(), GRANULARITY);
        let again = Memfd::import(memory.export().unwrap(), GRANULARITY).unwrap();
        assert_eq!(memory.key(), again.key());
        assert!(Arc::ptr_eq(&memory, &again));
        assert_ne!(Memfd::create(100).unwrap().key(), memory.key());
    }

    #[test]
    fn a_descriptor_that_could_shrink_or_lies_about_its_size_is_refused() {
        let memory = Memfd::create(1).unwrap();
        let error = Memfd::import(memory.export().unwrap(), 2 * GRANULARITY).err().unwrap();
        assert!(error.text.contains("another size"), "{error}");
        let plain = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&plain, GRANULARITY as u64).unwrap();
        let error = Memfd::import(plain, GRANULARITY).err().unwrap();
        assert!(error.text.contains("not a sealed memfd"), "{error}");
        assert!(rustix::fs::ftruncate(memory.fd(), 0).is_err());
    }

    #[test]
    fn memory_starts_zeroed_and_aligned() {
        let memory = Memfd::create(3 * GRANULARITY - 5).unwrap();
        let host = memory.host().unwrap();
        assert_eq!(host.as_ptr() as usize % GRANULARITY, 0);
        // SAFETY: the view is `bytes` long and nobody else has it.
        let bytes = unsafe { std::slice::from_raw_parts(host.as_ptr(), memory.bytes()) };
        assert!(bytes.iter().all(|&b| b == 0));
    }
}
