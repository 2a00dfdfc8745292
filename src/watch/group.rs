//! One communicator in this process, as the watch sees it: the status pages of all its ranks, and the aborts of those here.
#![forbid(unsafe_code)]

use super::HasEnded;
use super::calls::Calls;
use super::far::Far;
use super::hang::Hang;
use super::left::Vigil;
use super::machines::Machines;
use super::page::{Membership, Page};
use super::signs::Signs;
use super::thread::{Event, Watcher};
use crate::abort::{Abort, Waiting};
use crate::bootstrap::{Address, Bootstrap, Fate, Lookout, Port, as_remote};
use crate::error::{Code, Error, Result};
use crate::peer_process::{self, is_ending};
use crate::sync::{Mutex, OnceCell};
use crate::{info, warn};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Key under which a rank publishes its page.
pub(super) const PAGE_KEY: u64 = u64::MAX;

/// Between two questions whether a process on another machine has ended.
const ASK: Duration = Duration::from_millis(300);
/// What a rank on another machine has said of itself counts for so long.
const ANSWERED: Duration = Duration::from_secs(2);

/// See the module. Shared by the communicator's ranks of this process.
pub(super) struct Group {
    watcher: &'static Watcher,
    pub(super) port: Arc<Port>,
    pub(super) pages: Mutex<HashMap<u32, Arc<Page>>>,
    pub(super) members: Mutex<BTreeMap<u32, Member>>,
    /// One rank fetches what all ranks here need.
    fetching: Mutex<HashSet<Address>>,
    over: AtomicBool,
    /// An aborted page was seen at the last look.
    aborted: AtomicBool,
    /// Processes that have ended.
    pub(super) ended: Mutex<HashSet<Address>>,
    pub(super) vigil: Mutex<Vigil>,
    /// Where its ranks are on several machines; set once, when they have met.
    far: OnceCell<Option<Far>>,
    /// What had moved on this machine, at the last look.
    pub(super) moves: Mutex<u64>,
    pub(super) hang: Mutex<Hang>,
}

/// A rank of this process.
#[derive(Clone)]
pub(super) struct Member {
    pub abort: Weak<Abort>,
    page: Arc<Page>,
    pub signs: Arc<Signs>,
    pub calls: Arc<Calls>,
    /// Of the last look: how much had moved, and what its kernels said.
    moves: u64,
    pub wait: Option<Waiting>,
}

impl Group {
    /// The group of `bootstrap`'s communicator in this process.
    pub fn of(bootstrap: &Bootstrap, watcher: &'static Watcher) -> Arc<Group> {
        let port = bootstrap.port();
        let mut slot = port.watch.lock();
        if let Some(group) = slot.upgrade().and_then(|group| group.downcast::<Group>().ok()) {
            return group;
        }
        let group = Arc::new(Group {
            watcher,
            port: port.clone(),
            pages: Mutex::default(),
            members: Mutex::default(),
            fetching: Mutex::default(),
            over: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            ended: Mutex::default(),
            vigil: Mutex::default(),
            far: OnceCell::new(),
            moves: Mutex::default(),
            hang: Mutex::default(),
        });
        watcher.add(&group);
        let weak = Arc::downgrade(&group);
        *slot = weak.clone();
        drop(slot);
        let failed = weak.clone();
        port.on_failure(Box::new(move |cause| watcher.tell(Event::Failed { group: failed.clone(), cause: cause.clone() })));
        let lost = weak.clone();
        port.on_lost(Box::new(move |address| watcher.tell(Event::Lost { group: lost.clone(), address })));
        port.set_lookout(weak);
        group
    }

    /// A rank of this process joins, with its page.
    pub fn enter(&self, rank: u32, page: Arc<Page>, abort: &Arc<Abort>, signs: Arc<Signs>, calls: Arc<Calls>) {
        self.pages.lock().insert(rank, page.clone());
        let member = Member { abort: Arc::downgrade(abort), page, signs, calls, moves: abort.moves(), wait: None };
        self.members.lock().insert(rank, member);
    }

    /// It is watched, and told, no more.
    pub fn exit(&self, rank: u32) {
        self.members.lock().remove(&rank);
    }

