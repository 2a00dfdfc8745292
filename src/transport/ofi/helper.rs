//! Lends a hub to a thread of its own, so that the bytes of several streams move at once.
//!
//! A hub has one owner at any time. Most of the time that is the caller, who drives it as if there were no thread. Else it has gone
//! over the desk, whole: the caller lays it there, the thread takes it, drives it, and lays it back when nothing large has moved for a
//! while, when it has failed, or when the caller wants it. What is submitted meanwhile lies on the desk, in order for each link; what
//! has ended comes back over it.
//!
//! Traps: a peer that stands still may keep what is for it, and nothing else; a forked child has the desk and no thread, and whoever
//! had the lock at the fork has it for ever there.
#![forbid(unsafe_code)]

use super::{NAME, STREAMS};
use crate::error::{Code, Error, Result};
use crate::process::Joinable;
use crate::sync::{Condvar, Mutex, pid};
use crate::transport::{Completion, Submitted, Transport, Work};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What waits for a link, at most.
const ROOM: usize = 64;
/// How long the hub is waited for, and a thread at its end: a round takes less than a millisecond, unless somebody holds the core.
const PATIENCE: Duration = Duration::from_secs(10);
/// Others get the core so often while nothing moves, if there are others.
const COURTESY: u32 = 64;

/// What can be lent.
pub(super) trait Hub: Transport + 'static {
    /// Starts `work`, which is piece number `piece` of the rank.
    fn offer(&mut self, work: &Work, piece: u64) -> Result<Submitted>;
    /// The number of the first piece that has not landed.
    fn oldest(&self) -> Option<u64>;
    /// Somebody waits until all has landed.
    fn ask(&self);
    /// Large puts so far that have gone or come.
    fn large(&self) -> u64;
    /// What is for this peer and stream cannot go before an event has come.
    fn waits_for(&self, peer: u32, stream: u32) -> bool;
}

/// Work with its number, by peer and stream.
type Queues = BTreeMap<(u32, u32), VecDeque<(u64, Work)>>;

fn place(work: &Work) -> (u32, u32) {
    (work.peer, work.context % STREAMS)
}

fn first(queues: &Queues) -> Option<u64> {
    queues.values().filter_map(|queue| queue.front()).map(|(piece, _)| *piece).min()
}

/// Puts it into its queue, unless that is full.
fn queue(queues: &mut Queues, work: &Work, piece: u64) -> Submitted {
    let queue = queues.entry(place(work)).or_default();
    if queue.len() >= ROOM {
        return Submitted::Full;
    }
    queue.push_back((piece, *work));
    Submitted::Pending
}

/// A hub with what waits for it.
struct Driven<H> {
    hub: H,
    waiting: Queues,
}

impl<H: Hub> Driven<H> {
    fn submit(&mut self, work: &Work, piece: u64) -> Result<Submitted> {
        match self.waiting.is_empty() {
            true => self.hub.offer(work, piece),
            false => Ok(queue(&mut self.waiting, work, piece)),
        }
    }

    fn round(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let mut taken = false;
        for queue in self.waiting.values_mut() {
            while let Some((piece, work)) = queue.front() {
                match self.hub.offer(work, *piece) {
                    Ok(Submitted::Full) => break,
                    Ok(Submitted::Pending) => {}
                    Ok(Submitted::Done) => done.push((work.tag, Ok(()))),
                    Err(error) => done.push((work.tag, Err(error))),
                }
                queue.pop_front();
                taken = true;
            }
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        Ok(self.hub.progress(done)? || taken)
    }

    fn oldest(&self) -> Option<u64> {
        [self.hub.oldest(), first(&self.waiting)].into_iter().flatten().min()
    }

    fn unlanded(&self) -> Vec<(u32, u64)> {
        let waiting = self.waiting.iter().map(|((peer, _), queue)| (*peer, queue.len() as u64));
        self.hub.unlanded().into_iter().chain(waiting).collect()
    }

    /// Puts what lies on the desk behind what waits, up to `room` for each link.
    fn take(&mut self, desk: &mut Queues, room: usize) {
        desk.retain(|place, queue| {
            let own = self.waiting.entry(*place).or_default();
            own.extend(queue.drain(..queue.len().min(room.saturating_sub(own.len()))));
            !queue.is_empty()
        });
    }
}

enum Chair<H> {
    /// The caller has the hub.
    Empty,
    Lent(Box<Driven<H>>),
    /// The thread has it.
    Taken,
    Back(Box<Driven<H>>),
    /// The thread has panicked.
    Lost(Error),
}

struct Desk<H> {
    shared: Mutex<Shared<H>>,
    changed: Condvar,
}

struct Shared<H> {
    chair: Chair<H>,
    wanted: bool,
    quit: bool,
    submitted: Queues,
    done: Vec<Completion>,
    failed: Option<Error>,
    moved: bool,
    /// No piece before this one is missing, of the hub's and of those that lie here. May be late.
    oldest: Option<u64>,
    asked: bool,
    unlanded: Vec<(u32, u64)>,
}

/// One hub, and the thread that it is lent to.
pub(super) struct Helped<H: Hub> {
    here: Option<Box<Driven<H>>>,
    desk: Arc<Desk<H>>,
    thread: Option<Joinable>,
    /// After so long without a large put it comes back.
    quiet: Duration,
    owner: u32,
    /// What came with it when it was wanted.
    late: Vec<Completion>,
    failed: Option<Error>,
    /// Looks in vain in a row.
    vain: u32,
}

impl<H: Hub> Helped<H> {
    pub fn new(hub: H, quiet: Duration) -> Self {
        let shared = Shared {
            chair: Chair::Empty,
            wanted: false,
            quit: false,
            submitted: Queues::new(),
            done: Vec::new(),
            failed: None,
            moved: false,
            oldest: None,
            asked: false,
            unlanded: Vec::new(),
        };
        let desk = Arc::new(Desk { shared: Mutex::new(shared), changed: Condvar::new() });
        let here = Some(Box::new(Driven { hub, waiting: Queues::new() }));
        Self { here, desk, thread: None, quiet, owner: pid(), late: Vec::new(), failed: None, vain: u32::MAX }
    }

