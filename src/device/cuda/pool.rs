//! Parts of large chunks, first fit: calls to the driver for memory are slow, and giving memory back waits for kernels.

use std::collections::{BTreeMap, BTreeSet};

/// Free ranges of the chunks added to it. Addresses and sizes are multiples of `align`.
pub struct Pool {
    align: u64,
    /// Start and length. Ranges of two chunks are never joined, though they may touch.
    free: BTreeMap<u64, u64>,
    chunks: BTreeSet<u64>,
}

impl Pool {
    /// Empty; `align` is a power of two.
    pub const fn new(align: u64) -> Self {
        Self { align, free: BTreeMap::new(), chunks: BTreeSet::new() }
    }

    /// `bytes` as this pool counts them.
    pub fn rounded(&self, bytes: usize) -> u64 {
        (bytes.max(1) as u64).next_multiple_of(self.align)
    }

    /// A new chunk.
    pub fn add(&mut self, base: u64, bytes: u64) {
        self.chunks.insert(base);
        self.free.insert(base, bytes);
    }

    /// `bytes` (rounded) of a chunk, or None if no chunk has them in one piece.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&at, &length) = self.free.iter().find(|&(_, &length)| length >= bytes)?;
        self.free.remove(&at);
        if length > bytes {
            self.free.insert(at + bytes, length - bytes);
        }
        Some(at)
    }

    /// What `take` gave.
    pub fn give(&mut self, mut at: u64, mut bytes: u64) {
        if let Some(&after) = self.free.get(&(at + bytes))
            && !self.chunks.contains(&(at + bytes))
        {
            self.free.remove(&(at + bytes));
            bytes += after;
        }
        if let Some((&before, &length)) = self.free.range(..at).next_back()
            && before + length == at
            && !self.chunks.contains(&at)
        {
            (at, bytes) = (before, length + bytes);
        }
        self.free.insert(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_come_back_whole() {
        let mut pool = Pool::new(256);
        assert_eq!((pool.rounded(0), pool.rounded(257)), (256, 512));
        assert!(pool.take(256).is_none());
        pool.add(0x1000, 0x1000);
        pool.add(0x2000, 0x1000);
        let parts: Vec<u64> = (0..8).map(|_| pool.take(0x400).unwrap()).collect();
        assert_eq!(parts.iter().collect::<BTreeSet<_>>().len(), 8);
        assert!(pool.take(256).is_none());
        for &at in parts.iter().step_by(2).chain(parts.iter().skip(1).step_by(2)) {
            pool.give(at, 0x400);
        }
        // Neighbouring chunks stay two: one allocation must not span them.
        assert_eq!(pool.free.iter().map(|(&at, &n)| (at, n)).collect::<Vec<_>>(), [(0x1000, 0x1000), (0x2000, 0x1000)]);
        assert!(pool.take(0x1100).is_none());
        assert_eq!(pool.take(0x1000), Some(0x1000));
    }
}
