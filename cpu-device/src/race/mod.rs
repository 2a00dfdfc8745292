//! A happens-before race detector over kernels and puts: `ginrs-cc --check=race` (docs/user/races.md).
//!
//! A runtime of ours behind the compiler's hooks for ThreadSanitizer (shim/race.c), and no libtsan: that one has 8192 threads, of
//! which fibers of two blocks take all, watches the library's own threads, too, and knows no thread that reads memory between a put
//! and its flush. Here
//! - [`clock`] is what a thread knows to have happened: blocks, not threads, so that large grids fit;
//! - [`shadow`] keeps the last accesses to each eight bytes, and finds those without order;
//! - [`words`] hands clocks over with atomics, signals, counters, mbarriers;
//! - [`puts`] makes each put a thread of its own, [`copies`] each copy of the CUDA API a grid, [`collectives`] each collective; [`names`] and [`report`] say it in words of
//!   the program;
//! - [`unwritten`] finds reads of what nobody has written, [`wrong`] says what else one access does wrong by itself;
//! - [`frames`] finds the user's line where no hook tells it.
//!
//! Ranks that are processes of one machine are a [`job`]: shadow and words of memory that they share, signals, and what had ended when a grid
//! began stand in an [`arena`] of theirs, all else in the process.
//!
//! What counts as order. Barriers, warp syncs and shuffles, grid syncs, mbarriers; atomics of the program by their orders, where a
//! relaxed or volatile store hands over what a fence before it has released; the signal, counter or flush of a put. A grid knows all
//! that ended before it began, so streams, events and whatever the host does between launches is order; host code is not watched.
//! Where the rules leave a doubt more is taken for ordered: a race may be missed, none is invented.

mod access;
mod accesses;
mod arena;
mod atomics;
mod clock;
pub mod collectives;
mod copies;
mod family;
mod foreign;
mod frames;
mod globals;
mod handed;
mod heap;
mod job;
mod known;
mod lines;
mod meetings;
mod names;
mod narrow;
mod own;
mod pinned;
mod places;
mod puts;
mod quick;
mod raised;
mod relaxed;
mod report;
mod shadow;
mod sides;
mod touched;
mod unwritten;
mod whereabouts;
mod windows;
mod words;
mod wrong;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use accesses::{CACHED, Cached, SITES};
use clock::{Clock, Group};
pub use copies::{Called, Rows, copy};
pub use frames::{called_at, caller, interrupted_at};
pub use lines::users_line;
pub use meetings::{arrive, arrive_at, barrier_ends, block_arrives, block_leaves, lanes_meet, waited_at};
pub use names::{end_run, new_run};
pub use pinned::host_function;
pub use report::print;
pub use shadow::PAGE;
use shadow::{Page, Shadow};
pub use sides::launches;
pub use windows::add_variable;
use windows::flat;

use crate::launch::Dim3;
use crate::once::OnceLock;

/// A program that was compiled for it is in the process, and all of its ranks are.
static ON: AtomicBool = AtomicBool::new(false);
/// Waits have ended without what they waited for: nothing that comes behind them has an order.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Something is done where it is not seen, so nothing is said any more.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// An object with CUDA code was not compiled for it.
static UNWATCHED: AtomicBool = AtomicBool::new(false);
static SHADOW: OnceLock<Shadow> = OnceLock::new();

/// Whether anything is watched: asked at each switch and rendezvous.
#[inline]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// An object that was compiled for it has been loaded.
fn begin_watching() {
    if UNWATCHED.load(Ordering::Relaxed) {
        refuse(MIXTURE);
    } else if !REFUSED.load(Ordering::Relaxed) {
        report::tell_at_exit();
        ON.store(true, Ordering::Relaxed);
        crate::memory::watch(crate::memory::Watcher {
            changed: windows::forget,
            fill: unwritten::fill,
            called_at,
            line: users_line,
        });
    }
}

/// A communicator was aborted: races are no longer looked for. Those that were found are told.
pub fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

fn refuse(why: &str) {
    ON.store(false, Ordering::Relaxed);
    job::give_up();
    if !REFUSED.swap(true, Ordering::Relaxed) {
        crate::error::report(&format!("race: nothing is checked: {why} (docs/user/races.md)"));
    }
}

