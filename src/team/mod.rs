//! What the parts of a communicator share: its ranks and where they are, how they exchange, and the way out of every wait.
//!
//! `meet` is how the ranks get to know each other, `peer` what each tells; `agree` are rounds in which all say what they are about
//! to do, `exchange` is how they get at each other's memory. Windows, GIN, device communicators and collectives stand on a team; a
//! communicator (`comm`) is made of them.
#![forbid(unsafe_code)]

mod agree;
pub mod config;
mod exchange;
mod meet;
pub mod peer;

pub(crate) use agree::{Said, compare};
pub use config::Config;
pub(crate) use exchange::{Lent, Offer, offers_of};
pub use peer::{Origin, PeerInfo};

use crate::abort::Abort;
use crate::bootstrap::{Bootstrap, Seat};
use crate::device::Device;
use crate::device::cpu::tell_family;
use crate::error::{Error, Result};
use crate::topo::{Reach, Topology};
use crate::watch::Watch;
use crate::{bail, info};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One rank's place among the ranks of a communicator.
///
/// Fields drop in this order: what uses links before what it stands on.
pub struct Team {
    /// World rank.
    pub rank: u32,
    /// Number of ranks.
    pub n_ranks: u32,
    /// Equal on all ranks, different for every communicator.
    pub hash: u64,
    /// Where its ranks come from.
    pub origin: Origin,
    /// What the caller asked for, after defaults and environment.
    pub config: Config,
    /// Nodes and LSA team.
    pub topo: Topology,
    /// By world rank; one copy for the ranks of a process.
    pub peers: Arc<Vec<PeerInfo>>,
    /// Ends before the bootstrap that it talks through.
    pub watch: Watch,
    /// How the ranks exchange.
    pub bootstrap: Bootstrap,
    /// The way out of every wait.
    pub abort: Arc<Abort>,
    /// The device that was current at creation.
    pub device: Arc<dyn Device>,
    /// ncclCommFinalize was called: nothing new is made.
    pub finalized: AtomicBool,
    /// ncclCommRevoke was called on this rank: neither.
    pub revoked: AtomicBool,
    /// Key of the last offer to other ranks; see `exchange`.
    offers: AtomicU64,
}

impl Team {
    /// Collective: who the ranks are and what they can reach; from here on they watch each other.
    pub fn meet(bootstrap: Bootstrap, origin: Origin, config: Config, device: Arc<dyn Device>) -> Result<Self> {
        let (rank, n_ranks, hash) = (bootstrap.rank(), bootstrap.n_ranks(), bootstrap.comm_hash());
        let met = (|| {
            let own = PeerInfo::own(rank, origin, &config, &*device, bootstrap.fd_address())?;
            let (peers, nodes) = meet::meet(&bootstrap, &own, &*device)?;
            let reach = match peer::reach_row(rank, &peers, &*device)? {
                Some(row) => bootstrap.allgather("peer access", &row)?.read(Reach::from_rows)?.as_ref().clone(),
                None => Reach::full(),
            };
            let abort = Arc::new(Abort::of(&device)?);
            bootstrap.attach_abort(abort.clone());
            crate::log::timeline::rank(abort.host_address(), hash, rank, n_ranks, device.ordinal());
            let watch = Watch::start(&bootstrap, &abort, own.machine)?;
            Ok((peers, Topology::new(&nodes, reach, rank), abort, watch))
        })();
        let (peers, topo, abort, watch) = met.inspect_err(|error| bootstrap.poison(error))?;
        let family: Vec<u32> = peers.iter().map(|peer| peer.origin.rank).collect();
        if !family.iter().copied().eq(0..n_ranks) {
            bootstrap.port().set_family(&family);
            tell_family(hash, &family);
        }
        if let Some((a, b)) = topo.apart {
            info!(
                INIT,
                "comm 0x{hash:016x} LSA teams have {} ranks: the GPU of rank {a} does not reach the memory of rank {b}; puts between such \
                 ranks go through host memory",
                topo.lsa_size
            );
        }
        let (finalized, revoked, offers) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        Ok(Self { rank, n_ranks, hash, origin, config, topo, peers, watch, bootstrap, abort, device, finalized, revoked, offers })
    }

    /// Its seat among its ranks.
    pub fn seat(&self) -> Seat {
        Seat { rank: self.rank, n_ranks: self.n_ranks, machine: self.peers[self.rank as usize].machine }
    }

    /// How messages name it: `comm 0x9f21.. rank 3`.
    pub fn tag(&self) -> String {
        format!("comm 0x{:016x} rank {}", self.hash, self.rank)
    }

    /// Why it has failed, if it has: what the abort was raised with, or what ended an exchange, which may be a little earlier.
    pub fn failure(&self) -> Option<&Error> {
        self.abort.cause().or(self.bootstrap.failure())
    }

    /// Err once it has failed. The one question whether a communicator has failed, with [`Team::failure`]: the abort alone hears of a
    /// failed exchange a little later, from another thread.
    pub fn alive(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// Fails the communicator here and, through the watch, on every other rank.
    pub fn fail(&self, cause: Error) {
        // What ended an exchange may not have come to the abort yet, nor what raised the abort to the others: it was first.
        let cause = self.failure().cloned().unwrap_or(cause);
        self.bootstrap.poison(&cause);
        self.abort.raise(cause);
    }

    /// Err once the communicator has failed, was finalized or revoked: for everything that makes something new on it.
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

    /// True on a rank that called ncclCommRevoke.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Err on a rank that called ncclCommRevoke.
    pub fn not_revoked(&self) -> Result<()> {
        if self.is_revoked() {
            bail!(
                InvalidArgument,
                64,
                "communicator is revoked | {} | ncclCommRevoke was called | fix: make a new one by ncclCommSplit or ncclCommShrink, and end this one",
                self.tag()
            );
        }
        Ok(())
    }
}
