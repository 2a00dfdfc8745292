//! The fuzz targets on the committed corpus, on every byte of what was written by hand there cut off or changed, and on random bytes.
//! `make fuzz` looks further.

use proptest::prelude::*;
use std::path::Path;

/// Inputs, and whether each was written by hand: the fuzzer names its own by 40 hexadecimal digits.
fn corpus(target: &str) -> Vec<(Vec<u8>, bool)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (std::fs::read(entry.path()).unwrap(), entry.file_name().len() != 40)).collect()
}

#[test]
fn the_corpus_and_what_is_near_it_break_nothing() {
    for (name, target) in ginrs::fuzz::TARGETS {
        let all = corpus(name);
        assert!(all.iter().any(|(_, by_hand)| *by_hand), "fuzz/corpus/{name} is empty");
        for (bytes, by_hand) in all {
            target(&bytes);
            for at in 0..if by_hand { bytes.len() } else { 0 } {
                target(&bytes[..at]);
                for change in [1, 0x80, 0xff] {
                    let mut other = bytes.clone();
                    other[at] ^= change;
                    target(&other);
                }
            }
        }
    }
}

#[test]
fn every_target_is_a_program_of_the_fuzzer_and_has_a_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |folder: &str| -> std::collections::BTreeSet<String> {
        let entries = root.join(folder).read_dir().unwrap();
        entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let targets = ginrs::fuzz::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz/fuzz_targets"), targets);
    assert_eq!(names("fuzz/corpus"), targets);
}

/// Bits of a seed (splitmix64).
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Elements without end: GINRS_TEST_ELEMENTS of the seed GINRS_TEST_SEED. `scripts/fuzz-elements.sh` has 10^9.
#[test]
fn elements_by_seed() {
    let setting = |name, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let (count, seed): (u64, u64) = (setting("GINRS_TEST_ELEMENTS", 100_000), setting("GINRS_TEST_SEED", 1));
    let mut bits = Bits(seed);
    let mut bytes = [0u8; 72];
    for _ in 0..count {
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&bits.next().to_le_bytes()));
        // Of seven in eight an opcode that there is: nothing, writes, add, wait.
        if let Some(opcode) = [0, 8, 8, 8, 9, 0x12, 0xf].get(usize::from(bytes[71] & 7)) {
            bytes[2 + 3] = *opcode;
        }
        ginrs::fuzz::element(&bytes[..66]);
    }
    println!("{count} elements of seed {seed}");
}

proptest! {
    #[test]
    fn random_bytes_break_nothing(bytes: Vec<u8>) {
        ginrs::fuzz::TARGETS.iter().for_each(|(_, target)| target(&bytes));
    }
}