    /// The ranks have met; `said` is what each said of its machine. Fetches the pages of the ranks of other processes on this one and
    /// watches these processes. The pidfd comes first: a page that arrives afterwards proves that the process id still means the process
    /// that we talk to. Where this process speaks for its machine, it is linked with those that must hear it, and begins.
    pub fn watch_all(self: &Arc<Self>, bootstrap: &Bootstrap, said: &[Arc<[u8]>]) -> Result<()> {
        let mut watched = self.fetching.lock();
        self.far.get_or_init(|| self.meet(said));
        // First of all: the others count from their own first turn on.
        let hearers = self.first_hearers();
        hearers.iter().try_for_each(|&rank| bootstrap.peer_pid(rank, "watch start").map(drop))?;
        if !hearers.is_empty() {
            self.beat();
            self.watcher.wake();
        }
        for (rank, entry) in (0..).zip(self.port.table()) {
            if self.is_far(rank) || self.pages.lock().contains_key(&rank) || self.port.is_here(rank) {
                continue;
            }
            if watched.insert(entry.address) {
                let pid = bootstrap.peer_pid(rank, "watch start")?;
                if let Err(e) = self.watcher.watch(entry.address, pid, self) {
                    // Namespaces or seccomp may forbid it; a closed link still tells of its end.
                    info!(
                        INIT,
                        "{} process {pid} of rank {rank} cannot be watched by pidfd ({e}): its links are",
                        self.port.tag()
                    );
                }
            }
            let fd = bootstrap.fetch(&entry.address, rank, PAGE_KEY)?;
            let page = Page::open(&fd).map_err(|error| error.by(rank))?;
            self.pages.lock().insert(rank, Arc::new(page));
        }
        Ok(())
    }

    fn meet(&self, said: &[Arc<[u8]>]) -> Option<Far> {
        let here = self.port.own_address();
        let machines =
            Machines::new(self.port.table().iter().map(|entry| entry.address).zip(said.iter().map(|said| &**said)), here);
        let (own, _) = self.ranks_at(here).next()?;
        machines.are_several().then(|| Far::new(machines, own))
    }

    /// What is known of other machines, if there are any.
    pub fn far(&self) -> Option<&Far> {
        self.far.get()?.as_ref()
    }

    /// It has failed.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// True the first time.
    pub fn note_end(&self, address: Address) -> bool {
        self.ended.lock().insert(address)
    }

    /// The ranks here that have not failed.
    pub fn aborts_here(&self) -> Vec<(u32, Arc<Page>, Arc<Abort>)> {
        let members = self.members.lock();
        members.iter().filter_map(|(rank, member)| Some((*rank, member.page.clone(), member.abort.upgrade()?))).collect()
    }

    /// The pages of the ranks of this machine.
    pub fn pages_here(&self) -> BTreeMap<u32, Arc<Page>> {
        self.pages.lock().iter().map(|(rank, page)| (*rank, page.clone())).collect()
    }

    /// The ranks of this machine before and behind `rank`, in a circle.
    pub fn beside(&self, rank: u32) -> [Option<(u32, Arc<Page>)>; 2] {
        let (pages, n_ranks) = (self.pages.lock(), self.port.table().len() as u32);
        let named = |other: u32| Some((other, pages.get(&other)?.clone()));
        let before = (1..n_ranks).find_map(|by| named((rank + n_ranks - by) % n_ranks));
        [before, (1..n_ranks).find_map(|by| named((rank + by) % n_ranks))]
    }

    /// The processes of the ranks of this machine that have met.
    pub fn pids_here(&self) -> Vec<u32> {
        let table = self.port.table();
        self.pages_here().keys().filter_map(|&rank| table.get(rank as usize)).map(|entry| entry.pid).collect()
    }

    /// The process of `rank` has ended.
    pub fn has_ended(&self, rank: u32) -> bool {
        self.port.table().get(rank as usize).is_some_and(|entry| self.ended.lock().contains(&entry.address))
    }

    pub fn page(&self, rank: u32) -> Option<Arc<Page>> {
        self.pages.lock().get(&rank).cloned()
    }

