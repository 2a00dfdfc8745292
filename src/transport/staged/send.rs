//! The sender's end: out of device memory into the target's ring, message by message.

use super::ring::{PIECE, Ring, SLOTS};
use crate::device::{ControlMemory, CopyQueue, DevPtr, Device, MemCopy};
use crate::error::{Code, Error, Result};
use crate::transport::pipeline::Pipeline;
use crate::transport::remote::Header;
use crate::transport::{Completion, Submitted};
use std::time::Instant;

/// A checked payload in this rank's memory.
pub(super) type Payload = Option<(DevPtr, u64)>;

/// What goes to one peer. Indices only rise; message `i` stands in slot `i % SLOTS`.
struct Outgoing {
    peer: u32,
    ring: Ring,
    /// Where the device puts payloads that it cannot put into the ring itself: the peer's memory is then open to the host only.
    bounce: Option<ControlMemory>,
    /// Next to be written; those before `sent` are on their way, those before `landed` at the target.
    next: u64,
    sent: u64,
    landed: u64,
    /// The batch that the newest unsent message waits for.
    batch: u64,
    tags: [u64; SLOTS as usize],
}

/// Message `index` to `peer` may go.
struct Ready {
    /// Among the sender's peers.
    number: usize,
    index: u64,
    bytes: u64,
}

/// All of one rank's outgoing messages.
pub(super) struct Sender {
    pipeline: Pipeline<Ready>,
    peers: Vec<Outgoing>,
    /// By peer, an index into `peers`.
    by_peer: Vec<Option<usize>>,
}

impl Sender {
    /// To none of `n` ranks yet.
    pub fn new(queue: Box<dyn CopyQueue>, n: usize) -> Self {
        Self { pipeline: Pipeline::new(queue), peers: Vec::new(), by_peer: vec![None; n] }
    }

    /// From now on to `peer`, too: `ring` is this rank's in its memory.
    pub fn add(&mut self, device: &dyn Device, peer: u32, ring: Ring) -> Result<()> {
        let bounce = match ring.device_payload(0) {
            Some(_) => None,
            None => Some(device.control((SLOTS * PIECE) as usize)?),
        };
        self.by_peer[peer as usize] = Some(self.peers.len());
        self.peers.push(Outgoing { peer, ring, bounce, next: 0, sent: 0, landed: 0, batch: 0, tags: [0; SLOTS as usize] });
        Ok(())
    }

    /// True if `peer` is reached this way.
    pub fn serves(&self, peer: u32) -> bool {
        self.by_peer.get(peer as usize).is_some_and(Option::is_some)
    }

    /// Takes a message: its header goes now, its payload with the next batch, and the target hears of it behind all earlier.
    pub fn submit(&mut self, peer: u32, header: &Header, payload: Payload, tag: u64) -> Result<Submitted> {
        let Some(number) = self.by_peer.get(peer as usize).copied().flatten() else { return Ok(Submitted::Full) };
        let to = &mut self.peers[number];
        // Credit also means that the completion was reported, so the tag's place is free.
        if to.next - to.landed == SLOTS {
            return Ok(Submitted::Full);
        }
        let index = to.next;
        let ready = Ready { number, index, bytes: payload.map_or(0, |(_, bytes)| bytes) };
        if let Some((from, bytes)) = payload {
            if self.pipeline.place().is_none() {
                return Ok(Submitted::Full);
            }
            let at = match &to.bounce {
                Some(bounce) => bounce.device() + index % SLOTS * PIECE,
                None => to.ring.device_payload(index).expect("looked at in new"),
            };
            to.ring.write_header(index, header);
            to.batch = self.pipeline.push(MemCopy { from, to: at, bytes }, ready);
        } else {
            to.ring.write_header(index, header);
            if to.sent == to.next {
                to.send(&ready);
            } else if !self.pipeline.follow(to.batch, ready) {
                return Ok(Submitted::Full);
            }
        }
        to.tags[(index % SLOTS) as usize] = tag;
        to.next += 1;
        Ok(Submitted::Pending)
    }

    /// Messages that have not landed, by peer.
    pub fn unlanded(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.peers.iter().map(|to| (to.peer, to.next - to.landed))
    }

    /// Sends what the device has brought, and reports what has landed.
    pub fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let peers = &mut self.peers;
        let mut moved = self.pipeline.progress(|ready| peers[ready.number].send(&ready))?;
        for peer in peers {
            if peer.landed != peer.next {
                moved |= peer.reap(done)?;
            }
        }
        Ok(moved)
    }

    /// Until the device reads nothing more.
    pub fn drain(&mut self) -> Result<()> {
        let peers = &mut self.peers;
        self.pipeline.drain(|ready| peers[ready.number].send(&ready))
    }

    pub fn abandon(&mut self, deadline: Instant) {
        self.pipeline.abandon(deadline);
    }
}

impl Outgoing {
    fn send(&mut self, ready: &Ready) {
        if let Some(bounce) = self.bounce.as_ref().filter(|_| ready.bytes > 0) {
            let offset = (ready.index % SLOTS * PIECE) as usize;
            // SAFETY: slot by slot within both memories, SLOTS * PIECE bytes each; `bytes` is at most PIECE, as `Staged` checked.
            // The device has finished writing the bounce buffer, and the target reads the ring only behind `sent`.
            unsafe {
                let from = bounce.host().as_ptr().add(offset);
                std::ptr::copy_nonoverlapping(from, self.ring.payload(ready.index), ready.bytes as usize);
            }
        }
        self.sent = ready.index + 1;
        self.ring.send(self.sent);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let taken = if self.ring.is_closed() { self.sent } else { self.ring.taken() };
        if !(self.landed..=self.sent).contains(&taken) {
            let text = format!(
                "a peer's staging ring makes no sense | rank {}, {} messages sent | it says that {taken} have landed, {} had before | \
                 fix: look for writes outside of memory there; load the same libginrs on every rank",
                self.peer, self.sent, self.landed
            );
            return Err(Error::new(Code::RemoteError, 78, text).by(self.peer));
        }
        let moved = taken != self.landed;
        done.extend((self.landed..taken).map(|index| (self.tags[(index % SLOTS) as usize], Ok(()))));
        self.landed = taken;
        Ok(moved)
    }
}
