//! The sender's end: out of device memory into the target's ring, message by message.

use super::ring::{Header, PIECE, Ring, SLOTS};
use crate::bail;
use crate::device::{ControlMemory, Copy, CopyQueue, DevPtr, Device};
use crate::error::Result;
use crate::transport::pipeline::Pipeline;
use crate::transport::{Completion, Submitted};
use std::time::{Duration, Instant};

/// A checked payload in this rank's memory.
pub(super) type Payload = Option<(DevPtr, u64)>;

/// What goes to one peer. Indices only rise; message `i` stands in slot `i % SLOTS`.
struct Lane {
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
    lane: usize,
    index: u64,
    bytes: u64,
}

/// All of one rank's outgoing messages.
pub(super) struct Sender {
    pipeline: Pipeline<Ready>,
    lanes: Vec<Lane>,
    /// By peer, an index into `lanes`.
    by_peer: Vec<Option<usize>>,
}

impl Sender {
    /// `rings` are those of this rank in the peers' memories, by peer.
    pub fn new(device: &dyn Device, queue: Box<dyn CopyQueue>, rings: Vec<Option<Ring>>) -> Result<Self> {
        let (mut lanes, mut by_peer) = (Vec::new(), vec![None; rings.len()]);
        for (peer, ring) in rings.into_iter().enumerate() {
            let Some(ring) = ring else { continue };
            by_peer[peer] = Some(lanes.len());
            let bounce = match ring.device_payload(0) {
                Some(_) => None,
                None => Some(device.control((SLOTS * PIECE) as usize)?),
            };
            let (tags, peer) = ([0; SLOTS as usize], peer as u32);
            lanes.push(Lane { peer, ring, bounce, next: 0, sent: 0, landed: 0, batch: 0, tags });
        }
        Ok(Self { pipeline: Pipeline::new(queue), lanes, by_peer })
    }

    /// True if `peer` is reached this way.
    pub fn serves(&self, peer: u32) -> bool {
        self.by_peer.get(peer as usize).is_some_and(Option::is_some)
    }

    /// Takes a message: its header goes now, its payload with the next batch, and the target hears of it behind all earlier.
    pub fn submit(&mut self, peer: u32, header: &Header, payload: Payload, tag: u64) -> Result<Submitted> {
        let Some(number) = self.by_peer.get(peer as usize).copied().flatten() else { return Ok(Submitted::Full) };
        let lane = &mut self.lanes[number];
        // Credit also means that the completion was reported, so the tag's place is free.
        if lane.next - lane.landed == SLOTS {
            return Ok(Submitted::Full);
        }
        let index = lane.next;
        let ready = Ready { lane: number, index, bytes: payload.map_or(0, |(_, bytes)| bytes) };
        if let Some((from, bytes)) = payload {
            if self.pipeline.place().is_none() {
                return Ok(Submitted::Full);
            }
            let to = match &lane.bounce {
                Some(bounce) => bounce.device() + index % SLOTS * PIECE,
                None => lane.ring.device_payload(index).expect("looked at in new"),
            };
            lane.ring.write_header(index, header);
            lane.batch = self.pipeline.push(Copy { from, to, bytes }, ready);
        } else {
            lane.ring.write_header(index, header);
            if lane.sent == lane.next {
                lane.send(&ready);
            } else if !self.pipeline.follow(lane.batch, ready) {
                return Ok(Submitted::Full);
            }
        }
        lane.tags[(index % SLOTS) as usize] = tag;
        lane.next += 1;
        Ok(Submitted::Pending)
    }

    /// Sends what the device has brought, and reports what has landed.
    pub fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let lanes = &mut self.lanes;
        let mut moved = self.pipeline.progress(|ready| lanes[ready.lane].send(&ready))?;
        for lane in lanes {
            if lane.landed != lane.next {
                moved |= lane.collect(done)?;
            }
        }
        Ok(moved)
    }

    /// Until the device reads nothing more.
    pub fn settle(&mut self, patience: Duration) -> Result<bool> {
        let lanes = &mut self.lanes;
        self.pipeline.settle(patience, |ready| lanes[ready.lane].send(&ready))
    }

    pub fn abandon(&mut self, deadline: Instant) {
        self.pipeline.abandon(deadline);
    }
}

impl Lane {
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

    fn collect(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let taken = if self.ring.is_closed() { self.sent } else { self.ring.taken() };
        if !(self.landed..=self.sent).contains(&taken) {
            bail!(
                RemoteError,
                78,
                "a peer's staging ring makes no sense | rank {}, {} messages sent | it says that {taken} have landed, {} had before | \
                 fix: look for writes outside of memory there; load the same libginrs on every rank",
                self.peer,
                self.sent,
                self.landed
            );
        }
        let moved = taken != self.landed;
        done.extend((self.landed..taken).map(|index| (self.tags[(index % SLOTS) as usize], Ok(()))));
        self.landed = taken;
        Ok(moved)
    }
}
