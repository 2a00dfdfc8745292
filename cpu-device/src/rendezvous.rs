//! Waiting for other threads: barriers, warps, `__activemask()`, grid sync. Runs on CUDA threads.

use crate::barrier::Reduce;
use crate::block::{Block, State, Switch};
use crate::error::Code;
use crate::launch::Place;
use crate::race;
use crate::warp::{Purpose, bits};

impl Block {
    /// Waits at barrier `id` until `count` threads have arrived; 0: all that have not exited.
    pub fn barrier(&self, id: u32, count: u32, predicate: bool, place: Place) {
        self.arrive(id, count, predicate, place);
        let me = self.thread();
        let complete = {
            let mut barriers = self.barriers.borrow_mut();
            let barrier = &mut barriers[id as usize];
            let complete = barrier.complete(self.live.get());
            if !complete {
                barrier.waiters.push(me);
            }
            complete
        };
        if complete {
            self.check_barrier(id as usize, Some(place));
            self.end_barrier(id as usize);
            self.end_turn();
        } else {
            self.block_at(place);
        }
    }

    /// A first turn ends at the first rendezvous, also for the thread that completes it (start.rs); with a seed, others may.
    fn end_turn(&self) {
        if self.starting.get() || self.lets_others_go_first() {
            self.suspend(Switch::Preempted);
        }
    }

    /// Counts at barrier `id` without waiting.
    pub fn barrier_arrive(&self, id: u32, count: u32, place: Place) {
        if count == 0 {
            self.fatal(
                Code::LAUNCH_FAILURE,
                &format!("{} at {} has count 0\nfix: bar.arrive needs the number of threads", place.what(), place.line()),
            );
        }
        self.arrive(id, count, false, place);
        if self.barriers.borrow()[id as usize].complete(self.live.get()) {
            self.end_barrier(id as usize);
        }
    }

    /// Waits at barrier 0 for the whole block; what all predicates come to.
    pub fn barrier_reduce(&self, predicate: bool, op: Reduce, place: Place) -> i32 {
        self.barrier(0, 0, predicate, place);
        self.barriers.borrow()[0].reduced(op)
    }

    fn arrive(&self, id: u32, count: u32, predicate: bool, place: Place) {
        let mut barriers = self.barriers.borrow_mut();
        let wrong = match barriers.get_mut(id as usize) {
            None => Some(format!("there is no barrier {id}\nfix: use 0 to 15")),
            Some(_) if count > self.threads() => {
                Some(format!("it counts to {count} in a block of {}\nfix: count only threads that exist", self.threads()))
            }
            Some(barrier) if !barrier.takes(count) => Some(format!(
                "barrier {id} is counting to {} (0: the whole block), this thread says {count}\nfix: give all its threads the same count",
                barrier.count
            )),
            Some(barrier) => {
                barrier.arrive(count, predicate);
                if count != 0 {
                    race::arrive(id as usize);
                }
                None
            }
        };
        drop(barriers);
        if let Some(wrong) = wrong {
            self.fatal(Code::LAUNCH_FAILURE, &format!("{} at {}: {wrong}", place.what(), place.line()));
        }
    }

    fn end_barrier(&self, id: usize) {
        let mut woken = Vec::new();
        let whole = self.barriers.borrow()[id].count == 0;
        self.barriers.borrow_mut()[id].end(&mut woken);
        race::barrier_ends(id, whole, &woken, self.awake());
        self.wake(woken.iter().copied());
        woken.clear();
        // The vector goes back: a barrier of 1024 threads allocates once per block thread.
        self.barriers.borrow_mut()[id].waiters = woken;
    }

    /// A thread exited: what waited for it may be complete.
    pub(crate) fn thread_left(&self) {
        let live = self.live.get();
        for id in 0..16 {
            let complete = {
                let barrier = &self.barriers.borrow()[id];
                barrier.count == 0 && barrier.complete(live)
            };
            if complete {
                self.check_barrier(id, None);
                self.end_barrier(id);
            }
        }
        self.arrive_at_grid_sync();
    }

    /// Meets the lanes of `mask`: gives `value`, gets everybody's in `out` (32 values, or NULL). Returns who gave one.
    ///
    /// # Safety
    /// `out` is NULL or takes 32 values.
    pub unsafe fn warp_meet(&self, mask: u32, purpose: Purpose, value: u64, out: *mut u64, place: Place) -> u32 {
        let (warp, lane) = (self.thread() / 32, self.thread() % 32);
        if mask & (1 << lane) == 0 {
            self.fatal(
                Code::LAUNCH_FAILURE,
                &format!(
                    "{} at {}: mask {mask:#010x} lacks the calling lane {lane}\nfix: a lane names itself in the mask",
                    place.what(),
                    place.line()
                ),
            );
        }
        // SAFETY: out stays valid until this thread goes on, which it does only when woken.
        let woken = unsafe { self.warps.borrow_mut()[warp as usize].arrive(lane, mask, purpose, value, out) };
        match woken {
            Some(lanes) => {
                if purpose == Purpose::Sync {
                    self.check_sync(lanes | 1 << lane, mask, place);
                }
                race::lanes_meet(warp * 32, lanes | 1 << lane);
                self.wake(bits(lanes).map(|lane| warp * 32 + lane as u32));
                self.end_turn();
            }
            None => self.block_at(place),
        }
        self.warps.borrow()[warp as usize].given(lane)
    }

    /// `__activemask()`: the lanes that have come to this line when each other lane is blocked, polls or has exited.
    pub fn active_mask(&self, place: Place) -> u32 {
        let (warp, lane) = (self.thread() / 32, self.thread() % 32);
        let serial = self.warps.borrow_mut()[warp as usize].join_site(lane, place);
        loop {
            let threads = warp * 32..self.threads().min(warp * 32 + 32);
            let held = threads
                .filter(|&t| matches!(self.state(t), State::Gave(Switch::Blocked | Switch::Polling)))
                .fold(0, |mask, t| mask | 1 << (t % 32));
            if let Some(lanes) = self.warps.borrow_mut()[warp as usize].poll_site(lane, serial, held) {
                return lanes;
            }
            self.suspend(Switch::AtSite);
        }
    }

    /// Waits for all threads of a cooperative grid.
    pub fn grid_sync(&self, place: Place) {
        if !self.with_grid(|grid| grid.launch.cooperative) {
            self.fatal(
                Code::LAUNCH_FAILURE,
                &format!("grid sync at {} in a plain launch\nfix: use cudaLaunchCooperativeKernel", place.line()),
            );
        }
        let me = self.thread();
        self.grid_waiters.borrow_mut().push(me);
        // Set before the block arrives: the report names it.
        self.arrive_with(Some(place));
        self.block_at(place);
    }

    fn arrive_at_grid_sync(&self) {
        self.arrive_with(None);
    }

    /// The block arrives once all its live threads have.
    fn arrive_with(&self, place: Option<Place>) {
        let waiters = self.grid_waiters.borrow().len() as u32;
        if waiters == 0 || waiters != self.live.get() || self.generation.get().is_some() {
            return;
        }
        let place = place.unwrap_or_else(|| self.place(self.grid_waiters.borrow()[0]));
        race::block_arrives();
        self.generation.set(Some(self.with_grid(|grid| grid.arrive(place))));
    }

    /// The grid sync is complete: its threads are ready.
    pub(crate) fn leave_grid_sync(&self) {
        self.generation.set(None);
        race::block_leaves();
        let woken = std::mem::take(&mut *self.grid_waiters.borrow_mut());
        self.wake(woken.into_iter());
    }
}
