//! Hints: kernels compiled with our headers say which queue they claim, so that the proxy need not look at all of them.
//!
//! A ring of `peer << 32 | end`, written relaxed after the claim: "indices below `end` of this queue are claimed". It
//! promises nothing about the slots, and a lost entry costs latency only, because the proxy also looks at every queue now
//! and then. So the ring has no credit: whoever laps it overwrites.
//!
//! GPUs give none. The head would have to be in their memory (an atomic on host memory is a PCIe round trip), where the host
//! reads it in microseconds; and a machine's GPUs have at most 16 x 4 queues for each device communicator, which a step of the slow scan sees at once.
#![forbid(unsafe_code)]

use super::shared::Shared;
use crate::device::DevPtr;
use crate::seq::Seq;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Looks at an entry that was claimed and not yet written, before it is given up.
const PATIENCE: u32 = 64;

/// One hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Whose queue; any number, a kernel wrote it.
    pub peer: u32,
    /// Indices before this one are claimed.
    pub end: Seq,
}

/// The consumer's end of the ring, if there is one.
pub struct Hints(Option<Ring>);

struct Ring {
    head: Shared<AtomicU32>,
    entries: Shared<AtomicU64>,
    tail: Seq,
    waited: u32,
}

impl Hints {
    /// `head` holds one word, `entries` a power of two of them; both zeroed.
    pub fn new(head: Shared<AtomicU32>, entries: Shared<AtomicU64>) -> Self {
        assert!(head.len() == 1 && entries.len().is_power_of_two());
        Self(Some(Ring { head, entries, tail: Seq(0), waited: 0 }))
    }

    /// No ring: kernels give no hints.
    pub fn none() -> Self {
        Self(None)
    }

    /// Addresses of head and ring for kernels, and the ring's mask; zeros without one.
    pub fn device(&self) -> (DevPtr, DevPtr, u32) {
        let of = |ring: &Ring| (ring.head.device(), ring.entries.device(), ring.entries.len() as u32 - 1);
        self.0.as_ref().map_or((0, 0, 0), of)
    }

    /// True if there are some to read.
    pub fn wait(&self) -> bool {
        self.0.as_ref().is_some_and(|ring| ring.head[0].load(Ordering::Relaxed) != ring.tail.0)
    }

    /// The next hint; None when there is none now.
    #[inline]
    pub fn read(&mut self) -> Option<Hint> {
        self.0.as_mut()?.read()
    }
}

impl Ring {
    #[inline]
    fn read(&mut self) -> Option<Hint> {
        let head = Seq(self.head[0].load(Ordering::Relaxed));
        let waiting = head.distance(self.tail);
        if waiting == 0 {
            return None;
        }
        if waiting > self.entries.len() as u32 {
            self.tail = Seq(head.0.wrapping_sub(self.entries.len() as u32));
        }
        let entry = &self.entries[self.tail.0 as usize & (self.entries.len() - 1)];
        let mut hint = entry.load(Ordering::Relaxed);
        if hint != 0 {
            // A lapping kernel may write between load and store; its hint is lost, which the slow scan makes good.
            entry.store(0, Ordering::Relaxed);
        } else {
            self.waited += 1;
            if self.waited < PATIENCE {
                return None;
            }
            hint = u64::from(u32::MAX) << 32;
        }
        self.waited = 0;
        self.tail = self.tail.next();
        Some(Hint { peer: (hint >> 32) as u32, end: Seq(hint as u32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ControlMemory;

    fn ring() -> Hints {
        let memory = || ControlMemory::anonymous(32).unwrap();
        Hints::new(Shared::new(memory(), 1), Shared::new(memory(), 4))
    }

    fn write(hints: &Hints, peer: u32, end: u32) {
        let ring = hints.0.as_ref().unwrap();
        let at = ring.head[0].fetch_add(1, Ordering::Relaxed);
        ring.entries[at as usize & 3].store(u64::from(peer) << 32 | u64::from(end), Ordering::Relaxed);
    }

    #[test]
    fn lapped_and_unwritten_entries_do_not_stop_the_ring() {
        let mut hints = ring();
        assert_eq!(hints.read(), None);
        for end in 1..=7 {
            write(&hints, 5, end);
        }
        for end in 4..=7 {
            assert_eq!(hints.read(), Some(Hint { peer: 5, end: Seq(end) }), "the oldest three were overwritten");
        }
        assert_eq!(hints.read(), None);
        hints.0.as_ref().unwrap().head[0].fetch_add(1, Ordering::Relaxed);
        write(&hints, 6, 1);
        let mut looks = 0;
        let hint = loop {
            looks += 1;
            match hints.read() {
                Some(hint) if hint.peer == 6 => break hint,
                _ => assert!(looks < 1000),
            }
        };
        assert_eq!(hint.end, Seq(1));
        assert!(looks > PATIENCE);
    }
}
