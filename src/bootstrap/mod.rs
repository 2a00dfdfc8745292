//! How the ranks of a communicator find each other and agree.
//!
//! ```text
//! id        what ncclGetUniqueId hands out: the root's address and a secret
//! fixed     the id of NCCL_COMM_ID, which every rank makes for itself
//! auth      both ends of every connection prove the secret: handshake (server's half), dial (client's half)
//! service   one thread per process, started by start; event_loop is what it does, accept how it lets connections in
//! root      counts the ranks of one communicator in and gives each the table of all: join is the rank's side, cancel its way out, gate
//!           lets few of a process dial at a time
//! scalable  several roots, each for a block of the ranks, and how the blocks put their tables together
//! route     how a process is reached, within a machine and from another: interfaces chooses where to listen, tcp makes the sockets
//! link      a connection, its frames of wire; sealed between machines
//! port      one communicator's end in this process: peers is its links to other processes, lookout what the watch tells it of them, place
//!           where a rank here stands
//! exchange  allgather and barrier in ceil(log2 p) rounds of p processes, which stand in a circle; the ranks of each put together what
//!           they say in its mailbox and share what is gathered; missing says who keeps them waiting, deaths who may be missed for good
//! fdpass    descriptors from process to process
//! ```
//! Ranks are threads or processes in any mix. Processes of one machine connect by abstract Unix sockets, others by TCP.

mod accept;
mod address;
mod auth;
mod budget;
mod cancel;
mod circle;
mod deaths;
mod dial;
mod event_loop;
mod exchange;
mod fdpass;
mod fixed;
mod gate;
mod gathered;
mod gone;
mod handshake;
mod id;
mod interfaces;
mod join;
mod link;
mod lookout;
mod mailbox;
mod missing;
mod peers;
mod place;
mod port;
mod root;
mod route;
mod scalable;
mod sealed;
mod service;
mod start;
mod tcp;
mod unjoined;
mod wire;

pub use address::{Address, FdAddress};
#[doc(hidden)]
pub use budget::accept_counts;
pub use cancel::Cancel;
pub use gathered::Gathered;
pub(crate) use gone::{DEAD, Fate, LEFT};
pub use id::UniqueId;
pub(crate) use lookout::{ANEW, Beat, CALLED, Complaint, Ill, Lookout};
pub(crate) use port::Port;
pub(crate) use service::service_is_intact;
pub(crate) use wire::as_remote;

use crate::abort::Abort;
use crate::error::{Error, Result};
use crate::process::check_owner;
use crate::sync::{Mutex, OnceCell};
use place::Place;
use std::sync::Arc;
use std::time::Instant;

/// Which rank joins, of how many, and on which machine: ranks of one machine talk over Unix sockets.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// The rank.
    pub rank: u32,
    /// Of how many.
    pub n_ranks: u32,
    /// Equal for ranks of one machine.
    pub machine: u64,
}

/// What strangers and peers send, read. What was understood is understood again from what is made of it.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(frame) = wire::Frame::decode(bytes) {
        let again = frame.encode();
        assert_eq!(wire::Frame::decode(&again[4..]).map(|frame| frame.encode()).as_ref(), Ok(&again));
    }
    if let Some(Ok(id)) = bytes.first_chunk().map(UniqueId::from_bytes) {
        assert_eq!(Some(&id.bytes()), bytes.first_chunk());
    }
    if let Some(Ok(address)) = bytes.first_chunk().map(FdAddress::from_bytes) {
        assert!(FdAddress::from_bytes(&address.to_bytes()).is_ok());
    }
    if let Some(route) = bytes.first_chunk().and_then(route::Route::decode) {
        assert!(route::Route::decode(&route.encode()).is_some());
    }
    if let Some(greeting) = bytes.first_chunk() {
        assert!(auth::asked(greeting).is_err() || auth::answer(&[7; 32], greeting).is_err(), "nobody has proved that secret");
    }
    if let Some(Ok(verdict)) = bytes.first_chunk().map(auth::Verdict::decode) {
        assert_eq!(Some(&verdict.encode()), bytes.first_chunk());
    }
}

/// See [`Bootstrap::tally`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub exchanges: u32,
    /// Sent to other processes.
    pub messages: u32,
    /// Of all ranks' data in them, without heads.
    pub bytes: u64,
}