    /// What `rank` says that it does.
    pub fn step_of(&self, rank: u32) -> Option<String> {
        match self.is_far(rank) {
            true => self.port.step_of(rank, ANSWERED),
            false => self.page(rank)?.step(),
        }
    }

    /// Whether the process of `rank` ends, if nothing was under way on that rank when it aborted.
    pub fn quiescent_process(self: &Arc<Self>, rank: u32) -> Option<HasEnded> {
        if !self.was_quiescent(rank) {
            return None;
        }
        if self.is_far(rank) {
            // Its links close with the communicator, too: who still lets others in lives on.
            let (group, mut asked) = (Arc::downgrade(self), Instant::now());
            return Some(Box::new(move || {
                let Some(group) = group.upgrade() else { return true };
                let due = group.port.fate(rank).is_some() && asked.elapsed() > ASK;
                due && {
                    let gone = group.port.is_gone(rank);
                    asked = Instant::now();
                    gone
                }
            }));
        }
        let pid = self.port.table().get(rank as usize)?.pid;
        Some(Box::new(move || is_ending(pid)))
    }

    /// On its page, or in the frame that told of its abort.
    pub fn was_quiescent(&self, rank: u32) -> bool {
        self.port.is_quiescent(rank) || self.page(rank).is_some_and(|page| page.was_quiescent())
    }

    /// On its page, or by a word from its machine.
    pub fn says_leaving(&self, rank: u32) -> bool {
        self.page(rank).is_some_and(|page| page.membership() == Membership::Leaving)
            || self.far().is_some_and(|far| far.beats.lock().has_left(rank))
    }

