//! What can be seen from outside of kernels that say nothing: words that move, and that one of them runs on. The pulse's thread looks,
//! for a call of the driver may take a while, and only after a rank has left.
#![forbid(unsafe_code)]

use crate::abort::Abort;
use crate::device::{Device, Kind, Lifetime};
use crate::sync::Mutex;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The words that kernels of a communicator wait on.
pub trait Words: Send + Sync {
    /// False while there is no device communicator: no kernel but the library's own can wait then.
    fn are_used(&self) -> bool;
    /// A number that changes when they change; None where they cannot be read.
    fn print(&self) -> Option<u64>;
}

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(200);

/// Of one rank on one communicator.
#[derive(Default)]
pub struct Signs {
    wanted: AtomicBool,
    may_wait: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    looked: Option<Instant>,
    print: u64,
    runs: Option<(Instant, Mark)>,
}

/// Whether the kernels that run at some time have all ended.
enum Mark {
    /// The CPU device has not been idle since.
    Busy,
    /// What was buried then stands.
    Buried(Weak<()>),
}

impl Mark {
    fn now(device: &dyn Device) -> Option<Self> {
        if device.kind() == Kind::Cpu {
            return (!device.idle()).then_some(Mark::Busy);
        }
        let here = Arc::new(());
        let mark = Mark::Buried(Arc::downgrade(&here));
        device.bury(Box::new(here));
        Some(mark)
    }

    fn is_passed(&self, device: &dyn Lifetime) -> bool {
        match self {
            Mark::Busy => device.idle(),
            Mark::Buried(here) => here.strong_count() == 0,
        }
    }
}

impl Signs {
    /// Whether anybody wants to know.
    pub(super) fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// For how long a kernel has run on, or so it seemed at the last look.
    pub(super) fn running(&self) -> Option<Duration> {
        self.seen.lock().runs.as_ref().map(|(since, _)| since.elapsed())
    }

    /// Whether a kernel runs that may wait and says nothing. A GPU does not tell what runs.
    pub(super) fn may_wait(&self) -> bool {
        self.may_wait.load(Ordering::Relaxed)
    }

    /// The pulse comes by.
    pub(super) fn look(&self, device: &dyn Device, abort: &Abort, words: &dyn Words) {
        let used = words.are_used();
        self.may_wait.store(used && (device.kind() == Kind::Cuda || !device.idle()), Ordering::Relaxed);
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut seen = self.seen.lock();
        if seen.looked.is_some_and(|at| at.elapsed() < PERIOD) {
            return;
        }
        seen.looked = Some(Instant::now());
        let Some(print) = words.print().filter(|_| used) else {
            seen.runs = None;
            return;
        };
        if print != seen.print {
            seen.print = print;
            abort.moved();
        }
        if seen.runs.as_ref().is_none_or(|(_, mark)| mark.is_passed(device)) {
            seen.runs = Mark::now(device).map(|mark| (Instant::now(), mark));
        }
    }
}
