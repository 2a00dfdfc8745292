//! Calls on non-blocking communicators: they return ncclInProgress and go on in a thread of their own, which
//! ncclCommGetAsyncError asks about.

use super::group::Told;
use crate::error::{Code, Error};
use crate::log;
use crate::sync::Mutex;
use std::sync::Arc;

/// Who is told that a call on it is under way. Every start has its end.
pub trait CallObserver: Send + Sync {
    /// From now on it is in progress.
    fn begins(&self);
    /// A call that had begun has come to this.
    fn ends(self: Arc<Self>, told: Told);
}

/// Stack of a thread that runs a collective call. Bytes; only what is used is taken.
const STACK: usize = 8 << 20;

/// Runs `work` on a thread; the calls that it makes are of those in `concerned`, which all get its outcome. Where no thread can be
/// had, `give_up` is called here instead.
pub fn start<T: Send + 'static>(
    concerned: Vec<Arc<dyn CallObserver>>,
    work: T,
    run: impl FnOnce(T) -> Told + Send + 'static,
    give_up: impl FnOnce(T, Code),
) -> Told {
    concerned.iter().for_each(|progress| progress.begins());
    let handed = Arc::new(Mutex::new(Some((concerned, work))));
    let taken = handed.clone();
    let body = move || {
        let Some((concerned, work)) = taken.lock().take() else { return };
        let Some(_at_work) = crate::process::at_work() else { return };
        let told = crate::panic::catch("calls of a non-blocking communicator", || Ok::<_, Error>(run(work)));
        let told = told.unwrap_or_else(|error| {
            log::error(&error);
            Err(error.code)
        });
        concerned.into_iter().for_each(|progress| progress.ends(told));
    };
    match crate::process::thread("ginrs async", STACK, body, |_| {}) {
        Ok(_) => Err(Code::InProgress),
        Err(error) => {
            log::error(&error);
            if let Some((concerned, work)) = handed.lock().take() {
                give_up(work, error.code);
                concerned.into_iter().for_each(|progress| progress.ends(Err(error.code)));
            }
            Err(error.code)
        }
    }
}
