//! The thread around the engines' step: one per device, shared by all communicators of that device.
//!
//! On the CPU device a waiting block runs the same step itself, so the thread serves kernels that put and leave, and naps
//! when nothing has moved for a while: a thread that spins would take the core from the kernels. What a transport has to do ends a nap, and what
//! kernels post. On CUDA it has a core of its own near the GPU ([`place`]) and spins until nothing has moved for long.
#![forbid(unsafe_code)]

use super::naps::Naps;
use super::place;
use super::pump::{PATIENCE, Pump};
use super::sleep::{Bell, Sleep};
use crate::device::{Device, Kind};
use crate::error::Result;
use crate::log;
use crate::process::{self, Joinable};
use crate::sync::{Mutex, PerProcess};
use rustix::thread::set_current_timer_slack;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// When to spin, yield and nap: how many steps in a row have moved nothing, those of all communicators together.
#[derive(Clone, Copy)]
struct Idle {
    spins: u32,
    yields: u32,
    /// While transports want to be looked at. Else the first nap is twice as long, and each twice the one before, up to what [`Naps`] says.
    nap: Duration,
    /// The nap once no kernel has run for [`QUIET`], or longer: one that is launched ends it.
    quiet: Duration,
}

const QUIET: Duration = Duration::from_millis(100);
/// Steps and transports' own business are due so often, though nothing asks for them.
const ROUND: Duration = Duration::from_millis(100);
/// Others get the core so often while it spins, if there are others.
const COURTESY: u32 = 4096;

impl Idle {
    fn of(kind: Kind) -> Self {
        let us = Duration::from_micros;
        match kind {
            // What comes wakes it, and waiting blocks run the step: with a hundred more looks for each message an all-reduce between
            // machines took up to a third longer, with none at all too (docs/results/collectives.md).
            Kind::Cpu => Self { spins: 4, yields: 4, nap: us(50), quiet: us(5000) },
            // Between a tenth of a second and half a second of spinning: a nap costs the next put its length.
            Kind::Cuda => Self { spins: 4_000_000, yields: 0, nap: us(20), quiet: Duration::ZERO },
        }
    }
}

struct Members {
    pumps: Vec<Arc<Pump>>,
    quit: bool,
}

struct Common {
    members: Mutex<Members>,
    /// Rises with each change of `members`, under its lock; read without.
    version: AtomicU64,
    /// Rung behind each of them.
    bell: Bell,
}

