//! Service threads: named, deaf to signals, and none ends silently.

#![forbid(unsafe_code)]

use super::signals::BlockedSignals;
use crate::bail;
use crate::error::{Code, Error, Result};
use crate::fault;
use crate::panic::text_of;
use std::thread::JoinHandle;

/// Stack of a service thread, in bytes. Set here, so that `ulimit -s` decides nothing.
const SERVICE_STACK: usize = 512 << 10;

/// Starts a named thread with all signals blocked. A panic in it is caught, logged and handed to `on_panic`, so that waits can end.
pub fn service_thread(
    name: &str,
    body: impl FnOnce() + Send + 'static,
    on_panic: impl FnOnce(Error) + Send + 'static,
) -> Result<JoinHandle<()>> {
    thread(name, SERVICE_STACK, body, on_panic)
}

/// [`service_thread`] with a stack of `stack` bytes.
pub fn thread(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
    on_panic: impl FnOnce(Error) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let _blocked = BlockedSignals::new();
    let owned = name.to_owned();
    let guarded = move || {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
            let error = Error::new(
                Code::InternalError,
                2,
                format!("service thread panicked | {owned} | {} | fix: report this", text_of(&*panic)),
            );
            crate::log::error(&error);
            on_panic(error);
        }
    };
    let start = || std::thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(guarded);
    match fault::step("thread").map_err(Into::into).and_then(|()| start()) {
        Ok(handle) => Ok(handle),
        Err(e) => bail!(SystemError, 27, "no thread for \"{name}\" | pid {} | {e} | fix: raise ulimit -u", std::process::id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_service_thread_is_told_and_signals_stay_blocked() {
        let (told, hears) = crate::sync::channel::bounded(2);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let thread = service_thread("ginrs test", || panic!("planted {}", 7), move |error| told.send(error).unwrap()).unwrap();
        let error = hears.recv().unwrap();
        thread.join().unwrap();
        std::panic::set_hook(hook);
        assert!(error.text.contains("ginrs test") && error.text.contains("planted 7"), "{error}");

        let (told, hears) = crate::sync::channel::bounded(1);
        let blocked = move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            told.send(status.lines().find_map(|l| l.strip_prefix("SigBlk:\t")).unwrap().to_owned()).unwrap();
        };
        service_thread("ginrs test", blocked, |_| {}).unwrap().join().unwrap();
        let mask = u64::from_str_radix(&hears.recv().unwrap(), 16).unwrap();
        // All but KILL, STOP and the two that the C library keeps for itself.
        assert_eq!(mask | (1 << 8) | (1 << 18) | (1 << 31) | (1 << 32), u64::MAX);
    }
}
