//! The block threads of a device: which block runs next, and on how many OS threads.
//!
//! A grid begins on as many threads as the machine has cores. A block that gives its core away asks for one more while
//! blocks are left, up to the resident limit: so kernels that never wait (262,144 blocks that initialise memory) stay on a
//! few threads, and blocks that wait for each other all come to run.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::block::{Block, Outcome};
use crate::config::{MAX_LIVE_THREADS, config};
use crate::device::Device;
use crate::error::Code;
use crate::grid::Grid;
use crate::once::OnceLock;
use crate::pace::cores;

/// Stack of a block thread: the scheduler, progress steps, and the static `__shared__` variables, which glibc cuts off it.
const WORKER_STACK: usize = 8 << 20;

/// A grid with blocks that nobody has begun.
struct Active {
    grid: Arc<Grid>,
    /// Cooperative: slots set aside for its blocks that have not begun; None while it waits for them all to be free.
    reserved: Option<u32>,
}

#[derive(Default)]
struct State {
    grids: Vec<Active>,
    workers: u32,
    idle: u32,
    /// Wake-ups that no idle worker has taken yet.
    tickets: u32,
    /// Workers with a block, and slots set aside.
    busy: u32,
}

/// See the module.
#[derive(Default)]
pub struct Pool {
    state: Mutex<State>,
    wake: Condvar,
    /// Set when neither an idle worker nor room for another is left: saves waiting blocks the lock.
    full: AtomicBool,
}

thread_local! {
    /// The device whose worker this is, while it ends a grid: behind that it picks another.
    static PICKS_NEXT: Cell<Option<i32>> = const { Cell::new(None) };
}

/// What a worker does next.
struct Job {
    grid: Arc<Grid>,
    /// A cooperative grid's block; else the worker claims blocks as long as there are any.
    block: Option<u64>,
}

/// The pool of `device`.
pub fn of(device: &Device) -> &'static Pool {
    static POOLS: OnceLock<Vec<Pool>> = OnceLock::new();
    &POOLS.get_or_init(|| (0..crate::device::count()).map(|_| Pool::default()).collect())[device.id as usize]
}

/// Whether blocks of a grid that was begun have not.
pub fn has_unbegun() -> bool {
    crate::device::all().iter().any(|device| of(device).state.lock().grids.iter().any(|active| active.grid.unclaimed() > 0))
}

impl Pool {
    /// Begins a grid.
    pub fn submit(&'static self, device: &'static Device, grid: Arc<Grid>) {
        let cooperative = grid.launch.cooperative;
        let wanted = if cooperative { grid.total } else { grid.total.min(u64::from(cores())) };
        let mut state = self.state.lock();
        // A kernel that waited for another is begun by the worker that has ended that one, if nothing else is to be begun: to wake a
        // second one took two switches of threads, and gave it nothing to do.
        let next = !cooperative && state.grids.iter().all(|active| active.grid.unclaimed() == 0);
        let own = next && PICKS_NEXT.get() == Some(device.id);
        if own {
            PICKS_NEXT.set(None);
        }
        state.grids.push(Active { grid, reserved: None });
        self.hire(state, device, wanted as u32 - u32::from(own));
    }

    /// Asks for `wanted` more workers for `grid`, if blocks are left that nobody has begun. False: there is no room for them.
    fn recruit(&'static self, grid: &Grid, wanted: u64) -> bool {
        let left = grid.unclaimed();
        if left > 0 && !self.full.load(Ordering::Relaxed) {
            self.hire(self.state.lock(), grid.device, left.min(wanted) as u32);
        }
        left == 0 || !self.full.load(Ordering::Relaxed)
    }

