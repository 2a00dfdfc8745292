//! What transports tell their peers before they can carry anything: a few bytes each, in rounds that the ranks make anyway.
#![forbid(unsafe_code)]

use crate::bail;
use crate::error::Result;

/// One rank's words: for each transport that has something to say, its bytes. They stand here as they travel, and are read where they are
/// asked for: each rank has those of all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<u8>);

impl Words {
    /// Adds what the transport `name` says; nothing if that is empty.
    pub fn say(&mut self, name: &str, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.0.push(name.len() as u8);
            self.0.extend((bytes.len() as u32).to_le_bytes());
            self.0.extend(name.as_bytes());
            self.0.extend(bytes);
        }
    }

    /// What the transport `name` says; empty if it says nothing.
    pub fn of(&self, name: &str) -> &[u8] {
        let mut rest = &self.0[..];
        while let Some((whose, said, tail)) = first(rest) {
            if whose == name.as_bytes() {
                return said;
            }
            rest = tail;
        }
        &[]
    }

    /// True if no transport says anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As they travel: the number of bytes, and those.
    pub fn encode(&self) -> Vec<u64> {
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        std::iter::once(self.0.len() as u64).chain(self.0.chunks(8).map(word)).collect()
    }

    /// Takes those that stand first in what rank `rank` sent off it.
    pub fn take(rank: u32, words: &mut &[u64]) -> Result<Self> {
        match parse(words) {
            Some((said, rest)) => {
                *words = rest;
                Ok(said)
            }
            None => bail!(
                RemoteError,
                53,
                "words of a transport mean nothing | rank {rank} sent {} of them | fix: load the same libginrs on every rank",
                words.len()
            ),
        }
    }
}

/// Whose bytes stand first, those, and what is behind them.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&name, tail) = bytes.split_first()?;
    let (said, tail) = tail.split_first_chunk::<4>()?;
    let (name, tail) = tail.split_at_checked(name.into())?;
    let (said, tail) = tail.split_at_checked(u32::from_le_bytes(*said) as usize)?;
    Some((name, said, tail))
}

fn parse(words: &[u64]) -> Option<(Words, &[u64])> {
    let (&count, words) = words.split_first()?;
    let count = usize::try_from(count).ok()?;
    let (words, behind) = words.split_at_checked(count.div_ceil(8))?;
    let mut bytes = Vec::with_capacity(8 * words.len());
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.truncate(count);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        (_, _, rest) = first(rest)?;
    }
    Some((Words(bytes), behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_survive_the_way(said: Vec<Vec<u8>>) {
            let mut words = Words::default();
            said.iter().enumerate().for_each(|(i, bytes)| words.say(&format!("t{i}"), bytes.clone()));
            let mut sent = words.encode();
            sent.push(77);
            let mut rest = &sent[..];
            let got = Words::take(3, &mut rest).unwrap();
            prop_assert_eq!(rest, &[77]);
            for (i, bytes) in said.iter().enumerate() {
                prop_assert_eq!(got.of(&format!("t{i}")), &bytes[..]);
            }
            prop_assert_eq!(got, words);
        }

        #[test]
        fn garbage_is_words_or_an_error(words: Vec<u64>) {
            let mut rest = &words[..];
            if let Ok(said) = Words::take(3, &mut rest) {
                prop_assert!(said.encode().len() + rest.len() <= words.len());
            }
        }
    }

    #[test]
    fn broken_words_name_their_rank() {
        assert!(Words::default().is_empty());
        for bad in [&[][..], &[9, 1], &[u64::MAX], &[3, 5], &[8, u64::MAX]] {
            let error = Words::take(7, &mut &bad[..]).unwrap_err();
            assert!(error.id == 53 && error.text.contains("rank 7"), "{error}");
        }
    }
}
