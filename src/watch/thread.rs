//! The thread "ginrs watch", one per process: sleeps until a watched process ends or a communicator fails, and looks around now and then.

use super::asked::Ear;
use super::beats::TURN;
use super::group::Group;
use super::hang::LONG;
use super::still::Stillness;
use super::stops::Stops;
use crate::bootstrap::Address;
use crate::bootstrap::service_is_intact;
use crate::device::cpu::stand_in_present;
use crate::device::cpu::waits::{self, Wait};
use crate::error::{Error, Result};
use crate::peer_process::{self, Became, Program, links};
use crate::process::{self, Asked, ServiceFd, descriptors_lost, service_thread};
use crate::sync::system::epoll_wait;
use crate::sync::{Mutex, PerProcess};
use crate::text::printable;
use crate::{bail, fault, info, warn};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What other threads tell the watch thread.
pub(super) enum Event {
    /// A communicator has failed; its ranks here must hear it.
    Failed { group: Weak<Group>, cause: Error },
    /// A rank here has raised its abort.
    Raised { group: Weak<Group>, rank: u32, cause: Error },
    /// The last link to a process has closed, or it had ended before it could be watched.
    Lost { group: Weak<Group>, address: Address },
}

/// A process. What it ran when it was first watched.
struct Watched {
    address: Address,
    pid: u32,
    pidfd: ServiceFd,
    program: Option<Program>,
    groups: Vec<Weak<Group>>,
}

/// Links that have closed while the pidfd says nothing, and when they did.
struct Loss {
    group: Weak<Group>,
    address: Address,
    since: Instant,
    looks: u32,
}

/// Between two looks around, while there are communicators.
const TICK: Duration = Duration::from_millis(250);
/// Whoever asks again so soon has had the answer.
const FRESH: Duration = Duration::from_secs(3);
/// Bytes of a line for who asks from another terminal.
const LINE: usize = 4096;
/// So much later a look may be before it counts that this process itself stood still.
const LATE: u32 = 4;

/// The last answer to a signal.
struct Told {
    at: Instant,
    question: u32,
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
    groups: Mutex<Vec<Weak<Group>>>,
    ear: Option<Ear>,
}

const BELL: u64 = 0;
const EAR: u64 = u64::MAX;

