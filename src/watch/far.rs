//! Ranks on other machines, as a communicator's watch in this process sees them: no page and no pidfd tells of those, but frames on links.
//!
//! ```text
//! Leaving   its end is no failure, as the page says it here; passed on by everybody who has not heard it
//! Poison    a failure: a death that its neighbours saw, an abort; likewise
//! Beat      its machine is there (`beats`)
//! an end    of the links to its process: it is dead, unless its neighbours have another word for it
//! ```
#![forbid(unsafe_code)]

use super::beats::Beats;
use super::group::Group;
use super::machines::Machines;
use super::spells::{CALM, Spells};
use crate::bootstrap::{ANEW, Address, Beat, Fate, Ill, Lookout};
use crate::error::{Code, Error};
use crate::process::service_thread;
use crate::sync::Mutex;
use crate::{config, info, warn};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a machine's other processes may take to tell what became of one: links that close are not told before 300 ms, for a death
/// looks like that at first.
const NEWS: Duration = Duration::from_millis(600);
/// Where there are none. What else was under way from there may be of use.
const ALONE: Duration = Duration::from_millis(20);
/// Silence that others wait for is worth a line after so long.
const WORTH_A_LINE: Duration = Duration::from_millis(500);

/// See the module.
pub(super) struct Far {
    pub machines: Machines,
    pub beats: Mutex<Beats>,
    /// First rank of this process.
    own: u32,
    /// This process speaks for its machine.
    pub speaks: AtomicBool,
    dialing: AtomicBool,
    /// What this process has printed lines of.
    told: Mutex<Spells>,
    /// What ranks elsewhere had called when they left, as they say it.
    pub called: Mutex<BTreeMap<u32, String>>,
}

impl Far {
    pub fn new(machines: Machines, own: u32) -> Self {
        let beats = Mutex::new(Beats::new(Instant::now()));
        Self {
            machines,
            beats,
            own,
            speaks: AtomicBool::new(false),
            dialing: AtomicBool::new(false),
            told: Mutex::default(),
            called: Mutex::default(),
        }
    }

    fn ill(&self, rank: u32) -> Option<(Ill, Duration)> {
        self.beats.lock().ill(rank, &self.machines, Instant::now())
    }

    /// True while a process elsewhere is stopped, or silent: that it does nothing says nothing.
    pub fn somebody_is_ill(&self) -> bool {
        !self.beats.lock().ills(Instant::now()).is_empty()
    }

    fn host(&self, rank: u32) -> String {
        self.machines.of(rank).map_or(String::new(), |machine| machine.host.clone())
    }
}

impl Group {
    /// Who must hear this process's beats from the beginning; empty unless it speaks for its machine.
    pub(super) fn first_hearers(&self) -> Vec<u32> {
        let Some(far) = self.far() else { return Vec::new() };
        let hearers = far.beats.lock().hearers(&far.machines, far.own, Instant::now());
        far.speaks.store(hearers.is_some(), Ordering::Relaxed);
        hearers.unwrap_or_default()
    }

    /// A turn. Never blocks.
    pub(super) fn beat(self: &Arc<Self>) {
        let Some(far) = self.far().filter(|_| !self.is_over()) else { return };
        let now = Instant::now();
        let turn = far.beats.lock().turn(&far.machines, far.own, now, config::seconds("GINRS_HOST_DEADLINE"));
        far.speaks.store(turn.speaks, Ordering::Relaxed);
        if let Some(beat) = turn.beat {
            let address = |rank: u32| self.port.table()[rank as usize].address;
            let unlinked: Vec<Address> =
                turn.to.iter().map(|&rank| address(rank)).filter(|&to| !self.port.beat(to, &beat)).collect();
            if !unlinked.is_empty() {
                self.dial(far, unlinked);
            }
            let beats = far.beats.lock();
            if !beat.complaints.is_empty() || beats.left().next().is_some() || beats.stood_still(now) {
                let stopped = |rank: u32| beats.stopped.iter().any(|(other, _)| *other == rank);
                let beside = far.machines.at(far.machines.own()).ranks.iter().copied().filter(|&rank| {
                    far.machines.first_beside(rank) == rank && rank != far.own && !stopped(rank) && !beats.has_left(rank)
                });
                beside.for_each(|rank| _ = self.port.beat(address(rank), &beat));
            }
        }
        if let Some((machine, lasted)) = turn.dead {
            self.fail(&self.vanished(far, machine, lasted));
        }
    }

    /// A machine got another speaker, or another place in the circle.
    fn dial(self: &Arc<Self>, far: &Far, unlinked: Vec<Address>) {
        if far.dialing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (port, group) = (self.port.clone(), Arc::downgrade(self));
        let body = move || {
            let until = Instant::now() + Duration::from_secs(1);
            for to in unlinked {
                port.reach(to, until);
            }
            if let Some(far) = group.upgrade().as_ref().and_then(|group| group.far()) {
                far.dialing.store(false, Ordering::Release);
            }
        };
        if service_thread("ginrs reach", body, |_| {}).is_err() {
            far.dialing.store(false, Ordering::Release);
        }
    }

