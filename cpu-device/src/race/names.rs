//! Who and what the detector speaks of: grids, groups of threads, puts, windows. Nothing here is ever taken back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::clock::{Clock, Group};
use crate::launch::Dim3;

/// One run of a kernel.
pub struct Run {
    /// Its device.
    pub device: i32,
    /// For messages.
    pub kernel: String,
    /// What its blocks begin with: all that had ended knew, whoever made it so (streams, events, host code).
    pub began: Arc<Clock>,
    ended: AtomicU64,
    /// What all blocks knew that have come to a grid sync.
    pub sync: Mutex<Clock>,
    /// What all blocks knew that have ended.
    pub left: Mutex<Clock>,
}

/// What a group is.
#[derive(Clone)]
pub enum Of {
    /// The threads of a block.
    Block {
        /// See [`run`].
        run: u32,
        /// blockIdx
        index: Dim3,
        /// blockDim
        shape: Dim3,
    },
    /// The puts of one rank to one peer on a context; epochs count them.
    Puts(Part),
}

/// What puts do: three groups in a row for each queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// They read their sources.
    Read,
    /// They land.
    Land,
    /// They have been posted.
    Posted,
}

/// A line of the user's with a put, and who was there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Put {
    /// file:line
    pub line: String,
    /// World ranks.
    pub from: i32,
    /// World ranks.
    pub to: i32,
    /// The block that called.
    pub group: Group,
    /// Its thread.
    pub thread: u16,
    /// Of the payload.
    pub bytes: u64,
}

/// A window as all ranks of the process see it.
struct Window {
    flat: usize,
    stride: usize,
    bytes: usize,
    ranks: usize,
}

impl Window {
    /// The LSA rank whose part an address is in.
    fn holds(&self, at: usize) -> Option<usize> {
        let rank = at.checked_sub(self.flat)?.checked_div(self.stride).unwrap_or(0);
        (rank < self.ranks && at - self.flat - rank * self.stride < self.bytes).then_some(rank)
    }
}

/// The bit of a place that is no address of code but the number of a put.
pub const PUT: u64 = 1 << 63;

static RUNS: RwLock<Vec<Arc<Run>>> = RwLock::new(Vec::new());
static GROUPS: RwLock<Vec<Of>> = RwLock::new(Vec::new());
/// By number, and numbers by put.
type Puts = (Vec<Put>, Option<HashMap<Put, u64>>);
static PUTS: RwLock<Puts> = RwLock::new((Vec::new(), None));
static WINDOWS: RwLock<Vec<Window>> = RwLock::new(Vec::new());
static RANKS: RwLock<Vec<(i32, i32)>> = RwLock::new(Vec::new());
/// Grids that have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// A grid begins; its number, from 1.
pub fn new_run(device: i32, kernel: &str) -> u32 {
    // With the lock: what was known of grids that have ended is forgotten, for their number says it.
    let known = super::KNOWN.lock();
    let mut began = known.clone();
    began.ended = ENDED.load(Ordering::Acquire);
    drop(known);
    let mut runs = RUNS.write();
    runs.push(Arc::new(Run {
        device,
        kernel: kernel.to_owned(),
        began: Arc::new(began),
        ended: AtomicU64::new(u64::MAX),
        sync: Mutex::default(),
        left: Mutex::default(),
    }));
    runs.len() as u32
}

/// The grid of a number.
pub fn run(number: u32) -> Arc<Run> {
    RUNS.read()[number as usize - 1].clone()
}

/// It has ended, and nothing that follows from that has begun.
pub fn end_run(number: u32) {
    let run = run(number);
    let mut known = super::KNOWN.lock();
    known.join(&run.left.lock());
    run.ended.store(ENDED.fetch_add(1, Ordering::AcqRel) + 1, Ordering::Release);
    known.retain(|of| match group(of) {
        Of::Block { run, .. } => ended(run) == u64::MAX,
        Of::Puts(_) => true,
    });
}

/// Whether a group's grid has ended as this number or an earlier one.
pub fn is_over(of: Group, by: u64) -> bool {
    matches!(group(of), Of::Block { run, .. } if ended(run) <= by)
}

/// How many have ended.
pub fn all_ended() -> u64 {
    ENDED.load(Ordering::Acquire)
}

/// As which one it has ended; the largest number: not yet.
pub fn ended(number: u32) -> u64 {
    RUNS.read()[number as usize - 1].ended.load(Ordering::Acquire)
}

/// New groups in a row; the first one.
pub fn new_groups(of: &[Of]) -> Group {
    let mut groups = GROUPS.write();
    groups.extend_from_slice(of);
    (groups.len() - of.len()) as Group
}

/// What a group is.
pub fn group(group: Group) -> Of {
    GROUPS.read()[group as usize].clone()
}

/// The place of a put.
pub fn place_of(put: Put) -> u64 {
    let mut puts = PUTS.write();
    let (list, known) = &mut *puts;
    let next = list.len() as u64;
    let number = *known.get_or_insert_with(HashMap::new).entry(put.clone()).or_insert(next);
    if number == next {
        list.push(put);
    }
    PUT | number
}

/// The put of such a place.
pub fn put(place: u64) -> Put {
    PUTS.read().0[(place & !PUT) as usize].clone()
}

/// A device is a rank's.
pub fn set_rank(device: i32, rank: i32) {
    if RANKS.read().contains(&(device, rank)) {
        return;
    }
    let mut ranks = RANKS.write();
    ranks.retain(|known| known.0 != device);
    ranks.push((device, rank));
}

/// "rank 1", or "device 1" where no communicator is known.
pub fn rank_of(device: i32) -> String {
    let rank = RANKS.read().iter().find(|known| known.0 == device).map(|known| known.1);
    rank.map_or_else(|| format!("device {device}"), |rank| format!("rank {rank}"))
}

/// A window becomes known.
pub fn add_window(flat: usize, stride: usize, bytes: usize, ranks: usize) {
    if WINDOWS.read().iter().any(|window| window.flat == flat && window.bytes == bytes) {
        return;
    }
    WINDOWS.write().push(Window { flat, stride, bytes, ranks });
}

/// These addresses are no window's any more.
pub fn forget_windows(at: usize, bytes: usize) {
    let is_in = |window: &Window| window.flat < at + bytes && at < window.flat + window.ranks * window.stride;
    WINDOWS.write().retain(|window| !is_in(window));
}

/// Whether a page has a byte of a window.
pub fn is_window(page: usize) -> bool {
    WINDOWS.read().iter().any(|window| {
        let last = page + super::PAGE - 1;
        let rank = last.saturating_sub(window.flat).checked_div(window.stride).unwrap_or(0);
        let begins = window.flat + rank * window.stride;
        rank < window.ranks && begins <= last && page < begins + window.bytes
    })
}

/// Whose window an address is in, and where.
pub fn window_at(at: usize) -> Option<String> {
    let windows = WINDOWS.read();
    windows.iter().enumerate().rev().find_map(|(number, window)| {
        let rank = window.holds(at)?;
        let offset = at - window.flat - rank * window.stride;
        Some(format!("window {number} ({} bytes) of LSA rank {rank}, offset {offset:#x}", window.bytes))
    })
}
