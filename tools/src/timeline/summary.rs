//! The numbers of a picture: who waited for whom, bytes between ranks, and the lines of the user's at which time went by. Of all spans,
//! however few are drawn.

use super::job::{Job, Rank};
use super::pair::{Span, What};
use super::story::Arrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Waits that have something in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub count: u64,
    /// ns
    pub total: u64,
    pub longest: u64,
    /// The span that it is.
    pub which: usize,
}

impl Waits {
    fn add(&mut self, which: usize, span: &Span) {
        let time = span.to - span.from;
        if self.count == 0 || time > self.longest {
            (self.longest, self.which) = (time, which);
        }
        self.count += 1;
        self.total += time;
    }
}

/// A communicator.
#[derive(Debug, Default)]
pub struct Comm {
    pub ranks: u32,
    /// From a rank to another: bytes, and puts.
    pub bytes: BTreeMap<(u32, u32), (u64, u64)>,
    /// By the rank that waits, and the one it waits for if that is one.
    pub waits: BTreeMap<(u32, Option<u32>), Waits>,
}

/// All of them.
#[derive(Debug)]
pub struct Summary {
    pub comms: BTreeMap<u64, Comm>,
    pub waits: Waits,
    /// Waits of no communicator that is known.
    pub strangers: u64,
    /// Puts and their bytes.
    pub puts: (u64, u64),
    /// Puts whose rank or peer is not known: they stand in no communicator's bytes.
    pub lost: (u64, u64),
    /// By the user's line, the longest total first.
    pub lines: Vec<(String, Waits)>,
    /// The longest waits, the longest first.
    pub slowest: Vec<usize>,
}

/// Whom a wait is for: who raised what ended it, else who it was waiting for. In the communicator of the wait.
fn whom(span: &Span, ended: Option<&Span>) -> Option<u32> {
    match ended {
        Some(put) => put.rank.filter(|rank| span.rank.is_some_and(|own| own.comm == rank.comm)).map(|rank| rank.rank),
        None => span.peer,
    }
}

impl Summary {
    /// The numbers; at most so many of the slowest waits.
    pub fn of(job: &Job, spans: &[Span], arrows: &[Arrow], slowest: usize) -> Summary {
        let ended: HashMap<usize, usize> = arrows.iter().filter(|arrow| arrow.is_signal()).map(|a| (a.to.0, a.from.0)).collect();
        let mut comms = BTreeMap::<u64, Comm>::new();
        for (comm, ranks) in job.processes.iter().flat_map(|process| &process.sizes) {
            comms.entry(*comm).or_default().ranks = *ranks;
        }
        let (mut all, mut strangers, mut puts, mut lost) = (Waits::default(), 0, (0, 0), (0, 0));
        let mut lines = HashMap::<&str, Waits>::new();
        let mut longest = Vec::new();
        let one = |sum: &mut (u64, u64), span: &Span| *sum = (sum.0 + 1, sum.1 + span.bytes);
        for (index, span) in spans.iter().enumerate() {
            if span.what == What::Wait {
                longest.push(index);
                all.add(index, span);
                lines.entry(span.at()).or_default().add(index, span);
                match span.rank {
                    Some(Rank { comm, rank }) => {
                        let whom = whom(span, ended.get(&index).map(|put| &spans[*put]));
                        comms.entry(comm).or_default().waits.entry((rank, whom)).or_default().add(index, span);
                    }
                    None => strangers += 1,
                }
            } else if span.carries() {
                one(&mut puts, span);
                match (span.rank, span.peer) {
                    (Some(Rank { comm, rank }), Some(peer)) => {
                        let sum = comms.entry(comm).or_default().bytes.entry((rank, peer)).or_default();
                        *sum = (sum.0 + span.bytes, sum.1 + 1);
                    }
                    _ => one(&mut lost, span),
                }
            }
        }
        let mut lines: Vec<_> = lines.into_iter().map(|(line, waits)| (line.to_owned(), waits)).collect();
        lines.sort_by(|a, b| b.1.total.cmp(&a.1.total).then_with(|| a.0.cmp(&b.0)));
        longest.sort_by_key(|index| (Reverse(spans[*index].to - spans[*index].from), *index));
        longest.truncate(slowest);
        Summary { comms, waits: all, strangers, puts, lost, lines, slowest: longest }
    }
}
