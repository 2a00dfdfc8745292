//! A launch, and one run of it: which blocks are left, what its blocks share, how it ends.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::device::Device;
use crate::error::{Code, report};
use crate::start::Start;
use crate::stream::Task;

/// `uint3` and `dim3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Dim3 {
    /// Extent or index, fastest.
    pub x: u32,
    /// Second.
    pub y: u32,
    /// Slowest.
    pub z: u32,
}

impl Dim3 {
    /// The product of the extents.
    pub fn count(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }

    /// Where number `linear` is in these extents, x fastest.
    pub fn at(self, linear: u64) -> Dim3 {
        let (x, y) = (u64::from(self.x), u64::from(self.y));
        Dim3 { x: (linear % x) as u32, y: (linear / x % y) as u32, z: (linear / x / y) as u32 }
    }
}

impl std::fmt::Display for Dim3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({},{},{})", self.x, self.y, self.z)
    }
}

/// The packed arguments of a launch; destroyed when the last run of the launch is over.
pub struct Packed {
    data: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: runtime.h makes the packed arguments shared by all CUDA threads and const, and destroy callable on any thread.
unsafe impl Send for Packed {}
// SAFETY: as above.
unsafe impl Sync for Packed {}

impl Packed {
    /// Takes ownership of `data`, to be ended by `destroy`.
    pub fn new(data: *mut c_void, destroy: Option<unsafe extern "C" fn(*mut c_void)>) -> Self {
        Packed { data, destroy }
    }
    /// What `invoke` is given.
    pub fn data(&self) -> *mut c_void {
        self.data
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the launcher gave data and destroy together, and this is the only call.
            unsafe { destroy(self.data) }
        }
    }
}

/// A place in a program, as the compiler wrote it: strings that live as long as the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    what: *const c_char,
    file: *const c_char,
    line: i32,
}

// SAFETY: what and file are string literals (or NULL): immutable, and alive while their program is loaded.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// `what` names the CUDA function; NULL pointers read as unknown.
    pub const fn new(what: *const c_char, file: *const c_char, line: i32) -> Self {
        Place { what, file, line }
    }
    /// The CUDA function.
    pub fn what(&self) -> String {
        text(self.what, "?")
    }
    /// file:line.
    pub fn line(&self) -> String {
        format!("{}:{}", text(self.file, "unknown file"), self.line)
    }
    /// Same file and line (files are compared by content: one literal may exist in several translation units).
    pub fn same_line(&self, other: &Place) -> bool {
        self.line == other.line && (self.file == other.file || text(self.file, "") == text(other.file, ""))
    }
}

/// file:line, without allocating.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.file.is_null() {
            // SAFETY: as for `text`.
            for part in unsafe { CStr::from_ptr(self.file) }.to_bytes().utf8_chunks() {
                f.write_str(part.valid())?;
            }
        }
        write!(f, ":{}", self.line)
    }
}

