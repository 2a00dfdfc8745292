//! Peers whose GPU memory is mapped here: the copy engine moves the bytes, over NVLink or PCIe.
//!
//! One pipeline of copies for each peer, this rank included. Copies of one batch have no order among themselves, so a signal
//! never goes with them: it is added by this thread, to the peer's words in host memory, once its batch has ended. All
//! batches of a peer end in order, hence a signal comes after its payload and after all earlier work to that peer, whatever
//! the context. Payloads have no order among themselves: two puts to the same bytes need a signal, or a flush, in between.

use super::factory::{self, Answer, ELSEWHERE, Pair, Setup};
use super::mapped::{Mapped, Payload, Resolved, Signal};
use super::pipeline::{BATCHES, COPIES, LAST_COPIES, Pipeline};
use super::{Capabilities, Completion, Region, Submitted, Transport, Work};
use crate::device::courier::{Carried, Courier};
use crate::device::{ControlMemory, CopyQueue, DevPtr, Device, MemCopy, Word};
use crate::error::{Error, Result};
use crate::log;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[cfg(test)]
mod tests;

/// Most bytes of one copy.
const PIECE: u64 = 1 << 30;
/// Contexts that are told apart; further ones share, which orders more than it must.
const CONTEXTS: usize = 8;

/// Its line in the list.
pub struct Factory;

impl factory::Factory for Factory {
    fn name(&self) -> &'static str {
        "nvlink"
    }

    fn can(&self, pair: &Pair) -> Answer {
        match pair {
            Pair { same_machine: false, .. } => ELSEWHERE,
            Pair { reached: false, .. } => Err("the device does not reach the peer's memory".into()),
            _ => Ok("the GPU reaches its memory"),
        }
    }

    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        let device = setup.device;
        let courier = Courier::of(device);
        let nvlink = Nvlink::new(&**device, setup.serves.clone(), || match &courier {
            Some(courier) => Ok(Box::new(Carried::new(device.copy_queue()?, courier.clone()))),
            None => device.copy_queue(),
        })?;
        Ok((Box::new(nvlink), Vec::new()))
    }
}

/// What ends with a batch.
#[derive(Clone, Copy)]
struct Due {
    tag: u64,
    signal: Option<Signal>,
}

impl Due {
    #[inline]
    fn end(self, done: &mut Vec<Completion>) {
        if let Some(signal) = self.signal {
            signal.raise();
        }
        done.push((self.tag, Ok(())));
    }
}

/// What goes to one peer.
struct Endpoint {
    peer: u32,
    pipeline: Pipeline<Due>,
    /// By context: the batch that its last work went with.
    last: [u64; CONTEXTS],
    /// A word for each copy that may be under way: copy engines read no registers.
    values: ControlMemory,
    busy: bool,
}

impl Endpoint {
    fn new(peer: u32, device: &dyn Device, queue: Box<dyn CopyQueue>) -> Result<Box<Self>> {
        let values = device.control(BATCHES * COPIES * 8)?;
        Ok(Box::new(Self { peer, pipeline: Pipeline::new(queue), last: [0; CONTEXTS], values, busy: false }))
    }

    /// Puts `value` where copy number `place` reads it.
    fn keep(&self, place: usize, value: u64) -> DevPtr {
        assert!(place < BATCHES * COPIES);
        // SAFETY: within the memory, as just checked; aligned. Its last reader was the copy that had this place before, and
        // that one has ended.
        let word = unsafe { AtomicU64::from_ptr(self.values.host().cast::<u64>().add(place).as_ptr()) };
        word.store(value.to_le(), Ordering::Release);
        self.values.device() + place as u64 * 8
    }

