//! Waits of kernels that last while all ranks are there. Each may be right, so nothing ends by it; but where ranks wait for each other, or for
//! what nobody does, the lines of all show who waits for what. Kernels of the CPU device that were compiled with our headers say it
//! block by block (`told`); of others it is known what the oldest wait is for.
#![forbid(unsafe_code)]

use super::group::Group;
use super::told;
use crate::device::cpu::waits::{Wait, lasting};
use crate::{config, warn};
use std::time::Duration;

/// How many other ranks a line names.
const NAMED: usize = 8;
/// Lines for the waits of one rank.
const LINES: usize = 16;

const FIX: &str = "fix: if it never ends, look for a signal that is counted otherwise than it is sent, a barrier that not all come to, or \
                   ranks that wait for each other";

impl Group {
    /// Lines for each wait of a kernel here that has lasted for GINRS_WAIT_WARN, with what the other ranks say that they do. They are
    /// asked when half of it is over; what they answer stands when the line is due. `all` are the waits of this process.
    pub(super) fn tell_of_waits(&self, all: &[Wait]) {
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
            let lines = self.lines(rank, all, patience / 2);
            match lines.first() {
                Some(line) => self.tell_of_wait(rank, line.clone(), "", patience),
                None => {
                    let whom = wait.rank().map_or(String::new(), |absent| format!(" for {}", self.port.name(absent)));
                    let measured = format!("{wait}{whom} has lasted {:.0} s; ", lasts.as_secs_f64());
                    self.tell_of_wait(rank, format!("a kernel of rank {rank} waits"), &measured, patience);
                }
            }
            lines.iter().skip(1).for_each(|line| warn!("GINRS-W018 {line} | {}", self.port.tag()));
        }
    }

    /// A line for each wait of the kernels of the ranks here, however short, or for a rank without one; and, if asked, for those of the
    /// others on this machine.
    pub(super) fn all_waits(&self, all: &[Wait], others: bool) -> Vec<String> {
        let (mut told, all_lasting) = (Vec::new(), lasting());
        for (rank, _, abort) in self.aborts_here() {
            let mut lines = self.lines(rank, all, Duration::ZERO);
            lines.extend(told::of_rank(&all_lasting, &abort, |_| true).iter().take(LINES).map(|told| told.does(rank)));
            if lines.is_empty() {
                let step = self.port.step_of_any(rank, Duration::from_secs(2));
                let step = step.map_or(String::new(), |step| format!(", its host is or was last in {step}"));
                told.push(format!("rank {rank}: no kernel of it is known to wait{step}"));
            }
            told.extend(lines);
        }
        let elsewhere = self.waits_shown().into_iter().filter(|(rank, _)| others && !self.port.is_here(*rank));
        let counts = self.counts();
        told.extend(
            elsewhere
                .flat_map(|(rank, all)| all.into_iter().map(move |told| (rank, told)))
                .map(|(rank, told)| counts.line(rank, told)),
        );
        told.iter().map(|line| format!("{line} | {}", self.port.tag())).collect()
    }

    /// One line for each wait of `rank` that has lasted for `least`.
    fn lines(&self, rank: u32, all: &[Wait], least: Duration) -> Vec<String> {
        let members = self.aborts_here();
        let Some((.., abort)) = members.iter().find(|(here, ..)| *here == rank) else { return Vec::new() };
        let told = told::of_rank(all, abort, |wait| wait.lasts >= least);
        let (counts, more) = (self.counts(), told.len().saturating_sub(LINES));
        let mut lines: Vec<String> = told.into_iter().take(LINES).map(|told| counts.line(rank, told)).collect();
        if more > 0 {
            lines.push(format!("rank {rank}: {more} more waits"));
        }
        lines
    }

    fn tell_of_wait(&self, rank: u32, what: String, measured: &str, patience: Duration) {
        let does = |other: u32| Some(format!("{} is in {}", self.port.name(other), self.port.step_of_any(other, patience)?));
        let others: Vec<String> = (0..self.port.table().len() as u32).filter(|&other| other != rank).filter_map(does).collect();
        let more = if others.len() > NAMED { " .." } else { "" };
        let others =
            if others.is_empty() { "no other rank has answered".into() } else { others[..others.len().min(NAMED)].join(", ") };
        warn!("GINRS-W018 {what} | {} | {measured}{others}{more} | {FIX}", self.port.tag());
    }
}
