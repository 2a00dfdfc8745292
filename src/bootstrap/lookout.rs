//! What the watch, a floor above, tells of ranks in other processes, and what it is told of other machines.
#![forbid(unsafe_code)]

use super::address::Address;
use super::dial::NoLink;
use super::port::Port;
use super::wire::{Frame, MAX_WHAT};
use crate::peer_process::{self, Became};
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What may be wrong with a process or a machine that is not gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ill {
    /// Nothing is heard of its machine.
    Silent,
    /// Its process is stopped.
    Stopped,
}

/// Something wrong, as it goes from machine to machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What.
    pub ill: Ill,
    /// The first rank of the process or machine.
    pub rank: u32,
    /// For how long, in milliseconds.
    pub lasts: u32,
    /// How many more times it may be passed on.
    pub hops: u8,
}

/// A machine says that it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// A rank of the process that speaks for it.
    pub from: u32,
    /// For how long nothing has moved, as far as it knows, in milliseconds.
    pub still: u32,
    /// What is wrong elsewhere; mostly nothing.
    pub complaints: Vec<Complaint>,
}

/// The watch of one communicator in this process.
pub(crate) trait Lookout: Send + Sync {
    /// `rank` has said that its end is no failure.
    fn has_left(&self, rank: u32) -> bool;
    /// True for a rank of another machine: of its process the system here knows nothing.
    fn is_far(&self, rank: u32) -> bool;
    /// The name of its host; None where all ranks are on one machine.
    fn host(&self, rank: u32) -> Option<String>;
    /// True if nothing is heard of its machine.
    fn is_silent(&self, rank: u32) -> bool;
    /// `, its machine is silent for 0.8 s`, of a rank of another machine, for messages.
    fn state(&self, rank: u32) -> String;
    /// How long those who see its process may take to tell of its end.
    fn news_take(&self, rank: u32) -> Duration;
    /// A beat has come. Never blocks.
    fn heard(&self, beat: &Beat);
    /// The end of the process of `rank` will be no failure, or was none, and what it had called; true if that is news. Never blocks.
    fn leaves(&self, rank: u32, ended: bool, called: &str) -> bool;
}

/// Bytes in which a rank says what it has called.
pub(crate) const CALLED: usize = 1024;
/// How long a process on another machine whose links have closed may take to let us in again: then it lives.
pub(crate) const ANEW: Duration = Duration::from_secs(1);

impl Port {
    /// The first one stays.
    pub(crate) fn set_lookout(&self, lookout: Weak<dyn Lookout>) {
        self.lookout.get_or_init(|| lookout);
    }

    pub(super) fn lookout(&self) -> Option<Arc<dyn Lookout>> {
        self.lookout.get()?.upgrade()
    }

    /// The watch of a rank on another machine.
    fn far(&self, rank: u32) -> Option<Arc<dyn Lookout>> {
        self.lookout().filter(|lookout| lookout.is_far(rank))
    }

    /// The processes of machines of which nothing is heard.
    pub(super) fn silent(&self) -> HashSet<Address> {
        let Some(lookout) = self.lookout() else { return HashSet::new() };
        let silent = (0..).zip(self.table()).filter(|(rank, _)| lookout.is_silent(*rank));
        silent.map(|(_, entry)| entry.address).collect()
    }

    /// What the system here knows a process by. None for one on another machine.
    fn near_pid(&self, rank: u32) -> Option<u32> {
        self.table().get(rank as usize).filter(|_| self.is_near(rank)).map(|entry| entry.pid)
    }

    /// `, its process is stopped` and the like, for messages about one that does not answer.
    pub(super) fn process_state(&self, rank: u32) -> String {
        match self.far(rank) {
            Some(far) => far.state(rank),
            None => self.near_pid(rank).map_or(String::new(), peer_process::process_state),
        }
    }

    /// `, killed by SIGKILL`, where that can be known.
    pub(super) fn how_ended(&self, rank: u32) -> String {
        self.near_pid(rank).filter(|_| self.far(rank).is_none()).map_or(String::new(), peer_process::how_ended)
    }

