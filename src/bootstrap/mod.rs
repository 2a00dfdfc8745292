//! How the ranks of a communicator find each other and agree.
//!
//! ```text
//! id        what ncclGetUniqueId hands out: the root's address and a secret
//! fixed     the id of NCCL_COMM_ID, which every rank makes for itself
//! auth      both ends of every connection prove the secret: stranger (server's half), dial (client's half)
//! service   one thread per process; event_loop is what it does, door how it deals with strangers
//! root      counts the ranks of one communicator in and gives each the table of all: join is the rank's side
//! port      one communicator's end in this process: mailboxes of its ranks here; peers is its links to other processes
//! exchange  allgather and barrier in ceil(log2 n) rounds; missing says who keeps them waiting
//! fdpass    descriptors from process to process
//! ```
//! Ranks are threads or processes in any mix. All sockets are abstract Unix sockets of this host; `Address` is where TCP will join.

mod address;
mod auth;
mod dial;
mod door;
mod event_loop;
mod exchange;
mod fdpass;
mod fixed;
mod id;
mod join;
mod link;
mod mailbox;
mod missing;
mod peers;
mod port;
mod root;
mod service;
mod stranger;
mod wire;

pub use address::{Address, FdAddress};
pub use id::UniqueId;
pub(crate) use port::Port;

use crate::error::{Error, Result};
use crate::gin::abort::Abort;
use crate::process::check_owner;
use crate::sync::{Mutex, OnceCell};
use mailbox::Mailbox;
use std::sync::Arc;

/// One rank's end of a communicator's bootstrap. Drop tells the others that the rank has left.
pub struct Bootstrap {
    port: Arc<Port>,
    mailbox: Arc<Mailbox>,
    rank: u32,
    n_ranks: u32,
    /// Number of the last exchange. Locked for its whole length: exchanges of one rank are one after the other.
    turn: Mutex<u32>,
    abort: OnceCell<Arc<Abort>>,
    owner: u32,
}

impl Bootstrap {
    /// Meets the other ranks at the id's root; collective. Every rank gets the reason when ranks do not fit together (E012), when one
    /// is gone (E040) or missing after GINRS_INIT_TIMEOUT seconds (E011). A rank or count that is out of range is told to all, too.
    pub fn join(id: &UniqueId, rank: u32, n_ranks: u32) -> Result<Bootstrap> {
        let (port, mailbox) = join::join(id, rank, n_ranks)?;
        Ok(Self { port, mailbox, rank, n_ranks, turn: Mutex::new(0), abort: OnceCell::new(), owner: std::process::id() })
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    pub fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    /// Equal on all ranks; names the communicator in logs.
    pub fn comm_hash(&self) -> u64 {
        self.port.hash()
    }

    /// Exchanges end with the cause of `abort` once it is raised. The first abort counts.
    pub fn attach_abort(&self, abort: Arc<Abort>) {
        let mailbox = Arc::downgrade(&self.mailbox);
        self.abort.get_or_init(|| abort).on_raise(move |_| {
            if let Some(mailbox) = mailbox.upgrade() {
                mailbox.ring();
            }
        });
    }

    /// Ends the pending and later exchanges of all ranks with `cause`; best effort, never blocks.
    pub fn poison(&self, cause: &Error) {
        if self.own_process().is_ok() {
            self.port.fail(self.rank, &as_remote(self.rank, cause));
        }
    }

    /// Err once the communicator has failed or its abort is raised.
    fn alive(&self) -> Result<()> {
        if let Some(cause) = self.port.failure() {
            return Err(cause.clone());
        }
        self.abort.get().map_or(Ok(()), |abort| abort.check())
    }

    /// Err in a forked child.
    fn own_process(&self) -> Result<()> {
        check_owner(self.owner, &self.port.tag())
    }

    pub(crate) fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// To say between exchanges what this rank does.
    pub(crate) fn step_setter(&self) -> StepSetter {
        StepSetter(self.mailbox.clone())
    }

    /// Process id of a rank of another process, as the kernel names it here; makes the link if there is none.
    pub(crate) fn peer_pid(&self, rank: u32, what: &str) -> Result<u32> {
        let until = std::time::Instant::now() + crate::config::seconds("GINRS_TIMEOUT");
        Ok(self.link_to(rank, what, until)?.peer().pid)
    }
}

/// See [`Bootstrap::step_setter`].
pub(crate) struct StepSetter(Arc<Mailbox>);

impl StepSetter {
    pub(crate) fn set(&self, step: &str) {
        self.0.set_step(step);
    }

    /// Hears of every step, those of exchanges too.
    pub(crate) fn on_step(&self, hears: impl Fn(&str) + Send + Sync + 'static) {
        self.0.on_step(hears);
    }
}

/// A cause as the other ranks should read it: whose it is stands in it.
pub(crate) fn as_remote(rank: u32, cause: &Error) -> Error {
    use crate::error::Code;
    let culprit = cause.culprit.unwrap_or(rank);
    let named = cause.text.contains(&format!("rank {culprit}"));
    let text = if named { cause.text.clone() } else { format!("rank {rank} failed: {}", cause.text) };
    Error { code: Code::RemoteError, id: cause.id, text, culprit: Some(culprit) }
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            // A forked child: the threads that could hold these locks are not here, and the links are the parent's.
            std::mem::forget(self.port.clone());
            return;
        }
        self.port.stand_up(self.rank);
    }
}
