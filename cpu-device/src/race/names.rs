//! Who and what the detector speaks of: grids, groups of threads, puts, windows. Nothing here is ever taken back.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::arena::{self, Head};
use super::clock::{Clock, Group};
use super::{family, foreign, job, known, windows};
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
    /// It is counted where the job counts those that run.
    is_told: bool,
    /// What all blocks knew that have come to a grid sync.
    pub sync: Mutex<Clock>,
    /// What all blocks knew that have ended.
    pub left: Mutex<Clock>,
}

/// The threads of a block, in words.
pub struct Block {
    /// Its grid.
    pub run: u32,
    /// Its device; of another process a number below 0.
    pub device: i32,
    /// "rank 1"
    pub rank: String,
    /// The grid's kernel.
    pub kernel: String,
    /// blockIdx
    pub index: Dim3,
    /// blockDim
    pub shape: Dim3,
}

impl Block {
    /// It stands for a copy of the CUDA API.
    pub fn is_copy(&self) -> bool {
        self.shape.count() == 0
    }
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
        /// blockDim; 0: a copy of the CUDA API, one thread
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

/// What was called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// put, putValue
    Put,
    /// signal
    Signal,
    /// resetSignal, resetCounter
    Reset,
}

/// A line of the user's with a put, and who was there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Put {
    /// Which call it was.
    pub call: Call,
    /// file:line
    pub line: String,
    /// Of the job.
    pub from: i32,
    /// Likewise.
    pub to: i32,
    /// The block that called.
    pub group: Group,
    /// Its thread.
    pub thread: u16,
    /// Of the payload; of a reset its number for the user.
    pub bytes: u64,
}

/// A window as all ranks of the process see it.
pub struct Window {
    /// Where the first LSA rank's part begins.
    pub flat: usize,
    /// From one rank's to the next one's.
    pub stride: usize,
    /// Of each.
    pub bytes: usize,
    /// How many have a part.
    pub ranks: usize,
    /// The communicator that it was registered with; 0: not told.
    pub comm: u64,
    /// The rank of the first one there.
    pub first_rank: i32,
    /// Of those that were registered with a communicator, from 1; 0: not told.
    pub number: u64,
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
/// Grids that run and began before this process joined a job, if it has.
static RUNNING: AtomicU32 = AtomicU32::new(0);

fn running(is_told: bool) -> &'static AtomicU32 {
    if is_told { &arena::head().running } else { &RUNNING }
}

/// How many grids run.
pub fn all_running() -> u32 {
    RUNNING.load(Ordering::Acquire) + if job::is_joined() { arena::head().running.load(Ordering::Acquire) } else { 0 }
}

/// A grid begins; its number, from 1.
pub fn new_run(device: i32, kernel: &str) -> u32 {
    job::begins();
    let is_told = job::is_joined();
    running(is_told).fetch_add(1, Ordering::AcqRel);
    // In this order: what was known of grids that have ended is forgotten, for their number says it.
    let mut began = known::now();
    began.ended = all_ended();
    let mut runs = RUNS.write();
    runs.push(Arc::new(Run {
        device,
        kernel: kernel.to_owned(),
        began: Arc::new(began),
        ended: AtomicU64::new(u64::MAX),
        is_told,
        sync: Mutex::default(),
        left: Mutex::default(),
    }));
    let number = runs.len() as u32;
    if job::is_joined() && number >= arena::RUNS {
        super::refuse("a process of the job has run a million grids");
    }
    number
}

/// The grid of a number, of this process.
pub fn run(number: u32) -> Arc<Run> {
    RUNS.read()[number as usize - 1].clone()
}

/// It has ended, and nothing that follows from that has begun.
pub fn end_run(number: u32) {
    let run = run(number);
    known::change(|known| {
        known.join(&run.left.lock());
        let ended = if job::is_joined() { &arena::head().ended } else { &ENDED };
        let ended = ended.fetch_add(1, Ordering::AcqRel) + 1;
        run.ended.store(ended, Ordering::Release);
        if job::is_joined() {
            arena::ended(job::global(number) >> 24, number).store(ended, Ordering::Release);
        }
        known.retain(|group| !is_over(group, ended));
    });
    running(run.is_told).fetch_sub(1, Ordering::AcqRel);
}

/// This process joins a job.
pub fn join(head: &Head) {
    head.ended.fetch_max(ENDED.load(Ordering::Acquire), Ordering::AcqRel);
}

