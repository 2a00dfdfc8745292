//! The thread that lends this rank's holdings and opens what others lend: in calls of the driver that may take long. No launch waits for it.
#![forbid(unsafe_code)]

use super::page::{Loan, Page, SLOTS};
use crate::device::{DevPtr, Holding, Lends, Mapped};
use crate::error::Result;
use crate::process::Joinable;
use crate::sync::channel::{Receiver, Sender, unbounded};
use crate::team::{Lent, Team};
use crate::{bail, info};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long the end of a communicator waits for a call of the driver.
const PATIENCE: Duration = Duration::from_secs(10);

enum Task {
    Lend(usize, Holding),
    Look,
}

/// The way to the thread. It ends, and lets go of what others lend, when this is dropped: their kernels and ours are over then.
pub struct Service {
    tasks: Option<Sender<Task>>,
    thread: Option<Joinable>,
    pages: Arc<Vec<Option<Page>>>,
    /// What is still to be done is not done any more.
    stopped: Arc<AtomicBool>,
    /// By rank: loans that the thread has been asked to look at.
    asked: Vec<AtomicU64>,
}

impl Service {
    /// `pages` are by rank; None of those of this process, but for this rank's own.
    pub fn start(team: &Arc<Team>, pages: Vec<Option<Page>>) -> Result<Self> {
        let pages = Arc::new(pages);
        let (tasks, waiting) = unbounded();
        let stopped = Arc::new(AtomicBool::new(false));
        let mut work = Work {
            team: team.clone(),
            pages: pages.clone(),
            stopped: stopped.clone(),
            lent: Vec::new(),
            borrowed: HashMap::new(),
        };
        let failed = team.clone();
        let thread = Joinable::start("ginrs map", move || work.run(&waiting), move |error| failed.fail(error))?;
        let asked = pages.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Self { tasks: Some(tasks), thread: Some(thread), pages, stopped, asked })
    }

    /// Has what others lend looked at.
    pub fn look(&self, rank: u32) {
        let mut news = false;
        for (peer, page) in self.pages.iter().enumerate().filter(|(peer, _)| *peer != rank as usize) {
            let Some(page) = page else { continue };
            let loans = page.loans();
            news |= self.asked[peer].swap(loans, Ordering::Relaxed) != loans;
        }
        if news {
            self.give(Task::Look);
        }
    }

    /// Lends, where that can be.
    pub fn lend(&self, slot: usize, holding: Holding) {
        self.give(Task::Lend(slot, holding));
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
    /// Descriptors that others may fetch. What has been freed since it was to be lent, and made anew, is lent in vain: no call has its
    /// buffer in it any more.
    lent: Vec<Lent>,
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
            match task {
                Task::Lend(slot, holding) => {
                    if let Err(error) = self.lend(slot, &holding) {
                        info!(COLL, "{} does not lend a buffer: {error}", self.team.tag());
                    }
                }
                Task::Look => self.look(),
            }
        }
    }

    fn lend(&mut self, slot: usize, holding: &Holding) -> Result<()> {
        let device = &self.team.device;
        let loan = match holding.lends {
            Lends::Handle => Loan::Handle(device.lend_handle(holding)?),
            Lends::Descriptor => {
                let found = device.lookup(holding.base)?;
                let lent = Lent::new(&self.team, found.physical.export()?);
                let key = lent.key();
                self.lent.push(lent);
                Loan::Descriptor(key)
            }
            Lends::Nothing => return Ok(()),
        };
        self.pages[self.team.rank as usize].as_ref().expect("a rank has its own page").lend(slot, holding.bytes, loan);
        Ok(())
    }

    /// Opens what is new.
    fn look(&mut self) {
        let (team, pages) = (self.team.clone(), self.pages.clone());
        for (rank, page) in (0..).zip(pages.iter()).filter(|(rank, _)| *rank != team.rank) {
            let Some(page) = page else { continue };
            for slot in 0..SLOTS {
                // Each may ask a process that does not answer.
                if self.stopped.load(Ordering::Relaxed) {
                    return;
                }
                if self.borrowed.contains_key(&(rank, slot)) {
                    continue;
                }
                let Some((bytes, loan)) = page.loan(slot) else { continue };
                let mapped = borrow(&team, rank, bytes, loan)
                    .inspect_err(|error| info!(COLL, "{} does not map a buffer of rank {rank}: {error}", team.tag()))
                    .ok();
                page.tell(slot, team.rank, mapped.as_ref().map_or(0, |mapped| mapped.at));
                self.borrowed.insert((rank, slot), mapped);
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
