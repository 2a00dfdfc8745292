//! Peers whose GPU memory cannot be mapped here: through host memory. The sender's device copies into a ring in the target's
//! memory, the target's proxy lets its device copy out of it, adds the signal, and gives the slot back.
//!
//! A message is done when it has landed: the index that gives credit is also the completion. Messages of one sender land in
//! the order in which they were sent, so a signal comes after its payload and after all earlier work to that peer.

use super::mapped::Span;
use super::{Capabilities, Completion, Region, SIGNALS, Source, Submitted, Transport, Work};
use crate::bail;
use crate::device::{CopyQueue, Device, Physical};
use crate::error::{Code, Error, Result};
use crate::log;
use receive::Receiver;
use ring::{Header, PIECE, RING, Ring};
use send::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod receive;
mod ring;
mod send;
#[cfg(test)]
mod tests;

/// How long an abort waits for copies that have been started.
const LAST_COPIES: Duration = Duration::from_millis(20);
/// How long a deregistration waits for a device that finishes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the staging memory of a rank with so many senders.
pub fn bytes(senders: usize) -> usize {
    senders.max(1) * RING as usize
}

/// Who stages to whom.
pub struct Paths {
    /// This rank's staging memory, of [`bytes`], and whose messages come there, in the order of the rings.
    pub own: Arc<dyn Physical>,
    /// See `own`.
    pub senders: Vec<u32>,
    /// By peer that this rank stages to: its staging memory, and which ring in it is ours.
    pub peers: Vec<Option<(Arc<dyn Physical>, usize)>>,
}

/// A region as messages are checked against it before they go.
#[derive(Clone, Copy)]
struct Known {
    name: u64,
    bytes: u64,
    local: Span,
}

/// Copies through host memory.
pub struct Staged {
    sender: Sender,
    receiver: Receiver,
    regions: Vec<Option<Known>>,
    stopped: bool,
}

impl Staged {
    /// `queue` makes queues of copies: one for each direction.
    pub fn new(
        device: &dyn Device,
        rank: u32,
        paths: Paths,
        mut queue: impl FnMut() -> Result<Box<dyn CopyQueue>>,
    ) -> Result<Self> {
        let mut outgoing = Vec::with_capacity(paths.peers.len());
        for (peer, memory) in paths.peers.iter().enumerate() {
            outgoing.push(match memory {
                Some((memory, index)) => Some(Ring::new(memory, *index, peer as u32)?),
                None => None,
            });
        }
        let mut incoming = Vec::with_capacity(paths.senders.len());
        for (index, &from) in paths.senders.iter().enumerate() {
            incoming.push((from, Ring::new(&paths.own, index, rank)?));
        }
        let sender = Sender::new(device, queue()?, outgoing)?;
        let receiver = Receiver::new(queue()?, incoming);
        Ok(Self { sender, receiver, regions: Vec::new(), stopped: false })
    }

    fn known(&self, region: u32) -> Option<Known> {
        *self.regions.get(region as usize)?
    }

    #[cold]
    fn refuse<T>(&self, work: &Work, what: &str) -> Result<T> {
        bail!(
            InternalError,
            50,
            "{what} lies outside the registered memory | staged, to rank {} | {work:?} | fix: put only into registered windows",
            work.peer
        )
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
        Capabilities { name: "staged", piece: PIECE, polled: true }
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        let Some(local) = Span::new(region.local(), region.bytes()) else {
            bail!(InternalError, 37, "memory has no address | memory {} | staged | fix: report this", region.name);
        };
        let id = region.id as usize;
        if self.regions.len() <= id {
            self.regions.resize(id + 1, None);
        }
        self.regions[id] = Some(Known { name: region.name, bytes: region.bytes(), local });
        if region.id == SIGNALS {
            self.receiver.targets.signals = Some(local);
        } else {
            self.receiver.targets.regions.insert(region.name, local);
        }
        Ok(())
    }

    fn deregister(&mut self, region: u32) {
        // Collective calls find nothing here. For one that did not flush, no copy may outlive its memory.
        for settled in [self.sender.settle(PATIENCE), self.receiver.settle(PATIENCE)] {
            let error = match settled {
                Ok(true) => continue,
                Ok(false) => Error::new(Code::UnhandledCudaError, 79, format!("the device finished nothing for {PATIENCE:?}")),
                Err(error) => error,
            };
            log::error(&failed(error));
        }
        if let Some(known) = self.regions.get_mut(region as usize).and_then(Option::take) {
            self.receiver.targets.regions.remove(&known.name);
        }
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        if !self.sender.serves(work.peer) {
            return self.refuse(work, "peer");
        }
        if let Some((offset, _)) = work.signal {
            let inside = self.known(SIGNALS).is_some_and(|signals| signals.local.at(offset, 8).is_some());
            if !inside || offset % 8 != 0 {
                return self.refuse(work, "signal");
            }
        }
        let mut header = Header { bytes: work.bytes, value: None, target: (0, 0), signal: work.signal };
        let mut payload = None;
        if work.bytes > 0 {
            let (region, offset) = work.target;
            let target = self.known(region).filter(|known| known.bytes >= work.bytes && offset <= known.bytes - work.bytes);
            let Some(target) = target else { return self.refuse(work, "target") };
            header.target = (target.name, offset);
            match work.source {
                Source::Inline(_) if work.bytes > 8 => return self.refuse(work, "inline value"),
                Source::Inline(value) => header.value = Some(value.to_le()),
                Source::Region { .. } if work.bytes > PIECE => return self.refuse(work, "piece"),
                Source::Region { region, offset } => {
                    match self.known(region).and_then(|known| known.local.at(offset, work.bytes)) {
                        Some(from) => payload = Some((from.expose_provenance() as u64, work.bytes)),
                        None => return self.refuse(work, "source"),
                    }
                }
            }
        }
        self.sender.submit(work.peer, &header, payload, work.tag)
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        if self.stopped {
            return Ok(false);
        }
        let received = self.receiver.progress().map_err(failed)?;
        let sent = self.sender.progress(done).map_err(failed)?;
        Ok(received | sent)
    }

    fn close(&mut self) {
        if let Err(error) = self.receiver.settle(PATIENCE) {
            log::error(&failed(error));
        }
        self.stopped = true;
        self.receiver.close();
    }

    fn abort(&mut self) {
        self.stopped = true;
        let deadline = Instant::now() + LAST_COPIES;
        self.sender.abandon(deadline);
        self.receiver.abandon(deadline);
    }
}
