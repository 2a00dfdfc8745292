//! Rounds in which ranks tell each other what they are about to do, or why they cannot. All see the same answers, so all go
//! on or all fail, and a communicator whose call failed can go on.

use super::Team;
use crate::error::{Code, Error, Result};
use crate::error_wire;
use std::sync::Arc;

/// What one rank says in a round.
pub(crate) struct Said {
    /// Must be equal on all ranks.
    pub agreed: Vec<u64>,
    /// The rank's own.
    pub own: Vec<u64>,
}

impl Team {
    /// Every rank's [`Said`], by rank; or an error as soon as one rank could not go on: its own for that rank, for the others
    /// the same with the rank named.
    pub(crate) fn round(&self, what: &str, mine: Result<Said>) -> Result<Arc<Vec<Said>>> {
        self.round_as(what, mine, Ok)
    }

    /// The same, and what `read` makes of it: once for all ranks of a process, so it must depend on nothing else, and be the same function
    /// for all. Where each rank read for itself what each other one said, that cost the square of the ranks.
    pub(crate) fn round_as<T: Send + Sync + 'static>(
        &self,
        what: &str,
        mine: Result<Said>,
        read: impl FnOnce(Vec<Said>) -> Result<T>,
    ) -> Result<Arc<T>> {
        let (bytes, mine) = match mine {
            Ok(said) => (encode(&said), None),
            Err(error) => ([&[FAILED][..], &error_wire::encode(&error)].concat(), Some(error)),
        };
        let answers = self.bootstrap.allgather(what, &bytes)?;
        if let Some(error) = mine {
            return Err(error);
        }
        answers.read(|answers| {
            let said = |(rank, answer): (u32, &Arc<[u8]>)| match decode(answer) {
                Some(said) => said.map_err(|error| failed(what, rank, error)),
                None => {
                    let text = format!(
                        "{what} | rank {rank} sent {} bytes that mean nothing | fix: load the same libginrs on every rank",
                        answer.len()
                    );
                    Err(Error::new(Code::RemoteError, 53, text).by(rank))
                }
            };
            read((0..).zip(answers).map(said).collect::<Result<_>>()?)
        })
    }

    /// A round that carries nothing but "done" or a failure; also the barrier that ends a collective call.
    pub(crate) fn done<T>(&self, what: &str, mine: &Result<T>) -> Result<()> {
        let mine = mine.as_ref().map_err(Clone::clone);
        self.round(what, mine.map(|_| Said { agreed: Vec::new(), own: Vec::new() })).map(drop)
    }
}

fn failed(what: &str, rank: u32, error: Error) -> Error {
    Error { text: format!("{what} failed on rank {rank} | {}", error.text), ..error }.by(rank)
}

/// An error that names the ranks that differ from most others, if some do. `name` says what word `i` is, `show` prints it.
pub(crate) fn compare(
    what: &str,
    all: &[Said],
    name: impl Fn(usize) -> String,
    show: impl Fn(usize, u64) -> String,
) -> Result<()> {
    if all.iter().all(|said| said.agreed == all[0].agreed) {
        return Ok(());
    }
    let words = all.iter().map(|said| said.agreed.len()).max().unwrap_or(0);
    for i in 0..words {
        let values: Vec<Option<u64>> = all.iter().map(|said| said.agreed.get(i).copied()).collect();
        let groups = groups(&values);
        if groups.len() < 2 {
            continue;
        }
        let print = |value: &Option<u64>| value.map_or("nothing".into(), |value| show(i, value));
        let listed: Vec<String> = groups.iter().map(|(value, ranks)| format!("{} {}", list(ranks), print(value))).collect();
        let fewest = groups.iter().rev().min_by_key(|(_, ranks)| ranks.len()).map(|(_, ranks)| ranks[0]);
        let text = format!(
            "{what}: {} differs | {} | fix: make the same call with the same values on every rank",
            name(i),
            listed.join(", ")
        );
        let error = Error::new(Code::InvalidArgument, 53, text);
        return Err(match fewest {
            Some(rank) => error.by(rank),
            None => error,
        });
    }
    Ok(())
}

