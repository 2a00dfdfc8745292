//! The one line for a failure that no call of this rank caused. Calls that end with it stay silent.
//!
//! ncclCommAbort is no failure to who calls it. Called on another rank it may be how a healthy program ends: PyTorch aborts its
//! communicators inside exit(), each rank when it comes there. So that line waits a little for a call of this rank that fails with it
//! or destroys the communicator, and stays away if this rank calls ncclCommAbort meanwhile. The abort itself waits for nothing.

use crate::error::Error;
use crate::sync::{Condvar, Mutex};
use crate::{info, process, warn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// ncclCommAbort was called.
pub const ABORTED: u16 = 41;

/// Between a peer's ncclCommAbort and its line.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    /// What waits to be printed.
    line: Option<String>,
    /// This rank has called ncclCommAbort.
    over: bool,
}

/// One per rank of a communicator. See the module.
pub struct Notice {
    rank: u32,
    grace: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

impl Notice {
    /// Of rank `rank`.
    pub fn new(rank: u32) -> Arc<Self> {
        Arc::new(Self { rank, grace: GRACE, state: Mutex::default(), changed: Condvar::new() })
    }

    /// The communicator has failed; `line` tells why.
    pub fn raised(self: &Arc<Self>, cause: &Error, line: String) {
        if cause.id != ABORTED {
            return warn!("{line}");
        }
        let mut state = self.state.lock();
        if state.over || cause.culprit == Some(self.rank) {
            return info!(INIT, "{line}");
        }
        state.line = Some(line);
        drop(state);
        let later = self.clone();
        if process::service_thread("ginrs notice", move || later.wait(), |_| ()).is_err() {
            self.print();
        }
    }

    fn wait(&self) {
        let deadline = Instant::now() + self.grace;
        let mut state = self.state.lock();
        while state.line.is_some() && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        drop(state);
        self.print();
    }

    /// A call of this rank fails with it, or ends what its kernels may have done by halves: the line waits no more.
    pub fn print(&self) {
        if let Some(line) = self.take(false) {
            warn!("{line}");
        }
    }

    /// This rank calls ncclCommAbort.
    pub fn aborted(&self) {
        if let Some(line) = self.take(true) {
            info!(INIT, "{line}");
        }
    }

    fn take(&self, over: bool) -> Option<String> {
        let mut state = self.state.lock();
        state.over |= over;
        let line = state.line.take();
        self.changed.notify_all();
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn aborted(by: u32) -> Error {
        Error::new(Code::RemoteError, ABORTED, "ncclCommAbort was called").by(by)
    }

    fn patient() -> Arc<Notice> {
        Arc::new(Notice { rank: 0, grace: Duration::from_secs(1000), state: Mutex::default(), changed: Condvar::new() })
    }

    #[test]
    fn a_peers_abort_waits_for_a_call_that_fails_with_it() {
        let notice = patient();
        notice.raised(&aborted(1), "the line".into());
        assert_eq!(notice.state.lock().line.as_deref(), Some("the line"));
        notice.print();
        assert_eq!(notice.state.lock().line, None);
        assert_eq!(notice.take(false), None, "it is printed once");
    }

    #[test]
    fn who_aborts_is_told_of_no_abort() {
        let notice = patient();
        notice.raised(&aborted(1), "the line".into());
        notice.aborted();
        assert_eq!(notice.take(false), None);
        notice.raised(&aborted(1), "another".into());
        assert_eq!(notice.state.lock().line, None, "an abort that comes later");

        let own = patient();
        own.raised(&aborted(0), "the line".into());
        assert_eq!(own.state.lock().line, None, "its own");
    }

    #[test]
    fn nobody_asks_and_the_line_comes() {
        let notice = Arc::new(Notice { grace: Duration::from_millis(1), ..Arc::into_inner(patient()).unwrap() });
        notice.raised(&aborted(1), "the line".into());
        while notice.state.lock().line.is_some() {
            std::thread::yield_now();
        }
    }
}
