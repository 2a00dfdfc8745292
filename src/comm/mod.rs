//! A communicator: what its ranks agreed on when it was made, and everything that hangs on it.
//!
//! `create` makes one, `child` makes one of another (split, shrink), `group` decides when its collective calls run, `calls` knows
//! which are under way, `revoke` and `finish` end it; `handles` is what C holds of it.

mod background;
pub mod calls;
pub mod child;
pub mod config;
pub mod create;
pub mod finish;
pub mod group;
pub mod handles;
mod notice;
pub mod peer;
pub mod revoke;

pub use calls::Calls;
pub use config::CommConfig;
pub use peer::{Origin, PeerInfo};

use crate::abort::Abort;
use crate::bootstrap::Bootstrap;
use crate::device::Device;
use crate::error::{Code, Error, Result};
use crate::gin::Gin;
use crate::panic::PANIC;
use crate::sync::Mutex;
use crate::topo::Topology;
use crate::watch::{Pulse, Watch};
use crate::{bail, coll, devcomm, info, log, window};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One rank's end of a communicator. Shared as `Arc<Comm>`; the last owner may be the graveyard.
///
/// Fields drop in this order: what uses memory and links before what they stand on.
pub struct Comm {
    /// World rank.
    pub rank: u32,
    /// Number of ranks.
    pub n_ranks: u32,
    /// Equal on all ranks, different for every communicator.
    pub hash: u64,
    /// Where its ranks come from.
    pub origin: Origin,
    /// Its calls that are under way.
    pub calls: Calls,
    /// What the caller asked for, after defaults and environment.
    pub config: CommConfig,
    /// Collectives and point-to-point.
    pub collectives: coll::Collectives,
    /// Moves the words that kernels wait on, after an abort; ends before what holds them.
    pub release: devcomm::Release,
    /// Made at the first use; the proxy stops when the communicator drops.
    pub gin: Mutex<Option<Arc<Gin>>>,
    /// Device communicators that stand.
    pub devcomms: devcomm::Registry,
    /// Notices when a kernel of this rank has failed.
    pub pulse: Pulse,
    /// Windows that stand, and the memory under them.
    pub windows: window::Registry,
    /// Nodes and LSA team.
    pub topo: Topology,
    /// By world rank.
    pub peers: Vec<PeerInfo>,
    /// Ends before the bootstrap that it talks through.
    pub watch: Watch,
    /// How the ranks exchange.
    pub bootstrap: Bootstrap,
    /// The way out of every wait.
    pub abort: Arc<Abort>,
    /// The device that was current at creation.
    pub device: Arc<dyn Device>,
    notice: Arc<notice::Notice>,
    finalized: AtomicBool,
    buffers: Mutex<Buffers>,
}

/// Local buffer registrations (ncclCommRegister): counted, without effect on the device API.
#[derive(Default)]
struct Buffers {
    last: usize,
    live: HashMap<usize, (usize, usize)>,
}

impl Comm {
    /// How messages name it: `comm 0x9f21.. rank 3`.
    pub fn tag(&self) -> String {
        format!("comm 0x{:016x} rank {}", self.hash, self.rank)
    }

    /// Why it has failed, if it has: what the abort was raised with, or what ended an exchange, which may be a little earlier.
    pub fn failure(&self) -> Option<&Error> {
        self.abort.cause().or(self.bootstrap.failure())
    }

    /// Err once it has failed. The one question whether a communicator has failed, with [`Comm::failure`]: the abort alone hears of a
    /// failed exchange a little later, from another thread.
    pub fn alive(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// Err once the communicator has failed or was finalized: for everything that makes something new on it.
    pub fn ready(&self) -> Result<()> {
        self.not_revoked()?;
        self.alive()?;
        if self.finalized.load(Ordering::Acquire) {
            bail!(
                InvalidArgument,
                64,
                "communicator is finalized | {} | ncclCommFinalize was called | fix: make windows and device communicators before it",
                self.tag()
            );
        }
        Ok(())
    }

    /// Err unless children can be made of it: also after a failure and after ncclCommRevoke, not after ncclCommFinalize. What a
    /// failed parent cannot do (split) fails by itself.
    pub fn may_have_children(&self) -> Result<()> {
        if self.finalized.load(Ordering::Acquire) && !self.is_revoked() {
            return self.ready();
        }
        Ok(())
    }

    /// Fails the communicator here and, through the watch, on every other rank.
    pub fn fail(&self, cause: Error) {
        // What ended an exchange may not have come to the abort yet; it was first.
        let earlier = self.bootstrap.failure().cloned();
        self.bootstrap.poison(&cause);
        self.abort.raise(earlier.unwrap_or(cause));
    }

    /// Prints an error of a call on this communicator and keeps it for ncclGetLastError; silent where it is the failure
    /// that was printed when it happened. A panic fails the communicator.
    pub fn tell(&self, error: Error) -> Code {
        let code = error.code;
        let known = |cause: &Error| cause.id == error.id && cause.text == error.text;
        match self.abort.cause().is_some_and(known) {
            // Perhaps not printed yet, by the thread that does: the caller is to find its text all the same.
            true => {
                self.notice.print();
                log::recall(&error);
            }
            false => log::error(&error),
        }
        if error.id == PANIC {
            self.fail(error);
        }
        code
    }

    /// ncclCommRegister: notes the range; the handle is a number, never an address.
    pub fn register_buffer(&self, at: usize, bytes: usize) -> usize {
        let mut buffers = self.buffers.lock();
        buffers.last += 1;
        let handle = buffers.last;
        buffers.live.insert(handle, (at, bytes));
        handle
    }

    /// ncclCommDeregister.
    pub fn deregister_buffer(&self, handle: usize) -> Result<()> {
        if self.buffers.lock().live.remove(&handle).is_none() {
            bail!(
                InvalidUsage,
                63,
                "unknown buffer handle | {} | 0x{handle:x} | fix: pass what ncclCommRegister gave on this communicator, once",
                self.tag()
            );
        }
        Ok(())
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        if let Some(gin) = self.gin.get_mut() {
            gin.stop();
        }
        info!(INIT, "{} released", self.tag());
    }
}