    pub fn ranks_at(&self, address: Address) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.port.table()).filter(move |(_, entry)| entry.address == address).map(|(rank, entry)| (rank, entry.pid))
    }

    /// `rank 3 (pid 77) | comm 0x..`: the first rank of the process at `address`, if one is there.
    pub fn name_of(&self, address: Address) -> Option<String> {
        let (rank, _) = self.ranks_at(address).next()?;
        Some(format!("{} | {}", self.port.name(rank), self.port.tag()))
    }

    /// True once nothing more is to be heard of the process at `address`, and rightly so.
    pub fn has_all_left(&self, address: Address) -> bool {
        self.ranks_at(address).all(|(rank, _)| self.port.fate(rank) == Some(Fate::Left))
    }

    /// The links to the process at `address` have closed without a word; it lives on, and how.
    pub fn cut_off(&self, address: Address, how: &str) {
        for (rank, _) in self.ranks_at(address) {
            let page = self.page(rank);
            match page.as_ref().map(|page| page.membership()) {
                Some(Membership::Leaving) => {}
                Some(Membership::Aborted(cause)) => self.fail(&as_remote(rank, &cause)),
                _ if self.port.fate(rank) == Some(Fate::Left) => {}
                _ => self.fail(&self.port.cut_off(rank, how, &step_text(page.and_then(|page| page.step())))),
            }
        }
    }

    /// Notes what has moved here since the last look. True if a rank of this process waits for others, or may.
    pub fn look(&self) -> bool {
        if self.is_over() {
            return false;
        }
        self.hear_of_aborts();
        let leaving = |(rank, page): (&u32, &Arc<Page>)| (page.membership() == Membership::Leaving).then_some(*rank);
        let leavers: Vec<u32> = self.pages.lock().iter().filter_map(leaving).collect();
        leavers.iter().for_each(|&rank| self.near_leaves(rank, false));
        let left = !leavers.is_empty() || self.far().is_some_and(|far| far.beats.lock().left().next().is_some());
        let (mut waits, speaks) = (left || self.port.is_in_step(), self.vigil.lock().speaks());
        for member in self.members.lock().values_mut() {
            let Some(abort) = member.abort.upgrade() else { continue };
            member.wait = abort.take_wait();
            waits |= member.wait.is_some() || !speaks && member.signs.may_wait();
            member.signs.want(left);
            if std::mem::replace(&mut member.moves, abort.moves()) != member.moves {
                member.page.moved();
            }
        }
        waits
    }

    /// An abort travels over the links, at once; where these are gone, the page still tells of it a little later.
    fn hear_of_aborts(&self) {
        let aborted = |(rank, page): (&u32, &Arc<Page>)| match page.membership() {
            Membership::Aborted(cause) => Some((*rank, cause)),
            _ => None,
        };
        let found = self.pages.lock().iter().find_map(aborted);
        if let Some((rank, cause)) = found
            && self.aborted.swap(true, Ordering::Relaxed)
        {
            self.fail(&as_remote(rank, &cause));
        }
    }

    /// The process at `address` has ended; `how`, where that is known by a pidfd.
    pub fn ended(&self, address: Address, how: &str) {
        self.port.process_ended(address);
        self.ended.lock().insert(address);
        let how_of = |pid| if how.is_empty() { peer_process::how_ended(pid) } else { how.to_owned() };
        for (rank, pid) in self.ranks_at(address) {
            let Some(page) = self.page(rank) else {
                // It died before it had shown its page: the rendezvous of the pages ends with this.
                self.fail(&self.died(rank, how_of(pid), None));
                continue;
            };
            match page.membership() {
                Membership::Leaving => {
                    self.port.has_ended(rank);
                    self.near_leaves(rank, true);
                }
                Membership::Aborted(cause) => {
                    self.fail(&as_remote(rank, &cause));
                    match page.is_over() {
                        true => self.near_leaves(rank, true),
                        false => self.port.tell_of_death(rank, &self.died(rank, how_of(pid), None)),
                    }
                }
                Membership::Joining | Membership::Alive => {
                    let died = self.died(rank, how_of(pid), page.step());
                    match self.is_over() {
                        true => self.port.tell_of_death(rank, &died),
                        false => self.fail(&died),
                    }
                }
            }
        }
    }

    fn died(&self, rank: u32, how: String, step: Option<String>) -> Error {
        let text = format!(
            "{} died{how} | {}{} | its process ended without leaving the communicator | fix: look at the output of rank {rank}",
            self.port.name(rank),
            self.port.tag(),
            step_text(step)
        );
        Error::new(Code::RemoteError, 40, text).by(rank)
    }

    /// Ends every wait of the ranks here. Whoever else is concerned learns it from its own watch, or from a link of ours.
    pub fn fail(&self, cause: &Error) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(rank) = cause.culprit.filter(|&rank| self.was_quiescent(rank)) {
            self.port.note_quiescent(rank);
        }
        self.port.fail_near(cause);
        self.raise(cause, None);
    }

    /// The rank `rank` of this process has failed: tells the others, here and elsewhere.
    pub fn raised(&self, rank: u32, cause: &Error) {
        let told = as_remote(rank, cause);
        // The port first: raising an abort of a rank here runs listeners, which may take a while.
        self.tell_of(rank, &told);
        if !self.over.swap(true, Ordering::AcqRel) {
            self.raise(&told, Some(rank));
        }
    }

    /// Tells the others that the rank `rank` of this process has failed.
    pub fn tell_of(&self, rank: u32, cause: &Error) {
        self.port.fail(rank, &as_remote(rank, cause));
    }

    fn raise(&self, cause: &Error, but: Option<u32>) {
        let members: Vec<_> = self.members.lock().iter().map(|(rank, member)| (*rank, member.abort.clone())).collect();
        for (rank, abort) in members {
            if Some(rank) != but
                && let Some(abort) = abort.upgrade()
            {
                // A listener that panics must not keep the other ranks waiting.
                let raise = std::panic::AssertUnwindSafe(|| abort.raise(cause.clone()));
                if let Err(panic) = std::panic::catch_unwind(raise) {
                    warn!(
                        "GINRS-E002 a listener of an abort panicked | rank {rank} | {} | fix: report this",
                        crate::panic::text_of(&*panic)
                    );
                }
            }
        }
    }
}

/// What a rank did last, for a message.
fn step_text(step: Option<String>) -> String {
    step.filter(|step| !step.is_empty()).map_or(String::new(), |step| format!(", it was in \"{step}\""))
}

impl Drop for Group {
    fn drop(&mut self) {
        self.watcher.sweep();
    }
}
