//! Who is heard of, among the machines of one communicator. No input nor output here, and no clock: `far` sends what comes out.
//!
//! On each machine one process speaks, that of the lowest rank which has not left and is not stopped. Every [`BEAT`] it sends a beat to the
//! machines that are 1, 2, 4 .. places further on in the circle of those that are still there, so each is heard by ceil(log2 M) others, and
//! news goes round as fast. A machine of which nothing comes for [`SILENT`] is called silent; dead it is after GINRS_HOST_DEADLINE, for
//! nobody can tell a pause from an end. Who hears that a machine is silent, or a process stopped, passes it on with the next beats, a
//! bounded number of times; what is not said again is over.
#![forbid(unsafe_code)]

use super::machines::Machines;
use crate::bootstrap::{Beat, Complaint, Ill};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Between two beats.
pub(super) const BEAT: Duration = Duration::from_millis(100);
/// Between two turns.
pub(super) const TURN: Duration = Duration::from_millis(50);
/// A machine of which nothing has been heard for so long is silent.
const SILENT: Duration = Duration::from_millis(250);
/// One that has never spoken may still be setting up: it makes links.
const FIRST: Duration = Duration::from_millis(1500);
/// What a single turn may add to that: whoever was held up for a moment could not listen.
const CREDIT: Duration = Duration::from_millis(250);
/// Who stood still itself for so long begins anew.
const STOOD: Duration = Duration::from_secs(1);
/// A complaint that is not said again for so long is over.
const OVER: Duration = Duration::from_millis(500);
/// News of movement that is so much newer than what is known here counts; less may be what it took to get here.
const NEWER: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Beats {
    /// Ranks that have left, or will be missed by nobody.
    gone: HashSet<u32>,
    /// Processes of this machine that are stopped, by their first rank, and for how long.
    pub stopped: Vec<(u32, Duration)>,
    /// Machines that are to be heard; None for one that came to stand here later, until its first beat.
    ears: HashMap<u32, Option<Ear>>,
    complaints: HashMap<(Ill, u32), Known>,
    /// When a process has spoken itself last, by its first rank: what others say of it may be older.
    spoke: HashMap<u32, Instant>,
    /// Since when this process goes on, which stood still.
    woke: Option<Instant>,
    last: Option<Instant>,
    /// When anything moved last, as far as is known here.
    moved: Instant,
    /// Movements that others told of.
    pub moves: u64,
    /// When the last turn was.
    turned: Option<Instant>,
}

/// A machine that is to be heard.
#[derive(Clone, Copy, Default)]
struct Ear {
    /// For how long it has not been, in turns of this process.
    age: Duration,
    /// Ever.
    heard: bool,
}

#[derive(Clone, Copy)]
struct Known {
    lasted: Duration,
    at: Instant,
    hops: u8,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Turn {
    /// This process speaks for its machine.
    pub speaks: bool,
    /// To send now.
    pub beat: Option<Beat>,
    /// To these, each the speaker of its machine.
    pub to: Vec<u32>,
    /// A machine, by number, that has been silent for longer than may be.
    pub dead: Option<(u32, Duration)>,
}

impl Beats {
    pub fn new(now: Instant) -> Self {
        Self {
            gone: HashSet::new(),
            stopped: Vec::new(),
            ears: HashMap::new(),
            complaints: HashMap::new(),
            spoke: HashMap::new(),
            woke: None,
            last: None,
            moved: now,
            moves: 0,
            turned: None,
        }
    }

    /// Nobody will miss `rank`. True the first time.
    pub fn leaves(&mut self, rank: u32) -> bool {
        self.gone.insert(rank)
    }

    pub fn has_left(&self, rank: u32) -> bool {
        self.gone.contains(&rank)
    }

    pub fn left(&self) -> impl Iterator<Item = u32> {
        self.gone.iter().copied()
    }

    /// Something has moved here.
    pub fn moved(&mut self, now: Instant) {
        self.moved = now;
    }

