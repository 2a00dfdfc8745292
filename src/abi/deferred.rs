//! Calls that a group puts off until its end.
#![forbid(unsafe_code)]

use super::entry::{Outcome, Stop};
use crate::comm::Comm;
use crate::comm::calls::Queued;
use crate::comm::group::{self, Job, Stage};
use crate::error::{Code, Error, Result};
use std::sync::Arc;

/// A failure of a call inside a group is also the group's.
pub fn collective(body: impl FnOnce() -> Outcome) -> Outcome {
    body().inspect_err(|stop| {
        group::note(match stop {
            Stop::Say(error) => error.code,
            Stop::Said(code) => *code,
        });
    })
}

/// Why a call of a group that has failed is not made.
pub fn not_made(code: Code) -> Error {
    Error::new(
        code,
        66,
        "the call was not made | ncclGroupEnd | another call of its group failed | fix: see the error before this one",
    )
}

/// As [`submit`], of a call with these arguments. Where they are wrong `work` tells that to the others, too, and they may come later: a
/// group, or a thread where the communicator is non-blocking, waits for them, and the call says at once what is wrong.
pub fn submit_checked<T: Send + 'static>(
    comm: &Arc<Comm>,
    stage: Stage,
    checked: Result<T>,
    work: impl FnOnce(Result<T>) -> Result<()> + Send + 'static,
) -> Outcome {
    let wrong = checked.as_ref().err().cloned().filter(|_| group::open() || !comm.team.config.blocking);
    let done = submit(comm, stage, move |before| work(checked.and_then(|args| before.map(|()| args))));
    wrong.map_or(done, |error| Err(error.into()))
}

/// Runs `work` now or at the end of the group; the error is printed once, by whoever runs it. Where the group fails before it, `work` is
/// given that error: then it is only to tell the ranks that wait for its call.
pub fn submit(comm: &Arc<Comm>, stage: Stage, work: impl FnOnce(Result<()>) -> Result<()> + Send + 'static) -> Outcome {
    let tell = comm.clone();
    // What it launches must find the communicator, also when ncclCommDestroy comes in the same group.
    let queued = group::open().then(|| Queued::new(comm));
    let job = Job {
        stage,
        clique: comm.team.hash,
        line: Arc::as_ptr(comm) as u64,
        blocking: comm.team.config.blocking,
        device: comm.team.device.ordinal(),
        progress: Some(comm.clone()),
        run: Box::new(move |before| {
            let done = work(before.map_err(not_made));
            if before.is_err() {
                tell.team.watch.calls().refused();
            }
            drop(queued);
            before.and_then(|()| done.map_err(|error| tell.tell(error)))
        }),
    };
    group::submit(job).map_err(Stop::Said)
}