    fn vanished(&self, far: &Far, machine: u32, lasted: Duration) -> Error {
        let machine = far.machines.at(machine);
        let beats = far.beats.lock();
        let rank = machine.ranks.iter().copied().find(|&rank| !beats.has_left(rank)).unwrap_or(machine.ranks[0]);
        drop(beats);
        let text = format!(
            "{} is lost | {} | nothing has come from {} for {:.1} s, GINRS_HOST_DEADLINE is {} s | fix: look at that host and the network to it; raise \
             GINRS_HOST_DEADLINE if it may pause for so long",
            self.port.name(rank),
            self.port.tag(),
            machine.name(),
            lasted.as_secs_f64(),
            config::seconds("GINRS_HOST_DEADLINE").as_secs()
        );
        Error::new(Code::RemoteError, 110, text).by(rank)
    }

    /// True for a process on another machine.
    pub(super) fn is_elsewhere(&self, address: Address) -> bool {
        self.ranks_at(address).next().is_some_and(|(rank, _)| self.is_far(rank))
    }

    /// The last link to a process on another machine has closed at `since`, and this is look number `looks`. False once it is known what
    /// became of it, or asked: at the second or third look where nobody else there can tell.
    pub(super) fn is_open_elsewhere(self: &Arc<Self>, address: Address, since: Instant, looks: u32) -> bool {
        let Some((first, _)) = self.ranks_at(address).next() else { return false };
        if self.has_ended_well(address) {
            return false;
        }
        // Of two links the other may be about to close, too, behind a word.
        if since.elapsed() < if self.port.is_linked(address) { NEWS } else { self.news_take(first) } {
            return true;
        }
        info!(INIT, "{} {} has closed its links | looks {looks}", self.port.tag(), self.port.name(first));
        if self.is_over() {
            self.port.tell_of_death(first, &self.gone(first));
            return false;
        }
        self.ask_anew(first, address);
        false
    }

    /// True, and told to others, where all ranks of that process, whose links close, have said that they leave.
    fn has_ended_well(&self, address: Address) -> bool {
        let leaves = |rank| self.has_left(rank) || self.port.fate(rank) == Some(Fate::Left) || self.was_quiescent(rank);
        if !self.ranks_at(address).all(|(rank, _)| leaves(rank)) {
            return false;
        }
        self.port.process_ended(address);
        self.ranks_at(address).for_each(|(rank, _)| {
            if self.leaves(rank, true, "") {
                let called = self.far().and_then(|far| far.called.lock().get(&rank).cloned());
                self.port.tell_leaving(rank, true, &called.unwrap_or_default());
            }
        });
        true
    }

    /// Nobody has told what became of a process elsewhere whose links have closed: one that lets us in again lives, and what was under way
    /// between us is lost. The new link takes word of that. Where another link stands, its end may only be late: its packets are lost.
    fn ask_anew(self: &Arc<Self>, rank: u32, address: Address) {
        let (port, group) = (self.port.clone(), Arc::downgrade(self));
        let ranks: Vec<u32> = self.ranks_at(address).map(|(rank, _)| rank).collect();
        let body = move || {
            port.await_answer(address, &ranks, Instant::now() + config::seconds("GINRS_HOST_DEADLINE"));
            let lives = port.reach(address, Instant::now() + ANEW);
            if let Some(group) = group.upgrade().filter(|group| !group.has_ended_well(address)) {
                group.fail(&if lives { group.link_lost(rank, address) } else { group.gone(rank) });
            }
        };
        if service_thread("ginrs reach", body, |_| {}).is_err() {
            self.fail(&self.gone(rank));
        }
    }

    fn link_lost(&self, rank: u32, address: Address) -> Error {
        let own = self.far().map_or(rank, |far| far.own);
        let text = format!(
            "the connection between {} and {} was cut | {} | {}; both processes live, but what was under way is lost | fix: look at what ends connections \
             between their hosts: a firewall, NAT, a proxy, or an address that was taken away",
            self.port.name(own),
            self.port.name(rank),
            self.port.tag(),
            self.port.ending(address)
        );
        Error::new(Code::RemoteError, 112, text).by(rank)
    }

    fn gone(&self, rank: u32) -> Error {
        let (name, tag) = (self.port.name(rank), self.port.tag());
        let text = format!(
            "{name} died, or its connections were cut | {tag} | its process closed them without leaving the communicator | fix: look at the output of rank {rank}"
        );
        Error::new(Code::RemoteError, 40, text).by(rank)
    }

