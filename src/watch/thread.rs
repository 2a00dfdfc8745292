//! The thread "ginrs watch", one per process: sleeps until a watched process ends or a communicator fails.

use super::group::Group;
use super::process;
use crate::bootstrap::Address;
use crate::error::{Error, Result};
use crate::process::{PerProcess, ServiceFd, service_thread};
use crate::sync::Mutex;
use crate::{bail, info};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// What other threads tell the watch thread.
pub(super) enum Event {
    /// A communicator has failed; its ranks here must hear it.
    Failed { group: Weak<Group>, cause: Error },
    /// A rank here has raised its abort.
    Raised { group: Weak<Group>, rank: u32, cause: Error },
    /// The last link to a process has closed, or it had ended before it could be watched.
    Lost { group: Weak<Group>, address: Address },
}

struct Watched {
    address: Address,
    pid: u32,
    pidfd: ServiceFd,
    groups: Vec<Weak<Group>>,
}

#[derive(Default)]
struct Processes {
    by_token: HashMap<u64, Watched>,
    last: u64,
}

/// See the module. Lives as long as the process.
pub(super) struct Watcher {
    epoll: ServiceFd,
    bell: ServiceFd,
    events: Mutex<Vec<Event>>,
    processes: Mutex<Processes>,
}

const BELL: u64 = 0;

impl Watcher {
    /// The watcher of this process, started at first use.
    pub fn get() -> Result<&'static Watcher> {
        static WATCHER: PerProcess<Mutex<Option<&'static Watcher>>> = PerProcess::new();
        let mut slot = WATCHER.get(Mutex::default).lock();
        if let Some(watcher) = *slot {
            return Ok(watcher);
        }
        let made = (|| {
            let epoll = ServiceFd::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
            let bell = ServiceFd::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            epoll::add(epoll.as_fd(), bell.as_fd(), epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
            Ok::<_, Errno>(Watcher { epoll, bell, events: Mutex::default(), processes: Mutex::default() })
        })();
        let watcher: &'static Watcher = match made {
            Ok(watcher) => Box::leak(Box::new(watcher)),
            Err(e) => {
                bail!(SystemError, 24, "the watch cannot be set up | pid {} | {e} | fix: raise ulimit -n", std::process::id())
            }
        };
        service_thread("ginrs watch", move || watcher.run(), move |error| watcher.broken(&error))?;
        *slot = Some(watcher);
        Ok(watcher)
    }

    /// Hands an event to the thread; never blocks.
    pub fn tell(&self, event: Event) {
        self.events.lock().push(event);
        let _ = rustix::io::write(self.bell.as_fd(), &1u64.to_ne_bytes());
    }

    /// Tells `group` when process `pid`, which serves at `address`, ends. Communicators share one pidfd per process.
    pub fn watch(&self, address: Address, pid: u32, group: &Arc<Group>) -> rustix::io::Result<()> {
        let mut processes = self.processes.lock();
        if let Some(watched) = processes.by_token.values_mut().find(|watched| watched.address == address) {
            watched.groups.push(Arc::downgrade(group));
            return Ok(());
        }
        let Some(pidfd) = process::open(pid)? else {
            self.tell(Event::Lost { group: Arc::downgrade(group), address });
            return Ok(());
        };
        processes.last += 1;
        let token = processes.last;
        epoll::add(self.epoll.as_fd(), &pidfd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        let watched = Watched { address, pid, pidfd: ServiceFd::new(pidfd), groups: vec![Arc::downgrade(group)] };
        processes.by_token.insert(token, watched);
        Ok(())
    }

    /// Lets go of processes that no communicator watches any more.
    pub fn sweep(&self) {
        let mut processes = self.processes.lock();
        processes.by_token.retain(|_, watched| {
            watched.groups.retain(|group| group.strong_count() > 0);
            if watched.groups.is_empty() {
                let _ = epoll::delete(self.epoll.as_fd(), watched.pidfd.as_fd());
            }
            !watched.groups.is_empty()
        });
    }

    fn run(&self) {
        let mut ready = Vec::with_capacity(64);
        loop {
            ready.clear();
            match epoll::wait(self.epoll.as_fd(), rustix::buffer::spare_capacity(&mut ready), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => panic!("epoll wait failed: {e}"),
            }
            for event in &ready {
                let token = event.data.u64();
                if token == BELL {
                    let _ = rustix::io::read(self.bell.as_fd(), &mut [0; 8]);
                } else {
                    self.ended(token);
                }
            }
            let events = std::mem::take(&mut *self.events.lock());
            events.into_iter().for_each(|event| self.handle(event));
        }
    }

    fn ended(&self, token: u64) {
        let Some(watched) = self.processes.lock().by_token.remove(&token) else { return };
        let _ = epoll::delete(self.epoll.as_fd(), watched.pidfd.as_fd());
        info!(INIT, "process {} has ended{}", watched.pid, process::how_ended(watched.pid));
        for group in watched.groups.iter().filter_map(Weak::upgrade) {
            group.ended(watched.address);
        }
    }

    fn broken(&self, error: &Error) {
        let groups: Vec<_> = self.processes.lock().by_token.values().flat_map(|watched| watched.groups.clone()).collect();
        groups.iter().filter_map(Weak::upgrade).for_each(|group| group.fail(error));
    }

    fn handle(&self, event: Event) {
        match event {
            Event::Failed { group, cause } => {
                if let Some(group) = group.upgrade() {
                    group.fail(&cause);
                }
            }
            Event::Raised { group, rank, cause } => {
                if let Some(group) = group.upgrade() {
                    group.raised(rank, &cause);
                }
            }
            Event::Lost { group, address } => {
                // Where a pidfd watches it, that tells more, and not before it is true.
                let watched = self.processes.lock().by_token.values().any(|watched| watched.address == address);
                if !watched && let Some(group) = group.upgrade() {
                    group.ended(address);
                }
            }
        }
    }
}
