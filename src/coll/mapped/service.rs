//! The thread that lends this rank's holdings and opens what others lend: in calls of the driver that may take long. No launch waits for it.
//!
//! Descriptors stand open until all others have fetched them: never more than [`DESCRIPTORS`], for a process may have 1024 in all. What is behind those waits
//! its turn.
#![forbid(unsafe_code)]

use super::page::{Loan, Page, SLOTS};
use crate::device::{DevPtr, Device, Holding, Lends, Mapped};
use crate::error::Result;
use crate::process::{self, Joinable, rest};
use crate::sync::channel::{Receiver, Sender, unbounded};
use crate::team::{Lent, Team};
use crate::{bail, info};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long the end of a communicator waits for a call of the driver.
const PATIENCE: Duration = Duration::from_secs(10);
/// Open at a time: those of any one holding.
const DESCRIPTORS: u64 = Holding::MOST_PIECES as u64;

enum Task {
    Lend(usize, Holding),
    Withdraw(usize),
    Look,
}

/// The way to the thread. It ends, and lets go of what others lend, when this is dropped: their kernels and ours are over then.
pub struct Service {
    tasks: Option<Sender<Task>>,
    thread: Option<Joinable>,
    pages: Arc<Vec<Option<Page>>>,
    /// What is still to be done is not done any more.
    stopped: Arc<AtomicBool>,
    /// By rank: news that the thread has been asked to look at.
    asked: Vec<AtomicU64>,
    /// Something is lent that not all have opened, or waits.
    lends: Arc<AtomicBool>,
}

impl Service {
    /// `pages` are by rank; None of those of this process, but for this rank's own.
    pub fn start(team: &Arc<Team>, pages: Vec<Option<Page>>) -> Result<Self> {
        let pages = Arc::new(pages);
        let (tasks, waiting) = unbounded();
        let (stopped, lends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut work = Work {
            team: team.clone(),
            pages: pages.clone(),
            stopped: stopped.clone(),
            lends: lends.clone(),
            lent: HashMap::new(),
            waiting: VecDeque::new(),
            borrowed: HashMap::new(),
        };
        let failed = team.clone();
        let thread = Joinable::start("ginrs map", move || work.run(&waiting), move |error| failed.fail(error))?;
        let asked = pages.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Self { tasks: Some(tasks), thread: Some(thread), pages, stopped, asked, lends })
    }

    /// Has what others lend, or want back, looked at, if there is news.
    pub fn look(&self, rank: u32) {
        let mut news = false;
        for (peer, page) in self.others(rank) {
            let now = page.news();
            news |= self.asked[peer as usize].swap(now, Ordering::Relaxed) != now;
        }
        if news {
            self.give(Task::Look);
        }
    }

    /// The same if something that is wanted back is still kept: it could not be let go of until now. Or if others may have fetched what they are lent.
    pub fn look_again(&self, rank: u32) {
        let keeps = |page: &Page| (0..SLOTS).any(|slot| page.is_wanted_back(slot, rank));
        let wanted = || self.lends.load(Ordering::Relaxed) || self.others(rank).any(|(_, page)| keeps(page));
        // One that waits will see it, too.
        if self.tasks.as_ref().is_some_and(|tasks| tasks.is_empty()) && wanted() {
            self.give(Task::Look);
        }
    }

    fn others(&self, rank: u32) -> impl Iterator<Item = (u32, &Page)> {
        others(&self.pages, rank)
    }

    /// Lends, where that can be.
    pub fn lend(&self, slot: usize, holding: Holding) {
        self.give(Task::Lend(slot, holding));
    }

    /// True if another rank cannot open a loan of rank `rank`: nobody need wait for that.
    pub fn is_refused(&self, rank: u32, slot: usize) -> bool {
        self.pages[rank as usize].as_ref().is_none_or(|page| page.is_refused(slot))
    }

