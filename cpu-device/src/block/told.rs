//! What a block can say of its threads: where they are, and whether they only wait.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::{Block, Switch};
use crate::error::report;
use crate::grid::Grid;
use crate::launch::Dim3;
use crate::sessions::{self, Who};
use crate::timeline::Where;
use crate::waits::{Call, Wait};

impl Block {
    /// The thread that runs now, if it is none of the scheduler's own steps.
    pub(crate) fn awake(&self) -> Option<u32> {
        Some(self.current.get()).filter(|thread| *thread != super::NOBODY)
    }

    /// threadIdx of thread number `thread`.
    pub(crate) fn place_of(&self, thread: u32) -> Dim3 {
        self.shape.get().at(u64::from(thread))
    }

    /// Which block it is.
    pub(super) fn who(&self) -> Who {
        Who { grid: self.with_grid(|grid| grid.number), block: self.index.get() }
    }

    /// The running thread's group begins a session of what is known by `word`.
    pub fn session_begins(&self, word: usize) {
        // SAFETY: the running thread's calls stand on its stack.
        let told = unsafe { sessions::begin(word, self.who(), self.place_of(self.thread()), self.call()) };
        told.inspect(|what| self.refused(what));
    }

    /// It ends it.
    pub fn session_ends(&self, word: usize) {
        sessions::end(word, self.who());
    }

    /// The innermost call of the device API that the running thread is in.
    pub(crate) fn call(&self) -> *const Call {
        // SAFETY: the running thread's view, which no other thread touches.
        unsafe { (*self.variables.current()).call }
    }

    /// ` | called at halo.cu:41`, if the running thread is in a call of the device API.
    pub fn called_at(&self) -> String {
        // SAFETY: the running thread's calls stand on its stack.
        let call = unsafe { Call::outermost(self.call()) };
        call.map_or(String::new(), |call| format!(" | called at {}", call.place()))
    }

    /// A call of the running thread's named what there is not. Of each kernel the first is printed: what follows is often the same.
    pub fn refused(&self, what: &str) {
        self.with_grid(|grid| {
            if !grid.refused.swap(true, Ordering::Relaxed) {
                report(&format!("refused: {what}{}\n  {}", self.called_at(), self.describe(self.thread(), grid)));
            }
        });
    }

    /// The running thread waits for a word of the device headers.
    ///
    /// # Safety
    /// The wait's word is valid until the wait ends.
    pub unsafe fn note_wait(&self, wait: Wait) {
        let thread = self.thread();
        self.slots.borrow()[thread as usize].wait.set(wait);
        let launch = self.with_grid(|grid| grid.launch.clone());
        // SAFETY: the caller's; the thread's calls stand on its stack, where it runs now.
        unsafe { self.board.waits(thread, self.place_of(thread), self.index.get(), launch, self.call(), wait) };
    }

    /// The running thread reads a signal or counter by itself, in the call that it makes, and finds `value`.
    pub fn polled(&self, owner: *const c_void, value: u64) {
        // SAFETY: the thread's calls stand on its stack, where it runs now.
        let Some(calls) = (unsafe { Call::ends(self.call()) }) else { return };
        let thread = self.thread();
        let who = || (self.index.get(), self.place_of(thread), self.with_grid(|grid| grid.launch.clone()));
        self.board.polls.read(thread, calls, owner, value, who);
    }

    /// The running thread gives the core away in code of its own, behind that address if it is known.
    pub fn turn_spent(&self, behind: usize) {
        self.board.code.took_a_turn(behind);
        self.suspend(Switch::Preempted);
    }

    /// The running thread polls, and found nothing: in a wait of the device headers, or by itself.
    pub fn found_nothing(&self) {
        if self.call().is_null() {
            self.board.code.took_a_turn(0);
        }
        self.suspend(Switch::Polling);
    }

    /// That wait is over.
    pub fn wait_ended(&self) {
        let thread = self.thread();
        self.slots.borrow()[thread as usize].wait.take();
        self.board.over(thread);
    }

    /// Which of its threads runs, for the timeline.
    pub fn running(&self) -> (Where, *const Call) {
        let (grid, extents) = self.with_grid(|grid| (grid.number, grid.launch.grid));
        let [x, y, z] = [self.index.get().x, self.index.get().y, self.index.get().z].map(u64::from);
        let block = (z * u64::from(extents.y) + y) * u64::from(extents.x) + x;
        (Where { grid, thread: self.thread(), block }, self.call())
    }

    /// Whether nothing but the end of one of `waits` recorded waits makes any of its threads go on.
    pub(super) fn only_waits(&self, grid: &Grid, waits: u32) -> bool {
        self.live.get() == self.blocked.get() + waits && grid.unclaimed() == 0 && !self.mbarriers.borrow().may_expire()
    }

    /// Whether the running thread has used up its stack, if it faults at `address`. Called by signal handlers.
    pub(crate) fn has_overflowed(&self, address: usize) -> bool {
        let limit = self.slots.try_borrow().ok().and_then(|slots| slots.get(self.thread() as usize).map(|slot| slot.limit.get()));
        self.variables.stack_was_crossed() || limit.is_some_and(|limit| limit.is_below(address))
    }

    /// Says which CUDA thread runs, and ends the line. Called by signal handlers.
    pub fn describe_thread(&self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        let thread = self.place_of(self.thread());
        // A fault inside of the scheduler may have the grid borrowed for writing.
        let grid = self.grid.try_borrow().ok();
        let Some(grid) = grid.as_ref().and_then(|grid| grid.as_ref()) else { return writeln!(out, "the scheduler") };
        writeln!(
            out,
            "thread {thread} of block {} of kernel {} (launched at {}), device {}",
            self.index.get(),
            grid.launch.name,
            grid.launch.place,
            grid.device.id
        )
    }

    /// An address in the code of its kernel. Called by signal handlers.
    pub fn kernel_code(&self) -> Option<usize> {
        self.grid.try_borrow().ok()?.as_ref().map(|grid| grid.launch.invoke as usize)
    }

    /// Which thread that is, of which block and kernel.
    pub(crate) fn describe(&self, thread: u32, grid: &Grid) -> String {
        let thread = self.place_of(thread);
        format!("thread {thread} of block {} of {}", self.index.get(), grid.launch.describe())
    }
}
