//! How a transport comes to be: a factory stands in [`LIST`], is asked of each pair of ranks whether it can carry between
//! them, makes the rank's end, and lets it tell the peers what they need.
//!
//! | step | who | in which round |
//! |---|---|---|
//! | [`Factory::here`] | every rank, of itself | the first of the device communicator |
//! | [`Factory::can`] | every rank, of every pair it is in: the same data, hence the same verdict | |
//! | [`Factory::prepare`] | ranks that some pair chose it for | their words go in "gin signals" |
//! | [`Transport::connect`] | the same, with the peers' words | closed by "gin connected" |
//! | [`Transport::prepare`], [`Transport::register`] | the same, for each memory | with the window's own rounds |
#![forbid(unsafe_code)]

use super::Transport;
use crate::device::{Device, Kind, Physical};
use crate::error::Result;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

/// The transports, the most preferred first. A new one is a folder and a line here.
#[rustfmt::skip]
pub static LIST: &[&dyn Factory] = &[
    &super::stores::Factory::Loopback,
    &super::stores::Factory::Shm,
    &super::nvlink::Factory,
    &super::staged::Factory,
    &super::messages::Factory,
    &super::ofi::Factory,
];

/// What is known of two ranks, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Of every rank's device.
    pub kind: Kind,
    /// Both are ranks of one process; of this rank and itself, too.
    pub same_process: bool,
    /// Boot and network namespace are one: sockets reach, and each has mapped the other's memory.
    pub same_machine: bool,
    /// The sender's device reaches the target's memory.
    pub reached: bool,
}

/// Why it carries, or why it cannot: words for a person, `the peer is in another process`.
pub type Answer = std::result::Result<&'static str, Cow<'static, str>>;

/// The answer of all transports that need one machine.
pub(in crate::transport) const ELSEWHERE: Answer =
    Err(Cow::Borrowed("the peer is on another machine, or in a container of its own"));

/// Makes one rank's end of a transport.
pub trait Factory: Sync {
    /// For messages and for GINRS_TRANSPORT.
    fn name(&self) -> &'static str;
    /// Whether this rank has what the transport needs: a library, a device, a way to send from `_address`, which peers on other machines
    /// reach. If not, why not.
    fn here(&self, _device: &dyn Device, _address: IpAddr) -> std::result::Result<(), Cow<'static, str>> {
        Ok(())
    }
    /// It carries between machines, and is looked for only where ranks are on several, or GINRS_TRANSPORT names it: its library may
    /// take long to load.
    fn far(&self) -> bool {
        false
    }
    /// Whether it can carry from one rank of the pair to the other. Depends on nothing but its argument.
    fn can(&self, pair: &Pair) -> Answer;
    /// This rank's end, and words for the peers; called on ranks that send or receive this way. It opens nothing to any peer.
    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)>;
}

/// What a transport is made from.
pub struct Setup<'a> {
    /// This rank.
    pub rank: u32,
    /// Its device.
    pub device: &'a Arc<dyn Device>,
    /// By rank: whether this rank sends to it this way.
    pub serves: Vec<bool>,
    /// Ranks that send to a rank this way, in order.
    pub senders: &'a dyn Fn(u32) -> Vec<u32>,
    /// For memory that the ranks pass each other.
    pub share: &'a dyn Share,
    /// Of the communicator, for proofs between ranks; of transports alone.
    pub secret: [u8; 32],
    /// Of the interface that peers on other machines reach.
    pub address: IpAddr,
    /// More addresses of its family that they may reach, the best first.
    pub others: Vec<IpAddr>,
    /// Whether a rank has left the communicator in good order, as far as is known now.
    pub has_left: HasLeft,
}

/// See [`Setup::has_left`].
pub type HasLeft = Arc<dyn Fn(u32) -> bool + Send + Sync>;

/// Passes memory of [`Device::create_shared`] between ranks of one machine.
pub trait Share {
    /// Lets the others take `memory` until all are connected; what [`Self::take`] needs there.
    fn offer(&self, memory: &Arc<dyn Physical>) -> Result<[u64; 2]>;
    /// What rank `rank` offered: for the host alone, where it came from another process.
    fn take(&self, rank: u32, offer: [u64; 2]) -> Result<Arc<dyn Physical>>;
}
