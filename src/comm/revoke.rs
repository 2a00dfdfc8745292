//! ncclCommRevoke: ends what a communicator does, on all its ranks, and leaves it good for split, shrink, destroy and abort only.

use super::Comm;
use crate::bail;
use crate::error::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of the failure that a revoke is to the other ranks.
const REVOKED: u16 = 44;
/// How long kernels get to leave. Those that do not wait on words of the library are not waited for any longer.
const LEAVE: Duration = Duration::from_secs(2);

impl Comm {
    /// True if this rank or another revoked it, before anything else went wrong.
    pub(super) fn revoked_by_any(&self) -> bool {
        self.team.is_revoked() || self.team.failure().is_some_and(|cause| cause.id == REVOKED)
    }

    /// Until the kernels that run on the device now have ended, or for so long as kernels get to leave after an abort.
    pub(super) fn wait_for_kernels(&self) {
        // A device that cannot tell whether kernels run drops what is buried once they have ended.
        let here = Arc::new(());
        let buried = Arc::downgrade(&here);
        self.team.device.bury(Box::new(here));
        let begin = Instant::now();
        while buried.strong_count() > 0 && !self.team.device.idle() && begin.elapsed() < LEAVE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The part that does not wait: marks it, and ends every wait on every rank. Err on a second call and after ncclCommFinalize.
pub fn begin(comm: &Comm) -> Result<()> {
    comm.team.not_revoked()?;
    if comm.team.finalized.swap(true, Ordering::AcqRel) {
        bail!(
            InvalidArgument,
            64,
            "communicator is finalized | {} | ncclCommRevoke after ncclCommFinalize | fix: revoke before, or destroy it",
            comm.team.tag()
        );
    }
    comm.team.revoked.store(true, Ordering::Release);
    let text = format!(
        "ncclCommRevoke was called | {} | pid {} | fix: call ncclCommRevoke, ncclCommShrink, ncclCommSplit or ncclCommAbort on the other ranks too",
        comm.team.tag(),
        std::process::id()
    );
    let cause = Error::new(Code::RemoteError, REVOKED, text).by(comm.team.rank);
    comm.cancel_child(cause.clone());
    comm.team.fail(cause);
    Ok(())
}

/// The rest: kernels leave.
pub fn finish(comm: &Comm) -> Result<()> {
    comm.wait_for_kernels();
    comm.team.watch.leaving();
    Ok(())
}