    /// Unless the thread has it.
    pub fn here(&mut self) -> Option<&mut H> {
        Some(&mut self.here.as_mut()?.hub)
    }

    /// [`Hub::large`], unless the thread has it.
    pub fn large(&self) -> Option<u64> {
        self.here.as_ref().map(|driven| driven.hub.large())
    }

    /// It has been looked at in vain so many times in a row, and nothing waits.
    pub fn is_quiet(&self, looks: u32) -> bool {
        self.vain > looks && self.here.as_ref().is_some_and(|driven| driven.waiting.is_empty()) && self.late.is_empty()
    }

    pub fn submit(&mut self, work: &Work, piece: u64) -> Result<Submitted> {
        self.vain = 0;
        if let Some(driven) = &mut self.here {
            return driven.submit(work, piece);
        }
        let mut shared = self.desk.shared.lock();
        if let Chair::Lost(error) = &shared.chair {
            return Err(error.clone());
        }
        let submitted = queue(&mut shared.submitted, work, piece);
        if submitted != Submitted::Full {
            shared.oldest.get_or_insert(piece);
        }
        Ok(submitted)
    }

    pub fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let mut moved = !self.late.is_empty();
        done.append(&mut self.late);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        moved |= match &mut self.here {
            Some(driven) => driven.round(done)?,
            None => self.look(done)?,
        };
        self.vain = if moved { 0 } else { self.vain.saturating_add(1) };
        Ok(moved)
    }

    /// What has come over the desk.
    fn look(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let mut shared = self.desk.shared.lock();
        let moved = std::mem::take(&mut shared.moved) || !shared.done.is_empty();
        done.append(&mut shared.done);
        match std::mem::replace(&mut shared.chair, Chair::Empty) {
            Chair::Back(mut driven) => {
                driven.take(&mut shared.submitted, usize::MAX);
                self.here = Some(driven);
            }
            Chair::Lost(error) => {
                shared.chair = Chair::Lost(error.clone());
                return Err(error);
            }
            other => shared.chair = other,
        }
        shared.failed.take().map_or(Ok(moved), Err)
    }

    /// The number of the first piece that is not known to have landed.
    pub fn oldest(&self) -> Option<u64> {
        match &self.here {
            Some(driven) => driven.oldest(),
            None => self.desk.shared.lock().oldest,
        }
    }

    /// Somebody waits until all has landed.
    pub fn ask(&self) {
        match &self.here {
            Some(driven) => driven.hub.ask(),
            None => self.desk.shared.lock().asked = true,
        }
    }

    pub fn unlanded(&self) -> Vec<(u32, u64)> {
        match &self.here {
            Some(driven) => driven.unlanded(),
            None => self.desk.shared.lock().unlanded.clone(),
        }
    }

    /// Before sleep: true if there is nothing to do by now.
    pub fn is_still(&mut self, is_still: impl FnOnce(&mut H) -> Result<bool>) -> Result<bool> {
        if self.here.is_none() && self.failed.is_none() {
            let mut late = std::mem::take(&mut self.late);
            self.failed = self.look(&mut late).err();
            self.late = late;
        }
        let Some(driven) = self.here.as_mut().filter(|_| self.late.is_empty() && self.failed.is_none()) else { return Ok(false) };
        let waits = |&(peer, stream): &(u32, u32)| driven.hub.waits_for(peer, stream);
        Ok(driven.waiting.keys().all(waits) && is_still(&mut driven.hub)?)
    }

