//! What reads bytes of strangers, each as a function of bytes alone that panics where a promise does not hold. fuzz/ feeds them what
//! a fuzzer finds, tests/fuzz.rs what was found before. The library itself calls nothing here.
#![forbid(unsafe_code)]

use crate::gin::descriptor::{Descriptor, Source, WORDS};
use crate::team::PeerInfo;
use crate::transport::{self, Words};
use crate::{bootstrap, config, gin};

/// One by its name in fuzz/corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("conf", conf),
    ("bootstrap", bootstrap),
    ("descriptor", descriptor),
    ("transport", transport),
    ("ofi", ofi),
    ("element", element),
];

/// A settings file: every complaint is one line with a number, and holds nothing that a terminal would obey.
pub fn conf(bytes: &[u8]) {
    for line in config::complaints_of(&String::from_utf8_lossy(bytes)) {
        let known = ["GINRS-W001 ", "GINRS-W002 ", "GINRS-W003 "].iter().any(|number| line.starts_with(number));
        assert!(known && !line.contains(char::is_control), "{line:?}");
    }
}

/// Frames of the control plane, unique ids, records of ranks.
pub fn bootstrap(bytes: &[u8]) {
    bootstrap::fuzz(bytes);
    if let Ok(peer) = PeerInfo::decode(0, bytes) {
        assert!(peer.rank == 0 && peer.origin.rank < peer.origin.n_ranks);
    }
}

/// A descriptor that a kernel wrote: what it means is not lost when it is written again.
pub fn descriptor(bytes: &[u8]) {
    let words: [u64; WORDS] = words(bytes);
    let nothing = |meant: &Descriptor| matches!(meant.source, Source::Inline(_)) && meant.bytes == 0; // read, and never written
    if let Some(meant) = Descriptor::decode(&words).ok().filter(|meant| !nothing(meant)) {
        let again = meant.encode().unwrap_or_else(|misfit| panic!("{meant:?} does not fit: {misfit:?}"));
        assert_eq!(Descriptor::decode(&again), Ok(meant));
    }
}

/// Work queue elements that a kernel wrote for a card: each is taken whole, and stays in what its keys name.
pub fn element(bytes: &[u8]) {
    gin::fuzz(bytes);
}

/// What transports of ranks tell each other: words in an exchange, headers of messages.
pub fn transport(bytes: &[u8]) {
    let [most] = words(bytes);
    transport::fuzz_header(words(bytes.get(8..).unwrap_or_default()), most);
    let all: Vec<u64> = bytes.chunks(8).map(|chunk| words::<1>(chunk)[0]).collect();
    let mut rest = &all[..];
    while let Ok(said) = Words::take(0, &mut rest) {
        let again = said.encode();
        assert_eq!(Words::take(0, &mut &again[..]).map(|said| said.encode()).as_ref(), Ok(&again));
    }
}

/// Messages and greetings of ranks on other machines.
pub fn ofi(bytes: &[u8]) {
    transport::ofi::fuzz(bytes);
}

/// The first words of `bytes`, zeros where there are no more.
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|at| {
        let word = bytes.chunks(8).nth(at).unwrap_or_default();
        word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    })
}
