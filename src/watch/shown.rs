//! The collectives that a rank shows in its status page, the latest ones, each by its number. The rank writes, all of its machine read.
//!
//! Order: who shows one takes the slot's number away, writes the words and then the new number; who reads looks at the number before and behind.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// So far a rank may be ahead of another one that is to see what it has called: as its own call waits for nobody, as a root's of a broadcast.
const SHOWN: usize = 32;

/// What all ranks have to call alike (`coll::agree`).
pub type CallWords = [u64; 2];

#[repr(C)]
struct Slot {
    number: AtomicU64,
    words: [AtomicU64; 2],
}

/// See the module.
#[repr(C)]
pub(super) struct Shown([Slot; SHOWN]);

impl Shown {
    /// Collective `number` (from 1 on) is this. One writer at a time.
    pub fn show(&self, number: u64, words: CallWords) {
        let slot = &self.0[number as usize % SHOWN];
        slot.number.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot.words.iter().zip(words).for_each(|(slot, word)| slot.store(word, Ordering::Relaxed));
        slot.number.store(number, Ordering::Release);
    }

    /// What that collective is; None where the rank has not come to it, or has left it far behind.
    pub fn find(&self, number: u64) -> Option<CallWords> {
        let slot = &self.0[number as usize % SHOWN];
        let is_this = || slot.number.load(Ordering::Acquire) == number;
        let words = is_this().then(|| slot.words.each_ref().map(|word| word.load(Ordering::Relaxed)))?;
        fence(Ordering::Acquire);
        is_this().then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_found_by_their_numbers_and_whole() {
        let shown = Shown(std::array::from_fn(|_| Slot { number: AtomicU64::new(0), words: Default::default() }));
        assert_eq!(shown.find(1), None);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (1..=100_000).for_each(|number| shown.show(number, [number, !number])));
            while !writer.is_finished() {
                for number in 1..200 {
                    assert!(shown.find(number).is_none_or(|words| words == [number, !number]));
                }
            }
        });
        let last = 100_000;
        assert_eq!(shown.find(last), Some([last, !last]));
        assert!(shown.find(last + 1 - SHOWN as u64).is_some() && shown.find(last - SHOWN as u64).is_none());
    }
}
