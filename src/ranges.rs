//! First fit: parts of stretches of numbers (offsets, addresses, ids). Deterministic: the same calls give the same parts.
#![forbid(unsafe_code)]

use crate::error::Result;
use std::collections::BTreeMap;
use std::ops::Range;

/// Which parts of the stretches are taken. Parts start and end at multiples of `align` behind the start of their stretch.
pub struct Ranges {
    align: u64,
    /// Start to end. No part spans two of them, though they may touch.
    stretches: BTreeMap<u64, u64>,
    /// Start to end; none empty, none overlapping.
    taken: BTreeMap<u64, u64>,
}

impl Ranges {
    /// No stretches yet; `align` is not 0.
    pub const fn new(align: u64) -> Self {
        Self { align, stretches: BTreeMap::new(), taken: BTreeMap::new() }
    }

    /// The numbers below `limit`.
    pub fn below(limit: u64, align: u64) -> Self {
        let mut ranges = Self::new(align);
        ranges.add(0, limit);
        ranges
    }

    /// A stretch more, which overlaps none before it.
    pub fn add(&mut self, start: u64, length: u64) {
        self.stretches.insert(start, start + length);
    }

    /// What a part of `length` takes up.
    pub fn rounded(&self, length: u64) -> Option<u64> {
        length.max(1).checked_next_multiple_of(self.align)
    }

    /// The lowest part of `length` that is free, or None.
    pub fn take(&mut self, length: u64) -> Option<u64> {
        let length = self.rounded(length)?;
        let at = self.stretches.iter().find_map(|(&first, &end)| {
            let mut at = first;
            for (&start, &stop) in self.taken.range(first..end) {
                if start - at >= length {
                    return Some(at);
                }
                at = stop;
            }
            (end - at >= length).then_some(at)
        })?;
        self.taken.insert(at, at + length);
        Some(at)
    }

    /// [`Self::take`], of the stretch (start and length) that `more` makes if no other has it.
    pub fn take_or_add(&mut self, length: u64, more: impl FnOnce() -> Result<(u64, u64)>) -> Result<u64> {
        if let Some(at) = self.take(length) {
            return Ok(at);
        }
        let (start, added) = more()?;
        self.add(start, added);
        Ok(self.take(length).expect("the new stretch holds it"))
    }

    /// Frees `length` from `start` on; what was not taken there stays as it is.
    pub fn give(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(self.rounded(length).unwrap_or(u64::MAX));
        let overlap = self.taken.range(..end).rev().take_while(|&(_, &stop)| stop > start);
        for (first, stop) in overlap.map(|(&first, &stop)| (first, stop)).collect::<Vec<_>>() {
            self.taken.remove(&first);
            for (from, to) in [(first, start), (end, stop)] {
                if from < to {
                    self.taken.insert(from, to);
                }
            }
        }
    }

    /// What is taken, in order.
    pub fn taken(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.taken.iter().map(|(&start, &end)| start..end)
    }

    /// How much of all is taken.
    pub fn in_use(&self) -> u64 {
        self.taken().map(|part| part.end - part.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Error};
    use proptest::prelude::*;

    #[test]
    fn parts_are_apart_and_come_back_whole() {
        let mut ranges = Ranges::new(256);
        assert_eq!((ranges.rounded(0), ranges.rounded(257), ranges.rounded(u64::MAX)), (Some(256), Some(512), None));
        assert!(ranges.take(256).is_none());
        ranges.add(0x1000, 0x1000);
        ranges.add(0x2000, 0x1000);
        let parts: Vec<u64> = (0..8).map(|_| ranges.take(0x400).unwrap()).collect();
        assert_eq!(parts, (0..8).map(|i| 0x1000 + i * 0x400).collect::<Vec<_>>());
        assert!(ranges.take(256).is_none());
        for &at in parts.iter().step_by(2).chain(parts.iter().skip(1).step_by(2)) {
            ranges.give(at, 0x400);
        }
        assert_eq!(ranges.in_use(), 0);
        // Neighbouring stretches stay two: one allocation must not span them.
        assert!(ranges.take(0x1100).is_none());
        assert_eq!(ranges.take(0x1000), Some(0x1000));
    }

    #[test]
    fn a_stretch_is_made_when_no_other_has_room() {
        let mut ranges = Ranges::new(4);
        let none = || Err(Error::new(Code::InternalError, 72, "none"));
        assert_eq!(ranges.take_or_add(5, none).unwrap_err().id, 72);
        assert_eq!(ranges.take_or_add(5, || Ok((100, 16))).unwrap(), 100);
        assert_eq!(ranges.take_or_add(5, none).unwrap(), 108);
    }

    proptest! {
        /// Against a map of single numbers: each part is the lowest that is free, and giving frees just that.
        #[test]
        fn as_a_map_of_numbers(align in 1u64..5, lengths in prop::collection::vec(0u64..40, 1..4),
                               steps in prop::collection::vec((any::<bool>(), 0u64..160, 0u64..24), 1..60)) {
            let mut ranges = Ranges::new(align);
            let mut owner = Vec::new();
            for (i, length) in lengths.iter().map(|units| units * align).enumerate() {
                ranges.add(owner.len() as u64, length);
                owner.extend(std::iter::repeat_n((i, false), length as usize));
            }
            for (take, at, length) in steps {
                let whole = length.max(1).next_multiple_of(align);
                if !take {
                    let at = at / align * align;
                    ranges.give(at, length);
                    owner.iter_mut().skip(at as usize).take(whole as usize).for_each(|(_, taken)| *taken = false);
                } else {
                    let free = |part: &[(usize, bool)]| part.iter().all(|&(i, taken)| !taken && i == part[0].0);
                    let lowest = owner.windows(whole as usize).step_by(align as usize).position(free).map(|i| i as u64 * align);
                    prop_assert_eq!(ranges.take(length), lowest);
                    if let Some(at) = lowest {
                        owner[at as usize..][..whole as usize].iter_mut().for_each(|(_, taken)| *taken = true);
                    }
                }
                let taken: Vec<u64> = ranges.taken().flatten().collect();
                let wanted: Vec<u64> = (0..).zip(&owner).filter(|(_, (_, taken))| *taken).map(|(i, _)| i).collect();
                prop_assert_eq!(ranges.in_use(), wanted.len() as u64);
                prop_assert_eq!(taken, wanted);
            }
        }
    }
}
