//! Peers whose GPU memory cannot be mapped here: through host memory. The sender's device copies into a ring in the target's
//! memory, the target's proxy lets its device copy out of it, adds the signal, and gives the slot back.
//!
//! A message is done when it has landed: the index that gives credit is also the completion. Messages of one sender land in
//! the order in which they were sent, so a signal comes after its payload and after all earlier work to that peer.

use super::factory::{self, Answer, ELSEWHERE, Pair, Setup, Share};
use super::mapped::Payload;
use super::pipeline::LAST_COPIES;
use super::remote::{Header, Remote};
use super::wait::{self, Step, wait};
use super::{Capabilities, Completion, Region, Submitted, Transport, Words, Work};
use crate::device::{CopyQueue, DevPtr, Device, Physical};
use crate::error::{Error, Result};
use crate::{bail, log};
use receive::Receiver;
use ring::{PIECE, RING, Ring};
use send::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod receive;
mod ring;
mod send;
#[cfg(test)]
mod tests;

const NAME: &str = "staged";

/// Its line in the list.
pub struct Factory;

impl factory::Factory for Factory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can(&self, pair: &Pair) -> Answer {
        if pair.same_machine { Ok("the GPU does not reach its memory") } else { ELSEWHERE }
    }

    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        let own = setup.device.create_shared(bytes((setup.senders)(setup.rank).len()))?;
        let ring_of = |peer| (setup.senders)(peer).iter().position(|&sender| sender == setup.rank);
        let peers = setup.serves.iter().zip(0..).map(|(serves, peer)| serves.then(|| ring_of(peer)).flatten()).collect();
        let paths = Paths { own: own.clone(), senders: (setup.senders)(setup.rank), peers };
        let staged = Staged::new(setup.rank, paths, || setup.device.copy_queue())?;
        let offer = setup.share.offer(&own)?;
        Ok((Box::new(staged), offer.into_iter().flat_map(u64::to_le_bytes).collect()))
    }
}

/// Bytes of the staging memory of a rank with so many senders.
fn bytes(senders: usize) -> usize {
    senders.max(1) * RING as usize
}

/// Who stages to whom.
struct Paths {
    /// This rank's staging memory, of [`bytes`], and whose messages come there, in the order of the rings.
    own: Arc<dyn Physical>,
    /// See `own`.
    senders: Vec<u32>,
    /// By peer that this rank stages to: which ring in its staging memory is ours.
    peers: Vec<Option<usize>>,
}

/// Copies through host memory.
pub struct Staged {
    sender: Sender,
    receiver: Receiver,
    /// By peer, see [`Paths::peers`].
    rings: Vec<Option<usize>>,
    regions: Remote,
    stopped: bool,
}

impl Staged {
    /// `queue` makes queues of copies: one for each direction.
    fn new(rank: u32, paths: Paths, mut queue: impl FnMut() -> Result<Box<dyn CopyQueue>>) -> Result<Self> {
        let mut incoming = Vec::with_capacity(paths.senders.len());
        for (index, &from) in paths.senders.iter().enumerate() {
            incoming.push((from, Ring::new(&paths.own, index, rank)?));
        }
        let sender = Sender::new(queue()?, paths.peers.len());
        let receiver = Receiver::new(queue()?, incoming);
        Ok(Self { sender, receiver, rings: paths.peers, regions: Remote::new(NAME), stopped: false })
    }
}

impl Staged {
    /// Until what was sent has landed; goes on with what others send, who may wait for the same.
    fn land(&mut self, patience: Duration) -> Result<()> {
        let mut done = Vec::new();
        let landed = wait(patience, || match self.stopped || self.sender.unlanded().all(|(_, n)| n == 0) {
            true => Ok(Step::Idle),
            false => Ok(Step::of(self.progress(&mut done)?)),
        });
        if landed? { Ok(()) } else { Err(wait::not_landed(NAME, &self.unlanded())) }
    }
}

#[cold]
fn failed(error: Error) -> Error {
    if error.id == 78 {
        return error;
    }
    let text = format!("copies through host memory failed | staged | {error} | fix: see the cause");
    Error { text, id: 79, ..error }
}

impl Transport for Staged {
    fn capabilities(&self) -> Capabilities {
        Capabilities { polled: true, lands: true, ..Capabilities::of(NAME, PIECE) }
    }

    fn connect(&mut self, device: &dyn Device, share: &dyn Share, peers: &Arc<Vec<Words>>) -> Result<()> {
        for (rank, ring) in (0..).zip(std::mem::take(&mut self.rings)) {
            let Some(index) = ring else { continue };
            let Some(&[key, bytes]) = peers.get(rank as usize).and_then(|words| words.of(NAME).as_chunks::<8>().0.first_chunk())
            else {
                bail!(
                    RemoteError,
                    79,
                    "a peer offered no staging memory | rank {rank} | fix: load the same libginrs on every rank"
                );
            };
            let memory = share.take(rank, [key, bytes].map(u64::from_le_bytes))?;
            self.sender.add(device, rank, Ring::new(&memory, index, rank)?)?;
        }
        Ok(())
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        self.regions.register(region, region.name)
    }

    fn deregister(&mut self, region: u32) {
        // Collective calls find nothing here. For one that did not flush, no copy may outlive its memory.
        for drained in [self.sender.drain(), self.receiver.drain()] {
            drained.unwrap_or_else(|error| log::error(&failed(error)));
        }
        self.regions.deregister(region);
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        if !self.sender.serves(work.peer) {
            return self.regions.refuse(work, "peer");
        }
        let (value, payload) = match self.regions.outgoing(work, PIECE)? {
            Payload::Nothing => (None, None),
            Payload::Value(value) => (Some(value.to_le()), None),
            Payload::Memory(from) => (None, Some((from.expose_provenance() as DevPtr, work.bytes))),
        };
        let target = (self.regions.key(work.target.0), work.target.1);
        let header = Header { bytes: work.bytes, value, target, signal: work.signal };
        self.sender.submit(work.peer, &header, payload, work.tag)
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        if self.stopped {
            return Ok(false);
        }
        let received = self.receiver.progress(&self.regions).map_err(failed)?;
        let sent = self.sender.progress(done).map_err(failed)?;
        Ok(received | sent)
    }

    fn unlanded(&self) -> Vec<(u32, u64)> {
        self.sender.unlanded().filter(|(_, left)| *left > 0).collect()
    }

    fn close(&mut self, patience: Duration) -> Result<()> {
        let left = self.land(patience);
        self.receiver.drain().unwrap_or_else(|error| log::error(&failed(error)));
        self.stopped = true;
        self.receiver.close();
        left
    }

    fn abort(&mut self) {
        self.stopped = true;
        let deadline = Instant::now() + LAST_COPIES;
        self.sender.abandon(deadline);
        self.receiver.abandon(deadline);
    }
}