    /// A beat has come.
    pub fn heard(&mut self, beat: &Beat, machines: &Machines, now: Instant) {
        let Some(from) = machines.index_of(beat.from) else { return };
        // Perhaps before the first turn here. The next one keeps those that are to be heard.
        self.ears.insert(from, Some(Ear { age: Duration::ZERO, heard: true }));
        self.complaints.remove(&(Ill::Silent, machines.at(from).ranks[0]));
        self.complaints.remove(&(Ill::Stopped, machines.first_beside(beat.from)));
        self.spoke.insert(machines.first_beside(beat.from), now);
        let moved = now.checked_sub(Duration::from_millis(beat.still.into())).unwrap_or(self.moved);
        if moved > self.moved + NEWER {
            self.moved = moved;
            self.moves += 1;
        }
        let is_news = |said: &&Complaint| said.ill != Ill::Stopped || !self.spoke_lately(said.rank, now);
        for said in beat.complaints.iter().filter(|said| machines.is_far(said.rank)).filter(is_news).collect::<Vec<_>>() {
            self.note(
                (said.ill, said.rank),
                Known { lasted: Duration::from_millis(said.lasts.into()), at: now, hops: said.hops },
            );
        }
    }

    /// Who has it from nearer knows better.
    fn note(&mut self, what: (Ill, u32), new: Known) {
        let old = self.complaints.get(&what).filter(|old| new.at.duration_since(old.at) < OVER);
        if old.is_none_or(|old| old.hops <= new.hops) {
            self.complaints.insert(what, new);
        }
    }

    /// For how long that has been so, if it is.
    fn lasts(&self, ill: Ill, rank: u32, now: Instant) -> Option<Duration> {
        let known = self.complaints.get(&(ill, rank))?;
        let since = now.saturating_duration_since(known.at);
        (since < OVER).then(|| known.lasted + since)
    }

    /// What is wrong with the process of `rank`, or with its machine.
    pub fn ill(&self, rank: u32, machines: &Machines, now: Instant) -> Option<(Ill, Duration)> {
        let first = *machines.of(rank)?.ranks.first()?;
        let silent = self.lasts(Ill::Silent, first, now).map(|lasts| (Ill::Silent, lasts));
        silent.or_else(|| Some((Ill::Stopped, self.lasts(Ill::Stopped, machines.first_beside(rank), now)?)))
    }

    /// All that is wrong, by the first rank of the machine or process.
    pub fn ills(&self, now: Instant) -> Vec<(Ill, u32, Duration)> {
        self.complaints.keys().filter_map(|&(ill, rank)| Some((ill, rank, self.lasts(ill, rank, now)?))).collect()
    }

    /// Who speaks is not stopped, whatever was seen a moment ago.
    fn spoke_lately(&self, first: u32, now: Instant) -> bool {
        self.spoke.get(&first).is_some_and(|spoke| now.saturating_duration_since(*spoke) < OVER)
    }

    /// Processes of this machine that are stopped, as far as is known.
    fn stopped_here(&self, now: Instant) -> impl Iterator<Item = (u32, Duration)> {
        self.stopped.iter().copied().filter(move |(first, _)| !self.spoke_lately(*first, now))
    }

    /// This process stood still, and may not have heard again of what lasts, nor others that it goes on.
    pub fn stood_still(&self, now: Instant) -> bool {
        let since = |then: Option<Instant>| then.map(|then| now.saturating_duration_since(then));
        since(self.woke).is_some_and(|since| since < STOOD) || since(self.turned).is_some_and(|since| since >= SILENT)
    }

    /// The rank whose process speaks for a machine. Of its own machine a process sees itself who is stopped: all others take one that goes
    /// on for the speaker at its first beat.
    pub fn speaker(&self, machine: u32, machines: &Machines, now: Instant) -> Option<u32> {
        let stopped = |rank| {
            let first = machines.first_beside(rank);
            match machine == machines.own() {
                true => self.stopped_here(now).any(|(other, _)| other == first),
                false => self.lasts(Ill::Stopped, first, now).is_some(),
            }
        };
        let mut there = machines.at(machine).ranks.iter().copied().filter(|rank| !self.gone.contains(rank));
        let first = there.clone().next();
        there.find(|&rank| !stopped(rank)).or(first)
    }

