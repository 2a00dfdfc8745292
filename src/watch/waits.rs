//! Waits of kernels that last while all ranks are there. Each may be right, so nothing ends by it; but where ranks wait for each other, or for
//! what nobody does, the lines of all show who waits for what.
#![forbid(unsafe_code)]

use super::group::Group;
use crate::abort::Waiting;
use crate::{config, warn};
use std::time::Duration;

/// How many other ranks a line names.
const NAMED: usize = 8;

impl Group {
    /// One line for each wait of a kernel here that has lasted for GINRS_WAIT_WARN, with what the other ranks say that they do. They are
    /// asked when half of it is over; what they answer stands when the line is due.
    pub(super) fn tell_of_waits(&self) {
        let patience = config::seconds("GINRS_WAIT_WARN");
        if patience.is_zero() || self.is_over() {
            return;
        }
        let (long, due) = {
            let mut vigil = self.vigil.lock();
            (vigil.long(patience / 2), vigil.due(patience))
        };
        self.port.set_kernel_waits(|rank| {
            let (_, wait, lasts) = long.iter().find(|(here, ..)| *here == rank)?;
            Some(format!("a kernel, {wait} for {:.0} s", lasts.as_secs_f64()))
        });
        if !long.is_empty() {
            self.port.ask_linked();
        }
        for (rank, wait, lasts) in due {
            self.tell_of_wait(rank, wait, lasts, patience);
        }
    }

    fn tell_of_wait(&self, rank: u32, wait: Waiting, lasts: Duration, patience: Duration) {
        let for_whom = wait.rank().map_or(String::new(), |absent| format!(" for {}", self.port.name(absent)));
        let does = |other: u32| Some(format!("{} is in {}", self.port.name(other), self.port.step_of_any(other, patience)?));
        let others: Vec<String> = (0..self.port.table().len() as u32).filter(|&other| other != rank).filter_map(does).collect();
        let more = if others.len() > NAMED { " .." } else { "" };
        let others =
            if others.is_empty() { "no other rank has answered".into() } else { others[..others.len().min(NAMED)].join(", ") };
        warn!(
            "GINRS-W018 a kernel of rank {rank} waits | {} | {wait}{for_whom} has lasted {:.0} s; {others}{more} | fix: if it never ends, look for a signal \
             that is counted otherwise than it is sent, a barrier that not all come to, or ranks that wait for each other",
            self.port.tag(),
            lasts.as_secs_f64()
        );
    }
}
