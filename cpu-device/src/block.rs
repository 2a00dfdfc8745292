//! One block on its OS thread: starts its CUDA threads as fibers, switches between them, notices when none can go on.
//!
//! A thread that never waits costs no stack of its own: it runs to its end on the stack that the next thread then starts
//! on. Only a thread that gives the core away keeps its stack. Fibers are dropped without unwinding when the kernel
//! fails: destructors of C++ objects on their stacks do not run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

use corosensei::{Coroutine, CoroutineResult};

use crate::barrier::Barrier;
use crate::bell::Posts;
use crate::config::MAX_BLOCK_THREADS;
use crate::error::Code;
use crate::grid::Grid;
use crate::launch::{Dim3, Place};
use crate::mbarrier::Mbarriers;
use crate::pace::{Pace, busy};
use crate::schedule::Schedule;
use crate::stack::{Cache, RedZone, Stack};
use crate::thread::{ThreadView, Variables};
use crate::waits::{Board, code::Running};
use crate::warp::{Warp, bits};

mod foreign;
mod group;
mod shared;
mod shown;
mod slot;
mod told;
mod turns;

pub(crate) use group::threads_of;
use slot::Slot;

/// Why a fiber gave the core away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Its budget was spent.
    Preempted,
    /// It polls a word that has not changed.
    Polling,
    /// It waits for its lanes at an `__activemask()`.
    AtSite,
    /// It is in a rendezvous, which will make it ready.
    Blocked,
    /// It must not run again: the kernel failed.
    Dropped,
}

/// What a CUDA thread is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    NotStarted,
    /// Ready after a rendezvous.
    OnItsWay,
    Gave(Switch),
    Exited,
}

/// How a block's run came to its end.
pub enum Outcome {
    /// All threads have exited, or the kernel has failed.
    Over,
    /// None of its threads can go on.
    Stuck,
}

type Fiber = Coroutine<(), Switch, (), Stack>;

/// Basic blocks a thread runs before the next one gets the core.
const BUDGET: i32 = 2000;
const NOBODY: u32 = u32::MAX;

thread_local! {
    static BLOCK: Cell<*const Block> = const { Cell::new(std::ptr::null()) };
}

/// The block of a block thread: made once per OS thread, begun anew for each block of a grid.
pub struct Block {
    variables: Variables,
    stacks: RefCell<Cache>,
    slots: RefCell<Vec<Slot>>,
    shape: Cell<Dim3>,
    grid: RefCell<Option<Arc<Grid>>>,
    pub(crate) index: Cell<Dim3>,
    current: Cell<u32>,
    pub(crate) live: Cell<u32>,
    pub(crate) blocked: Cell<u32>,
    ready: RefCell<VecDeque<u32>>,
    schedule: RefCell<Option<Schedule>>,
    pub(crate) barriers: RefCell<[Barrier; 16]>,
    pub(crate) warps: RefCell<Vec<Warp>>,
    pub(crate) mbarriers: RefCell<Mbarriers>,
    pub(crate) grid_waiters: RefCell<Vec<u32>>,
    pub(crate) generation: Cell<Option<u32>>,
    /// Threads are having their first turn, which ends at the first rendezvous.
    pub(crate) starting: Cell<bool>,
    shared: Cell<*mut c_void>,
    shared_bytes: Cell<usize>,
    pace: Pace,
    pub(crate) board: &'static Board,
    pub(crate) posts: Posts,
    shown: shown::Shown,
}

/// The block whose CUDA thread calls, or None on a host thread (and in the scheduler itself).
#[inline]
pub fn current() -> Option<&'static Block> {
    let block = BLOCK.get();
    if block.is_null() {
        return None;
    }
    // SAFETY: `Block::for_this_thread` leaked it on this OS thread, and only this thread uses it.
    let block = unsafe { &*block };
    (block.current.get() != NOBODY).then_some(block)
}

