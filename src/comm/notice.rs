//! The one line for a failure that no call of this rank caused. Calls that end with it stay silent.
//!
//! ncclCommAbort is no failure to who calls it. Called on another rank it may be how a healthy program ends: PyTorch aborts its
//! communicators inside exit(), each rank when it comes there. So that line waits a little for a call of this rank that fails with it
//! or destroys the communicator, and stays away if this rank calls ncclCommAbort meanwhile. The abort itself waits for nothing.
//!
//! Where nothing was under way on that rank nor on this one, nobody has felt it. Then neither a line nor ncclCommGetAsyncError tells of
//! it, only the next call on the communicator: a watchdog would take the end of a rank that ends earlier for a failure. But a rank that
//! aborts and lives on does not end: that is told a little later.

use crate::error::Error;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::watch::HasEnded;
use crate::{info, process, warn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// ncclCommAbort was called.
pub const ABORTED: u16 = 41;
/// Ranks wait in vain: who has proven it says so before any wait ends, for all (`watch::hang`).
const PROVEN: u16 = 140;

/// Between a peer's ncclCommAbort and its line.
const GRACE: Duration = Duration::from_secs(1);
/// How long a process may take to end behind a quiescent ncclCommAbort: a GPU's memory goes first.
const ENDING: Duration = Duration::from_secs(5);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Heard {
    /// What waits to be printed.
    line: Option<String>,
    /// This rank has called ncclCommAbort.
    over: bool,
    /// The program may be told.
    felt: bool,
}

/// One per rank of a communicator. See the module.
pub struct Notice {
    rank: u32,
    grace: Duration,
    ending: Duration,
    heard: Mutex<Heard>,
    changed: Condvar,
}

impl Notice {
    /// Of rank `rank`.
    pub fn new(rank: u32) -> Arc<Self> {
        Arc::new(Self { rank, grace: GRACE, ending: ENDING, heard: Mutex::default(), changed: Condvar::new() })
    }

    /// The communicator has failed; `line` tells why. `quiescent`: whether the process ends of a rank that called ncclCommAbort while
    /// nothing was under way there nor here.
    pub fn raised(self: &Arc<Self>, cause: &Error, line: String, quiescent: Option<HasEnded>) {
        if cause.id == PROVEN {
            return info!(INIT, "{line}");
        }
        if cause.id != ABORTED {
            return warn!("{line}");
        }
        let mut heard = self.heard.lock();
        if heard.over || cause.culprit == Some(self.rank) {
            return info!(INIT, "{line}");
        }
        heard.line = Some(line);
        heard.felt |= quiescent.is_none();
        let ends = quiescent.filter(|_| !heard.felt);
        drop(heard);
        let later = self.clone();
        if process::service_thread("ginrs notice", move || later.wait(ends), |_| ()).is_err() {
            self.felt();
        }
    }

    /// Until the line is due: never, once the other process `ends`.
    fn wait(&self, mut ends: Option<HasEnded>) {
        let deadline = Instant::now() + if ends.is_some() { self.ending } else { self.grace };
        loop {
            // Asking may take a moment.
            if ends.as_mut().is_some_and(|ends| ends()) {
                return;
            }
            let mut heard = self.heard.lock();
            if heard.line.is_none() || Instant::now() >= deadline {
                break;
            }
            let look = ends.as_ref().map_or(deadline, |_| deadline.min(Instant::now() + LOOK));
            self.changed.wait_until(&mut heard, look);
        }
        self.felt();
    }

    /// False for a peer's quiescent ncclCommAbort, until it is felt, and for one of which that is not known yet.
    pub fn tells(&self, cause: &Error) -> bool {
        cause.id != ABORTED || self.heard.lock().felt
    }

    /// A call of this rank fails with it, or it is told now: the line waits no more.
    pub fn felt(&self) {
        let mut heard = self.heard.lock();
        heard.felt = true;
        if let Some(line) = self.take(heard) {
            warn!("{line}");
        }
    }

    /// The communicator ends here, and what its kernels may have done by halves with it.
    pub fn destroyed(&self) {
        let heard = self.heard.lock();
        let felt = heard.felt;
        if let Some(line) = self.take(heard).filter(|_| felt) {
            warn!("{line}");
        }
    }

    /// This rank calls ncclCommAbort.
    pub fn aborted(&self) {
        let mut heard = self.heard.lock();
        heard.over = true;
        if let Some(line) = self.take(heard) {
            info!(INIT, "{line}");
        }
    }

    fn take(&self, mut heard: MutexGuard<'_, Heard>) -> Option<String> {
        self.changed.notify_all();
        heard.line.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn aborted(by: u32) -> Error {
        Error::new(Code::RemoteError, ABORTED, "ncclCommAbort was called").by(by)
    }

    /// Waits for as long as a test does.
    fn slow() -> Notice {
        let long = Duration::from_secs(1000);
        Notice { grace: long, ending: long, ..Arc::into_inner(Notice::new(0)).unwrap() }
    }

    fn lives() -> HasEnded {
        Box::new(|| false)
    }

    fn line(notice: &Notice) -> Option<String> {
        notice.heard.lock().line.clone()
    }

    #[test]
    fn a_peers_abort_waits_for_a_call_that_fails_with_it() {
        let notice = Arc::new(slow());
        assert!(!notice.tells(&aborted(1)), "not before it is known what was under way");
        notice.raised(&aborted(1), "the line".into(), None);
        assert_eq!(line(&notice).as_deref(), Some("the line"));
        assert!(notice.tells(&aborted(1)));
        notice.felt();
        assert_eq!(line(&notice), None, "it is printed once");
    }

    #[test]
    fn who_aborts_is_told_of_no_abort() {
        let notice = Arc::new(slow());
        notice.raised(&aborted(1), "the line".into(), None);
        notice.aborted();
        assert_eq!(line(&notice), None);
        notice.raised(&aborted(1), "another".into(), None);
        assert_eq!(line(&notice), None, "an abort that comes later");

        let own = Arc::new(slow());
        own.raised(&aborted(0), "the line".into(), None);
        assert_eq!(line(&own), None, "its own");
    }

    #[test]
    fn nobody_asks_and_the_line_comes() {
        let soon = Duration::from_millis(1);
        for quiescent in [None, Some(lives())] {
            let notice = Arc::new(Notice { grace: soon, ending: soon, ..slow() });
            notice.raised(&aborted(1), "the line".into(), quiescent);
            while line(&notice).is_some() {
                std::thread::yield_now();
            }
            assert!(notice.tells(&aborted(1)), "a process that lives on");
        }
    }

    #[test]
    fn a_process_that_ends_behind_a_quiescent_abort_is_told_by_the_next_call_alone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let notice = Arc::new(slow());
        let pid = child.id();
        notice.raised(&aborted(1), "the line".into(), Some(Box::new(move || crate::peer_process::is_ending(pid))));
        child.wait().unwrap();
        while Arc::strong_count(&notice) > 1 {
            std::thread::yield_now();
        }
        assert!(line(&notice).is_some() && !notice.tells(&aborted(1)));
        assert!(notice.tells(&Error::new(Code::RemoteError, 40, "died")));
        notice.felt();
        assert!(line(&notice).is_none() && notice.tells(&aborted(1)));

        let destroyed = Arc::new(slow());
        destroyed.raised(&aborted(1), "the line".into(), Some(lives()));
        destroyed.destroyed();
        assert_eq!(line(&destroyed), None);
    }
}
