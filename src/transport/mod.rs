//! What moves the bytes. A transport carries operations to some peers; everything that kernels see lies above it.
//!
//! A transport is a folder here and a line in [`factory::LIST`]: `nvlink`, `staged`, `messages`, `ofi`; `loopback` and `shm` are so small
//! that they share a file, `stores`. `factory` makes them, `select` says which one serves whom and why, `words` is what they tell each
//! other first, `work` what they are told. `contract` holds the tests that each must pass. They share `mapped` (stores into mapped memory), `remote` (memories as messages
//! name them, checked at both ends), `pipeline` (copies by a device in the background) and `wait`.
//!
//! Traps: a completion lets kernels write the source again and nothing more; what a peer says is checked before a byte moves; a
//! device or a network card may have landed a payload and not yet shown it when a CPU could raise its signal; a peer may be gone,
//! stopped or aborted at any word, and nobody may wait for it without end.

use crate::device::Device;
use crate::error::Result;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

pub mod chaos;
#[cfg(test)]
pub(crate) mod delayed;
pub mod factory;
mod mapped;
pub mod messages;
pub mod nvlink;
pub mod ofi;
mod pipeline;
mod remote;
pub mod select;
pub mod staged;
mod stores;
mod wait;
mod words;
mod work;
#[doc(hidden)]
pub use remote::fuzz as fuzz_header;
pub use stores::Stores;
pub use words::Words;
pub use work::{Part, Region, SIGNALS, Source, Work};

#[cfg(test)]
mod contract;

/// What a transport can do; the proxy plans with it, the contract holds it to it.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Name for messages, as in [`factory::LIST`].
    pub name: &'static str,
    /// Most bytes that one [`Transport::submit`] takes.
    pub piece: u64,
    /// A payload of at most so many bytes is taken out of its region in [`Transport::submit`]: its source is reusable then.
    pub inline: u64,
    /// An aligned word of at most so many bytes lands whole: who polls on it sees all of it or nothing. 1: no promise.
    pub align: u64,
    /// [`Transport::progress`] has to be called even when nothing is under way (a receiver lives in it).
    pub polled: bool,
    /// The target's progress lands what peers send, checked again there, so that nothing lands behind its abort. False: peers
    /// write this rank's memory by themselves, until they have heard of the abort, too.
    pub lands: bool,
}

impl Capabilities {
    /// Of a transport that needs the peers' memory mapped and promises nothing beyond.
    pub const fn of(name: &'static str, piece: u64) -> Self {
        Self { name, piece, inline: 0, align: 1, polled: false, lands: false }
    }
}

/// What became of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Done: the source is reusable. No completion follows.
    Done,
    /// Taken: a [`Completion`] follows.
    Pending,
    /// Not taken, nothing has happened; offer it again after progress.
    Full,
}

/// The end of a pending piece: its source is reusable. That it has landed, too, [`Transport::landing`] says. An error is never
/// dropped: the proxy aborts the communicator with it.
pub type Completion = (u64, Result<()>);

/// Pieces that a transport has taken, and how many of the first of them are visible at their targets, with their signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Landing {
    /// So far.
    pub taken: u64,
    /// All before this one.
    pub landed: u64,
}

impl Landing {
    /// Pieces of which nobody knows.
    pub fn left(self) -> u64 {
        self.taken - self.landed
    }
}

/// Moves work to peers. One thread at a time calls it.
///
/// Order: work of one (context, peer) takes effect in the order of submission; a signal becomes visible after its own
/// payload and after all earlier work of that context and peer. Where a device or a NIC lands the payload and a CPU raises the
/// signal, the payload is flushed to the memory in between.
///
/// An error that concerns a peer says `rank N`; one that the peer or the way to it has caused has it as culprit.
///
/// `contract` holds the tests of all this, and for each rule a transport that breaks it.
pub trait Transport: Send {
    /// Constant for the transport's life.
    fn capabilities(&self) -> Capabilities;
    /// `peers` are all ranks' words, as their factories gave them, in one copy for the ranks of a process. Peers are dialled when work for them comes, not here.
    fn connect(&mut self, _device: &dyn Device, _share: &dyn factory::Share, _peers: &Arc<Vec<Words>>) -> Result<()> {
        Ok(())
    }
    /// Words for the peers about this rank's part of a region, which is registered next, or deregistered if a rank cannot.
    fn prepare(&mut self, _part: &Part<'_>) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    /// Makes `region` known, with the words of all ranks; called before any work names it. Region 0 comes first.
    fn register(&mut self, region: &Region) -> Result<()>;
    /// Forgets it. Work that still names it fails, here and from peers, and nothing touches the memory any more.
    fn deregister(&mut self, region: u32);
    /// Starts `work`. Bounds have been checked against the regions' sizes; a transport checks again what it touches.
    fn submit(&mut self, work: &Work) -> Result<Submitted>;
    /// The end of a step: what has been taken and gathers here goes now.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    /// Moves what is under way and appends what ended; true if anything moved.
    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool>;
    /// What has landed, where a completion does not say that.
    fn landing(&self) -> Landing {
        Landing::default()
    }
    /// Peers at which something has not landed, and how much.
    fn unlanded(&self) -> Vec<(u32, u64)> {
        Vec::new()
    }
    /// Readable when [`Self::progress`] has something to do, after [`Self::arm`]; None if nobody need wake it. Constant for the
    /// transport's life.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Before sleep on the descriptor: true if there is nothing to do by now.
    fn arm(&mut self) -> Result<bool> {
        Ok(true)
    }
    /// The rank leaves: nothing is called any more. Waits for at most `patience` until what was taken has landed; an error says
    /// at whom it has not. Peers that wait for this rank's part in their work need not.
    fn close(&mut self, _patience: Duration) -> Result<()> {
        Ok(())
    }
    /// Drops all work under way: afterwards this rank moves no byte of any memory, and no completion follows. What peers still
    /// do here says [`Capabilities::lands`].
    fn abort(&mut self);
}