const FAR: &str = "a communicator has ranks on other machines, whose accesses are not seen\n\
                   fix: run its ranks on one machine";
const MIXTURE: &str = "a .cu file of this process was compiled without --check=race: what its functions do and order is not seen\n\
                       fix: compile all of them with ginrs-cc --check=race";

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_told(what: i32, rank: i32) {
    match what {
        1 if on() => refuse(FAR),
        5 => job::stay_apart(),
        2 if on() => puts::settle(rank),
        4 if on() => {
            puts::settle(rank);
            words::mix();
        }
        3 => {
            UNWATCHED.store(true, Ordering::Relaxed);
            if on() {
                refuse(MIXTURE);
            }
        }
        _ => {}
    }
}

/// One CUDA thread.
struct Actor {
    clock: Arc<Clock>,
    epoch: u32,
    /// What its last fence released.
    fenced: Option<Arc<Clock>>,
    /// The same of block scope; and whether its next access or fence is.
    fenced_block: Option<Arc<Clock>>,
    is_narrow: bool,
    /// What it will know behind a fence: waits of relaxed order have seen it.
    pending: Option<Arc<Clock>>,
    /// Its next put or wait is of relaxed order.
    is_relaxed: bool,
    /// What it has learned last from a word, which polls find again and again.
    learned: Option<Arc<Clock>>,
    /// The same of all words, at a value that nobody who is watched has written.
    foreign: Option<Arc<Clock>>,
    /// It makes its own copy of the kernel's arguments.
    is_copying: bool,
    /// Its last volatile access, which the compiler announces before it is made.
    announced: Option<atomics::Announced>,
}

/// The block that runs on an OS thread.
struct Worker {
    run: u32,
    group: Group,
    actors: Vec<Actor>,
    current: u16,
    stack: (usize, usize),
    /// What has arrived at each counted barrier.
    barriers: [relaxed::Brought; 16],
    parts: own::Parts,
    /// Dynamic shared memory of this OS thread, and how much of it the launch has asked for.
    dynamic: Vec<own::Part>,
    asked: usize,
    /// Pages of shared memory: dropped with the block.
    own: HashMap<usize, Arc<Page>>,
    cache: Box<[Option<Cached>]>,
    generation: u32,
    /// What the block would know if scopes were wider, and orders stronger.
    weakly: relaxed::Weakly,
    /// Other processes may read of the block, and of these lines.
    is_told: bool,
    sites: [u64; SITES],
}

thread_local! {
    static WORKER: Cell<*mut Worker> = const { Cell::new(std::ptr::null_mut()) };
}

/// That of the calling OS thread, while a block runs on it.
fn worker() -> Option<&'static mut Worker> {
    // SAFETY: made by `begin` on this OS thread, for ever. Only functions of this module use it, none calls another that does while it
    // holds it, and none gives the core away.
    unsafe { WORKER.get().as_mut() }.filter(|_| on())
}

/// A block begins on this OS thread, with so many bytes of dynamic shared memory.
pub fn begin(run: u32, index: Dim3, shape: Dim3, shared_bytes: u32) {
    if run == 0 {
        return;
    }
    if WORKER.get().is_null() {
        WORKER.set(Box::into_raw(Box::new(Worker {
            run: 0,
            group: 0,
            actors: Vec::new(),
            current: 0,
            stack: (0, 0),
            barriers: Default::default(),
            parts: own::Parts::default(),
            dynamic: Vec::new(),
            asked: 0,
            own: HashMap::new(),
            cache: (0..CACHED).map(|_| None).collect(),
            generation: 0,
            weakly: relaxed::Weakly::default(),
            is_told: false,
            sites: [0; SITES],
        })));
    }
    let Some(worker) = worker() else { return };
    let clock = &names::run(run).began;
    (worker.run, worker.group) = (run, names::new_groups(&[names::Of::Block { run, index, shape }]));
    (worker.is_told, worker.weakly, worker.asked) = (false, relaxed::Weakly::default(), shared_bytes as usize);
    worker.actors.clear();
    worker.actors.resize_with(shape.count() as usize, || Actor {
        clock: clock.clone(),
        epoch: 1,
        // What had ended before is there for all.
        fenced: Some(clock.clone()),
        fenced_block: None,
        pending: None,
        is_relaxed: false,
        is_narrow: false,
        is_copying: false,
        learned: None,
        foreign: None,
        announced: None,
    });
    worker.barriers = Default::default();
    worker.own.clear();
    worker.parts.look();
    worker.cache.fill_with(|| None);
}

