//! A service thread that somebody waits for, though not for ever.

#![forbid(unsafe_code)]

use super::service_thread;
use crate::error::{Error, Result};
use crate::sync::{Hear, Heard, answer};
use std::thread::JoinHandle;
use std::time::Duration;

/// See the module.
pub struct Joinable {
    name: String,
    handle: JoinHandle<()>,
    ended: Hear<()>,
}

impl Joinable {
    /// As [`service_thread`].
    pub fn start(
        name: &str,
        body: impl FnOnce() + Send + 'static,
        on_panic: impl FnOnce(Error) + Send + 'static,
    ) -> Result<Self> {
        let (end, ended) = answer::<()>();
        let body = move || {
            let _end = end; // dropped when it ends, also by a panic
            body();
        };
        Ok(Self { name: name.into(), handle: service_thread(name, body, on_panic)?, ended })
    }

    /// Waits for its end. False, and a warning, if that has not come by `patience`: the thread goes on, and what it uses stays.
    pub fn join(self, patience: Duration) -> bool {
        if self.ended.wait(patience) == Heard::Late {
            crate::warn!(
                "GINRS-E005 a thread of the library does not end | \"{}\", pid {} | not after {} s | what it uses is kept | fix: it is \
                 inside a call of the driver: look at dmesg for Xid lines",
                self.name,
                std::process::id(),
                patience.as_secs()
            );
            return false;
        }
        // A panic in it has been told.
        let _ = self.handle.join();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_end_is_waited_for_so_long_and_told() {
        let (end, hears) = crate::sync::channel::bounded::<()>(1);
        let wait = hears.clone();
        let stuck = Joinable::start("ginrs stuck", move || _ = wait.recv(), |_| {}).unwrap();
        assert!(!stuck.join(Duration::from_millis(20)));
        drop(end);
        let over = Joinable::start("ginrs over", move || _ = hears.recv(), |_| {}).unwrap();
        assert!(over.join(crate::hang_limit::HANG_LIMIT));
    }
}
