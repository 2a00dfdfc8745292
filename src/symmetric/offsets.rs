//! Offsets in a rank's slice of the flat space. Ranks that make the same calls get the same offsets.
#![forbid(unsafe_code)]

use crate::ranges::Ranges;
use crate::sync::Mutex;
use std::sync::Arc;

/// The allocator of one communicator and rank; clones share it.
#[derive(Clone)]
pub struct Offsets(Arc<Mutex<Ranges>>);

impl Offsets {
    /// Offsets from 0 to below `limit`, multiples of `align`. Bytes.
    pub fn new(limit: u64, align: u64) -> Self {
        Self(Arc::new(Mutex::new(Ranges::below(limit, align))))
    }

    /// The lowest free range of `bytes`, or `None` if no gap is large enough.
    pub fn take(&self, bytes: u64) -> Option<Span> {
        let start = self.0.lock().take(bytes)?;
        Some(Span { offsets: self.clone(), start, bytes })
    }

    /// Bytes taken.
    pub fn in_use(&self) -> u64 {
        self.0.lock().in_use()
    }
}

/// A taken range; free again when dropped.
pub struct Span {
    offsets: Offsets,
    start: u64,
    bytes: u64,
}

impl Span {
    /// First byte.
    pub fn start(&self) -> u64 {
        self.start
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.offsets.0.lock().give(self.start, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lowest_gap_first_and_aligned() {
        let offsets = Offsets::new(100, 10);
        let a = offsets.take(15).unwrap();
        let b = offsets.take(10).unwrap();
        let c = offsets.take(30).unwrap();
        assert_eq!((a.start(), b.start(), c.start()), (0, 20, 30));
        drop(b);
        assert!(offsets.take(41).is_none());
        assert_eq!(offsets.take(11).unwrap().start(), 60);
        assert_eq!(offsets.take(10).unwrap().start(), 20);
        drop(a);
        drop(c);
        assert_eq!(offsets.in_use(), 0);
        assert_eq!(offsets.take(100).unwrap().start(), 0);
        assert!(offsets.take(u64::MAX).is_none());
    }

    proptest! {
        #[test]
        fn two_ranks_agree_and_nothing_overlaps(steps in prop::collection::vec((1u64..40, any::<u8>()), 1..60)) {
            let (ours, theirs) = (Offsets::new(256, 4), Offsets::new(256, 4));
            let mut held: Vec<(u64, Span, Span)> = Vec::new();
            for (bytes, pick) in steps {
                if pick % 3 == 0 && !held.is_empty() {
                    held.swap_remove(pick as usize % held.len());
                    continue;
                }
                match (ours.take(bytes), theirs.take(bytes)) {
                    (Some(a), Some(b)) => {
                        prop_assert_eq!(a.start(), b.start());
                        prop_assert!(a.start() % 4 == 0 && a.start() + bytes <= 256);
                        prop_assert!(held.iter().all(|(n, s, _)| s.start() + n <= a.start() || a.start() + bytes <= s.start()));
                        held.push((bytes, a, b));
                    }
                    (None, None) => {}
                    _ => prop_assert!(false, "one rank found room, the other did not"),
                }
            }
        }
    }
}