    /// Wants it back: kernels that were told of it are over.
    pub fn withdraw(&self, slot: usize) {
        self.give(Task::Withdraw(slot));
    }

    /// True if all others have let go of it: its slot may be used again.
    pub fn is_empty(&self, rank: u32, slot: usize) -> bool {
        let own = self.pages[rank as usize].as_ref();
        own.is_some_and(|page| page.empty(slot, self.others(rank).map(|(peer, _)| peer)))
    }

    /// Where `peer`, of another process, sees a loan of rank `rank`.
    pub fn seen(&self, rank: u32, slot: usize, peer: u32) -> Option<DevPtr> {
        self.pages[rank as usize].as_ref()?.seen(slot, peer)
    }

    fn give(&self, task: Task) {
        // A thread that has gone has told why.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }
}

/// Pages of ranks of other processes.
fn others(pages: &[Option<Page>], rank: u32) -> impl Iterator<Item = (u32, &Page)> {
    (0..).zip(pages).filter(move |(peer, _)| *peer != rank).filter_map(|(peer, page)| Some((peer, page.as_ref()?)))
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            thread.join(PATIENCE);
        }
    }
}

struct Work {
    team: Arc<Team>,
    pages: Arc<Vec<Option<Page>>>,
    stopped: Arc<AtomicBool>,
    lends: Arc<AtomicBool>,
    /// By slot: descriptors that others are to fetch. What has been freed since it was to be lent, and made anew, is lent in vain: no call has its
    /// buffer in it any more.
    lent: HashMap<usize, Lent>,
    /// Slots, and what is to be lent in them.
    waiting: VecDeque<(usize, Holding)>,
    /// By rank and slot: what this rank sees, if it can.
    borrowed: HashMap<(u32, usize), Option<Mapped>>,
}

impl Work {
    fn run(&mut self, tasks: &Receiver<Task>) {
        if let Err(error) = self.team.device.bind_thread() {
            info!(COLL, "{} maps no buffers: {error}", self.team.tag());
            return;
        }
        let stopped = self.stopped.clone();
        for task in tasks.iter().take_while(|_| !stopped.load(Ordering::Relaxed)) {
            let Some(_at_work) = process::at_work() else { return };
            match task {
                Task::Lend(slot, holding) => self.waiting.push_back((slot, holding)),
                Task::Withdraw(slot) => {
                    self.waiting.retain(|(waiting, _)| *waiting != slot);
                    self.lent.remove(&slot);
                    self.own().withdraw(slot);
                }
                Task::Look => self.look(),
            }
            self.lend_waiting();
        }
    }

    /// Closes what all have fetched, and lends what waits as far as there is room then.
    fn lend_waiting(&mut self) {
        let (own, ranks) = (self.own(), || others(&self.pages, self.team.rank).map(|(rank, _)| rank));
        let told: Vec<usize> = self.lent.keys().copied().filter(|&slot| own.is_told(slot, ranks())).collect();
        told.iter().for_each(|slot| drop(self.lent.remove(slot)));
        let open = |lent: &HashMap<usize, Lent>| lent.values().map(|lent| lent.count()).sum::<u64>();
        while let Some((slot, holding)) =
            self.waiting.pop_front_if(|(_, holding)| open(&self.lent) + holding.pieces() <= DESCRIPTORS)
        {
            if let Err(error) = self.lend(slot, &holding) {
                info!(COLL, "{} does not lend a buffer: {error}", self.team.tag());
            }
        }
        self.lends.store(!self.lent.is_empty() || !self.waiting.is_empty(), Ordering::Relaxed);
    }

    fn lend(&mut self, slot: usize, holding: &Holding) -> Result<()> {
        let device = &self.team.device;
        let loan = match holding.lends {
            Lends::Handle => Loan::Handle(device.lend_handle(holding)?),
            Lends::Descriptor | Lends::Pieces(_) => {
                let lent = Lent::new(&self.team, descriptors(&**device, holding)?);
                let (first, pieces) = (lent.first(), lent.count());
                self.lent.insert(slot, lent);
                Loan::Descriptors { first, pieces }
            }
            Lends::Nothing => return Ok(()),
        };
        self.own().lend(slot, holding.bytes, loan);
        Ok(())
    }

