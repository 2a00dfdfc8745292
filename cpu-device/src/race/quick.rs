//! Hashes of names that nobody chooses to collide: the standard ones cost as much as all else that is done for an atomic.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// By such hashes.
pub type Table<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// See the module.
#[derive(Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    /// Tables take the lowest and the highest bits.
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
