//! What moves the bytes. A transport carries operations to some peers; everything that kernels see lies above it.

use crate::error::Result;

#[cfg(test)]
mod delayed;
pub mod loopback;
mod mapped;
pub mod nvlink;
mod pipeline;
pub mod select;
pub mod shm;
pub mod staged;
mod work;
pub use work::{Region, SIGNALS, Source, Work};

#[cfg(test)]
mod contract;

/// What a transport can do; the proxy plans with it.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Name for messages: `loopback`, `shm`, `nvlink`, `staged`.
    pub name: &'static str,
    /// Most bytes that one [`Transport::submit`] takes.
    pub piece: u64,
    /// [`Transport::progress`] has to be called even when nothing is under way (a receiver lives in it).
    pub polled: bool,
}

/// What became of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Done: the source is reusable, payload and signal are visible at the target. No completion follows.
    Done,
    /// Taken: a [`Completion`] follows.
    Pending,
    /// Not taken, nothing has happened; offer it again after progress.
    Full,
}

/// The end of a pending piece. An error is never dropped: the proxy aborts the communicator with it.
pub type Completion = (u64, Result<()>);

/// Moves work to peers. One thread at a time calls it.
///
/// Order: work of one (context, peer) takes effect in the order of submission; a signal becomes visible after its own
/// payload and after all earlier work of that context and peer. `contract.rs` holds the tests.
pub trait Transport: Send {
    /// Constant for the transport's life.
    fn capabilities(&self) -> Capabilities;
    /// Makes `region` known; called before any work names it. Region 0 comes first.
    fn register(&mut self, region: &Region) -> Result<()>;
    /// Forgets it. Work that still names it fails.
    fn deregister(&mut self, region: u32);
    /// Starts `work`. Bounds have been checked against the regions' sizes; a transport checks again what it touches.
    fn submit(&mut self, work: &Work) -> Result<Submitted>;
    /// Moves what is under way and appends what ended; true if anything moved.
    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool>;
    /// The rank leaves: nothing is called any more. Peers that wait for its part in their work need not.
    fn close(&mut self) {}
    /// Drops all work under way: afterwards no memory of this rank is read or written, and no completion follows.
    fn abort(&mut self);
}