impl Watcher {
    /// The watcher of this process, started at first use.
    pub fn get() -> Result<&'static Watcher> {
        static WATCHER: PerProcess<Mutex<Option<&'static Watcher>>> = PerProcess::new();
        let mut slot = WATCHER.get(Mutex::default).lock();
        if let Some(watcher) = *slot {
            return if watcher.epoll.is_intact() { Ok(watcher) } else { Err(descriptors_lost()) };
        }
        let made = (|| {
            fault::step("descriptor")?;
            let epoll = ServiceFd::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
            let bell = ServiceFd::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            epoll::add(epoll.as_fd(), bell.as_fd(), epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
            let ear = Ear::open();
            if let Some(ear) = &ear {
                // By edges: one that cannot be let in, for want of descriptors, would wake the thread without end.
                let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
                epoll::add(epoll.as_fd(), ear.fd().as_fd(), epoll::EventData::new_u64(EAR), flags)?;
            }
            Ok::<_, Errno>(Watcher {
                epoll,
                bell,
                events: Mutex::default(),
                processes: Mutex::default(),
                groups: Mutex::default(),
                ear,
            })
        })();
        let watcher: &'static Watcher = match made {
            Ok(watcher) => Box::leak(Box::new(watcher)),
            Err(e) => {
                bail!(SystemError, 24, "the watch cannot be set up | pid {} | {e} | fix: raise ulimit -n", std::process::id())
            }
        };
        service_thread("ginrs watch", move || watcher.run(), move |error| watcher.broken(&error)).inspect_err(|_| {
            // SAFETY: it came from a Box just now, and who else had it, the thread's closures, went without being run.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(watcher).cast_mut()) });
        })?;
        *slot = Some(watcher);
        if stand_in_present() {
            process::watch_quit(watcher.bell.raw());
        }
        Ok(watcher)
    }

    /// Hands an event to the thread; never blocks.
    pub fn tell(&self, event: Event) {
        self.events.lock().push(event);
        self.wake();
    }

    /// Looks after `group` now and then.
    pub fn add(&self, group: &Arc<Group>) {
        let mut groups = self.groups.lock();
        groups.retain(|group| group.strong_count() > 0);
        groups.push(Arc::downgrade(group));
        drop(groups);
        // It may sleep without end.
        self.wake();
    }

    /// Somebody is to be looked after, or speaks from now on.
    pub fn wake(&self) {
        let _ = rustix::io::write(self.bell.as_fd(), &1u64.to_ne_bytes());
    }

    /// Tells `group` when process `pid`, which serves at `address`, ends. Communicators share one pidfd per process.
    pub fn watch(&self, address: Address, pid: u32, group: &Arc<Group>) -> rustix::io::Result<()> {
        let mut processes = self.processes.lock();
        if let Some(watched) = processes.by_token.values_mut().find(|watched| watched.address == address) {
            watched.groups.push(Arc::downgrade(group));
            return Ok(());
        }
        let Some(pidfd) = peer_process::open(pid)? else {
            self.tell(Event::Lost { group: Arc::downgrade(group), address });
            return Ok(());
        };
        processes.last += 1;
        let token = processes.last;
        epoll::add(self.epoll.as_fd(), &pidfd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        let (program, groups) = (Program::of(pid), vec![Arc::downgrade(group)]);
        let watched = Watched { address, pid, pidfd: ServiceFd::new(pidfd), program, groups };
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

    fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn run(&self) {
        let mut ready = Vec::with_capacity(64);
        let (mut losses, mut stops, mut last, mut beat) = (Vec::new(), Stops::default(), Instant::now(), Instant::now());
        let (mut still, mut told) = (Stillness::default(), None);
        loop {
            ready.clear();
            let groups = self.groups();
            let speaks = groups.iter().any(|group| group.far().is_some_and(|far| far.speaks.load(Ordering::Relaxed)));
            let timeout = match losses.is_empty() {
                false => Some(links::AGAIN),
                true if speaks => Some(TURN.saturating_sub(beat.elapsed())),
                true => (!groups.is_empty()).then(|| TICK.saturating_sub(last.elapsed())),
            };
            drop(groups);
            let timeout = timeout.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match epoll_wait(self.epoll.as_fd(), &mut ready, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing else ends it: the descriptor was closed, or is another file's now.
                Err(_) => return self.broken(&descriptors_lost()),
            }
            for event in &ready {
                let token = event.data.u64();
                if token == BELL {
                    let _ = rustix::io::read(self.bell.as_fd(), &mut [0; 8]);
                } else if token == EAR {
                    self.ear.iter().for_each(|ear| ear.answer(|| self.said(told.as_ref())));
                } else {
                    self.ended(token);
                }
            }
            self.answer(&mut told);
            let events = std::mem::take(&mut *self.events.lock());
            events.into_iter().for_each(|event| losses.extend(self.handle(event)));
            losses.retain_mut(|loss| self.is_open(loss));
            // Who does not speak looks now and then whether it has to.
            if beat.elapsed() >= if speaks { TURN } else { TICK } {
                beat = Instant::now();
                self.groups().iter().for_each(|group| group.beat());
            }
            let elapsed = last.elapsed();
            if elapsed >= TICK {
                last = Instant::now();
                if !self.look_around(elapsed, &mut stops, &mut still) {
                    return self.broken(&descriptors_lost());
                }
            }
        }
    }

    /// What nobody tells: who stands still, and who waits in vain. False once the library's own descriptors are gone.
    fn look_around(&self, elapsed: Duration, stops: &mut Stops, still: &mut Stillness) -> bool {
        if !(self.epoll.is_intact() && self.bell.is_intact() && service_is_intact()) {
            return false;
        }
        let groups = self.groups();
        // Whoever stood still itself saw nothing of the others, and they may have stood still with it.
        let awake = elapsed < LATE * TICK;
        let waits: Vec<bool> = groups.iter().map(|group| group.look()).collect();
        groups.iter().zip(&waits).for_each(|(group, waits)| group.tell_of_ills(*waits));
        let waiting: Vec<&Arc<Group>> = groups.iter().zip(waits).filter_map(|(group, waits)| waits.then_some(group)).collect();
        // Other machines learn of a stopped process from here, whether anybody here waits or not.
        let watching: Vec<&Arc<Group>> =
            groups.iter().filter(|group| group.far().is_some()).chain(waiting.iter().copied()).collect();
        let processes: Vec<(Address, u32)> = {
            let processes = self.processes.lock();
            let concerns = |watched: &&Watched| {
                watched.groups.iter().any(|of| watching.iter().any(|group| std::ptr::eq(of.as_ptr(), Arc::as_ptr(group))))
                    || stops.is_stopped(watched.pid)
            };
            processes.by_token.values().filter(concerns).map(|watched| (watched.address, watched.pid)).collect()
        };
        let name = |address| waiting.iter().find_map(|group| group.name_of(address));
        stops.look(&processes, awake, name);
        let elapsed = if awake { elapsed } else { Duration::ZERO };
        let told = waits::waits();
        for group in &groups {
            let stopped = |address| {
                let (_, pid) = processes.iter().find(|(at, _)| *at == address)?;
                stops.is_stopped(*pid).then(|| stops.stopped_for(*pid).unwrap_or_default())
            };
            group.judge(elapsed, &told, stopped);
            group.tell_of_waits(&told);
        }
        self.look_for_hangs(&groups, &told, still);
        true
    }

    /// Prints what is waited for, if a signal has asked for it: of the ranks here, or of all on this machine, and then ends the process.
    fn answer(&self, told: &mut Option<Told>) {
        let Some(asked) = process::asked_of_waits() else { return };
        let (all, now) = (waits::waits(), Instant::now());
        // Who asks all processes of a job ends them next.
        if told.as_ref().is_none_or(|told| now - told.at > FRESH) {
            let groups = self.groups();
            let lines = groups.iter().flat_map(|group| group.all_waits(&all, asked == Asked::Quit));
            lines.for_each(|line| warn!("GINRS-W019 {line}"));
        }
        *told = Some(Told { at: now, question: if let Asked::Job(question) = asked { question } else { 0 } });
        if asked == Asked::Quit {
            process::quit();
        }
    }

    /// The answer to [`Ear`]: what the ranks here wait for, the processes of the others on this machine, and which question by a signal has
    /// been answered.
    fn said(&self, told: Option<&Told>) -> String {
        let (all, groups) = (waits::waits(), self.groups());
        let lines = groups.iter().flat_map(|group| group.all_waits(&all, false));
        let lines = lines.map(|line| format!("wait GINRS-W019 {}\n", printable(&line, LINE)));
        let peers: BTreeSet<u32> = groups.iter().flat_map(|group| group.pids_here()).collect();
        lines
            .chain(peers.iter().map(|pid| format!("peer {pid}\n")))
            .chain(told.map(|told| format!("told {}\n", told.question)))
            .chain(["end\n".to_owned()])
            .collect()
    }

    /// Shows what kernels here wait for, of which `told` are all, and ends what is proven to wait in vain. The whole process is looked at
    /// only while a wait of any rank lasts.
    fn look_for_hangs(&self, groups: &[Arc<Group>], told: &[Wait], still: &mut Stillness) {
        let lasts = told.iter().any(|wait| wait.lasts >= LONG) || groups.iter().any(|group| group.waits_long());
        let found = if lasts { still.look() } else { None };
        // Only who is still asks for them.
        let rests: Vec<_> = groups.iter().filter(|_| found.is_some()).filter_map(|group| group.rest(told)).collect();
        for group in groups {
            group.show_waits(told, found, &rests);
            if lasts {
                group.show_sums(None);
            }
            if lasts {
                group.judge_hang();
            }
        }
    }

    /// Whether it has yet to be found out what became of a process.
    fn is_open(&self, loss: &mut Loss) -> bool {
        loss.looks += 1;
        let Some(group) = loss.group.upgrade() else { return false };
        if !service_is_intact() {
            group.fail(&descriptors_lost());
            return false;
        }
        if group.is_elsewhere(loss.address) {
            return group.is_open_elsewhere(loss.address, loss.since, loss.looks);
        }
        let found = {
            let processes = self.processes.lock();
            // Once it is gone from here its end has been told.
            let Some(watched) = processes.by_token.values().find(|watched| watched.address == loss.address) else { return false };
            let found = links::look(watched.pid, loss.since, watched.program.as_ref());
            found.map(|found| (found, peer_process::how_watched_ended(watched.pid, watched.pidfd.as_fd())))
        };
        match found {
            None if group.has_all_left(loss.address) => false,
            None => true,
            Some((Became::Ended, how)) => {
                group.ended(loss.address, &how);
                false
            }
            Some((Became::Lives(how), _)) => {
                group.cut_off(loss.address, &how);
                false
            }
        }
    }

    fn ended(&self, token: u64) {
        let Some(watched) = self.processes.lock().by_token.remove(&token) else { return };
        let _ = epoll::delete(self.epoll.as_fd(), watched.pidfd.as_fd());
        let how = peer_process::how_watched_ended(watched.pid, watched.pidfd.as_fd());
        info!(INIT, "process {} has ended{how}", watched.pid);
        for group in watched.groups.iter().filter_map(Weak::upgrade) {
            group.ended(watched.address, &how);
        }
    }

    fn broken(&self, error: &Error) {
        let groups = self.groups.lock().clone();
        groups.iter().filter_map(Weak::upgrade).for_each(|group| group.fail(error));
    }

    fn handle(&self, event: Event) -> Option<Loss> {
        match event {
            Event::Failed { group, cause } => group.upgrade()?.fail(&cause),
            Event::Raised { group, rank, cause } => group.upgrade()?.raised(rank, &cause),
            Event::Lost { group, address } => {
                // Where a pidfd watches it, that tells more of a death, and not before it is true.
                if group.upgrade()?.is_elsewhere(address)
                    || self.processes.lock().by_token.values().any(|watched| watched.address == address)
                {
                    return Some(Loss { group, address, since: Instant::now(), looks: 0 });
                }
                group.upgrade()?.ended(address, "");
            }
        }
        None
    }
}
