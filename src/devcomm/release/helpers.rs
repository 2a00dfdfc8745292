//! What the exported requirement helpers were asked for, by the address of the handle that they filled: a requirement entry
//! says how many bytes, not what for, but it carries that address.

use crate::sync::{Mutex, PerProcess};
use std::collections::VecDeque;

/// Words of a resource buffer that kernels wait on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// ncclLsaBarrierCreateRequirement, and the barriers of the device communicator itself.
    LsaBarrier {
        /// Barriers.
        barriers: u32,
        /// Ranks of their team.
        members: u32,
    },
    /// ncclLLA2ACreateRequirement.
    Lla2a {
        /// Sessions side by side.
        blocks: u32,
        /// Lines of each bank of a block.
        slots: u32,
    },
}

impl Waits {
    /// Size of the buffer. Bytes.
    pub fn bytes(&self) -> u64 {
        match *self {
            Waits::LsaBarrier { barriers, members } => 4 * u64::from(barriers) * (3 + u64::from(members)),
            Waits::Lla2a { blocks, slots } => 16 * u64::from(blocks) * (1 + 2 * u64::from(slots)),
        }
    }
}

/// Handles live on stacks, so addresses come again: the newest note of an address counts, and only if the size fits too.
const KEPT: usize = 4096;

static NOTES: PerProcess<Mutex<VecDeque<(usize, Waits)>>> = PerProcess::new();

/// A helper has filled the handle whose buffer field is at `handle`.
pub fn note(handle: usize, waits: Waits) {
    let mut notes = NOTES.lock();
    notes.retain(|(at, _)| *at != handle);
    if notes.len() == KEPT {
        notes.pop_front();
    }
    notes.push_back((handle, waits));
}

/// What a requirement entry of `bytes` is for, whose handle goes to `handle`. None for a user's own buffer.
pub fn find(handle: usize, bytes: u64) -> Option<Waits> {
    let notes = NOTES.lock();
    notes.iter().rev().find(|(at, waits)| *at == handle && waits.bytes() == bytes).map(|(_, waits)| *waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_note_counts_and_the_size_must_fit() {
        let (barrier, ll) = (Waits::LsaBarrier { barriers: 16, members: 8 }, Waits::Lla2a { blocks: 2, slots: 100 });
        assert_eq!((barrier.bytes(), ll.bytes()), (704, 6432));
        note(0x7001, barrier);
        assert_eq!(find(0x7001, 704), Some(barrier));
        assert_eq!(find(0x7001, 705), None);
        note(0x7001, ll);
        assert_eq!((find(0x7001, 704), find(0x7001, 6432)), (None, Some(ll)));
        for other in 0..KEPT {
            note(0x10_0000 + other, barrier);
        }
        assert_eq!(find(0x7001, 6432), None, "bounded");
    }
}
