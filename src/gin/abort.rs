//! The way out of every wait: one word that kernels and host loops read, and the failure that raised it.

use crate::device::ControlMemory;
use crate::error::{Code, Error, Result};
use crate::sync::OnceCell;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

type Listener = Box<dyn FnOnce(&Error) + Send>;

/// Raised once per communicator, by whoever sees the failure first; the first cause is kept.
///
/// Order: the cause is stored before the word is released, so whoever reads a nonzero word finds the cause.
pub struct Abort {
    memory: ControlMemory,
    cause: OnceCell<Error>,
    listeners: Mutex<Vec<Listener>>,
}

impl Abort {
    /// `memory` holds the word at offset 0: zeroed, device-visible, at least 4 bytes.
    pub fn new(memory: ControlMemory) -> Self {
        Self { memory, cause: OnceCell::new(), listeners: Mutex::new(Vec::new()) }
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: ControlMemory is zeroed, page-aligned, at least a page, and lives as long as self;
        // every access to the word, here and in kernels, is atomic.
        unsafe { AtomicU32::from_ptr(self.memory.host().as_ptr().cast()) }
    }

    /// Address of the word for device code.
    pub fn device_address(&self) -> u64 {
        self.memory.device()
    }

    /// Ends every wait of the communicator with `cause`. The first call wins and returns true.
    pub fn raise(&self, cause: Error) -> bool {
        if self.cause.set(cause).is_err() {
            return false;
        }
        self.word().store(1, Ordering::Release);
        let cause = self.cause.get().expect("set above");
        for listener in std::mem::take(&mut *self.listeners.lock()) {
            listener(cause);
        }
        true
    }

    /// True once raised; one load, for loops.
    pub fn is_raised(&self) -> bool {
        self.word().load(Ordering::Acquire) != 0
    }

    /// The first cause.
    pub fn cause(&self) -> Option<&Error> {
        self.cause.get()
    }

    /// `Err(cause)` once raised: every host wait calls it in its loop.
    pub fn check(&self) -> Result<()> {
        if !self.is_raised() {
            return Ok(());
        }
        Err(self.cause.get().cloned().unwrap_or_else(|| {
            Error::new(Code::InternalError, 49, "abort word raised without a cause | written by a kernel? | fix: report this")
        }))
    }

    /// Runs `listener` when raised, at once if it is already.
    pub fn on_raise(&self, listener: impl FnOnce(&Error) + Send + 'static) {
        let mut listeners = self.listeners.lock();
        match self.cause.get() {
            Some(cause) => {
                drop(listeners);
                listener(cause);
            }
            None => listeners.push(Box::new(listener)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ControlMemory;

    #[test]
    fn first_cause_wins_and_every_listener_hears_it() {
        let abort = Abort::new(ControlMemory::anonymous(4096).unwrap());
        let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
        let early = heard.clone();
        abort.on_raise(move |e| early.lock().push(e.id));
        assert!(abort.check().is_ok());
        assert!(abort.raise(Error::new(Code::RemoteError, 40, "rank 3 died").by(3)));
        assert!(!abort.raise(Error::new(Code::InternalError, 1, "later")));
        let late = heard.clone();
        abort.on_raise(move |e| late.lock().push(e.id));
        assert_eq!(*heard.lock(), [40, 40]);
        assert_eq!(abort.check().unwrap_err().culprit, Some(3));
    }
}
