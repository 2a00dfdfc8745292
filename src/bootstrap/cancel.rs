//! The way out of a communicator's creation: somebody else may end it, and it may end because a rank is known to be gone.
#![forbid(unsafe_code)]

use super::gone::LEFT;
use super::port::Port;
use super::wire::as_remote;
use crate::bail;
use crate::error::{Error, Result};
use crate::sync::{Mutex, OnceCell};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a cancelled wait may go on.
pub(super) const NOTICE: Duration = Duration::from_millis(20);

type Check = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// Shared by a creation and by whoever may end it. The first cause counts.
#[derive(Default)]
pub struct Cancel {
    cause: OnceCell<Error>,
    /// Where the creation waits now, as which rank.
    at: Mutex<Option<(Weak<Port>, u32)>>,
    watch: Mutex<Option<Check>>,
}

impl Cancel {
    /// Nothing ends it yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Ends the creation, here and, where it has met them, on the other ranks. Never waits.
    pub fn cancel(&self, cause: Error) {
        let at = self.at.lock();
        let _ = self.cause.set(cause);
        if let (Some((port, rank)), Some(cause)) = (&*at, self.cause.get())
            && let Some(port) = port.upgrade()
        {
            port.fail(*rank, &as_remote(*rank, cause));
        }
    }

    /// `check` is asked now and then while ranks are waited for; its error ends the wait. The latest counts.
    pub fn watch(&self, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        *self.watch.lock() = Some(Arc::new(check));
    }

    /// Why somebody ended it.
    pub(super) fn cause(&self) -> Option<&Error> {
        self.cause.get()
    }

    /// Err once it is to end.
    pub fn check(&self) -> Result<()> {
        self.own()?;
        let check = self.watch.lock().clone();
        check.map_or(Ok(()), |check| check())
    }

    /// Err once this call is to end, whatever the other ranks do.
    pub fn own(&self) -> Result<()> {
        if crate::process::is_ending() {
            bail!(
                SystemError,
                2,
                "the process ends | pid {} | a communicator was being made | fix: end it before main returns",
                std::process::id()
            );
        }
        self.cause.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// From now on the cause ends the exchanges on `port`.
    pub(super) fn enters(&self, port: &Arc<Port>, rank: u32) -> Result<()> {
        *self.at.lock() = Some((Arc::downgrade(port), rank));
        self.check()
    }

    /// The error to give: what ended the creation rather than what it was seen as. A rank that is gone may be noticed a little
    /// later than its connection closes, and one that gives up has seen why a little earlier.
    pub(super) fn cause_of(&self, error: Error) -> Error {
        for _ in 0..25 {
            match self.check() {
                // It has left, perhaps because of what the others are told.
                Err(cause) if cause.id == LEFT && error.culprit.is_some_and(|dead| cause.culprit != Some(dead)) => return error,
                Err(cause) => return cause,
                Ok(()) => {}
            }
            if self.watch.lock().is_none() {
                break;
            }
            std::thread::sleep(NOTICE);
        }
        error
    }
}
