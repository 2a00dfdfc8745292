//! One communicator in this process, as the watch sees it: the status pages of all its ranks, and the aborts of those here.

use super::page::{Page, State};
use super::thread::{Event, Watcher};
use crate::bootstrap::{Address, Bootstrap, Port, as_remote};
use crate::error::{Code, Error, Result};
use crate::gin::abort::Abort;
use crate::sync::Mutex;
use crate::{info, warn};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Key under which a rank publishes its page.
pub(super) const PAGE_KEY: u64 = u64::MAX;

/// See the module. Shared by the communicator's ranks of this process.
pub(super) struct Group {
    watcher: &'static Watcher,
    port: Arc<Port>,
    pages: Mutex<HashMap<u32, Arc<Page>>>,
    members: Mutex<HashMap<u32, Weak<Abort>>>,
    /// One rank fetches what all ranks here need.
    fetching: Mutex<HashSet<Address>>,
    over: AtomicBool,
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
        });
        let weak = Arc::downgrade(&group);
        *slot = weak.clone();
        drop(slot);
        let failed = weak.clone();
        port.on_failure(Box::new(move |cause| watcher.tell(Event::Failed { group: failed.clone(), cause: cause.clone() })));
        let lost = weak.clone();
        port.on_lost(Box::new(move |address| watcher.tell(Event::Lost { group: lost.clone(), address })));
        port.set_has_left(Arc::new(move |rank| weak.upgrade().is_some_and(|group| group.has_left(rank))));
        group
    }

    /// A rank of this process joins, with its page.
    pub fn enter(&self, rank: u32, page: Arc<Page>, abort: &Arc<Abort>) {
        self.pages.lock().insert(rank, page);
        self.members.lock().insert(rank, Arc::downgrade(abort));
    }

    /// It is watched, and told, no more.
    pub fn exit(&self, rank: u32) {
        self.members.lock().remove(&rank);
    }

    /// Fetches the pages of the ranks elsewhere and watches their processes. The pidfd comes first: a page that arrives afterwards
    /// proves that the process id still means the process that we talk to.
    pub fn watch_all(self: &Arc<Self>, bootstrap: &Bootstrap) -> Result<()> {
        let mut watched = self.fetching.lock();
        for (rank, entry) in (0..).zip(self.port.table()) {
            if self.pages.lock().contains_key(&rank) || self.port.is_here(rank) {
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

    fn page(&self, rank: u32) -> Option<Arc<Page>> {
        self.pages.lock().get(&rank).cloned()
    }

    /// What `rank` says that it does.
    pub fn step_of(&self, rank: u32) -> Option<String> {
        self.page(rank)?.step()
    }

    fn has_left(&self, rank: u32) -> bool {
        self.page(rank).is_some_and(|page| page.state() == State::Leaving)
    }

    /// The process at `address` has ended.
    pub fn ended(&self, address: Address) {
        self.port.process_ended(address);
        let ranks = (0..).zip(self.port.table()).filter(|(_, entry)| entry.address == address);
        for (rank, entry) in ranks {
            let Some(page) = self.page(rank) else {
                // It died before it had shown its page: the rendezvous of the pages ends with this.
                self.fail(&self.died(rank, entry.pid, None));
                continue;
            };
            match page.state() {
                State::Leaving => self.port.has_ended(rank),
                State::Aborted(reason) => self.fail(&as_remote(rank, &reason.into())),
                State::Joining | State::Alive => self.fail(&self.died(rank, entry.pid, page.step())),
            }
        }
    }

    fn died(&self, rank: u32, pid: u32, step: Option<String>) -> Error {
        let step = step.filter(|step| !step.is_empty()).map_or(String::new(), |step| format!(", it was in \"{step}\""));
        let text = format!(
            "rank {rank} (pid {pid}) died{} | {}{step} | its process ended without leaving the communicator | fix: look at the output of rank {rank}",
            super::process::how_ended(pid),
            self.port.tag()
        );
        Error::new(Code::RemoteError, 40, text).by(rank)
    }

    /// Ends every wait of the ranks here. Whoever else is concerned learns it from its own watch, or from a link of ours.
    pub fn fail(&self, cause: &Error) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        self.port.fail_near(cause);
        self.raise(cause, None);
    }

    /// The rank `rank` of this process has failed: tells the others, here and elsewhere.
    pub fn raised(&self, rank: u32, cause: &Error) {
        let told = as_remote(rank, cause);
        // The port first: raising an abort of a rank here runs listeners, which may take a while.
        self.port.fail(rank, &told);
        if !self.over.swap(true, Ordering::AcqRel) {
            self.raise(&told, Some(rank));
        }
    }

    fn raise(&self, cause: &Error, but: Option<u32>) {
        let members: Vec<_> = self.members.lock().iter().map(|(rank, abort)| (*rank, abort.clone())).collect();
        for (rank, abort) in members {
            if Some(rank) != but
                && let Some(abort) = abort.upgrade()
            {
                // A listener that panics must not keep the other ranks waiting.
                let raise = std::panic::AssertUnwindSafe(|| abort.raise(cause.clone()));
                if let Err(panic) = std::panic::catch_unwind(raise) {
                    warn!(
                        "GINRS-E002 a listener of an abort panicked | rank {rank} | {} | fix: report this",
                        crate::process::panic_text(&*panic)
                    );
                }
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.watcher.sweep();
    }
}
