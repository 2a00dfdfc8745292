//! The thread that lends this rank's holdings and opens what others lend: in calls of the driver that may take long. No launch waits for it.
#![forbid(unsafe_code)]

use super::own;
use super::page::{Loan, Page, SLOTS};
use crate::device::{DevPtr, Holding, Lends, Mapped};
use crate::error::Result;
use crate::process::Joinable;
use crate::sync::channel::{Receiver, Sender, unbounded};
use crate::team::{Lent, Team};
use crate::{bail, info};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the end of a communicator waits for a call of the driver.
const PATIENCE: Duration = Duration::from_secs(10);

enum Task {
    Lend(own::Loan, Holding),
    TakeBack(usize),
    Look,
}

/// The way to the thread. It ends, and lets go of what others lend, when this is dropped: their kernels and ours are over then.
pub struct Service {
    tasks: Option<Sender<Task>>,
    thread: Option<Joinable>,
    pages: Arc<Vec<Option<Page>>>,
    /// By rank: changes that the thread has been asked to look at.
    asked: Vec<AtomicU64>,
}

impl Service {
    /// `pages` are by rank; None of those of this process, but for this rank's own.
    pub fn start(team: &Arc<Team>, pages: Vec<Option<Page>>) -> Result<Self> {
        let pages = Arc::new(pages);
        let (tasks, waiting) = unbounded();
        let mut work = Work { team: team.clone(), pages: pages.clone(), lent: HashMap::new(), borrowed: HashMap::new() };
        let failed = team.clone();
        let thread = Joinable::start("ginrs map", move || work.run(&waiting), move |error| failed.fail(error))?;
        let asked = pages.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Self { tasks: Some(tasks), thread: Some(thread), pages, asked })
    }

    /// Has what others have changed looked at.
    pub fn look(&self, rank: u32) {
        let mut news = false;
        for (peer, page) in self.pages.iter().enumerate().filter(|(peer, _)| *peer != rank as usize) {
            let Some(page) = page else { continue };
            let changes = page.changes();
            news |= self.asked[peer].swap(changes, Ordering::Relaxed) != changes;
        }
        if news {
            self.give(Task::Look);
        }
    }

    /// Lends, where that can be.
    pub fn lend(&self, loan: own::Loan, holding: Holding) {
        self.give(Task::Lend(loan, holding));
    }

    /// Ends a loan.
    pub fn take_back(&self, slot: usize) {
        self.give(Task::TakeBack(slot));
    }

    /// Where `peer`, of another process, sees a loan of rank `rank`.
    pub fn seen(&self, rank: u32, loan: own::Loan, peer: u32) -> Option<DevPtr> {
        self.pages[rank as usize].as_ref()?.seen(loan.slot, loan.generation, peer)
    }

    fn give(&self, task: Task) {
        // A thread that has gone has told why.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            thread.join(PATIENCE);
        }
    }
}

struct Work {
    team: Arc<Team>,
    pages: Arc<Vec<Option<Page>>>,
    /// Descriptors that others may fetch, by slot. What has been freed since it was to be lent, and made anew, is lent in vain: no call
    /// has its buffer in it any more.
    lent: HashMap<usize, Lent>,
    /// By rank and slot: the generation, and what this rank sees, if it can.
    borrowed: HashMap<(u32, usize), (u64, Option<Mapped>)>,
}

impl Work {
    fn run(&mut self, tasks: &Receiver<Task>) {
        if let Err(error) = self.team.device.bind_thread() {
            info!(COLL, "{} maps no buffers: {error}", self.team.tag());
            return;
        }
        for task in tasks.iter() {
            match task {
                Task::Lend(loan, holding) => {
                    if let Err(error) = self.lend(loan, &holding) {
                        info!(COLL, "{} does not lend a buffer: {error}", self.team.tag());
                    }
                }
                Task::TakeBack(slot) => {
                    self.own().take_back(slot);
                    self.lent.remove(&slot);
                }
                Task::Look => self.look(),
            }
        }
    }

    fn own(&self) -> &Page {
        self.pages[self.team.rank as usize].as_ref().expect("a rank has its own page")
    }

    fn lend(&mut self, own::Loan { slot, generation }: own::Loan, holding: &Holding) -> Result<()> {
        let device = &self.team.device;
        let loan = match holding.lends {
            Lends::Handle => Loan::Handle(device.lend_handle(holding)?),
            Lends::Descriptor => {
                let found = device.lookup(holding.base)?;
                let lent = Lent::new(&self.team, found.physical.export()?);
                let key = lent.key();
                self.lent.insert(slot, lent);
                Loan::Descriptor(key)
            }
            Lends::Nothing => return Ok(()),
        };
        self.own().lend(slot, generation, holding.bytes, loan);
        Ok(())
    }

    /// Lets go of loans that have ended, and opens new ones.
    fn look(&mut self) {
        let (team, pages) = (self.team.clone(), self.pages.clone());
        for (rank, page) in (0..).zip(pages.iter()).filter(|(rank, _)| *rank != team.rank) {
            let Some(page) = page else { continue };
            for slot in 0..SLOTS {
                let generation = page.generation(slot);
                if self.borrowed.get(&(rank, slot)).map_or(0, |borrowed| borrowed.0) == generation {
                    continue;
                }
                if let Some((_, Some(gone))) = self.borrowed.remove(&(rank, slot)) {
                    team.device.bury(Box::new(gone));
                }
                // One that changes meanwhile is looked at again.
                let Some((bytes, loan)) = page.loan(slot, generation).filter(|_| generation != 0) else { continue };
                let mapped = borrow(&team, rank, bytes, loan)
                    .inspect_err(|error| info!(COLL, "{} does not map a buffer of rank {rank}: {error}", team.tag()))
                    .ok();
                let at = mapped.as_ref().map_or(0, |mapped| mapped.at);
                self.borrowed.insert((rank, slot), (generation, mapped));
                page.tell(slot, generation, team.rank, at);
            }
        }
    }
}

fn borrow(team: &Team, rank: u32, bytes: u64, loan: Loan) -> Result<Mapped> {
    match loan {
        Loan::Handle(words) => team.device.borrow_handle(words),
        Loan::Descriptor(key) => {
            let Some(physical) = team.take(rank, [key, bytes], |device, fd, bytes| device.import(fd, bytes))? else {
                bail!(InternalError, 53, "memory of another machine was lent | rank {rank} | fix: report this")
            };
            if let Some(at) = physical.device_address() {
                return Ok(Mapped { at, keep: Box::new(physical) });
            }
            let space = team.device.reserve(physical.bytes(), team.device.granularity())?;
            space.map(0, &physical)?;
            Ok(Mapped { at: space.base(), keep: Box::new(space) })
        }
    }
}