    /// One line for each process or machine elsewhere that does nothing while ranks here wait, and one when it goes on.
    pub(super) fn tell_of_ills(&self, waits: bool) {
        let Some(far) = self.far().filter(|_| !self.is_over()) else { return };
        let (now, beats) = (Instant::now(), far.beats.lock());
        let (ills, stood_still) = (beats.ills(now), beats.stood_still(now));
        drop(beats);
        let mut told = far.told.lock();
        // Of a process on a silent machine nobody can say that it goes on.
        let is_on_silent = |rank| matches!(far.ill(rank), Some((Ill::Silent, _)));
        let lasts = |(ill, rank)| {
            ills.iter().any(|ill_of| (ill_of.0, ill_of.1) == (ill, rank)) || ill == Ill::Stopped && is_on_silent(rank)
        };
        // Who has not listened does not know what is over.
        let over = if stood_still { Vec::new() } else { told.over(now, lasts) };
        for (ill, rank) in over {
            let (name, tag, calm) = (self.port.name(rank), self.port.tag(), CALM.as_secs());
            match ill {
                Ill::Silent => warn!(
                    "GINRS-W111 {name} | {tag} | its machine was silent and goes on; within {calm} s more of that is told only if it lasts twice as long"
                ),
                Ill::Stopped => warn!("GINRS-W021 {name} | {tag} | it was stopped and goes on"),
            }
        }
        if !waits || config::seconds("GINRS_WAIT_WARN").is_zero() {
            return;
        }
        for (ill, rank, lasts) in ills {
            // Of processes on this machine `stops` tells.
            if lasts < WORTH_A_LINE || !far.machines.is_far(rank) || !told.are_worth_a_line((ill, rank), lasts) {
                continue;
            }
            let (name, tag) = (self.port.name(rank), self.port.tag());
            let Some(machine) = far.machines.of(rank) else { continue };
            match ill {
                Ill::Silent => warn!(
                    "GINRS-W110 {name} | {tag} | {} is silent for {:.1} s, and others wait | it counts as dead after {} s (GINRS_HOST_DEADLINE) | fix: look at \
                     that host and the network to it",
                    machine.name(),
                    lasts.as_secs_f64(),
                    config::seconds("GINRS_HOST_DEADLINE").as_secs()
                ),
                Ill::Stopped => warn!(
                    "GINRS-W020 {name} | {tag} | its process is stopped, and others wait | by SIGSTOP, SIGTSTP, SIGTTIN or a debugger; that ends nothing by \
                     itself | fix: let it go on, on host {}",
                    machine.host
                ),
            }
        }
    }

    /// The rank `rank` of this process says that its end is no failure, and what it has called.
    pub(super) fn say_leaving(&self, rank: u32, called: &str) {
        if let Some(far) = self.far()
            && far.beats.lock().leaves(rank)
            && !self.is_over()
        {
            self.port.tell_leaving(rank, false, called);
        }
    }

    /// A rank of another process on this machine has said so, on its page; `ended`: its process has.
    pub(super) fn near_leaves(&self, rank: u32, ended: bool) {
        let called = || self.page(rank).and_then(|page| page.called()).unwrap_or_default();
        if self.far().is_some() && self.leaves(rank, ended, "") {
            self.port.tell_leaving(rank, ended, &called());
        }
    }
}

impl Lookout for Group {
    fn has_left(&self, rank: u32) -> bool {
        self.says_leaving(rank)
    }

    fn is_far(&self, rank: u32) -> bool {
        self.far().is_some_and(|far| far.machines.is_far(rank))
    }

    fn host(&self, rank: u32) -> Option<String> {
        self.far().map(|far| far.host(rank))
    }

    fn is_silent(&self, rank: u32) -> bool {
        self.far().is_some_and(|far| matches!(far.ill(rank), Some((Ill::Silent, _))))
    }

    fn state(&self, rank: u32) -> String {
        let Some(far) = self.far() else { return String::new() };
        match far.ill(rank) {
            Some((Ill::Silent, lasts)) => format!(", its host {} is silent for {:.1} s", far.host(rank), lasts.as_secs_f64()),
            Some((Ill::Stopped, _)) => ", its process is stopped".into(),
            None => String::new(),
        }
    }

    fn news_take(&self, rank: u32) -> Duration {
        let Some(far) = self.far() else { return Duration::ZERO };
        let own = far.machines.first_beside(rank);
        let sees =
            |&other: &u32| far.machines.first_beside(other) != own && !self.has_left(other) && self.port.fate(other).is_none();
        let seen = !self.is_silent(rank) && far.machines.of(rank).is_some_and(|machine| machine.ranks.iter().any(sees));
        if seen { NEWS } else { ALONE }
    }

    fn heard(&self, beat: &Beat) {
        if let Some(far) = self.far() {
            far.beats.lock().heard(beat, &far.machines, Instant::now());
        }
    }

    fn leaves(&self, rank: u32, ended: bool, called: &str) -> bool {
        let Some(far) = self.far().filter(|_| (rank as usize) < self.port.table().len()) else { return false };
        if !called.is_empty() {
            far.called.lock().insert(rank, called.to_owned());
        }
        let mut news = far.beats.lock().leaves(rank);
        if ended {
            news |= self.note_end(self.port.table()[rank as usize].address);
            self.port.has_ended(rank);
        }
        if news {
            info!(INIT, "{} {} {}", self.port.tag(), self.port.name(rank), if ended { "has ended" } else { "leaves" });
        }
        news
    }
}