/// A C string as text, or `or` for NULL.
pub(crate) fn text(string: *const c_char, or: &str) -> String {
    if string.is_null() {
        return or.to_string();
    }
    // SAFETY: callers of the C API give NUL-terminated strings.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// What a launch says; may run several times (graphs).
pub struct Launch {
    /// The kernel's name for messages.
    pub name: String,
    /// Called once per CUDA thread.
    pub invoke: unsafe extern "C" fn(*mut c_void),
    /// Its argument.
    pub packed: Packed,
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// Whether `grid_sync` may be called: all blocks run at the same time.
    pub cooperative: bool,
    /// Where the host program launched it.
    pub place: Place,
}

impl Launch {
    /// "kernel `name` (launched at file:line)"
    pub fn describe(&self) -> String {
        format!("kernel {} (launched at {})", self.name, self.place.line())
    }
}

#[derive(Default)]
struct GridSync {
    arrived: u64,
    ended: u64,
    place: Option<Place>,
}

/// Since when no block has ended while others could not begin.
#[derive(Default)]
struct Stall {
    ended: u64,
    since: Option<Instant>,
    told: bool,
}

/// So long may all resident blocks of a grid run before the program is told that others wait for their places.
const STALL: Duration = Duration::from_secs(10);

/// One run of a launch.
pub struct Grid {
    /// What runs.
    pub launch: Arc<Launch>,
    /// Where.
    pub device: &'static Device,
    /// Number of blocks.
    pub total: u64,
    next: AtomicU64,
    ended: AtomicU64,
    failure: AtomicI32,
    sync: Mutex<GridSync>,
    generation: AtomicU32,
    stall: Mutex<Stall>,
    start: Start,
    task: Mutex<Option<Arc<Task>>>,
}

impl Grid {
    /// A run that ends `task` when its last block does.
    pub fn new(launch: Arc<Launch>, device: &'static Device, task: Arc<Task>) -> Arc<Grid> {
        Arc::new(Grid {
            total: launch.grid.count(),
            launch,
            device,
            next: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            failure: AtomicI32::new(0),
            sync: Mutex::default(),
            generation: AtomicU32::new(0),
            stall: Mutex::default(),
            start: Start::default(),
            task: Mutex::new(Some(task)),
        })
    }

    /// The next block that nobody has begun.
    pub fn claim(&self) -> Option<u64> {
        if self.next.load(Ordering::Relaxed) >= self.total {
            return None; // not fetch_add alone: idle claims would count `next` up without bound
        }
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < self.total).then_some(block)
    }

    /// Blocks that nobody has begun.
    pub fn unclaimed(&self) -> u64 {
        self.total.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Whether the run has failed: its blocks stop at their next switch.
    #[inline]
    pub fn failed(&self) -> bool {
        self.failure.load(Ordering::Relaxed) != 0
    }

    /// A block's threads have had their first turn; it waits for the other blocks if any of its threads is `live`.
    pub fn start_together(&self, threads: u64, live: bool) {
        let mut wanted = self.total;
        self.start.come(self.total, threads, live, || {
            // All at once, then one at a time: those that were asked for may be on their way.
            let room = self.device.pool.recruit(self, std::mem::replace(&mut wanted, 1));
            room && !self.failed()
        });
    }

    /// A block waits, others cannot begin: says so once if that lasts. It is no error: the host, or the end of a block, may
    /// change it.
    pub fn note_stall(&self) {
        let Some(mut stall) = self.stall.try_lock() else { return };
        let ended = self.ended.load(Ordering::Relaxed);
        if stall.since.is_none() || stall.ended != ended {
            (stall.ended, stall.since) = (ended, Some(Instant::now()));
        } else if !stall.told && stall.since.is_some_and(|since| since.elapsed() > STALL) {
            stall.told = true;
            report(&format!(
                "warning: {} of {} blocks of {} cannot begin, and none of the others has ended for {} s\n\
                 fix: if they wait for each other, launch fewer blocks or set GINRS_CPU_RESIDENT above {}",
                self.unclaimed(),
                self.total,
                self.launch.describe(),
                STALL.as_secs(),
                crate::config::config().resident
            ));
        }
    }

    /// Ends the run with an error that stays on the device. The first failure is printed and counts, later ones follow
    /// from it and are silent.
    pub fn fail(&self, code: Code, message: &str) {
        if self.failure.compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            report(message);
            self.device.set_sticky(code);
            // Blocks that have not begun never will: count them as ended here, once.
            let next = self.next.swap(self.total, Ordering::AcqRel);
            self.count_ended(self.total.saturating_sub(next));
        }
    }

    /// A block that was claimed is over.
    pub fn block_ended(&self) {
        if self.launch.cooperative {
            let mut sync = self.sync.lock();
            sync.ended += 1;
            self.check_stuck(&sync);
        }
        self.count_ended(1);
    }

    fn count_ended(&self, blocks: u64) {
        // AcqRel: whoever counts the last block sees what all others wrote.
        if blocks > 0 && self.ended.fetch_add(blocks, Ordering::AcqRel) + blocks == self.total {
            let task = self.task.lock().take().expect("a grid ends once");
            self.device.kernel_ended();
            crate::stream::complete(task);
        }
    }

    /// Counts a block whose live threads have all reached grid sync. Returns the generation to wait for the end of.
    pub fn arrive(&self, place: Place) -> u32 {
        let mut sync = self.sync.lock();
        let generation = self.generation.load(Ordering::Relaxed);
        sync.arrived += 1;
        sync.place = Some(place);
        if sync.arrived == self.total {
            sync.arrived = 0;
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
        } else {
            self.check_stuck(&sync);
        }
        generation
    }

    /// Whether the grid sync of `generation` is complete.
    pub fn passed(&self, generation: u32) -> bool {
        self.generation.load(Ordering::Acquire) != generation
    }

    /// Blocks that ended never reach grid sync: once only they and waiting ones are left, nobody can go on.
    fn check_stuck(&self, sync: &GridSync) {
        if sync.arrived > 0 && sync.ended > 0 && sync.arrived + sync.ended == self.total && !self.failed() {
            let place = sync.place.map_or_else(String::new, |place| place.line());
            self.fail(
                Code::LAUNCH_FAILURE,
                &format!(
                    "deadlock in {}: {} of {} blocks wait in grid sync at {place}, the others have ended without it\n\
                     fix: every block of a cooperative launch must reach the same grid sync",
                    self.launch.describe(),
                    sync.arrived,
                    self.total
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_numbers_and_indices_agree() {
        let extents = Dim3 { x: 3, y: 5, z: 2 };
        let mut linear = 0;
        for z in 0..2 {
            for y in 0..5 {
                for x in 0..3 {
                    assert_eq!(extents.at(linear), Dim3 { x, y, z });
                    linear += 1;
                }
            }
        }
        assert_eq!(linear, extents.count());
        let largest = Dim3 { x: i32::MAX as u32, y: 65535, z: 65535 };
        assert_eq!(largest.at(largest.count() - 1), Dim3 { x: i32::MAX as u32 - 1, y: 65534, z: 65534 });
    }
}
