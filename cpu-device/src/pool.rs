//! The block threads of a device: which block runs next, and on how many OS threads.
//!
//! A grid begins on as many threads as the machine has cores. A block that gives its core away asks for one more while
//! blocks are left, up to the resident limit: so kernels that never wait (262,144 blocks that initialise memory) stay on a
//! few threads, and blocks that wait for each other all come to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::block::Block;
use crate::config::{MAX_LIVE_THREADS, config};
use crate::device::Device;
use crate::error::{Code, report};
use crate::grid::Grid;
use crate::pace::cores;

/// Stack of a block thread: the scheduler, progress steps, and the static `__shared__` variables, which glibc cuts off it.
const WORKER_STACK: usize = 8 << 20;

/// Block threads of the process that have a block.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// How many block threads of the process have a block.
pub fn busy() -> u32 {
    BUSY.load(Ordering::Relaxed)
}

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

/// What a worker does next.
struct Job {
    grid: Arc<Grid>,
    /// A cooperative grid's block; else the worker claims blocks as long as there are any.
    block: Option<u64>,
}

impl Pool {
    /// Begins a grid.
    pub fn submit(&'static self, device: &'static Device, grid: Arc<Grid>) {
        let wanted = if grid.launch.cooperative { grid.total } else { grid.total.min(u64::from(cores())) };
        let mut state = self.state.lock();
        state.grids.push(Active { grid: grid.clone(), reserved: None });
        let started = self.add(&mut state, device, wanted as u32);
        let lacking = if grid.launch.cooperative { started.is_err() } else { state.workers == 0 };
        if lacking {
            state.grids.retain(|active| !Arc::ptr_eq(&active.grid, &grid));
        }
        drop(state); // a grid that ends submits the next one
        if let (true, Err(error)) = (lacking, started) {
            grid.fail(
                Code::LAUNCH_OUT_OF_RESOURCES,
                &format!(
                    "no more OS threads for the blocks of {}: {error}\nfix: raise ulimit -u, or launch fewer blocks",
                    grid.launch.describe()
                ),
            );
        }
    }

    /// A block of `grid` waits: one more worker, if blocks are left that it may wait for.
    pub fn grow(&'static self, grid: &Grid) {
        if grid.unclaimed() > 0 && !self.full.load(Ordering::Relaxed) {
            // The blocks that run go on without it; the next to wait asks again.
            let _ = self.add(&mut self.state.lock(), grid.device, 1);
        }
    }

    fn add(&'static self, state: &mut State, device: &'static Device, wanted: u32) -> std::io::Result<()> {
        let mut result = Ok(());
        for _ in 0..wanted {
            if state.idle > 0 {
                state.idle -= 1;
                state.tickets += 1;
                self.wake.notify_one();
            } else if state.workers < config().resident {
                let name = format!("ginrs dev{}", device.id);
                let spawned = std::thread::Builder::new()
                    .name(name)
                    .stack_size(WORKER_STACK)
                    .spawn(move || self.work(device));
                match spawned {
                    Ok(_) => state.workers += 1,
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            } else {
                break;
            }
        }
        self.full.store(state.idle == 0 && state.workers >= config().resident, Ordering::Relaxed);
        result
    }

    /// The life of a block thread.
    fn work(&'static self, device: &'static Device) {
        block_signals();
        crate::device::bind_worker(device);
        let block = Block::for_this_thread();
        let mut state = self.state.lock();
        loop {
            let Some(job) = self.pick(&mut state, device) else {
                state.idle += 1;
                self.full.store(false, Ordering::Relaxed);
                while state.tickets == 0 {
                    self.wake.wait(&mut state);
                }
                state.tickets -= 1;
                continue;
            };
            drop(state);
            BUSY.fetch_add(1, Ordering::Relaxed);
            run(block, &job);
            BUSY.fetch_sub(1, Ordering::Relaxed);
            drop(job);
            state = self.state.lock();
            state.busy -= 1;
        }
    }

    fn pick(&'static self, state: &mut State, device: &'static Device) -> Option<Job> {
        let resident = config().resident;
        let mut given_back = 0;
        state.grids.retain(|active| {
            let left = active.grid.unclaimed() > 0;
            given_back += if left { 0 } else { active.reserved.unwrap_or(0) };
            left
        });
        state.busy -= given_back;
        for at in 0..state.grids.len() {
            let grid = state.grids[at].grid.clone();
            if grid.launch.cooperative {
                let blocks = grid.total as u32; // the launch checked that all can be resident
                if state.grids[at].reserved.is_none() && state.busy + blocks <= resident {
                    state.busy += blocks;
                    state.grids[at].reserved = Some(blocks);
                    // Workers, busy ones included, must come to one for each slot; failure was told at submission.
                    let _ = self.add(state, device, blocks - 1);
                }
                let Some(reserved) = state.grids[at].reserved.as_mut().filter(|r| **r > 0) else { continue };
                if let Some(block) = grid.claim() {
                    *reserved -= 1;
                    return Some(Job { grid, block: Some(block) });
                }
            } else if state.busy < resident {
                state.busy += 1;
                return Some(Job { grid, block: None });
            }
        }
        None
    }
}

fn run(block: &Block, job: &Job) {
    let grid = &job.grid;
    let threads = grid.launch.block.count() as u32;
    let one = |index: u64| {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block.run(grid, index)));
        if ended.is_err() {
            grid.fail(Code::UNKNOWN, &format!("internal error: a panic while {} ran", grid.launch.describe()));
            block.end();
        }
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
    grid.block_ended();
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

/// Signals are the host program's: none is to run on a thread of ours.
pub fn block_signals() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
            libc::sigdelset(&mut all, fault);
        }
        if libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut()) != 0 {
            report("signals could not be blocked on a block thread");
        }
    }
}
