//! Rings and completion queues of one context in a GPU's memory, where NVIDIA's library has them, and what the host has of them: a mirror of each
//! in host memory. The model takes elements out of the mirror and writes completions there; between both the copy engine carries, as a card
//! would read and write (`carrier`).
//!
//! | | order |
//! |---|---|
//! | element, then record | a kernel releases to its GPU between them. The ring is that GPU's memory, whose copy engine reads what its kernels have released to it (as its own copies do of windows, `Memory::holds`) |
//! | record, then fetch | the record is host memory. A copy is started once the host has seen the record, so it reads behind the release |
//! | body, then last word | a completion is copied twice: with the last word of the entry that was there before, and with its own. Copies of a later call start after those of an earlier one have ended (`CopyQueue`) |
//! | free slot, then completion | poison of the next round is copied with the body. Who sees the completion writes behind it |
//! | completion, then fetch of the next round | at most `depth` elements behind the last completion that is known to have landed are fetched, whatever the record says: no copy into a slot's mirror meets one out of it |
//!
//! The first row is what hardware does, and no promise of CUDA's to a host: so slots hold poison here, too, and an element that is not all there is fetched again.
#![forbid(unsafe_code)]

use super::carrier::Way;
use crate::device::{DevPtr, Device, DeviceMemory, MemCopy};
use crate::error::Result;
use crate::gin::shared::Shared;
use crate::nic::slot::WORDS;
use crate::seq::Seq;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// 64 bytes, of a slot or an entry.
pub type Line = [AtomicU64; WORDS];
const LINE: u64 = 64;
const _: () = assert!(size_of::<Line>() == LINE as usize);

/// See the head of this file.
pub struct Mirror {
    depth: u32,
    /// All rings, and behind them all completion queues.
    memory: Arc<DeviceMemory>,
    entries_at: DevPtr,
    slots: Shared<Line>,
    entries: Shared<Line>,
    /// Entries with the last words of those before them.
    bodies: Shared<Line>,
    peers: Vec<Peer>,
}

/// Of one queue. Elements below these:
#[derive(Default)]
struct Peer {
    /// have been asked for,
    asked: AtomicU32,
    /// have come,
    come: AtomicU32,
    /// and have completions that kernels see.
    landed: AtomicU32,
}

/// Copies of one queue's elements `from` to `end`.
pub struct Order {
    mirror: Arc<Mirror>,
    way: Way,
    peer: u32,
    from: Seq,
    end: Seq,
}

impl Mirror {
    /// Of rings and completion queues as they are in host memory now, and to be seen by kernels.
    pub fn new(device: &dyn Device, (ranks, depth): (u32, u32), slots: &Shared<Line>, entries: &Shared<Line>) -> Result<Self> {
        let lines = (ranks * depth) as usize;
        let bytes = lines * LINE as usize;
        let memory = Arc::new(device.objects(2 * bytes)?);
        let bodies = Shared::<Line>::new(device.control(bytes)?, lines);
        let entries_at = memory.device() + bytes as u64;
        for (from, to) in [(slots, memory.device()), (entries, entries_at)] {
            let words = from[..lines].iter().flatten();
            let all: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
            device.write(to, &all)?;
        }
        let peers = (0..ranks).map(|_| Peer::default()).collect();
        Ok(Self { depth, memory, entries_at, slots: slots.clone(), entries: entries.clone(), bodies, peers })
    }

    /// Addresses for kernels: of `peer`'s ring and completion queue.
    pub fn addresses(&self, peer: u32) -> (DevPtr, DevPtr) {
        let of_peer = u64::from(peer * self.depth) * LINE;
        (self.memory.device() + of_peer, self.entries_at + of_peer)
    }

    /// Elements of `peer`'s queue below this have come.
    pub fn come(&self, peer: u32) -> Seq {
        Seq(self.peers[peer as usize].come.load(Ordering::Acquire))
    }

    /// Completions of `peer`'s queue below this are seen by kernels.
    pub fn landed(&self, peer: u32) -> Seq {
        Seq(self.peers[peer as usize].landed.load(Ordering::Acquire))
    }

    /// True while elements of `peer`'s queue are under way.
    pub fn is_fetching(&self, peer: u32) -> bool {
        self.come(peer).0 != self.peers[peer as usize].asked.load(Ordering::Relaxed)
    }

