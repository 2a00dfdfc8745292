//! What the watch, a floor above, tells of ranks in other processes, and what it is told of other machines.
#![forbid(unsafe_code)]

use super::address::Address;
use super::port::Port;
use super::wire::Frame;
use crate::peer_process::{self, Became};
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
    /// `, its machine is silent for 0.8 s`, of a rank of another machine, for messages.
    fn state(&self, rank: u32) -> String;
    /// How long those who see its process may take to tell of its end.
    fn news_take(&self, rank: u32) -> Duration;
    /// A beat has come. Never blocks.
    fn heard(&self, beat: &Beat);
    /// The end of the process of `rank` will be no failure, or was none; true if that is news. Never blocks.
    fn leaves(&self, rank: u32, ended: bool) -> bool;
}

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
        let end = Instant::now() + far.news_take(rank);
        while self.failure().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        Became::Ended
    }

    /// A beat to the process at `to`. False where no link stands.
    pub(crate) fn beat(&self, to: Address, beat: &Beat) -> bool {
        self.standing_link(to).is_some_and(|link| link.send(&Frame::Beat(beat.clone())))
    }

    /// Tells those who are linked that the end of the process of `rank` will be no failure, or was none; they pass it on.
    pub(crate) fn tell_leaving(&self, rank: u32, ended: bool) {
        self.tell_links(&Frame::Leaving { rank, ended });
    }

    /// Makes the link to `to`, if there is none. False where it cannot be had before `until`.
    pub(crate) fn reach(self: &Arc<Self>, to: Address, until: Instant) -> bool {
        self.link(to, until, || self.failure().is_none()).is_ok()
    }
}