    /// Wakes or starts up to `wanted` workers. A new one is given its first job and is started without the lock: with 512
    /// threads on two cores, whoever has to wait for a lock waits for a turn of all of them.
    fn hire(&'static self, mut state: MutexGuard<'_, State>, device: &'static Device, mut wanted: u32) {
        let mut jobs = Vec::new();
        while wanted > 0 {
            wanted -= 1;
            if state.idle > 0 {
                state.idle -= 1;
                state.tickets += 1;
                self.wake.notify_one();
                continue;
            }
            if state.workers >= config().resident {
                break;
            }
            let (job, also) = pick(&mut state);
            let Some(job) = job else { break };
            state.workers += 1;
            wanted += also;
            jobs.push(job);
        }
        self.full.store(state.idle == 0 && state.workers >= config().resident, Ordering::Relaxed);
        drop(state);
        let mut failure = None;
        for job in jobs {
            let grid = job.grid.clone();
            let claimed = job.block.is_some();
            let start = || {
                let name = format!("ginrs dev{}", device.id);
                let builder = std::thread::Builder::new().name(name).stack_size(WORKER_STACK);
                builder.spawn(move || self.work(device, Some(job)))
            };
            let error = match &failure {
                None => start().err().map(|error| error.to_string()),
                Some(error) => Some(String::clone(error)),
            };
            if let Some(error) = error {
                self.not_started(&grid, claimed, &error);
                failure = Some(error);
            }
        }
    }

    /// A worker could not be started. A plain grid goes on with those there are; others cannot.
    fn not_started(&self, grid: &Arc<Grid>, claimed: bool, error: &str) {
        let workers = {
            let mut state = self.state.lock();
            state.workers -= 1;
            state.busy -= 1;
            state.workers
        };
        if claimed || workers == 0 {
            grid.fail(
                Code::LAUNCH_OUT_OF_RESOURCES,
                &format!(
                    "no more OS threads for the blocks of {}: {error}\nfix: raise ulimit -u, or launch fewer blocks",
                    grid.launch.describe()
                ),
            );
        }
        if claimed {
            grid.block_ended();
        }
    }

    /// The life of a block thread.
    fn work(&'static self, device: &'static Device, mut job: Option<Job>) {
        crate::worker::block_signals();
        crate::worker::take_signal_stack();
        crate::device::bind_worker(device);
        let block = Block::for_this_thread();
        loop {
            if let Some(job) = job.take() {
                crate::pace::BUSY.fetch_add(1, Ordering::Relaxed);
                run(self, block, &job);
                crate::pace::BUSY.fetch_sub(1, Ordering::Relaxed);
                drop(job);
                self.state.lock().busy -= 1;
            }
            let mut state = self.state.lock();
            let (next, also) = pick(&mut state);
            job = next;
            if also > 0 {
                self.hire(state, device, also);
            } else if job.is_none() {
                state.idle += 1;
                self.full.store(false, Ordering::Relaxed);
                while state.tickets == 0 {
                    self.wake.wait(&mut state);
                }
                state.tickets -= 1;
            }
        }
    }
}

/// What a worker may do now, and how many more workers that needs: a cooperative grid begins when all of its blocks can.
fn pick(state: &mut State) -> (Option<Job>, u32) {
    let resident = config().resident;
    let mut given_back = 0;
    state.grids.retain(|active| {
        let left = active.grid.unclaimed() > 0;
        given_back += if left { 0 } else { active.reserved.unwrap_or(0) };
        left
    });
    state.busy -= given_back;
    let (mut busy, mut also) = (state.busy, 0);
    let mut job = None;
    for active in &mut state.grids {
        let grid = &active.grid;
        if grid.launch.cooperative {
            let blocks = grid.total as u32; // the launch checked that all can be resident
            if active.reserved.is_none() && busy + blocks <= resident {
                busy += blocks;
                active.reserved = Some(blocks);
                also = blocks - 1;
            }
            let Some(reserved) = active.reserved.as_mut().filter(|reserved| **reserved > 0) else { continue };
            if let Some(block) = grid.claim() {
                *reserved -= 1;
                job = Some(Job { grid: grid.clone(), block: Some(block) });
                break;
            }
        } else if busy < resident {
            busy += 1;
            job = Some(Job { grid: grid.clone(), block: None });
            break;
        }
    }
    state.busy = busy;
    (job, also)
}