    #[inline]
    fn submit(&mut self, work: &Work, Resolved { from, to, signal }: Resolved) -> Submitted {
        let due = Due { tag: work.tag, signal };
        let last = work.context as usize % CONTEXTS;
        if let Payload::Nothing = from {
            if self.pipeline.has_ended(self.last[last]) {
                if let Some(signal) = signal {
                    signal.raise();
                }
                return Submitted::Done;
            }
            return if self.pipeline.follow(self.last[last], due) { Submitted::Pending } else { Submitted::Full };
        }
        let Some(place) = self.pipeline.place() else { return Submitted::Full };
        let (to, bytes) = (to.expose_provenance() as DevPtr, work.bytes);
        self.last[last] = match from {
            Payload::Value(value) => {
                let copy = MemCopy { from: self.keep(place, value), to, bytes };
                if matches!(bytes, 4 | 8) && to.is_multiple_of(bytes) {
                    self.pipeline.push_word(Word { at: to, value, bytes: bytes as u32 }, copy, due)
                } else {
                    self.pipeline.push(copy, due)
                }
            }
            Payload::Memory(from) => self.pipeline.push(MemCopy { from: from.expose_provenance() as DevPtr, to, bytes }, due),
            Payload::Nothing => unreachable!("handled above"),
        };
        Submitted::Pending
    }
}

/// Copies by the device into memory that it reaches.
pub struct Nvlink {
    mapped: Mapped,
    /// By peer.
    endpoints: Vec<Option<Box<Endpoint>>>,
    /// Peers with something under way.
    busy: Vec<u32>,
    /// What ended outside of `progress`.
    ended: Vec<Completion>,
}

impl Nvlink {
    /// For the ranks with `serves[rank]`; `queue` makes the queue of each.
    pub fn new(device: &dyn Device, serves: Vec<bool>, mut queue: impl FnMut() -> Result<Box<dyn CopyQueue>>) -> Result<Self> {
        let mut endpoints = Vec::with_capacity(serves.len());
        for (peer, serves) in serves.iter().enumerate() {
            endpoints.push(if *serves { Some(Endpoint::new(peer as u32, device, queue()?)?) } else { None });
        }
        let busy = Vec::with_capacity(endpoints.len());
        Ok(Self { mapped: Mapped::new("nvlink", serves), endpoints, busy, ended: Vec::new() })
    }
}

/// A queue failed: who was the target, and what the device said.
#[cold]
fn failed(peer: u32, error: Error) -> Error {
    let text = format!("copies to a peer failed | nvlink, to rank {peer} | {error} | fix: see the cause");
    Error { text, id: 76, ..error }
}

impl Transport for Nvlink {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("nvlink", PIECE)
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        self.mapped.register(region)
    }

    fn deregister(&mut self, region: u32) {
        // A caller that flushed finds nothing here. For one that did not, no copy may outlive its memory.
        for &peer in &self.busy {
            let Some(endpoint) = &mut self.endpoints[peer as usize] else { continue };
            if let Err(error) = endpoint.pipeline.drain(|due| due.end(&mut self.ended)) {
                log::error(&failed(peer, error));
            }
        }
        self.mapped.deregister(region);
    }

    #[inline]
    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        let resolved = self.mapped.resolve(work)?;
        let Some(Some(endpoint)) = self.endpoints.get_mut(work.peer as usize) else { return self.mapped.refuse(work, "peer") };
        let submitted = endpoint.submit(work, resolved);
        if submitted == Submitted::Pending && !endpoint.busy {
            endpoint.busy = true;
            self.busy.push(work.peer);
        }
        Ok(submitted)
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let mut moved = !self.ended.is_empty();
        done.append(&mut self.ended);
        let mut i = 0;
        while let Some(&peer) = self.busy.get(i) {
            let Some(endpoint) = &mut self.endpoints[peer as usize] else { break };
            moved |= endpoint.pipeline.progress(|due| due.end(done)).map_err(|error| failed(endpoint.peer, error))?;
            if endpoint.pipeline.is_idle() {
                endpoint.busy = false;
                self.busy.swap_remove(i);
            } else {
                i += 1;
            }
        }
        Ok(moved)
    }

    fn abort(&mut self) {
        let deadline = Instant::now() + LAST_COPIES;
        for peer in self.busy.drain(..) {
            if let Some(endpoint) = &mut self.endpoints[peer as usize] {
                endpoint.pipeline.abandon(deadline);
                endpoint.busy = false;
            }
        }
        self.ended.clear();
    }
}
