//! One address for each byte of a window, whichever of its mappings a kernel uses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::device::is_forked;

use super::places::{self, Byte};
use super::shadow::{self, PAGE, Page};
use super::touched::Place;
use super::{all, family, foreign, job, names, on, page_of, whereabouts, worker};

/// Mappings of windows' memory other than the flat one: (bytes, flat address), by first byte.
static ALIASES: RwLock<BTreeMap<usize, (usize, usize)>> = RwLock::new(BTreeMap::new());
/// Windows of this process's ranks, by communicator and rank.
static LANDINGS: RwLock<BTreeMap<(u64, i32), Vec<Landing>>> = RwLock::new(BTreeMap::new());
/// Counts changes of what addresses mean, for those who have looked before.
static CHANGED: AtomicU32 = AtomicU32::new(0);

/// A window as puts know it.
struct Landing {
    /// Its handle on its rank.
    handle: u64,
    /// On all ranks.
    number: u64,
    /// Where it begins.
    at: usize,
}

/// See [`CHANGED`].
pub fn generation() -> u32 {
    CHANGED.load(Ordering::Acquire)
}

/// Whether this page is watched: memory of the CUDA API, windows. Other memory (malloc's, of the library, stacks) has owners that nobody
/// tells of, so what one of them did there would be held against the next.
pub fn is_watched(page: usize) -> bool {
    crate::memory::is_page(page) || flat(page) != page || names::is_window(page) || whereabouts::is_variable(page)
}

/// A device has its copy of a variable, on pages of its own.
pub fn add_variable(at: usize, bytes: usize, name: &str) {
    if on() {
        whereabouts::add_variable(at..at + bytes, name);
        changed();
    }
}

/// The address by which a byte is known.
pub fn flat(at: usize) -> usize {
    let aliases = ALIASES.read();
    match aliases.range(..=at).next_back() {
        Some((base, (bytes, flat))) if at - base < *bytes => flat + (at - base),
        _ => at,
    }
}

/// Memory begins or ends to be what it was: whoever gets these addresses next has no past in common with those before.
pub fn forget(at: usize, bytes: usize) {
    if !on() {
        return;
    }
    all().forget(flat(at), bytes);
    all().forget(at, bytes);
    let meets = |first: usize, length: usize| first < at + bytes && at < first + length;
    let mut aliases = ALIASES.write();
    aliases.retain(|base, (bytes, flat)| !meets(*base, *bytes) && !meets(*flat, *bytes));
    drop(aliases);
    LANDINGS.write().values_mut().for_each(|all| all.retain(|landing| !meets(landing.at, 1)));
    names::forget_windows(at, bytes);
    changed();
}

/// Memory that a put reads or writes.
#[derive(Clone, Copy)]
pub enum Memory {
    /// At an address of this process.
    At(usize),
    /// On a rank of another process, which this one does not map.
    There {
        /// The first byte.
        byte: Byte,
        /// As in [`Place::There`].
        here: usize,
    },
}

impl Memory {
    /// What is known of the pages of so many bytes: each page, the first byte in there, how many, and what to call it.
    pub fn pages(self, bytes: usize, rank: i32) -> impl Iterator<Item = (Arc<Page>, usize, usize, Place)> {
        let first = match self {
            Memory::At(at) => at,
            Memory::There { byte, .. } => byte.offset as usize,
        };
        shadow::pieces(first, bytes).filter_map(move |(at, length)| match self {
            Memory::At(_) => {
                let (page, at) = page_of(at);
                Some((page, at, length, Place::At(at)))
            }
            Memory::There { byte, here } => {
                let page = Page::of(Byte { offset: at as u64, ..byte }, true)?;
                Some((Arc::new(page), at, length, Place::There { here: here + (at - first), rank }))
            }
        })
    }
}

/// Byte `offset` of the window that `from` knows by this handle, on `to`.
pub fn landing(comm: u64, [from, to]: [i32; 2], handle: u64, offset: u64) -> Option<Memory> {
    let all = LANDINGS.read();
    let Landing { number, at, .. } = all.get(&(comm, from))?.iter().rev().find(|landing| landing.handle == handle)?;
    if let Some(landing) = all.get(&(comm, to)).and_then(|all| all.iter().rev().find(|landing| landing.number == *number)) {
        return Some(Memory::At(landing.at + offset as usize));
    }
    let first = job::is_joined().then(|| foreign::window(comm, to, *number)).flatten()?;
    Some(Memory::There { byte: Byte { offset: first.offset + offset, ..first }, here: at + offset as usize })
}

/// This process has joined a job just now.
pub fn join() {
    for ((comm, rank), all) in &*LANDINGS.read() {
        all.iter().for_each(|landing| landing.tell(*comm, *rank));
    }
    changed();
}

impl Landing {
    fn tell(&self, comm: u64, rank: i32) {
        if let Some(first) = places::byte_at(self.at).filter(|_| job::is_joined()) {
            foreign::tell_window(comm, rank, self.number, first);
        }
    }
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_landing(comm: u64, rank: i32, handle: u64, number: u64, at: usize) {
    if on() && !is_forked() {
        let landing = Landing { handle, number, at };
        landing.tell(comm, rank);
        LANDINGS.write().entry((comm, rank)).or_default().push(landing);
    }
}

/// Addresses mean something else from now on.
pub fn changed() {
    CHANGED.fetch_add(1, Ordering::Release);
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_unmapped(at: usize, bytes: usize) {
    // A thread of the parent may have held a lock.
    if !is_forked() {
        places::unmap(at, bytes);
        forget(at, bytes);
    }
}

/// `ginrsCpuRaceWindow`
#[repr(C)]
pub struct Window {
    base: usize,
    bytes: u64,
    first: usize,
    stride: u64,
    rank: i32,
    lsa_rank: i32,
    lsa_size: i32,
}

/// See race.h.
///
/// # Safety
/// `window` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_window(window: *const Window) {
    // SAFETY: the caller's.
    if let (Some(worker), Some(window)) = (worker(), unsafe { window.as_ref() }) {
        know(worker.device(), window, 0, 0);
    }
}

/// See race.h: so a window is known to kernels that take pointers into it and make no session.
///
/// # Safety
/// `window` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_registered(device: i32, window: *const Window, number: u64, comm: u64) {
    // SAFETY: the caller's.
    if let Some(window) = unsafe { window.as_ref() }.filter(|_| on() && !is_forked()) {
        know(device, window, number, comm);
    }
}

/// `comm`: 0, where it is not known whose it is.
fn know(device: i32, window: &Window, number: u64, comm: u64) {
    let (bytes, stride) = (window.bytes as usize, window.stride as usize);
    if comm != 0 || !names::has_rank(device) {
        names::set_rank(device, family::rank_in_job(comm, window.rank));
    }
    let (ranks, first_rank) = (window.lsa_size as usize, window.rank - window.lsa_rank);
    names::add_window(names::Window { flat: window.first, stride, bytes, ranks, comm, first_rank, number });
    let (base, flat) = (window.base, window.first + window.lsa_rank as usize * stride);
    let (known, last) = (self::flat(base), self::flat(base + bytes.max(1) - 1));
    if base % PAGE != flat % PAGE || known == self::flat(flat) {
        return;
    }
    // Memory that is in two windows is known as in the first one.
    let is_other = known != base && last - known == bytes.max(1) - 1;
    let (from, to) = if is_other { (flat, known) } else { (base, flat) };
    ALIASES.write().insert(from, (bytes, to));
    changed();
}
