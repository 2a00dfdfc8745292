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

proptest! {
    #[test]
    fn random_bytes_break_nothing(bytes: Vec<u8>) {
        ginrs::fuzz::TARGETS.iter().for_each(|(_, target)| target(&bytes));
    }
}