/// Whether a group's grid has ended as this number or an earlier one.
pub fn is_over(of: Group, by: u64) -> bool {
    if job::process_of(of).is_some() {
        let run = foreign::run_of(of);
        return run != 0 && ended(run) <= by;
    }
    matches!(group(of), Of::Block { run, .. } if ended(run) <= by)
}

/// How many have ended.
pub fn all_ended() -> u64 {
    if job::is_joined() { arena::head().ended.load(Ordering::Acquire) } else { ENDED.load(Ordering::Acquire) }
}

/// As which one it has ended; the largest number: not yet.
pub fn ended(number: u32) -> u64 {
    if let Some(process) = job::process_of(number) {
        return match arena::ended(process, job::rest(number)).load(Ordering::Acquire) {
            0 => u64::MAX,
            ended => ended,
        };
    }
    RUNS.read()[number as usize - 1].ended.load(Ordering::Acquire)
}

/// New groups in a row; the first one.
pub fn new_groups(of: &[Of]) -> Group {
    let mut groups = GROUPS.write();
    groups.extend_from_slice(of);
    let first = (groups.len() - of.len()) as Group;
    drop(groups);
    if job::is_joined() {
        if first + of.len() as Group > arena::GROUPS {
            super::refuse("a process of the job has run 16 million blocks");
        }
        of.iter().zip(first..).for_each(|(of, group)| foreign::begin_group(job::global(group), of));
    }
    first
}

/// What a group is. Of a block of another process its grid is known here, [`block`] knows more.
pub fn group(group: Group) -> Of {
    if job::process_of(group).is_some() {
        return foreign::group(group);
    }
    GROUPS.read()[group as usize].clone()
}

/// A group that is a block.
pub fn block(group: Group) -> Block {
    let unknown = Dim3 { x: 1, y: 1, z: 1 };
    let of = self::group(group);
    if job::process_of(group).is_some() {
        return foreign::block(group).unwrap_or_else(|| Block {
            run: foreign::run_of(group),
            device: -1,
            rank: "another process".into(),
            kernel: "?".into(),
            index: unknown,
            shape: unknown,
        });
    }
    let Of::Block { run, index, shape } = of else { unreachable!("a group of puts is no block") };
    let of = self::run(run);
    Block { run, device: of.device, rank: rank_of(of.device), kernel: of.kernel.clone(), index, shape }
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
    drop(puts);
    if job::is_joined() {
        foreign::tell_put(PUT | number);
    }
    PUT | number
}

/// The put of such a place.
pub fn put(place: u64) -> Put {
    if job::is_foreign(place) {
        return foreign::put(place);
    }
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

/// Whose it is is known.
pub fn has_rank(device: i32) -> bool {
    RANKS.read().iter().any(|known| known.0 == device)
}

/// "rank 1", or "device 1" where no communicator is known.
pub fn rank_of(device: i32) -> String {
    let rank = RANKS.read().iter().find(|known| known.0 == device).map(|known| known.1);
    rank.map_or_else(|| format!("device {device}"), |rank| format!("rank {rank}"))
}

/// A window becomes known.
pub fn add_window(new: Window) {
    if WINDOWS.read().iter().any(|window| window.flat == new.flat && window.bytes == new.bytes) {
        return;
    }
    WINDOWS.write().push(new);
    windows::changed();
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

/// Of what is mapped at once.
const GRANULE: usize = 2 << 20;

/// Where the last window ends that has a byte of this page, or of what is mapped with the page and lies before it.
pub fn end_in(page: usize) -> Option<usize> {
    let windows = WINDOWS.read();
    let ends = windows.iter().filter_map(|window| {
        let rank = page.checked_sub(window.flat)?.checked_div(window.stride).unwrap_or(0);
        let begins = window.flat + rank * window.stride;
        let ends = begins + window.bytes;
        (rank < window.ranks && page < ends.next_multiple_of(GRANULE)).then_some(ends)
    });
    ends.max()
}

/// Whose window an address is in, and where, and that rank's bytes of it; the name is of that window on `other`, if it is one.
pub fn window_at(at: usize, other: Option<i32>) -> Option<(String, Range<usize>)> {
    WINDOWS.read().iter().rev().find_map(|window| {
        let place = window.holds(at)?;
        let rank = family::rank_in_job(window.comm, other.unwrap_or(window.first_rank + place as i32));
        let begins = window.flat + place * window.stride;
        let offset = at - begins;
        let name = if window.number == 0 { "a window".into() } else { format!("window {}", window.number) };
        Some((format!("{name} of rank {rank} ({} bytes), offset {offset:#x}", window.bytes), begins..begins + window.bytes))
    })
}