impl Block {
    /// Makes the block of this OS thread.
    pub fn for_this_thread() -> &'static Block {
        let block = Box::leak(Box::new(Block {
            variables: Variables::of_this_thread(),
            stacks: RefCell::default(),
            slots: RefCell::default(),
            shape: Cell::default(),
            grid: RefCell::default(),
            index: Cell::default(),
            current: Cell::new(NOBODY),
            live: Cell::new(0),
            blocked: Cell::new(0),
            ready: RefCell::default(),
            schedule: RefCell::default(),
            barriers: RefCell::default(),
            warps: RefCell::default(),
            mbarriers: RefCell::default(),
            grid_waiters: RefCell::default(),
            generation: Cell::new(None),
            starting: Cell::new(false),
            shared: Cell::new(std::ptr::null_mut()),
            shared_bytes: Cell::new(0),
            pace: Pace::default(),
            board: Board::hang_up(),
            posts: Posts::default(),
            shown: shown::Shown::of_this_thread(),
        }));
        shown::show(block);
        BLOCK.set(block);
        block
    }

    /// Runs block number `index` of `grid` until it is over or stuck, or the grid fails; [`Block::end`] has to follow.
    /// `recruit` asks for up to so many more blocks of the grid to be begun, and says whether there is room for them.
    pub fn run(&self, grid: &Arc<Grid>, index: u64, recruit: &dyn Fn(u64) -> bool) -> Outcome {
        self.begin(grid, index);
        let threads = self.live.get();
        self.draw(grid, index);
        self.first_turns(grid);
        self.starting.set(false);
        self.leave();
        grid.start_together(u64::from(threads), self.live.get() > 0, recruit);
        self.schedule(grid, recruit)
    }

    fn begin(&self, grid: &Arc<Grid>, index: u64) {
        let launch = &grid.launch;
        let threads = launch.block.count() as u32;
        debug_assert!((1..=MAX_BLOCK_THREADS).contains(&threads));
        self.index.set(launch.grid.at(index));
        self.variables.enter_block(self.index.get(), launch.block, launch.grid);
        let same_grid = self.grid.borrow().as_ref().is_some_and(|last| Arc::ptr_eq(last, grid));
        if !same_grid {
            self.shape_slots(grid, threads);
            *self.grid.borrow_mut() = Some(grid.clone());
        }
        for slot in self.slots.borrow().iter().take(threads as usize) {
            slot.state.set(State::NotStarted);
        }
        for (warp, lanes) in self.warps.borrow_mut().iter_mut().zip((0..threads).step_by(32)) {
            warp.reset(threads - lanes);
        }
        self.mbarriers.borrow_mut().reset();
        self.bound_shared(launch.shared_bytes);
        self.live.set(threads);
        self.starting.set(true);
        self.pace.reset();
        self.board.begin(Running { launch: launch.clone(), block: self.index.get(), device: grid.device.id });
        crate::race::begin(grid.race, self.index.get(), launch.block, launch.shared_bytes);
    }

    /// Writes what is the same for all blocks of a grid.
    fn shape_slots(&self, grid: &Grid, threads: u32) {
        let launch = &grid.launch;
        let mut slots = self.slots.borrow_mut();
        while slots.len() < threads as usize {
            slots.push(Slot::new(launch, grid.device.id));
        }
        for (linear, slot) in (0..threads).zip(slots.iter_mut()) {
            *slot.view.get_mut() = ThreadView::of(launch, linear, grid.device.id);
        }
        self.warps.borrow_mut().resize_with(threads.div_ceil(32) as usize, Warp::default);
        self.shape.set(launch.block);
        self.shown.takes(grid, &slots);
    }

    /// Leaves nothing of the block behind: fibers still there are dropped, their stacks reused.
    pub fn end(&self) {
        self.leave();
        self.with_grid(|grid| self.posts.ring(&grid.device.bell));
        crate::race::end();
        crate::sessions::forget(self.who());
        self.board.end();
        self.pace.reset();
        if self.live.get() > 0 {
            let mut stacks = self.stacks.borrow_mut();
            for slot in self.slots.borrow().iter() {
                if let Some(mut fiber) = slot.fiber.take() {
                    slot.wait.take();
                    // SAFETY: a failed kernel's frames are C++ (or the trap and barrier functions of ours, which own
                    // nothing); the contract is that their destructors do not run.
                    let zone = unsafe {
                        fiber.force_reset();
                        slot.limit.get().red_zone()
                    };
                    stacks.put(fiber.into_stack(), zone);
                }
            }
            self.ready.borrow_mut().clear();
            self.barriers.borrow_mut().iter_mut().for_each(Barrier::reset);
            self.live.set(0);
        }
        self.grid_waiters.borrow_mut().clear();
        self.generation.set(None);
        self.blocked.set(0);
        self.stacks.borrow_mut().trim();
    }

    /// Forgets the grid, so that its last run can end.
    pub fn forget(&self) {
        *self.grid.borrow_mut() = None;
    }

    fn start(&self, thread: u32) {
        let stack = match self.stacks.borrow_mut().take() {
            Ok(stack) => stack,
            Err(code) => return self.with_grid(|grid| grid.fail(code, &format!("{} failed", grid.launch.describe()))),
        };
        let (invoke, packed) = self.with_grid(|grid| (grid.launch.invoke, grid.launch.packed.data()));
        let yielder = {
            let slots = self.slots.borrow();
            let slot = &slots[thread as usize];
            // SAFETY: the thread has not started, so nothing reads its view.
            unsafe {
                (*slot.view.get()).block = self.index.get();
                (*slot.view.get()).call = std::ptr::null();
            }
            slot.limit.set(stack.limit());
            &raw const slot.yielder
        };
        let fiber = Fiber::with_stack(stack, move |me, ()| {
            // SAFETY: slots are not moved while a block runs (`shape_slots` is the only one to add any); invoke and packed
            // come together from the launch, which the grid keeps.
            unsafe {
                (*yielder).set(me);
                invoke(packed);
            }
        });
        self.resume(thread, fiber);
    }

    fn resume(&self, thread: u32, mut fiber: Fiber) {
        let (view, limit) = {
            let slots = self.slots.borrow();
            (slots[thread as usize].view.get(), slots[thread as usize].limit.get())
        };
        self.current.set(thread);
        let budget = self.budget(thread);
        // SAFETY: views are not moved while a block runs.
        unsafe { self.variables.enter_thread(view, budget, limit.end()) };
        crate::race::enter(thread, || limit.stack());
        let result = fiber.resume(());
        self.current.set(NOBODY);
        // SAFETY: the fiber is suspended or over, so nobody is on its stack.
        let zone = unsafe { limit.red_zone() };
        if zone != RedZone::Clean {
            self.overflow(thread, zone);
        }
        match result {
            CoroutineResult::Return(()) => {
                self.stacks.borrow_mut().put(fiber.into_stack(), zone);
                self.exited(thread);
            }
            CoroutineResult::Yield(switch) => {
                let slots = self.slots.borrow();
                let slot = &slots[thread as usize];
                slot.fiber.set(Some(fiber));
                slot.state.set(State::Gave(switch));
                match switch {
                    Switch::Polling => {
                        let spent = budget - self.variables.budget();
                        let did_more = slot.spent.replace(spent) != spent;
                        // A wait that lasts looks at more now and then, and does nothing else.
                        self.pace.polled(did_more && !slot.wait.get().lasts());
                    }
                    Switch::Preempted => self.pace.preempted(),
                    Switch::AtSite => self.pace.moved(),
                    Switch::Blocked => self.blocked.set(self.blocked.get() + 1),
                    Switch::Dropped => {}
                }
                if matches!(switch, Switch::Preempted | Switch::AtSite) {
                    self.with_grid(|grid| self.posts.ring(&grid.device.bell));
                }
                if matches!(switch, Switch::Polling | Switch::Preempted | Switch::AtSite) {
                    self.ready.borrow_mut().push_back(thread);
                }
            }
        }
    }

    fn schedule(&self, grid: &Grid, recruit: &dyn Fn(u64) -> bool) -> Outcome {
        while self.live.get() > 0 && !grid.failed() {
            if let Some(thread) = self.next() {
                let fiber = self.slots.borrow()[thread as usize].fiber.take().expect("a ready thread has a fiber");
                self.resume(thread, fiber);
                if self.pace.is_round_over(self.ready.borrow().len() as u32) {
                    self.rest(grid, recruit);
                }
            } else if let Some(generation) = self.generation.get() {
                if grid.passed(generation) {
                    self.leave_grid_sync();
                } else {
                    self.pace.polled(false);
                    self.rest(grid, recruit);
                }
            } else if self.expire_mbarrier_waits(true) {
                self.pace.polled(false);
                self.rest(grid, recruit);
            } else {
                return Outcome::Stuck;
            }
        }
        Outcome::Over
    }

    /// All threads of the block have had a turn: the device's progress steps and the other OS threads get one.
    fn rest(&self, grid: &Grid, recruit: &dyn Fn(u64) -> bool) {
        self.leave();
        crate::race::print();
        self.expire_mbarrier_waits(false);
        if self.is_whole_round() {
            self.board.rest(|waits| self.only_waits(grid, waits));
        }
        if !recruit(1) {
            grid.note_stall();
        }
        if grid.device.run_progress() {
            self.pace.moved();
            grid.device.naps.ring();
        }
        self.pace.rest(busy(), &grid.device.naps, || self.posts.ring(&grid.device.bell));
        self.pause();
    }

    /// Lets waits for mbarriers say "not yet"; false: none of them has had a reason to go on for long.
    fn expire_mbarrier_waits(&self, none_ready: bool) -> bool {
        let expired = self.mbarriers.borrow_mut().expire(none_ready, self.live.get());
        expired.map(|threads| self.make_ready(threads.into_iter())).is_some()
    }

    /// What runs next on this OS thread is no CUDA thread.
    fn leave(&self) {
        self.variables.leave();
        self.current.set(NOBODY);
    }

    fn exited(&self, thread: u32) {
        self.slots.borrow()[thread as usize].state.set(State::Exited);
        self.live.set(self.live.get() - 1);
        self.pace.moved();
        let woken = self.warps.borrow_mut()[thread as usize / 32].exit(thread % 32);
        self.check_warp(thread / 32, woken);
        crate::race::lanes_meet(thread / 32 * 32, woken);
        self.wake(bits(woken).map(|lane| thread / 32 * 32 + lane as u32));
        if self.blocked.get() > 0 {
            self.thread_left();
        }
    }

    pub(crate) fn with_grid<R>(&self, use_it: impl FnOnce(&Grid) -> R) -> R {
        use_it(self.grid.borrow().as_ref().expect("a block that runs has a grid"))
    }

    /// The thread that runs now.
    pub(crate) fn thread(&self) -> u32 {
        self.current.get()
    }

    pub(crate) fn state(&self, thread: u32) -> State {
        self.slots.borrow()[thread as usize].state.get()
    }

    pub(crate) fn place(&self, thread: u32) -> Place {
        self.slots.borrow()[thread as usize].place.get()
    }

    pub(crate) fn threads(&self) -> u32 {
        self.shape.get().count() as u32
    }

    /// Makes blocked threads ready: what they waited for has come.
    pub(crate) fn wake(&self, threads: impl Iterator<Item = u32>) {
        self.make_ready(threads.inspect(|_| self.pace.moved()));
    }

    /// Makes blocked threads ready.
    pub(crate) fn make_ready(&self, threads: impl Iterator<Item = u32>) {
        self.board.woken();
        let (mut ready, slots) = (self.ready.borrow_mut(), self.slots.borrow());
        for thread in threads {
            slots[thread as usize].state.set(State::OnItsWay);
            self.blocked.set(self.blocked.get() - 1);
            ready.push_back(thread);
        }
    }

    /// Gives the core away from a CUDA thread.
    #[inline]
    pub fn suspend(&self, switch: Switch) {
        let yielder = self.slots.borrow()[self.current.get() as usize].yielder.get();
        // SAFETY: the fiber that runs set it when it started, and it lies on that fiber's stack.
        unsafe { (*yielder).suspend(switch) }
    }

    /// Waits in a rendezvous until `wake` names this thread.
    pub(crate) fn block_at(&self, place: Place) {
        self.slots.borrow()[self.current.get() as usize].place.set(place);
        self.foreign_wait_is(None);
        self.suspend(Switch::Blocked);
    }

    /// Fails the kernel from a CUDA thread, which never runs again.
    pub fn fatal(&self, code: Code, message: &str) -> ! {
        self.with_grid(|grid| grid.fail(code, &format!("{message}\n  {}", self.describe(self.thread(), grid))));
        loop {
            self.suspend(Switch::Dropped);
        }
    }
}