    fn own(&self) -> &Page {
        self.pages[self.team.rank as usize].as_ref().expect("a rank has its own page")
    }

    /// Opens what is new, and lets go of what is wanted back. To close a handle the driver waits for all kernels, and holds up what others of this
    /// process launch and copy: not while a kernel may wait for that.
    fn look(&mut self) {
        let (team, pages) = (self.team.clone(), self.pages.clone());
        for (rank, page) in (0..).zip(pages.iter()).filter(|(rank, _)| *rank != team.rank) {
            let Some(page) = page else { continue };
            for slot in 0..SLOTS {
                // Each may ask a process that does not answer.
                if self.stopped.load(Ordering::Relaxed) {
                    return;
                }
                if page.is_wanted_back(slot, team.rank) {
                    let keeps = matches!(self.borrowed.get(&(rank, slot)), Some(Some(_)));
                    if !keeps || rest::at_rest(|| drop(self.borrowed.remove(&(rank, slot)))) {
                        self.borrowed.remove(&(rank, slot));
                        info!(COLL, "{} has let go of buffer {slot} of rank {rank}", team.tag());
                        page.let_go(slot, team.rank);
                    }
                    continue;
                }
                if self.borrowed.contains_key(&(rank, slot)) {
                    continue;
                }
                let Some((bytes, loan)) = page.loan(slot) else { continue };
                let mapped = borrow(&team, rank, bytes, loan)
                    .inspect_err(|error| info!(COLL, "{} does not map buffer {slot} of rank {rank}: {error}", team.tag()))
                    .ok();
                if mapped.is_some() {
                    info!(COLL, "{} maps buffer {slot} of rank {rank}: {bytes} bytes", team.tag());
                }
                page.tell(slot, team.rank, mapped.as_ref().map(|mapped| mapped.at));
                self.borrowed.insert((rank, slot), mapped);
            }
        }
    }
}

/// Of the pieces of a holding, in order.
fn descriptors(device: &dyn Device, holding: &Holding) -> Result<Vec<OwnedFd>> {
    let size = holding.bytes / holding.pieces();
    let of = |base: DevPtr| {
        let found = device.lookup(base)?;
        if (found.base, found.bytes as u64) != (base, size) {
            bail!(InvalidUsage, 52, "a buffer was freed as it was to be lent | {base:#x} | fix: free it behind its last call");
        }
        found.physical.export()
    };
    (0..holding.pieces()).map(|piece| of(holding.base + piece * size)).collect()
}

fn borrow(team: &Team, rank: u32, bytes: u64, loan: Loan) -> Result<Mapped> {
    match loan {
        Loan::Handle(words) => team.device.borrow_handle(words),
        Loan::Descriptors { first, pieces } => {
            let size = bytes / pieces.max(1);
            let take = |piece: u64| {
                let taken = team.take(rank, [first + piece, size], |device, fd, bytes| device.import(fd, bytes))?;
                match taken {
                    Some(physical) => Ok(((piece * size) as usize, physical)),
                    None => bail!(InternalError, 53, "memory of another machine was lent | rank {rank} | fix: report this"),
                }
            };
            let taken = (0..pieces).map(take).collect::<Result<Vec<_>>>()?;
            if let [(_, whole)] = &taken[..]
                && let Some(at) = whole.device_address()
            {
                return Ok(Mapped { at, keep: Box::new(whole.clone()) });
            }
            let space = team.device.reserve(bytes as usize, team.device.granularity())?;
            space.map_all(&taken)?;
            Ok(Mapped { at: space.base(), keep: Box::new(space) })
        }
    }
}
