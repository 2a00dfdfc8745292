//! Whose turn it is and for how long: as GINRS_SCHEDULE has it ([`crate::schedule`]), and without it in the order of the queue.

use std::time::Duration;

use super::{BUDGET, Block, State, Switch};
use crate::baton;
use crate::grid::Grid;
use crate::schedule::Schedule;

impl Block {
    /// Block number `index` of `grid` begins.
    pub(super) fn draw(&self, grid: &Grid, index: u64) {
        *self.schedule.borrow_mut() = Schedule::of_block(grid.device.id, grid.nth, index);
    }

    /// All threads have their first turn. It is as long as without a seed: programs count on that (start.rs).
    pub(super) fn first_turns(&self, grid: &Grid) {
        let threads = self.live.get();
        let drawn = self.schedule.borrow_mut().as_mut().map(|schedule| schedule.first_turns(threads));
        for nth in 0..threads {
            if grid.failed() {
                return;
            }
            let Some((order, pause)) = &drawn else {
                self.start(nth);
                continue;
            };
            if let Some((_, pause)) = pause.filter(|(after, _)| *after == nth) {
                self.sleep(pause);
            }
            self.start(order.at(nth.into()) as u32);
        }
        if let Some((_, pause)) = drawn.and_then(|(_, pause)| pause).filter(|(after, _)| *after == threads) {
            self.sleep(pause);
        }
    }

    /// Takes the thread that goes on from the queue of those that can.
    pub(super) fn next(&self) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        let mut schedule = self.schedule.borrow_mut();
        let Some(schedule) = schedule.as_mut() else { return ready.pop_front() };
        let keen = |at: usize| {
            let polls = matches!(self.state(ready[at]), State::Gave(Switch::Polling | Switch::AtSite));
            Some(ready[at]).filter(|_| !polls)
        };
        let at = if ready.len() > 1 && baton::draws() { schedule.next(ready.len(), keen) } else { 0 };
        schedule.has_turn(at);
        ready.remove(at)
    }

    /// Basic blocks that `thread` runs now.
    pub(super) fn budget(&self, thread: u32) -> i32 {
        baton::turn(thread);
        match self.schedule.borrow_mut().as_mut().filter(|_| !self.starting.get() && baton::draws()) {
            None => BUDGET,
            Some(schedule) => schedule.budget(BUDGET, self.state(thread) == State::Gave(Switch::Polling)),
        }
    }

    /// Whether the running thread, which has completed a rendezvous, gives the core away.
    pub(crate) fn lets_others_go_first(&self) -> bool {
        self.schedule.borrow_mut().as_mut().is_some_and(Schedule::lets_others_go_first)
    }

    /// Whether all threads that could go on have had a turn, where [`crate::pace::Pace`] says that there were enough.
    pub(super) fn is_whole_round(&self) -> bool {
        let ready = self.ready.borrow().len();
        self.schedule.borrow_mut().as_mut().is_none_or(|schedule| schedule.is_round_over(ready))
    }

    /// The block rests; now and then for longer.
    pub(super) fn pause(&self) {
        let pause = self.schedule.borrow_mut().as_mut().and_then(Schedule::pause);
        pause.inspect(|pause| self.sleep(*pause));
    }

    /// The block pauses, but not what it has posted.
    fn sleep(&self, pause: Duration) {
        self.leave();
        self.with_grid(|grid| self.posts.ring(&grid.device.bell));
        std::thread::sleep(pause);
    }
}