impl Common {
    fn change(&self, change: impl FnOnce(&mut Members)) {
        let mut members = self.members.lock();
        change(&mut members);
        self.version.fetch_add(1, Ordering::Release);
        self.bell.ring();
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

/// One device's proxy thread; ends when the last communicator lets go of it.
pub struct ProxyThread {
    common: Arc<Common>,
    handle: Option<Joinable>,
    owner: u32,
}

type Running = Mutex<Vec<((Kind, i32), Weak<ProxyThread>)>>;
static RUNNING: PerProcess<Running> = PerProcess::new();

impl ProxyThread {
    /// The thread of `device`, started if there is none.
    pub fn of(device: &Arc<dyn Device>) -> Result<Arc<Self>> {
        let key = (device.kind(), device.ordinal());
        let mut running = RUNNING.get(|| Mutex::new(Vec::new())).lock();
        running.retain(|(_, thread)| thread.strong_count() > 0);
        if let Some(thread) = running.iter().find(|entry| entry.0 == key).and_then(|entry| entry.1.upgrade()) {
            return Ok(thread);
        }
        let common = Arc::new(Common {
            members: Mutex::new(Members { pumps: Vec::new(), quit: false }),
            version: AtomicU64::new(0),
            bell: Bell::new()?,
        });
        let (body, orphans, theirs) = (common.clone(), common.clone(), device.clone());
        let handle = Joinable::start(
            &format!("ginrs gin {}", device.ordinal()),
            move || run(&body, theirs.as_ref(), Idle::of(theirs.kind())),
            move |error| orphans.members.lock().pumps.iter().for_each(|pump| _ = pump.abort.raise(error.clone())),
        )?;
        let thread = Arc::new(Self { common, handle: Some(handle), owner: std::process::id() });
        running.push((key, Arc::downgrade(&thread)));
        Ok(thread)
    }

    /// From now on the thread steps `pump`.
    pub fn add(&self, pump: &Arc<Pump>) {
        self.common.change(|members| members.pumps.push(pump.clone()));
    }

    /// The thread forgets `pump`; it may still be inside one step of it.
    pub fn remove(&self, pump: &Arc<Pump>) {
        self.common.change(|members| members.pumps.retain(|member| !Arc::ptr_eq(member, pump)));
    }
}

impl Drop for ProxyThread {
    fn drop(&mut self) {
        self.common.change(|members| members.quit = true);
        if let Some(handle) = self.handle.take()
            && self.owner == std::process::id()
        {
            // A forked child has no such thread.
            handle.join(PATIENCE);
        }
    }
}

/// The loop around the step. While anything moves it takes no lock but the engines' and looks at no clock.
fn run(common: &Common, device: &dyn Device, idle: Idle) {
    log::set_device(device.ordinal());
    place::pin(device);
    if let Err(error) = device.bind_thread() {
        // Slower calls, no more; what is really wrong shows at the first of them.
        log::error(&error);
    }
    let mut pumps: Vec<Arc<Pump>> = Vec::new();
    // Without one it naps: slower, not wrong.
    let mut sleep = Sleep::new(&common.bell, device.post_bell()).inspect_err(log::error).ok();
    let mut version = 0;
    let (mut still, mut naps, mut length) = (0u32, 0, Naps::new(idle.nap));
    // By 50 us each nap would be longer than it is meant to be.
    let _ = set_current_timer_slack(NonZeroU64::new(1000));
    let mut last_kernel = None;
    // Transports call the driver: the end of the process waits until this thread has left it.
    let calls_driver = device.kind() == Kind::Cuda;
    let _at_work = calls_driver.then(process::at_work);
    loop {
        if calls_driver && process::is_ending() {
            return;
        }
        let mut moved = false;
        for pump in &pumps {
            moved |= Pump::step(pump);
        }
        if common.version() != version {
            let members = common.members.lock();
            if members.quit {
                return;
            }
            version = common.version();
            pumps.clone_from(&members.pumps);
            drop(members);
            common.bell.still();
            if sleep.as_mut().is_some_and(|sleep| sleep.serve(&pumps).inspect_err(log::error).is_err()) {
                sleep = None;
            }
            // One that is new has nothing to do yet: to spin for each cost the square of the ranks while they were made.
            naps = 0;
            continue;
        }
        sleep.iter_mut().for_each(|sleep| sleep.stepped(moved));
        if moved {
            device.wake();
            (still, naps) = (0, 0);
            continue;
        }
        still = still.saturating_add(pumps.len().max(1) as u32);
        if still <= idle.spins && !still.is_multiple_of(COURTESY) {
            std::hint::spin_loop();
            continue;
        }
        if still <= idle.spins + idle.yields {
            std::thread::yield_now();
            continue;
        }
        let mut nap = |rung: Option<Instant>| {
            let now = Instant::now();
            let idle_since = |at: Option<Instant>| at.is_none_or(|at| now - at > QUIET);
            let runs = !device.idle();
            last_kernel = if runs { Some(now) } else { last_kernel.max(rung) };
            let (longest, growing) = (length.next(), idle.nap * (2 << naps));
            naps = (naps + 1).min(10);
            if !runs && idle_since(last_kernel) { longest.max(idle.quiet) } else { longest.min(growing) }
        };
        let leans = sleep.as_mut().is_some_and(Sleep::begin_to_lean);
        match &mut sleep {
            Some(sleep) if leans => {
                if !pumps.iter().any(|pump| pump.is_hinted()) {
                    sleep.lean();
                }
                sleep.end();
            }
            Some(sleep) if pumps.iter().all(|pump| pump.arm()) => {
                sleep.begin();
                let armed = Instant::now();
                if !pumps.iter().any(|pump| pump.is_hinted()) {
                    while sleep.sleep(nap(sleep.rung)) && armed.elapsed() < ROUND && pumps.iter().all(|pump| pump.rests()) {}
                }
                sleep.end();
                length.end();
            }
            _ => std::thread::sleep(idle.nap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::{Context, Shape, Words};
    use super::super::proxy::{Engine, Routes};
    use super::*;
    use crate::abort::Abort;
    use crate::device::cpu::CpuDevice;
    use crate::device::{ControlMemory, PostBell};
    use crate::seq::Seq;
    use crate::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::atomic::{AtomicBool, AtomicU32};

    /// Something comes when its descriptor is written to.
    struct Eventful {
        descriptor: Arc<OwnedFd>,
        seen: Arc<AtomicBool>,
    }

    impl Transport for Eventful {
        fn capabilities(&self) -> Capabilities {
            Capabilities { polled: true, ..Capabilities::of("eventful", 8) }
        }
        fn register(&mut self, _: &Region) -> Result<()> {
            Ok(())
        }
        fn deregister(&mut self, _: u32) {}
        fn submit(&mut self, _: &Work) -> Result<Submitted> {
            Ok(Submitted::Done)
        }
        fn progress(&mut self, _: &mut Vec<Completion>) -> Result<bool> {
            let came = rustix::io::read(&*self.descriptor, &mut [0; 8]).is_ok();
            self.seen.fetch_or(came, Ordering::Relaxed);
            Ok(came)
        }
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            Some(self.descriptor.as_fd())
        }
        fn abort(&mut self) {}
    }

    impl Eventful {
        /// Its engine's, what makes it readable, and what it has seen.
        fn pump() -> (Arc<Pump>, Arc<OwnedFd>, Arc<AtomicBool>) {
            let (descriptor, seen) = (Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()), Arc::new(AtomicBool::new(false)));
            let abort = Arc::new(Abort::new(ControlMemory::anonymous(4096).unwrap()));
            let shape = Shape { n_ranks: 1, depth: 2, signals: 1, counters: 1, start: Seq(0) };
            let words = vec![Arc::new(Words::Foreign)];
            let (contexts, _images) = Context::build(&*CpuDevice::new(0), shape, words, &abort).unwrap();
            let transport = Self { descriptor: descriptor.clone(), seen: seen.clone() };
            let routes = Routes { transports: vec![Box::new(transport)], by_peer: vec![0] };
            (Arc::new(Pump::new(Engine::new(0, contexts, routes, abort.clone(), 1), 0, abort)), descriptor, seen)
        }
    }

    /// Wakes in vain, while a block takes what comes, are the last ones for a while; until the block stops, or the thread is of help.
    #[test]
    fn what_a_block_has_sooner_wakes_nobody() {
        let (bell, (pump, descriptor, _)) = (Bell::new().unwrap(), Eventful::pump());
        let word: &AtomicU32 = Box::leak(Box::default());
        let kernels: &OwnedFd = Box::leak(Box::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()));
        let mut sleep = Sleep::new(&bell, Some(PostBell { descriptor: kernels.as_fd(), asleep: word })).unwrap();
        sleep.serve(std::slice::from_ref(&pump)).unwrap();
        let ring = |of: &OwnedFd| _ = rustix::io::write(of, &1u64.to_ne_bytes()).unwrap();
        let hour = Duration::from_secs(3600);
        let two_in_vain = |sleep: &mut Sleep| {
            for _ in 0..2 {
                assert!(!sleep.begin_to_lean());
                ring(&descriptor);
                assert!(!sleep.sleep(hour));
                assert!(pump.step_beside(), "the block's");
                sleep.stepped(pump.step());
            }
        };
        two_in_vain(&mut sleep);
        assert!(sleep.begin_to_lean());
        assert_ne!(word.load(Ordering::Relaxed), 0, "kernels ring");
        ring(&descriptor);
        assert!(sleep.lean(), "woken by a transport");
        assert!(!sleep.begin_to_lean(), "no block looks");
        pump.step_beside();
        assert!(sleep.begin_to_lean());
        ring(kernels);
        assert!(!sleep.lean() && sleep.rung.is_some(), "the block has stopped");
        two_in_vain(&mut sleep);
        assert!(sleep.begin_to_lean());
        bell.ring();
        assert!(!sleep.lean(), "its communicators change");
        bell.still();
        two_in_vain(&mut sleep);
        (0..4).for_each(|_| sleep.stepped(true));
        pump.step_beside();
        assert!(!sleep.begin_to_lean(), "it is of help");
    }

    /// A thread whose naps last an hour is awake when a transport has something to do, and when it is to end.
    #[test]
    fn a_transport_wakes_the_thread() {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let (pump, descriptor, seen) = Eventful::pump();
        let common = Common {
            members: Mutex::new(Members { pumps: vec![pump], quit: false }),
            version: AtomicU64::new(1),
            bell: Bell::new().unwrap(),
        };
        let hour = Duration::from_secs(3600);
        let idle = Idle { spins: 8, yields: 8, nap: hour, quiet: hour };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| run(&common, &*device, idle));
            // Far below an hour.
            let end = crate::hang_limit::hang_deadline();
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(5));
                rustix::io::write(&*descriptor, &1u64.to_ne_bytes()).unwrap();
                while !seen.swap(false, Ordering::Relaxed) {
                    assert!(Instant::now() < end, "asleep though something has come");
                    std::thread::yield_now();
                }
            }
            common.change(|members| members.quit = true);
            thread.join().unwrap();
        });
    }
}
