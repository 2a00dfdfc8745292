//! Host collectives and point-to-point (nccl.h), built on the library's own device API: kernels (`cuda/collectives`) on the
//! caller's streams, over a device communicator that the library makes for itself with every communicator.
//!
//! `call` checks a collective, `buffer` what it names, `setup` made what it needs (as large as `sizes` says), `one_rank` makes what needs no kernel where there is one rank, `table` says which algorithm takes it (`along` how between teams, `room` with how many blocks at most), `launch` puts it on its
//! stream, `several` beside others of its group (`clash` sees what these must not have in common), `mapped` knows where other ranks see a buffer; sends and receives go through `rounds` and `point_to_point`. Nothing here waits for a peer once the communicator
//! stands: not the host, only kernels do. docs/internals/collectives.md tells it from outside.
#![forbid(unsafe_code)]

mod agree;
mod along;
mod buffer;
mod call;
mod clash;
pub mod datatype;
mod forced;
mod launch;
mod mapped;
mod one_rank;
mod operation;
mod point_to_point;
mod room;
mod rounds;
mod setup;
mod several;
mod sizes;
mod table;
mod work;

pub use buffer::check_buffer;
pub use call::{Call, Kind, bytes_of, rank_of};
pub use forced::forced;
pub use launch::run;
pub use operation::{Operation, Operations, Scalar};
pub use point_to_point::Messages;
pub use rounds::Message;
pub use setup::prepare;

use crate::abort::Abort;
use crate::device::{Kernels, Order};
use crate::error::{Error, Result};
use crate::process::rest::{self, Launching};
use crate::sync::{Mutex, MutexGuard, OnceCell};
use crate::team::Team;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// What one rank of a communicator has for collectives.
#[derive(Default)]
pub struct Collectives {
    /// Reductions that the program made.
    pub operations: Operations,
    /// Set once by [`prepare`]: the same on all ranks, up to the text of the error.
    ready: OnceCell<std::result::Result<Ready, Error>>,
    /// A launch may be on its way. Set before it; the pulse clears it.
    busy: Arc<AtomicBool>,
    /// An all-to-all in place was told.
    told_undefined: OnceCell<()>,
    /// Two calls of a group that touch the same memory were told.
    told_clash: AtomicBool,
}

/// Everything that a launch needs.
struct Ready {
    kernels: Arc<dyn Kernels>,
    /// Launches of a communicator share its staging memory: one after the other.
    order: Mutex<Order>,
    device: crate::device::Kind,
    comm: crate::layout::ncclDevComm,
    memory: Memory,
    /// Ranks of an LSA team.
    lsa_size: u32,
    sizes: sizes::Sizes,
    /// None: ranks tell each other nothing of their buffers.
    maps: Option<mapped::Maps>,
    /// GINRS_COLLECTIVE.
    forced: Option<forced::Forced>,
}

/// Where it lies in the device communicator's resources.
struct Memory {
    /// Between all pairs of ranks.
    inbox: work::Inbox,
    /// Along the rails; with one LSA team for the sums of reductions by messages.
    rails: work::Inbox,
    scratch: u32,
    /// Of one LSA team.
    ll: crate::layout::ncclLLA2AHandle_t,
}

impl Collectives {
    /// Nothing prepared yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the calls of one group, before any of them is launched.
    pub fn look_at_group(&self, team: &Team, calls: &[Call], messages: &Messages) {
        if !self.told_clash.load(Ordering::Relaxed) && clash::tell(team, calls, messages.all()) {
            self.told_clash.store(true, Ordering::Relaxed);
        }
    }

    /// True unless launches may still be on their way.
    pub fn idle(&self) -> bool {
        match self.ready.get() {
            Some(Ok(ready)) => ready.order.lock().idle(),
            _ => true,
        }
    }

    /// True if a launch was on its way when the communicator failed, or is now. One that ended in the last 20 ms counts, and so does
    /// every captured one.
    pub fn is_busy(&self) -> bool {
        is_set(&self.busy)
    }

    /// The same, to be asked by others: it keeps nothing of the communicator.
    pub fn busy(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let busy = self.busy.clone();
        move || is_set(&busy)
    }

    /// The pulse comes by. After a failure nothing is noted: it may have ended what was on its way. Lent buffers are tidied up.
    pub fn look(&self, abort: &Abort) {
        if self.busy.load(Ordering::Relaxed)
            && let Some(Ok(ready)) = self.ready.get()
            && let Some(order) = ready.order.try_lock()
            && order.is_over()
            && !abort.is_raised()
        {
            self.busy.store(false, Ordering::Relaxed);
        }
        if let Some(Ok(ready)) = self.ready.get()
            && let Some(maps) = &ready.maps
        {
            maps.tidy(|| !self.is_busy());
        }
    }

    /// Before every launch. Err if the communicator has failed.
    fn begin<'a>(&self, team: &Team, ready: &'a Ready) -> Result<(MutexGuard<'a, Order>, Launching)> {
        let launching = rest::launching();
        let order = ready.order.lock();
        self.busy.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        team.alive()?;
        Ok((order, launching))
    }

    fn ready(&self, team: &Team) -> Result<&Ready> {
        match self.ready.get() {
            Some(Ok(ready)) => Ok(ready),
            Some(Err(error)) => Err(Error { text: format!("{} | {}", error.text, team.tag()), ..error.clone() }),
            None => crate::bail!(InternalError, 92, "collectives were never prepared | {} | fix: report this", team.tag()),
        }
    }
}

fn is_set(busy: &AtomicBool) -> bool {
    // Behind a failure: either this sees the launch, or the launch sees the failure.
    fence(Ordering::SeqCst);
    busy.load(Ordering::Relaxed)
}
