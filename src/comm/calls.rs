//! The calls of a communicator that are under way on threads of the library: what ncclCommGetAsyncError tells of them, and
//! what happens when the communicator is ended before they are.
//!
//! A call that returned ncclInProgress writes its results when it is done, unless the communicator has been destroyed or aborted
//! by then: the memory for them may be gone.

use super::notice::ABORTED;
use super::{Comm, finish};
use crate::bail;
use crate::bootstrap::Cancel;
use crate::comm::group::{CallObserver, Told};
use crate::error::{Code, Error, Result};
use crate::log;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// See the module.
#[derive(Default)]
pub struct Calls {
    state: Mutex<UnderWay>,
    /// Exchanges that its ranks had beside it, because it had been revoked.
    pub(super) beside: AtomicU32,
    /// How often it was shrunk, by the ranks left out: equal on all ranks that shrink alike.
    pub(super) shrunk: Mutex<BTreeMap<Vec<u32>, u32>>,
    /// How often its ranks' lists did not fit together, or this rank's was wrong: equal on all that shrank then.
    pub(super) misfits: AtomicU32,
}

#[derive(Default)]
struct UnderWay {
    running: u32,
    /// In groups that have not ended.
    queued: u32,
    /// Of the first of the latest calls that failed.
    failed: Option<Code>,
    /// Of a child that is being made.
    child: Option<Arc<Cancel>>,
    ended: Option<End>,
    /// Of a non-blocking communicator: a child was made of it after it had failed, and that is what was asked for last.
    outlived: bool,
}

impl UnderWay {
    /// ncclCommDestroy left the end of the communicator to its last call, which is done.
    fn is_over(&self) -> bool {
        self.running == 0 && self.queued == 0 && self.ended == Some(End::Destroyed)
    }
}

/// How the communicator's owner ended it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Destroyed,
    Aborted,
}

impl CallObserver for Comm {
    fn begins(&self) {
        let mut state = self.calls.state.lock();
        if state.running == 0 {
            state.failed = None;
            state.outlived = false;
        }
        state.running += 1;
    }

    fn ends(self: Arc<Self>, told: Told) {
        let over = {
            let mut state = self.calls.state.lock();
            state.running -= 1;
            state.failed = state.failed.or(told.err());
            state.is_over()
        };
        if over {
            finish::destroy(self);
        }
    }
}

/// A call that waits for the end of its group; dropped when it has run, or never will.
pub struct Queued(Arc<Comm>);

impl Queued {
    /// One more on `comm`.
    pub fn new(comm: &Arc<Comm>) -> Self {
        comm.calls.state.lock().queued += 1;
        Self(comm.clone())
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let over = {
            let mut state = self.0.calls.state.lock();
            state.queued -= 1;
            state.is_over()
        };
        if over {
            finish::destroy(self.0.clone());
        }
    }
}

impl Comm {
    /// Err while a call is under way: for everything but questions, ncclCommDestroy and ncclCommAbort.
    pub fn idle(&self) -> Result<()> {
        if self.calls.state.lock().running > 0 {
            bail!(
                InvalidArgument,
                64,
                "communicator is in progress | {} | a call on it has returned ncclInProgress and is not done | fix: ask \
                 ncclCommGetAsyncError until it says something else",
                self.team.tag()
            );
        }
        Ok(())
    }

    /// What ncclCommGetAsyncError tells. A call that is under way is told first: until it is done it may write its results, and
    /// ncclCommShrink goes on after a failure. The cause of a failure stands before it has been printed: whoever asks finds its text.
    pub fn state(&self) -> Code {
        let state = self.calls.state.lock();
        if state.running > 0 {
            return Code::InProgress;
        }
        // A kernel that an abort lets go may be over before the abort's listeners have run: what was under way here is asked of itself.
        let tells = |cause: &Error| self.notice.tells(cause) || self.has_kernels();
        match self.team.failure().filter(|cause| !self.team.is_revoked() && !state.outlived && tells(cause)) {
            Some(cause) => {
                log::recall(cause);
                cause.code
            }
            None => state.failed.unwrap_or(Code::Success),
        }
    }

    /// Nothing of this rank is under way: no call, and no kernel that a failure could cut short.
    pub(super) fn is_quiescent(&self) -> bool {
        let state = self.calls.state.lock();
        state.running == 0 && state.queued == 0 && !self.has_kernels()
    }

    /// Kernels of this rank were under way when the communicator failed, or may be now.
    fn has_kernels(&self) -> bool {
        self.devcomms.release.is_used() || self.collectives.is_busy()
    }

    /// A child was made of it, though it had failed.
    pub(super) fn outlived(&self) {
        self.calls.state.lock().outlived = !self.team.config.blocking;
    }

    /// Writes results of a call, if their memory is still promised.
    pub fn deliver(&self, write: impl FnOnce()) {
        let state = self.calls.state.lock();
        if state.ended.is_none() {
            write();
        }
    }

    /// While `make` runs, an abort or a revoke of this communicator ends the child that it makes.
    pub(super) fn making_child<T>(&self, cancel: &Arc<Cancel>, make: impl FnOnce() -> Result<T>) -> Result<T> {
        {
            let mut state = self.calls.state.lock();
            if state.ended == Some(End::Aborted) {
                return Err(self.aborted());
            }
            state.child = Some(cancel.clone());
        }
        let made = make();
        self.calls.state.lock().child = None;
        made
    }

    /// ncclCommAbort has come: what is under way ends.
    pub(super) fn cancel_calls(&self) {
        let child = {
            let mut state = self.calls.state.lock();
            state.ended = Some(End::Aborted);
            state.child.take()
        };
        if let Some(child) = child {
            child.cancel(self.aborted());
        }
    }

    /// A child that is being made is not to be.
    pub(super) fn cancel_child(&self, cause: Error) {
        let child = self.calls.state.lock().child.clone();
        if let Some(child) = child {
            child.cancel(cause);
        }
    }

    /// ncclCommDestroy has come. True if the last call that is under way, or in an open group, will end the communicator.
    pub(super) fn destroy_later(&self) -> bool {
        let mut state = self.calls.state.lock();
        state.ended = Some(End::Destroyed);
        !state.is_over()
    }

    /// Why everything ends after ncclCommAbort.
    pub(super) fn aborted(&self) -> Error {
        let behind = self.blamed.lock().as_ref().map_or(String::new(), |told| format!(", behind {told}"));
        let text = format!(
            "ncclCommAbort was called | {} | pid {}{behind} | fix: look for the first error of that rank",
            self.team.tag(),
            std::process::id()
        );
        Error::new(Code::RemoteError, ABORTED, text).by(self.team.rank)
    }
}