    /// To the thread, which is started if there is none.
    pub fn lend(&mut self) -> Result<()> {
        if self.here.is_none() {
            return Ok(());
        }
        if self.thread.is_none() {
            let (desk, orphaned, quiet) = (self.desk.clone(), self.desk.clone(), self.quiet);
            let lost = move |error| {
                orphaned.shared.lock().chair = Chair::Lost(error);
                orphaned.changed.notify_all();
            };
            self.thread = Some(Joinable::start("ginrs ofi", move || serve(&desk, quiet), lost)?);
        }
        if let Some(driven) = self.here.take() {
            let mut shared = self.desk.shared.lock();
            (shared.oldest, shared.unlanded) = (driven.oldest(), Vec::new());
            shared.chair = Chair::Lent(driven);
            shared.wanted = false;
            self.desk.changed.notify_all();
        }
        Ok(())
    }

    /// The hub, which the thread gives back now.
    pub fn recall(&mut self) -> Result<&mut H> {
        if self.here.is_none() {
            self.call_back()?;
        }
        Ok(&mut self.here.as_mut().expect("it is here now").hub)
    }

    fn call_back(&mut self) -> Result<()> {
        if self.owner != pid() {
            return Err(self.stuck("a forked child has none of its parent's threads"));
        }
        let mut waited = Duration::ZERO;
        loop {
            let mut shared = self.desk.shared.lock();
            shared.wanted = true;
            if let Chair::Lent(_) = shared.chair
                && let Chair::Lent(driven) = std::mem::replace(&mut shared.chair, Chair::Empty)
            {
                shared.chair = Chair::Back(driven);
            }
            if let Chair::Taken = shared.chair {
                // Counted in naps: while the whole process stands still none passes.
                const NAP: Duration = Duration::from_millis(10);
                if self.desk.changed.wait_for(&mut shared, NAP).timed_out() {
                    waited += NAP;
                }
                if waited >= PATIENCE && matches!(shared.chair, Chair::Taken) {
                    return Err(self.stuck(&format!("waited for {} s", PATIENCE.as_secs())));
                }
                continue;
            }
            shared.wanted = false;
            drop(shared);
            let mut late = std::mem::take(&mut self.late);
            let looked = self.look(&mut late);
            self.late = late;
            return match looked {
                Err(error) if self.here.is_none() => Err(error),
                looked => {
                    self.failed = looked.err();
                    Ok(())
                }
            };
        }
    }

    #[cold]
    fn stuck(&self, why: &str) -> Error {
        let text = format!(
            "a thread of the transport does not give its links back | {NAME}, pid {} | {why} | fix: see what holds that thread, \"ginrs \
             ofi\"; GINRS_OFI_THREADS=0 does without",
            pid()
        );
        Error::new(Code::SystemError, 5, text)
    }

    /// Nothing is left to do for what waits.
    pub fn forget(&mut self) {
        if let Some(driven) = &mut self.here {
            driven.waiting.clear();
        }
        self.late.clear();
    }
}

impl<H: Hub> Drop for Helped<H> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take().filter(|_| self.owner == pid()) else { return };
        self.desk.shared.lock().quit = true;
        self.desk.changed.notify_all();
        thread.join(PATIENCE);
    }
}

/// The thread: drives what is lent to it.
fn serve<H: Hub>(desk: &Desk<H>, quiet: Duration) {
    let mut shared = desk.shared.lock();
    loop {
        match std::mem::replace(&mut shared.chair, Chair::Taken) {
            Chair::Lent(driven) => {
                drop(shared);
                drive(desk, driven, quiet);
                shared = desk.shared.lock();
            }
            other => {
                shared.chair = other;
                if shared.quit {
                    return;
                }
                desk.changed.wait(&mut shared);
            }
        }
    }
}

/// Rounds of `driven`, until it goes back.
fn drive<H: Hub>(desk: &Desk<H>, mut driven: Box<Driven<H>>, quiet: Duration) {
    let (mut done, mut vain) = (Vec::new(), 0u32);
    let (mut large, mut since) = (driven.hub.large(), Instant::now());
    loop {
        driven.take(&mut desk.shared.lock().submitted, ROOM);
        let round = driven.round(&mut done);
        let now = Instant::now();
        if driven.hub.large() != large {
            (large, since) = (driven.hub.large(), now);
        }
        let mut shared = desk.shared.lock();
        shared.done.append(&mut done);
        let ends = round.is_err() || shared.wanted || shared.quit || now - since >= quiet;
        if std::mem::take(&mut shared.asked) {
            driven.hub.ask();
            shared.oldest = [driven.oldest(), first(&shared.submitted)].into_iter().flatten().min();
            shared.unlanded = driven.unlanded();
        }
        let moved = round.unwrap_or_else(|error| {
            shared.failed.get_or_insert(error);
            false
        });
        shared.moved |= moved;
        if ends {
            shared.chair = Chair::Back(driven);
            desk.changed.notify_all();
            return;
        }
        drop(shared);
        vain = if moved { 0 } else { vain.wrapping_add(1) };
        if !moved && vain.is_multiple_of(COURTESY) {
            std::thread::yield_now();
        }
    }
}
