//! One run of a launch: which blocks are left, what its blocks share, how it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::device::Device;
use crate::error::{Code, report};
use crate::launch::{Launch, Place};
use crate::race;
use crate::schedule::{self, Order};
use crate::start::Start;
use crate::timeline;

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
    /// Its number for the race detector; 0 without.
    pub race: u32,
    /// Number of blocks.
    pub total: u64,
    /// No other grid of the process has it.
    pub number: u64,
    /// Its number among those of its device.
    pub nth: u64,
    /// Of its blocks, with GINRS_SCHEDULE.
    order: Option<Order>,
    next: AtomicU64,
    ended: AtomicU64,
    failure: AtomicI32,
    sync: Mutex<GridSync>,
    generation: AtomicU32,
    stall: Mutex<Stall>,
    start: Start,
    /// A call of the device API was refused, and that has been told.
    pub refused: AtomicBool,
    /// The line of the program's call is told, once.
    pub call_told: AtomicBool,
    /// A wait has ended because its communicator was aborted.
    pub aborted: AtomicBool,
    /// Called when the last block has ended.
    on_end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Grid {
    /// A run that calls `on_end` when its last block has ended.
    pub fn new(launch: Arc<Launch>, device: &'static Device, on_end: impl FnOnce() + Send + 'static) -> Arc<Grid> {
        let number = timeline::number();
        timeline::kernel(number, &launch, device.id);
        let (nth, total) = (device.count_kernel(), launch.grid.count());
        Arc::new(Grid {
            number,
            nth,
            order: schedule::of_grid(device.id, nth, total),
            total,
            race: if race::on() { race::new_run(device.id, &launch.name) } else { 0 },
            launch,
            device,
            next: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            failure: AtomicI32::new(0),
            sync: Mutex::default(),
            generation: AtomicU32::new(0),
            stall: Mutex::default(),
            start: Start::default(),
            refused: AtomicBool::new(false),
            call_told: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            on_end: Mutex::new(Some(Box::new(on_end))),
        })
    }

    /// A block that nobody has begun: the next one, unless a seed has another order.
    pub fn claim(&self) -> Option<u64> {
        if self.next.load(Ordering::Relaxed) >= self.total {
            return None; // not fetch_add alone: idle claims would count `next` up without bound
        }
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < self.total).then(|| self.order.as_ref().map_or(block, |order| order.at(block)))
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
    /// `recruit` asks for up to so many more blocks to be begun, and says whether there is room for them.
    pub fn start_together(&self, threads: u64, live: bool, recruit: &dyn Fn(u64) -> bool) {
        let mut wanted = self.total;
        self.start.come(self.total, threads, live, || {
            // All at once, then one at a time: those that were asked for may be on their way.
            let room = recruit(std::mem::replace(&mut wanted, 1));
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
            let on_end = self.on_end.lock().take().expect("a grid ends once");
            timeline::kernel_end(self.number);
            if self.race != 0 {
                race::end_run(self.race);
            }
            self.device.kernel_ended();
            // Of no graph: this was its last run. Who still has the grid would destroy them when the kernel's library may be gone.
            if Arc::strong_count(&self.launch) == 1 {
                self.launch.packed.end();
            }
            on_end();
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