/// Ranks by value, the largest group first; equal groups by their first rank.
fn groups<T: PartialEq + Clone>(values: &[T]) -> Vec<(T, Vec<u32>)> {
    let mut groups: Vec<(T, Vec<u32>)> = Vec::new();
    for (value, rank) in values.iter().zip(0..) {
        match groups.iter_mut().find(|(known, _)| known == value) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((value.clone(), vec![rank])),
        }
    }
    groups.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
    groups
}

/// `rank 7`, `ranks 0..6, 9`.
fn list(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}..{last}"),
        [] => String::new(),
    });
    let plural = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{plural} {}", runs.collect::<Vec<_>>().join("+"))
}

const FINE: u8 = 1;
const FAILED: u8 = 2;

fn encode(said: &Said) -> Vec<u8> {
    let mut bytes = vec![FINE];
    bytes.extend((said.agreed.len() as u32).to_le_bytes());
    for word in said.agreed.iter().chain(&said.own) {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

/// `None` for bytes of another version or a broken peer.
fn decode(bytes: &[u8]) -> Option<Result<Said>> {
    let (&kind, rest) = bytes.split_first()?;
    match kind {
        FINE => {
            let (count, rest) = rest.split_first_chunk::<4>()?;
            let (words, tail) = rest.as_chunks::<8>();
            let mut agreed: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            let count = u32::from_le_bytes(*count) as usize;
            if !tail.is_empty() || count > agreed.len() {
                return None;
            }
            let own = agreed.split_off(count);
            Some(Ok(Said { agreed, own }))
        }
        FAILED => error_wire::decode(rest).map(Err),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(agreed: &[u64]) -> Said {
        Said { agreed: agreed.to_vec(), own: vec![] }
    }

    fn difference(values: &[&[u64]]) -> Error {
        let all: Vec<Said> = values.iter().map(|words| said(words)).collect();
        compare("window register #3", &all, |i| format!("word {i}"), |_, v| v.to_string()).unwrap_err()
    }

    #[test]
    fn the_rank_that_differs_is_named() {
        let error = difference(&[&[1, 64], &[1, 64], &[1, 64], &[1, 32]]);
        assert!(error.text.contains("#3: word 1 differs | ranks 0..2 64, rank 3 32 |"), "{error}");
        assert_eq!((error.code, error.culprit), (Code::InvalidArgument, Some(3)));
        let error = difference(&[&[5], &[6], &[6], &[5], &[6], &[7]]);
        assert!(error.text.contains("ranks 1..2+4 6, ranks 0+3 5, rank 5 7"), "{error}");
        assert_eq!(error.culprit, Some(5));
        // Of two, the later one.
        assert_eq!(difference(&[&[1], &[2]]).culprit, Some(1));
        assert!(difference(&[&[1], &[1, 2]]).text.contains("rank 1 2"));
        assert!(compare("x", &[said(&[1]), said(&[1])], |_| String::new(), |_, _| String::new()).is_ok());
    }

    #[test]
    fn what_is_said_survives_the_way() {
        let sent = Said { agreed: vec![1, u64::MAX], own: vec![7] };
        let got = decode(&encode(&sent)).unwrap().unwrap();
        assert_eq!((got.agreed, got.own), (sent.agreed, sent.own));
        let error = Error::new(Code::UnhandledCudaError, 52, "no memory");
        let got = decode(&[&[FAILED][..], &error_wire::encode(&error)].concat()).unwrap().err().unwrap();
        assert_eq!(got, error);
    }

    #[test]
    fn broken_bytes_are_no_answer() {
        for bytes in [&[][..], &[9], &[1, 0], &[1, 5, 0, 0, 0], &[1, 0, 0, 0, 0, 1], &[2, 0, 1, 0], &[2, 99, 1, 0], &[2, 4]] {
            assert!(decode(bytes).is_none(), "{bytes:?}");
        }
    }
}