/// A collective's kernel that has failed has a line in the program all the same. Here, for to find it takes another process, and more stack than a
/// CUDA thread has.
fn tell_call(grid: &Grid) {
    let Some(touched) = grid.launch.touched.as_ref().filter(|_| grid.failed()) else { return };
    if !grid.call_told.swap(true, Ordering::Relaxed)
        && let Some(line) = crate::race::collectives::called_at(touched)
    {
        crate::error::report(&format!("  called by host code: {} at {line}", touched.name));
    }
}

fn run(pool: &'static Pool, block: &Block, job: &Job) {
    let grid = &job.grid;
    let threads = grid.launch.block.count() as u32;
    let one = |index: u64| {
        let recruit = |wanted| pool.recruit(grid, wanted);
        crate::timeline::block(grid.number, index);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block.run(grid, index, &recruit))) {
            Ok(Outcome::Over) => {}
            Ok(Outcome::Stuck) => grid.fail(Code::LAUNCH_FAILURE, &crate::deadlock::describe(block, grid)),
            Err(_) => grid.fail(Code::UNKNOWN, &format!("internal error: a panic while {} ran", grid.launch.describe())),
        }
        tell_call(grid);
        block.end();
        crate::timeline::block_end(grid.number, index);
    };
    let Some(reservation) = live::reserve(grid, threads) else {
        // The grid has failed, and has counted the blocks that nobody claimed; a claimed one is ours to count.
        if job.block.is_some() {
            grid.block_ended();
        }
        return;
    };
    let Some(mut index) = job.block.or_else(|| grid.claim()) else { return };
    loop {
        one(index);
        live::ended();
        match if job.block.is_some() { None } else { grid.claim() } {
            Some(next) => {
                grid.block_ended();
                index = next;
            }
            None => break,
        }
    }
    // The last block is counted when nothing is left of it: that may end the grid, and wake who waits for it.
    block.forget();
    drop(reservation);
    PICKS_NEXT.set(Some(grid.device.id));
    grid.block_ended();
    PICKS_NEXT.set(None);
}

/// The bound on live CUDA threads of the process.
mod live {
    use super::*;

    static LIVE: AtomicU32 = AtomicU32::new(0);
    static ENDED: AtomicU64 = AtomicU64::new(0);
    /// How long a block waits for any other to end: those may in turn wait for it.
    const PATIENCE: Duration = Duration::from_secs(3);

    /// A block of the process ended.
    pub fn ended() {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }

    /// Threads that may be live until it is dropped.
    pub struct Reservation(u32);

    impl Drop for Reservation {
        fn drop(&mut self) {
            LIVE.fetch_sub(self.0, Ordering::AcqRel);
        }
    }

    /// Waits until `threads` more may be live. None, and the grid has failed, if no block ends for long.
    pub fn reserve(grid: &Grid, threads: u32) -> Option<Reservation> {
        let mut since: Option<(Instant, u64)> = None;
        loop {
            let fits = |live: u32| (live + threads <= MAX_LIVE_THREADS).then_some(live + threads);
            if LIVE.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fits).is_ok() {
                return Some(Reservation(threads));
            }
            if grid.failed() {
                return None;
            }
            let ended = ENDED.load(Ordering::Relaxed);
            match since {
                Some((begin, seen)) if seen == ended => {
                    if begin.elapsed() > PATIENCE {
                        grid.fail(
                            Code::LAUNCH_OUT_OF_RESOURCES,
                            &format!(
                                "{} would bring this process above {MAX_LIVE_THREADS} live CUDA threads\n\
                                 fix: fewer ranks, blocks or threads in one process, or GINRS_CPU_RESIDENT lower",
                                grid.launch.describe()
                            ),
                        );
                        return None;
                    }
                }
                _ => since = Some((Instant::now(), ended)),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