    /// What became of a rank whose process has closed its links. Of one on another machine its neighbours may tell more, a moment later;
    /// that ends the wait as the communicator's failure.
    pub(super) fn became(&self, rank: u32) -> Became {
        let Some(far) = self.far(rank) else {
            let became = |pid| peer_process::what_became_of(pid, || self.failure().is_some());
            return self.near_pid(rank).map_or(Became::Ended, became);
        };
        let end = Instant::now() + far.news_take(rank) + ANEW;
        while self.failure().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        Became::Ended
    }

    /// Asks whoever is linked with this process where its ranks stand.
    pub(crate) fn ask_linked(&self) {
        self.tell_links(&Frame::Probe);
    }

    /// What `rank` of another process does, as it has answered within the last `time`.
    pub(crate) fn step_of(&self, rank: u32, time: Duration) -> Option<String> {
        let standing = self.answer(rank, Instant::now().checked_sub(time)?)?;
        Some(crate::text::printable(&standing.what, MAX_WHAT))
    }

    /// What a kernel of each rank here has waited for a while, by rank.
    pub(crate) fn set_kernel_waits(&self, wait: impl Fn(u32) -> Option<String>) {
        self.seats.lock().iter().for_each(|(rank, (place, _))| place.set_kernel_wait(wait(*rank)));
    }

    /// As [`Self::step_of`], also of a rank of this process; in quotes, or `no collective step`.
    pub(crate) fn step_of_any(&self, rank: u32, time: Duration) -> Option<String> {
        let here = self.seats.lock().get(&rank).map(|(place, _)| place.standing().what);
        let step = here.or_else(|| self.step_of(rank, time))?;
        Some(if step.is_empty() { "no collective step".into() } else { format!("\"{step}\"") })
    }

    /// A beat to the process at `to`. False where no link stands.
    pub(crate) fn beat(&self, to: Address, beat: &Beat) -> bool {
        self.standing_link(to).is_some_and(|link| link.send(&Frame::Beat(beat.clone())))
    }

    /// Tells those who are linked that the end of the process of `rank` will be no failure, or was none; they pass it on.
    pub(crate) fn tell_leaving(&self, rank: u32, ended: bool, called: &str) {
        self.tell_links(&Frame::Leaving { rank, ended, called: called.to_owned() });
    }

    /// True where nobody listens any more in place of the process of `rank`. May take a second.
    pub(crate) fn is_gone(self: &Arc<Self>, rank: u32) -> bool {
        let Some(entry) = self.table().get(rank as usize) else { return false };
        let asked = self.link(entry.address, Instant::now() + ANEW, || true);
        matches!(asked, Err(NoLink::Nobody | NoLink::Unreachable(..)))
    }

    /// How the link to `to` that closed last did.
    pub(crate) fn ending(&self, to: Address) -> String {
        self.endings.lock().get(&to).cloned().unwrap_or_default()
    }

    /// Asks the process at `to`, whose ranks are `ranks`, by the link that stands. Returns once it has answered, and so what it sent before has
    /// been read; when no link stands any more; and at `until`.
    pub(crate) fn await_answer(&self, to: Address, ranks: &[u32], until: Instant) {
        let asked = Instant::now();
        let Some(link) = self.standing_link(to) else { return };
        link.send(&Frame::Probe);
        let answered = || {
            ranks.iter().any(|&rank| self.answer(rank, asked).is_some()) || ranks.iter().all(|&rank| self.fate(rank).is_some())
        };
        while self.is_linked(to) && !answered() && self.failure().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// True where a link to `to` stands.
    pub(crate) fn is_linked(&self, to: Address) -> bool {
        self.standing_link(to).is_some()
    }

    /// Makes the link to `to`, if there is none. False where it cannot be had before `until`.
    pub(crate) fn reach(self: &Arc<Self>, to: Address, until: Instant) -> bool {
        self.link(to, until, || self.failure().is_none()).is_ok()
    }
}
