//! All memory of this process: physical blocks and their handles, reserved addresses, what is mapped there, linear and pinned memory.
//!
//! One lock: whoever copies holds it shared, so that nothing is unmapped under a copy.

use crate::error::{Code, Result};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

/// Granularity of physical memory and of reservations.
pub const GRANULE: u64 = 2 << 20;

/// Physical memory.
pub struct Block {
    pub fd: OwnedFd,
    pub bytes: u64,
    /// The machine's number of the device whose memory it is; this process need not see that device.
    pub physical: i32,
    /// Whether it may be exported.
    pub shareable: bool,
    /// Counted against the device's memory: made here, not imported.
    pub own: bool,
    /// Where this library alone sees it, if the device's addresses are closed to the host.
    pub view: OnceLock<u64>,
}

impl Block {
    /// Ordinal of the device whose memory it is, if this process sees it.
    pub fn device(&self) -> Option<usize> {
        crate::device::ordinal_of(self.physical)
    }

    /// A second mapping of the memory; 0 if the system gives none.
    fn view(&self) -> u64 {
        *self.view.get_or_init(|| {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping of a file that is that long.
            let got = unsafe {
                libc::mmap(std::ptr::null_mut(), self.bytes as usize, protection, libc::MAP_SHARED, self.fd.as_raw_fd(), 0)
            };
            if got == libc::MAP_FAILED { 0 } else { got as u64 }
        })
    }
}

/// GINRS_MOCK_PRIVATE: device memory has no host address, as on a GPU. For programs without kernels.
pub fn private() -> bool {
    static PRIVATE: LazyLock<bool> = LazyLock::new(|| crate::device::number("GINRS_MOCK_PRIVATE", 0) != 0);
    *PRIVATE
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(&view) = self.view.get().filter(|&&view| view != 0) {
            // SAFETY: made by `view` with that length; a copy holds the lock under which the last user of self goes.
            unsafe { libc::munmap(view as *mut _, self.bytes as usize) };
        }
        if let Some(device) = self.device().filter(|_| self.own) {
            crate::linear::give_back(device, self.bytes);
        }
    }
}

/// What a handle's number stands for.
pub struct Handle {
    pub block: Arc<Block>,
    /// cuMemCreate, imports and cuMemRetainAllocationHandle count up, cuMemRelease down.
    pub held: u32,
    /// Mappings keep a block alive and its number known, but not usable once `held` is 0.
    pub mappings: u32,
}

/// What is mapped somewhere.
pub struct Mapping {
    pub bytes: u64,
    pub handle: u64,
    pub block: Arc<Block>,
    /// CU_MEM_ACCESS_FLAGS_PROT_* by device.
    pub access: [u8; crate::context::MOST],
    pub id: u64,
}

/// cuMemAlloc memory.
pub struct Linear {
    pub bytes: u64,
    pub device: usize,
    /// Where this library sees it: the same address, unless that is closed to the host.
    pub view: u64,
    /// Of each allocation another one.
    pub id: u64,
    /// What it is backed by, once it was exported (ipc).
    pub shared: Option<OwnedFd>,
    /// Another process's, opened here.
    pub foreign: bool,
}

/// A new [`Linear::id`].
pub fn next_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Pinned host memory.
pub struct Pinned {
    pub bytes: u64,
    /// The program's own memory (cuMemHostRegister).
    pub registered: bool,
    pub flags: u32,
    pub device: usize,
}

#[derive(Default)]
pub struct World {
    pub handles: BTreeMap<u64, Handle>,
    pub next_handle: u64,
    /// Base to length.
    pub reservations: BTreeMap<u64, u64>,
    pub mappings: BTreeMap<u64, Mapping>,
    pub linear: BTreeMap<u64, Linear>,
    pub pinned: BTreeMap<u64, Pinned>,
}

pub static WORLD: RwLock<World> = RwLock::new(World {
    handles: BTreeMap::new(),
    next_handle: 0,
    reservations: BTreeMap::new(),
    mappings: BTreeMap::new(),
    linear: BTreeMap::new(),
    pinned: BTreeMap::new(),
});

/// The entry of `map` that holds `at`, with its base.
pub fn around<T>(map: &BTreeMap<u64, T>, at: u64, bytes: impl Fn(&T) -> u64) -> Option<(u64, &T)> {
    let (&base, found) = map.range(..=at).next_back()?;
    (at - base < bytes(found)).then_some((base, found))
}

/// What work may do at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Device memory that the asking device may touch.
    Device,
    /// Pinned host memory.
    Pinned,
    /// Nothing that the driver knows: the host's own memory, or nothing at all.
    Unknown,
    /// The driver's addresses, but not for this device, or past the end.
    Refused,
}

impl World {
    /// What `bytes` at `at` are for work of `device`.
    pub fn see(&self, device: usize, at: u64, bytes: u64, write: bool) -> Seen {
        let Some(end) = at.checked_add(bytes) else { return Seen::Refused };
        if let Some((base, linear)) = around(&self.linear, at, |linear| linear.bytes) {
            // Copies get there without peer access, by way of the host if need be (facts.txt: copyOwnByOtherContextStream).
            return if end <= base + linear.bytes { Seen::Device } else { Seen::Refused };
        }
        if let Some((base, pinned)) = around(&self.pinned, at, |pinned| pinned.bytes) {
            return if end <= base + pinned.bytes { Seen::Pinned } else { Seen::Refused };
        }
        if around(&self.reservations, at, |&bytes| bytes).is_some() {
            let mut next = at;
            // A copy may cross from one mapping into the next.
            while let Some((base, mapping)) = around(&self.mappings, next, |mapping| mapping.bytes) {
                if mapping.access[device] & if write { 3 } else { 1 } != if write { 3 } else { 1 } {
                    return Seen::Refused;
                }
                next = base + mapping.bytes;
                if next >= end {
                    return Seen::Device;
                }
            }
            return Seen::Refused;
        }
        Seen::Unknown
    }

    /// Whether a stream of `device` may write a word at `at` itself.
    pub fn writable(&self, device: usize, at: u64, bytes: u64) -> bool {
        let owner = around(&self.linear, at, |linear| linear.bytes).map(|(_, linear)| linear.device);
        let reached = owner.is_none_or(|owner| crate::context::peer_enabled(device, owner));
        reached && matches!(self.see(device, at, bytes, true), Seen::Device | Seen::Pinned)
    }

    /// Where this library sees address `at`, and for how many bytes that holds.
    pub fn host(&self, at: u64) -> (u64, u64) {
        if let Some((base, linear)) = around(&self.linear, at, |linear| linear.bytes) {
            return (linear.view + (at - base), base + linear.bytes - at);
        }
        match around(&self.mappings, at, |mapping| mapping.bytes) {
            Some((base, mapping)) if private() => (mapping.block.view() + (at - base), base + mapping.bytes - at),
            _ => (at, u64::MAX),
        }
    }

    /// The handle behind a number, if somebody holds it.
    pub fn held(&mut self, handle: u64) -> Result<&mut Handle> {
        self.handles.get_mut(&handle).filter(|handle| handle.held > 0).ok_or(Code::INVALID_VALUE)
    }

    /// Forgets a number that nothing refers to.
    pub fn sweep(&mut self, handle: u64) {
        if self.handles.get(&handle).is_some_and(|handle| handle.held == 0 && handle.mappings == 0) {
            self.handles.remove(&handle);
        }
    }
}
