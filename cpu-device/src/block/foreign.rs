//! Waits of another NCCL's device headers (`ginrs_cpu/foreign.h`), which poll and do not say so: a thread whose turn is used up within
//! such a call is asked what it waits for.

use super::{Block, Switch};
use crate::waits::{Call, Wait};

impl Block {
    /// The running thread has spent its budget in code behind that address: the next one gets the core.
    pub fn budget_spent(&self, behind: usize) {
        // SAFETY: the running thread's calls stand on its stack.
        let Some(foreign) = (unsafe { Call::foreign(self.call()) }) else { return self.turn_spent(behind) };
        // It is asked in code that counts, too.
        self.variables.set_budget(i32::MAX);
        // SAFETY: as above; nobody else knows the call.
        let wait = unsafe { (*foreign).waits() };
        self.foreign_wait_is(wait);
        self.suspend(if wait.is_some() { Switch::Polling } else { Switch::Preempted });
    }

    /// What the running thread waits for in a call of that kind, if it is in one: no wait, another, or that which was told.
    pub(super) fn foreign_wait_is(&self, wait: Option<Wait>) {
        // SAFETY: the running thread's calls stand on its stack.
        let Some(foreign) = (unsafe { Call::foreign(self.call()) }) else { return };
        // SAFETY: as above; nobody else knows the call.
        let was_told = unsafe { (*foreign).is_told(wait.is_some()) };
        let told = self.slots.borrow()[self.thread() as usize].wait.get();
        if was_told && wait == Some(told) {
            return;
        }
        if was_told {
            self.wait_ended();
        }
        // SAFETY: the headers' word, which the call reads; it ends the wait before it returns.
        wait.inspect(|wait| unsafe { self.note_wait(*wait) });
    }
}
