//! A communicator: a team of ranks, and everything that hangs on it.
//!
//! `create` makes one, `child` makes one of another (split, shrink), `group` decides when its collective calls run, `calls` knows
//! which are under way, `revoke` and `finish` end it; the handles that C holds of it are `abi`'s.
#![forbid(unsafe_code)]

mod background;
pub mod calls;
pub mod child;
pub mod create;
pub mod finish;
mod gathered;
pub mod group;
mod notice;
pub mod revoke;

pub use calls::Calls;
pub use gathered::Gathered;

use crate::coll::Collectives;
use crate::devcomm::DevComms;
use crate::device::cpu::calling_line;
use crate::error::{Code, Error, Result};
use crate::info;
use crate::log;
use crate::panic::PANIC;
use crate::process::rest::Member;
use crate::sync::Mutex;
use crate::team::Team;
use crate::watch::Pulse;
use crate::window::Windows;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One rank's end of a communicator. Shared as `Arc<Comm>`; the last owner may be the graveyard.
///
/// Fields drop in this order: what uses memory and links before what they stand on.
pub struct Comm {
    /// Its calls that are under way.
    pub calls: Calls,
    /// Collectives and point-to-point.
    pub collectives: Arc<Collectives>,
    /// Device communicators that stand, and what moves the words that their kernels wait on after an abort.
    pub devcomms: DevComms,
    /// Notices when a kernel of this rank has failed.
    pub pulse: Pulse,
    /// Counts it among those of the process whose kernels may wait.
    pub rests: Member,
    /// Windows that stand, the memory under them, and GIN.
    pub windows: Windows,
    /// Its ranks and how they meet.
    pub team: Arc<Team>,
    notice: Arc<notice::Notice>,
    /// What a call of this rank told last of another rank. A rank that aborts behind that is not where it began.
    blamed: Mutex<Option<String>>,
}

impl Comm {
    /// Err unless children can be made of it: also after a failure and after ncclCommRevoke, not after ncclCommFinalize. What a
    /// failed parent cannot do (split) fails by itself.
    pub fn may_have_children(&self) -> Result<()> {
        if self.team.finalized.load(Ordering::Acquire) && !self.team.is_revoked() {
            return self.team.ready();
        }
        Ok(())
    }

    /// Prints an error of a call on this communicator and keeps it for ncclGetLastError; silent where it is the failure
    /// that was printed when it happened. A panic fails the communicator.
    pub fn tell(&self, error: Error) -> Code {
        let code = error.code;
        self.team.watch.calls().refused();
        let known = |cause: &Error| cause.id == error.id && cause.text == error.text;
        if error.id == notice::ABORTED {
            self.notice.felt();
        }
        if error.id != notice::ABORTED && error.culprit.is_some_and(|rank| rank != self.team.rank) {
            *self.blamed.lock() = Some(error.to_string().split(" | ").take(2).collect::<Vec<_>>().join(", "));
        }
        match self.team.abort.cause().is_some_and(known) {
            // Perhaps not printed yet, by the thread that does: the caller is to find its text all the same.
            true => log::recall(&error),
            false => log::error(&with_caller(&error)),
        }
        if error.id == PANIC {
            self.team.fail(error);
        }
        code
    }
}

/// With [`calling_line`].
pub fn with_caller(error: &Error) -> Error {
    let called = calling_line().map_or(String::new(), |line| format!(" | called by host code at {line}"));
    Error { text: error.text.clone() + &called, ..error.clone() }
}

impl Drop for Comm {
    fn drop(&mut self) {
        self.windows.stop_gin();
        info!(INIT, "{} released", self.team.tag());
    }
}