/// One rank's end of a communicator's bootstrap. Drop tells the others that the rank has left.
pub struct Bootstrap {
    port: Arc<Port>,
    place: Arc<Place>,
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
        Self::join_unless(id, Seat { rank, n_ranks, machine: crate::process::machine() }, &Cancel::default())
    }

    /// [`Self::join`] of a rank on `machine`, until `cancel` says otherwise.
    pub fn join_unless(id: &UniqueId, seat: Seat, cancel: &Cancel) -> Result<Bootstrap> {
        let (port, place) = join::join(id, seat, false, cancel)?;
        Ok(Self::at(port, place, seat.rank, seat.n_ranks))
    }

    /// Tells those who wait at `ids` that `rank` will not come, and why: an argument of its call was wrong. Best effort, for a second.
    pub fn decline(ids: &[UniqueId], rank: u32, n_ranks: u32, error: &Error) {
        if let Err(untold) = join::decline(ids, rank, n_ranks, error) {
            crate::info!(BOOTSTRAP, "the others do not hear that rank {rank} cannot join: {untold}");
        }
    }

    fn at(port: Arc<Port>, place: Arc<Place>, rank: u32, n_ranks: u32) -> Self {
        Self { port, place, rank, n_ranks, turn: Mutex::new(0), abort: OnceCell::new(), owner: std::process::id() }
    }

    /// The id of a communicator that comes from this one, with its root in the process of `first`: all ranks that name it alike have the same,
    /// without a message.
    pub fn id_of_child(&self, label: &str, first: u32) -> UniqueId {
        UniqueId::derived(self.port.table()[first as usize].route(), &auth::derive(self.port.secret(), label))
    }

    /// A rank of this process will not join the child `id` of this communicator, as its rank `rank`: its root, in the process of `first`, is
    /// told, also where it is still to come. Best effort.
    pub fn decline_child(&self, id: &UniqueId, first: u32, rank: u32, error: &Error) {
        if self.port.is_here(first) {
            self.port.service.decline(id.key(), rank, error);
            return;
        }
        let until = std::time::Instant::now() + std::time::Duration::from_secs(1);
        let told = self.port.link(self.port.table()[first as usize].address, until, || true);
        match told {
            Ok(link) => drop(link.send(&wire::Frame::Decline { key: id.key(), rank, cause: error.clone() })),
            Err(untold) => crate::info!(BOOTSTRAP, "the others do not hear that rank {rank} cannot join: {untold}"),
        }
    }

    /// Where this process would listen for other machines, the best first. E100 where NCCL_SOCKET_IFNAME names no interface.
    pub fn addresses() -> Result<Vec<std::net::SocketAddr>> {
        interfaces::chosen()
    }

    /// Addresses of this machine that other machines reach, by NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY, the best first; loopback's where
    /// there is no other. Link-local ones need a scope, which differs between machines.
    pub fn addresses_for_others() -> Result<Vec<std::net::IpAddr>> {
        let link_local = |ip: &std::net::IpAddr| matches!(ip, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local());
        let chosen = interfaces::chosen()?.into_iter().map(|address| address.ip()).filter(|ip| !link_local(ip));
        let chosen: Vec<_> = chosen.collect();
        Ok(if chosen.is_empty() { vec![std::net::Ipv4Addr::LOCALHOST.into()] } else { chosen })
    }

    /// The same in this communicator: first those by which its links to other machines go, the last of these first. A machine may have one that no
    /// other has a way to, and doors are tried in order: whoever came by a later one has no way to those before it.
    pub fn addresses_to_others(&self) -> Result<Vec<std::net::IpAddr>> {
        let (mut all, used) = (Self::addresses_for_others()?, self.port.used_addresses());
        all.sort_by_key(|address| !used.contains(address));
        let linked = all.iter().take_while(|address| used.contains(address)).count();
        all[..linked].reverse();
        Ok(all)
    }

    /// The first of [`Self::addresses_for_others`].
    pub fn address_for_others() -> Result<std::net::IpAddr> {
        Ok(Self::addresses_for_others()?[0])
    }

    /// A secret of the communicator for `whom`: whoever sees it learns nothing of others.
    pub fn secret_of(&self, whom: &str) -> [u8; 32] {
        auth::derive(self.port.secret(), &format!("secret of {whom}"))
    }

    /// Err while one of `ranks` will take part in nothing any more, and since when that is known: the first that is dead, or else the first that
    /// has left.
    pub fn absent(&self, ranks: impl Iterator<Item = u32>) -> std::result::Result<(), (Error, Instant)> {
        let failed = self.failure().is_some();
        let gone = ranks.filter_map(|rank| self.port.fate_since(rank).map(|(fate, since)| (rank, fate, since)));
        match gone.min_by_key(|(_, fate, since)| (*fate == Fate::Left, *since)) {
            Some((rank, fate, since)) => Err((gone::gone_behind(&self.port, rank, fate, "the making of a child", failed), since)),
            None => Ok(()),
        }
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
        let port = Arc::downgrade(&self.port);
        self.abort.get_or_init(|| abort).on_raise(move |_| {
            if let Some(port) = port.upgrade() {
                port.mailbox.ring();
            }
        });
    }

    /// What the exchanges have cost this process so far, for tests of how set-up grows.
    #[doc(hidden)]
    pub fn tally(&self) -> Tally {
        *self.port.tally.lock()
    }

    /// Ends the pending and later exchanges of all ranks with `cause`; best effort, never blocks.
    pub fn poison(&self, cause: &Error) {
        if self.own_process().is_ok() {
            self.port.fail(self.rank, &as_remote(self.rank, cause));
        }
    }

    /// What has ended the exchanges here; the abort may follow a little later.
    pub fn failure(&self) -> Option<&Error> {
        self.port.failure()
    }

    /// Err once the communicator has failed or its abort is raised.
    fn alive(&self) -> Result<()> {
        if let Some(cause) = self.failure() {
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
        StepSetter(self.place.clone())
    }

    /// Process id of a rank of another process, as the kernel names it here; makes the link if there is none.
    pub(crate) fn peer_pid(&self, rank: u32, what: &str) -> Result<u32> {
        let until = std::time::Instant::now() + crate::config::seconds("GINRS_TIMEOUT");
        Ok(self.link_to(rank, what, until)?.peer().pid)
    }
}

/// See [`Bootstrap::step_setter`].
pub(crate) struct StepSetter(Arc<Place>);

impl StepSetter {
    pub(crate) fn set(&self, step: &str) {
        self.0.set_step(step);
    }

    /// Hears of every step, those of exchanges too.
    pub(crate) fn on_step(&self, hears: impl Fn(&str) + Send + Sync + 'static) {
        self.0.on_step(hears);
    }
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            // A forked child: the threads that could hold these locks are not here, and the links are the parent's.
            std::mem::forget(self.port.clone());
            return;
        }
        self.port.join_spreading();
        self.port.stand_up(self.rank);
        self.port.say_last_words();
    }
}
