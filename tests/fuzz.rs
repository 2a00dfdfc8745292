//! The fuzz targets on the committed corpus, on every byte of it cut off or changed, and on random bytes. `make fuzz` looks further.

use proptest::prelude::*;
use std::path::Path;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    folder.read_dir().unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_corpus_and_what_is_near_it_break_nothing() {
    for (name, target) in ginrs::fuzz::TARGETS {
        let all = corpus(name);
        assert!(!all.is_empty(), "fuzz/corpus/{name} is empty");
        for bytes in all {
            target(&bytes);
            for at in 0..bytes.len() {
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
