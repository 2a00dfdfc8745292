//! How often the proxy has raised each signal of each peer: for the line of a hang, which says what who has raised of the signal that is
//! awaited. A sum per queue and signal, of the thread that steps; one add for an operation with a signal.
#![forbid(unsafe_code)]

use super::context::Context;
use super::plan::Ids;
use crate::abort::{Raised, Sums};

/// Signals of a device communicator that are counted, from its first on: 8 KiB for a queue that raises the last of them.
const COUNTED: u32 = 1024;

/// Of one queue, by signal.
#[derive(Default)]
pub(super) struct Tally {
    /// Where the first signal that counts stands in the target's signal memory. Bytes.
    first: u64,
    sums: Vec<u64>,
}

impl Tally {
    /// Counts from the signal at byte `first` on.
    pub fn starting_at(first: u64) -> Self {
        Self { first, sums: Vec::new() }
    }

    /// `value` goes to the signal at byte `offset`.
    #[inline(always)]
    pub fn add(&mut self, offset: u64, value: u64) {
        let id = offset.wrapping_sub(self.first) / 8;
        match self.sums.get_mut(id as usize) {
            Some(sum) => *sum = sum.wrapping_add(value),
            None => self.begin(id, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&mut self, id: u64, value: u64) {
        if id < COUNTED.into() {
            self.sums.resize(id as usize + 1, 0);
            self.sums[id as usize] = value;
        }
    }
}

impl Context {
    /// Adds what this context's queues have raised.
    pub(super) fn tell_sums(&self, sums: &mut Sums) {
        let Ids { base, count } = self.counted;
        sums.uncounted |= count > COUNTED;
        for peer in self.lanes.peers() {
            let tally = self.lanes.tally(peer);
            let raised = (0..).zip(&tally.sums).filter(|(_, sum)| **sum != 0);
            sums.raised.extend(raised.map(|(id, &sum)| Raised { peer, context: self.limits.number, word: base + id, id, sum }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_the_signals_that_were_raised_and_room_ends() {
        let mut tally = Tally::starting_at(80);
        for (id, value) in [(3, 1), (0, u64::MAX), (3, 4), (0, 3), (u64::from(COUNTED), 9)] {
            tally.add(80 + 8 * id, value);
        }
        tally.add(72, 9);
        assert_eq!(tally.sums, [2, 0, 0, 5]);
        tally.add(80 + 8 * (u64::from(COUNTED) - 1), 7);
        assert_eq!((tally.sums.len(), tally.sums[COUNTED as usize - 1]), (COUNTED as usize, 7));
    }
}
