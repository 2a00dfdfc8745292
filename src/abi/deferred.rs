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
pub fn not_made(code: Code, what: &str) -> Error {
    let text = format!("{what} | ncclGroupEnd | another call of the group failed | fix: see the error before this one");
    Error::new(code, 66, text)
}

/// Runs `work` now or at the end of the group; the error is printed once, by whoever runs it.
pub fn submit(comm: &Arc<Comm>, stage: Stage, work: impl FnOnce() -> Result<()> + Send + 'static) -> Outcome {
    submit_or(comm, stage, work, |_| ())
}

/// As [`submit`]; `dropped` where the group fails before it.
pub fn submit_or(
    comm: &Arc<Comm>,
    stage: Stage,
    work: impl FnOnce() -> Result<()> + Send + 'static,
    dropped: impl FnOnce(Code) + Send + 'static,
) -> Outcome {
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
        run: Box::new(move || {
            let told = work().map_err(|error| tell.tell(error));
            drop(queued);
            told
        }),
        dropped: Box::new(dropped),
    };
    group::submit(job).map_err(Stop::Said)
}