/// It has ended on this OS thread. What was found is told.
pub fn end() {
    print();
    let Some(worker) = worker().filter(|worker| !worker.actors.is_empty()) else { return };
    worker.meet(0..worker.actors.len() as u32, true);
    worker.settle(0);
    names::run(worker.run).left.lock().join(&worker.actors[0].clock);
    worker.actors.clear();
    narrow::end(worker.group);
}

/// Thread `thread` goes on, on a stack of its own between these addresses.
#[inline]
pub fn enter(thread: u32, stack: impl Fn() -> (usize, usize)) {
    if let Some(worker) = worker() {
        (worker.current, worker.stack) = (thread as u16, stack());
    }
}

/// Memory that the block on this OS thread has for itself.
pub fn add_shared(at: usize, bytes: usize) {
    if let Some(worker) = worker() {
        worker.dynamic.push((at, at + bytes));
        worker.cache.fill_with(|| None);
    }
}

/// Whether an address is among the static shared variables of the block on this OS thread.
pub fn is_static_shared(at: usize) -> bool {
    let mut parts = own::Parts::default();
    parts.look();
    parts.shared.iter().any(|part| (part.0..part.1).contains(&at))
}

fn all() -> &'static Shadow {
    SHADOW.get_or_init(Shadow::new)
}

/// What is known of the page around an address, and that address as it is known there.
fn page_of(at: usize) -> (Arc<Page>, usize) {
    let (page, at) = match Page::shared(at, true) {
        Some(Some(page)) => (Arc::new(page), at),
        _ => (all().page(flat(at)), flat(at)),
    };
    collectives::meet(&page, at);
    (page, at)
}

/// The same of a page that somebody has touched.
fn known_page_of(at: usize) -> Option<(Arc<Page>, usize)> {
    if let Some(page) = Page::shared(at, false) {
        return page.map(|page| (Arc::new(page), at));
    }
    let at = flat(at);
    all().known_page(at).map(|page| (page, at))
}

impl Worker {
    fn device(&self) -> i32 {
        names::run(self.run).device
    }

    fn actor(&mut self) -> &mut Actor {
        &mut self.actors[self.current as usize]
    }

    /// All that the running thread knows and has done; what it does from here on is not in it.
    fn release(&mut self) -> Clock {
        self.catch_up(self.current);
        let (group, thread) = (self.group, self.current);
        let actor = self.actor();
        let mut clock = (*actor.clock).clone();
        clock.learn(group, thread, actor.epoch);
        actor.epoch += 1;
        clock
    }

    fn learn(&mut self, clock: &Clock) {
        Arc::make_mut(&mut self.actor().clock).join(clock);
    }

    /// These threads know of each other from here on; of the whole block if `all` of it is here.
    fn meet(&mut self, threads: impl Iterator<Item = u32> + Clone, all: bool) {
        let mut threads_left = threads.clone();
        let Some(first) = threads_left.next() else { return };
        threads.clone().for_each(|thread| self.catch_up(thread as u16));
        let group = self.group;
        let mut joined = (*self.actors[first as usize].clock).clone();
        let mut last = self.actors[first as usize].clock.clone();
        let mut most = 0;
        for thread in threads.clone() {
            let actor = &self.actors[thread as usize];
            if !Arc::ptr_eq(&actor.clock, &last) {
                last = actor.clock.clone();
                joined.join(&last);
            }
            most = most.max(actor.epoch);
            if !all {
                joined.learn(group, thread as u16, actor.epoch);
            }
        }
        if all {
            joined.learn_all(group, most);
        }
        let joined = Arc::new(joined);
        let brought = self.bring(threads.clone());
        for thread in threads {
            let actor = &mut self.actors[thread as usize];
            actor.clock = joined.clone();
            actor.bring(&brought);
            actor.epoch = if all { most + 1 } else { actor.epoch + 1 };
        }
    }
}