    /// Asks for what has not come of `peer`'s elements below `rung`, if nothing is under way.
    pub fn fetch(self: &Arc<Self>, peer: u32, rung: Seq) -> Option<Order> {
        if self.is_fetching(peer) {
            return None;
        }
        let from = self.come(peer);
        let most = self.landed(peer).advance(self.depth).distance(from);
        let end = from.advance(rung.distance(from).min(most));
        if from == end {
            return None;
        }
        self.peers[peer as usize].asked.store(end.0, Ordering::Relaxed);
        Some(Order { mirror: self.clone(), way: Way::Here, peer, from, end })
    }

    /// Element `at` and what is behind it has not come after all. Nothing is under way.
    pub fn forget(&self, peer: u32, at: Seq) {
        let peer = &self.peers[peer as usize];
        peer.asked.store(at.0, Ordering::Relaxed);
        peer.come.store(at.0, Ordering::Relaxed);
    }

    /// See `Queues::of_kernels`.
    #[cfg(test)]
    pub fn of_kernels(&self) -> [Shared<Line>; 2] {
        let lines = self.bodies.len();
        [0, lines * LINE as usize].map(|at| Shared::of_device(&self.memory, at, lines).expect("the host reaches it"))
    }

    /// As if all of `peer`'s elements below `at` had been.
    #[cfg(test)]
    pub fn begin(&self, peer: u32, at: Seq) {
        self.forget(peer, at);
        self.peers[peer as usize].landed.store(at.0, Ordering::Relaxed);
    }

    /// The entry in that place was written, where that last word was before.
    pub fn written(&self, place: usize, before: u64) {
        let [.., body, last] = &self.bodies[place];
        body.store(self.entries[place][WORDS - 2].load(Ordering::Relaxed), Ordering::Relaxed);
        last.store(before, Ordering::Relaxed);
    }

    /// Completions of elements `from` to `end`, and their slots, for kernels.
    pub fn publish(self: &Arc<Self>, peer: u32, from: Seq, end: Seq) -> Order {
        Order { mirror: self.clone(), way: Way::There, peer, from, end }
    }
}

impl Order {
    pub fn way(&self) -> Way {
        self.way
    }

    /// What is copied first.
    pub fn first(&self) -> [MemCopy; 4] {
        let Mirror { memory, entries_at, slots, bodies, .. } = &*self.mirror;
        let ([a, b], ring) = (self.runs(), memory.device());
        match self.way {
            Way::Here => [run(ring, slots.device(), a), run(ring, slots.device(), b), NOTHING, NOTHING],
            Way::There => [
                run(bodies.device(), *entries_at, a),
                run(bodies.device(), *entries_at, b),
                run(slots.device(), ring, a),
                run(slots.device(), ring, b),
            ],
        }
    }

    /// What is copied once all of that has ended.
    pub fn then(&self) -> [MemCopy; 4] {
        let Mirror { entries, entries_at, .. } = &*self.mirror;
        match self.way {
            Way::Here => [NOTHING; 4],
            Way::There => {
                let [a, b] = self.runs();
                [run(entries.device(), *entries_at, a), run(entries.device(), *entries_at, b), NOTHING, NOTHING]
            }
        }
    }

    /// Tells who waits for it: all of it has been copied.
    pub fn is_done(&self) {
        let Peer { come, landed, .. } = &self.mirror.peers[self.peer as usize];
        let index = match self.way {
            Way::Here => come,
            Way::There => landed,
        };
        index.store(self.end.0, Ordering::Release);
    }

    /// Its places among all lines, in two runs: first, and how many.
    fn runs(&self) -> [(u64, u64); 2] {
        let depth = self.mirror.depth;
        let (at, n) = (self.from.0 & (depth - 1), self.end.distance(self.from));
        let base = u64::from(self.peer * depth);
        let straight = n.min(depth - at);
        [(base + u64::from(at), straight.into()), (base, (n - straight).into())]
    }
}

/// No copy.
const NOTHING: MemCopy = MemCopy { from: 0, to: 0, bytes: 0 };

fn run(from: DevPtr, to: DevPtr, (first, n): (u64, u64)) -> MemCopy {
    MemCopy { from: from + first * LINE, to: to + first * LINE, bytes: n * LINE }
}