    /// The speakers of the machines that are to hear the process whose first rank is `own`; None unless that speaks for its own.
    pub fn hearers(&self, machines: &Machines, own: u32, now: Instant) -> Option<Vec<u32>> {
        let (present, place) = self.circle(machines, own, now)?;
        let hears = |stride| self.speaker(present[(place + stride) % present.len()], machines, now);
        Some(strides(present.len()).filter_map(hears).collect())
    }

    /// The machines that are still there, and this one's place among them; None unless `own` speaks for it, and to others.
    fn circle(&self, machines: &Machines, own: u32, now: Instant) -> Option<(Vec<u32>, usize)> {
        let present = machines.present(&self.gone);
        let place = present.iter().position(|machine| *machine == machines.own())?;
        let speaks = self.speaker(machines.own(), machines, now).map(|rank| machines.first_beside(rank)) == Some(own);
        (speaks && present.len() > 1).then_some((present, place))
    }

    /// A turn of the process whose first rank is `own`.
    pub fn turn(&mut self, machines: &Machines, own: u32, now: Instant, deadline: Duration) -> Turn {
        let before = self.turned.replace(now);
        let elapsed = before.map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        if elapsed >= SILENT {
            self.woke = Some(now);
        }
        let Some((present, place)) = self.circle(machines, own, now) else {
            self.ears.clear();
            return Turn::default();
        };
        let count = present.len();
        let heard: Vec<u32> = strides(count).map(|stride| present[(place + count - stride) % count]).collect();
        self.ears.retain(|machine, _| heard.contains(machine));
        // One round more than it takes to reach all: a machine on the way may be the silent one.
        let hops = count.next_power_of_two().ilog2() as u8 + 1;
        let mut dead = None;
        for machine in heard {
            let Some(ear) = self.ears.entry(machine).or_insert(before.is_none().then(Ear::default)) else { continue };
            ear.age = if elapsed < STOOD { ear.age + elapsed.min(CREDIT) } else { Duration::ZERO };
            let Ear { age: lasted, heard } = *ear;
            if lasted >= if heard { SILENT } else { FIRST.min(deadline / 2) } {
                self.note((Ill::Silent, machines.at(machine).ranks[0]), Known { lasted, at: now, hops });
            }
            if lasted >= deadline {
                dead = Some((machine, lasted));
            }
        }
        self.complaints.retain(|(_, rank), _| machines.is_far(*rank));
        for (rank, lasted) in self.stopped_here(now).collect::<Vec<_>>() {
            self.note((Ill::Stopped, rank), Known { lasted, at: now, hops });
        }
        self.complaints.retain(|_, known| now.saturating_duration_since(known.at) < OVER);
        let mut turn = Turn { speaks: true, dead, ..Turn::default() };
        if self.last.is_none_or(|last| now.saturating_duration_since(last) >= BEAT) {
            self.last = Some(now);
            turn.to = self.hearers(machines, own, now).unwrap_or_default();
            turn.beat = Some(self.beat(own, now));
        }
        turn
    }

    fn beat(&self, own: u32, now: Instant) -> Beat {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let passed_on = |(&(ill, rank), known): (&(Ill, u32), &Known)| {
            let lasts = millis(known.lasted + now.saturating_duration_since(known.at));
            (known.hops > 0).then(|| Complaint { ill, rank, lasts, hops: known.hops - 1 })
        };
        let complaints = self.complaints.iter().filter_map(passed_on).collect();
        Beat { from: own, still: millis(now.saturating_duration_since(self.moved)), complaints }
    }
}

/// Between the places in the circle that hear each other.
fn strides(count: usize) -> impl Iterator<Item = usize> {
    (0..).map(|k| 1 << k).take_while(move |stride| *stride < count)
}

#[cfg(test)]
mod tests;
