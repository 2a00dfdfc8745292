//! What ranks have raised of each other's signals, as their pages carry it, and what that says of a wait.
//!
//! Who waits for a signal sees what has come, not from whom. Each rank counts what it has sent (`gin::tally`); with the counts of all,
//! a line can say who has not raised it, or raised that of another rank.
#![forbid(unsafe_code)]

use super::told::Told;
use crate::abort::{Held, Raised, Sums};
use std::collections::BTreeMap;

/// Of a line: ranks with what they have raised, and signals of other ranks.
const NAMED: usize = 4;
const OTHERS: usize = 2;

/// What the ranks of a machine that count have raised, by rank.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sums: BTreeMap<u32, Sums>,
    /// Ranks of the communicator.
    n_ranks: u32,
}

/// In at most `room` bytes, the largest sums first. Behind all of them stands a dot.
pub(super) fn encode(sums: &Sums, room: usize) -> String {
    let mut raised: Vec<&Raised> = sums.raised.iter().collect();
    raised.sort_by_key(|one| one.word);
    let raised =
        raised.into_iter().map(|Raised { peer, context, word, id, sum }| format!("r {peer} {context} {word} {id} {sum}\n"));
    let own = sums.own.iter().map(|Held { context, word, id, value, awaited, .. }| {
        let awaited = awaited.map_or("-".into(), |awaited| awaited.to_string());
        format!("o {context} {word} {id} {value} {awaited}\n")
    });
    let mut text = String::new();
    let is_whole = raised.chain(own).all(|line| {
        let fits = text.len() + line.len() < room;
        if fits {
            text += &line;
        }
        fits
    });
    if is_whole && !sums.uncounted { text + "." } else { text + "+" }
}

/// What [`encode`] made; None where nobody counts.
pub(super) fn decode(text: &str) -> Option<Sums> {
    let end = text.chars().last()?;
    let mut sums = Sums { uncounted: end != '.', ..Sums::default() };
    for line in text.lines() {
        let (kind, numbers) = line.split_once(' ').unwrap_or_default();
        let numbers: Vec<u64> = numbers.split(' ').map_while(|word| word.parse().ok()).collect();
        let narrow = |at: usize| numbers.get(at).map_or(0, |number| *number as u32);
        match (kind, &numbers[..]) {
            ("r", [.., sum]) if numbers.len() == 5 => {
                sums.raised.push(Raised { peer: narrow(0), context: narrow(1), word: narrow(2), id: narrow(3), sum: *sum });
            }
            ("o", [_, _, _, value, awaited @ ..]) => {
                let (value, awaited) = (*value, awaited.first().copied());
                sums.own.push(Held { at: 0, context: narrow(0), word: narrow(1), id: narrow(2), value, awaited });
            }
            _ => {}
        }
    }
    Some(sums)
}

impl Counts {
    /// Of these ranks, what is on their pages.
    pub fn of(pages: impl Iterator<Item = (u32, String)>, n_ranks: u32) -> Self {
        Self { sums: pages.filter_map(|(rank, text)| Some((rank, decode(&text)?))).collect(), n_ranks }
    }

    /// What `by` has added to that signal of `of`; None where that is not known.
    fn raised(&self, by: u32, of: u32, (context, word): (u32, u32)) -> Option<u64> {
        let sums = self.sums.get(&by)?;
        let is = |one: &&Raised| (one.peer, one.context, one.word) == (of, context, word);
        sums.raised.iter().find(is).map(|one| one.sum).or((!sums.uncounted).then_some(0))
    }

    /// Finds out of a wait of `rank` at a GIN barrier who has not come. To each of its ranks `rank` has sent one signal more than has come
    /// from those.
    pub fn name_absent(&self, rank: u32, told: &mut Told) {
        let Some(signal) = told.signal.filter(|_| told.lacks != 0) else { return };
        let is_absent = |&other: &u32| {
            let (sent, came) = (self.raised(rank, other, signal), self.raised(other, rank, signal));
            sent.zip(came).is_some_and(|(sent, came)| came < sent)
        };
        let absent: Vec<u32> = (0..self.n_ranks).filter(|other| *other != rank).filter(is_absent).collect();
        if absent.len() as u64 == told.lacks {
            told.absent = absent;
            told.whom = if let [one] = told.absent[..] { Some(one) } else { told.whom };
        }
    }

    /// ` after raising the awaited signal by 1`: what `by` did before it left, for the wait of `rank`.
    pub fn before_leaving(&self, by: u32, rank: u32, told: &Told) -> String {
        self.said(by, rank, told, " after raising the awaited signal by ", " without raising the awaited signal")
    }

    /// The same of one that is there.
    pub fn so_far(&self, by: u32, rank: u32, told: &Told) -> String {
        self.said(by, rank, told, ", and has raised the awaited signal by ", ", and has not raised the awaited signal")
    }

    fn said(&self, by: u32, rank: u32, told: &Told, some: &str, none: &str) -> String {
        match self.awaited(told).and_then(|signal| self.raised(by, rank, signal)) {
            None => String::new(),
            Some(0) => none.into(),
            Some(sum) => format!("{some}{sum}"),
        }
    }

    /// The only rank that has raised what `rank` waits for, where nobody raises that signal of several ranks, as in a ring: the next one is its,
    /// too, by all that is known. Where all send to all, who is missing is not who has come.
    pub fn only_sender(&self, rank: u32, told: &Told) -> Option<u32> {
        let signal = self.awaited(told)?;
        let spreads = |sums: &Sums| sums.raised.iter().filter(|one| (one.context, one.word) == signal).nth(1).is_some();
        if self.sums.values().any(spreads) {
            return None;
        }
        let mut others = (0..self.n_ranks).filter(|by| self.raised(*by, rank, signal) != Some(0));
        let sender = others.next().filter(|by| *by != rank && self.raised(*by, rank, signal).is_some())?;
        others.next().is_none().then_some(sender)
    }

    /// A barrier has words of its own.
    fn awaited(&self, told: &Told) -> Option<(u32, u32)> {
        told.signal.filter(|_| told.lacks == 0)
    }

    /// More that is known of a wait of `rank` for a signal: that it was reset, and who has raised that signal of another rank, which
    /// does not wait for it.
    pub fn more(&self, rank: u32, told: &Told) -> Vec<String> {
        let Some((context, word)) = self.awaited(told) else { return Vec::new() };
        let mut more = Vec::new();
        let all: Option<u64> = (0..self.n_ranks).map(|by| self.raised(by, rank, (context, word))).sum();
        if let Some(all) = all.filter(|all| *all > told.has) {
            more.push(format!("the awaited signal was raised by {all} in all, and has been reset"));
        }
        let others =
            self.sums.iter().filter(|(by, _)| **by != rank).flat_map(|(by, sums)| sums.raised.iter().map(move |one| (by, one)));
        let others =
            others.filter(|(_, one)| one.peer != rank && (one.context, one.word) == (context, word)).filter_map(|(by, one)| {
                let awaited = match self.awaited_of(one)? {
                    None | Some(0) => ", which nobody waits for".into(),
                    Some(awaited) => format!(" where {awaited} is awaited"),
                };
                Some(format!("rank {by} has raised signal {} of rank {} by {}{awaited}", one.id, one.peer, one.sum))
            });
        more.extend(others.take(OTHERS));
        more
    }

    /// What its owner has waited for of a signal that was raised, if that is less than has come; None: not less, or not known. It may
    /// come only after its owner has left.
    fn awaited_of(&self, raised: &Raised) -> Option<Option<u64>> {
        let owner = self.sums.get(&raised.peer)?;
        match owner.own.iter().find(|held| (held.context, held.word) == (raised.context, raised.word)) {
            Some(held) => held.is_idle().then_some(held.awaited),
            None => (!owner.uncounted).then_some(None),
        }
    }

    /// The line of a wait of `rank`, with what is known of it by now.
    pub fn line(&self, rank: u32, mut told: Told) -> String {
        self.name_absent(rank, &mut told);
        told.line(rank) + &self.clause(rank, &told)
    }

    /// `; raised by rank 0: 1, rank 2: 3`; nothing where it is not known who has not.
    pub fn clause(&self, rank: u32, told: &Told) -> String {
        let Some(signal) = self.awaited(told) else { return String::new() };
        let of = |by: u32| Some((by, self.raised(by, rank, signal)?));
        let raised: Vec<(u32, u64)> = (0..self.n_ranks).filter_map(of).collect();
        let is_whole = raised.len() == self.n_ranks as usize;
        let some: Vec<String> = raised.iter().filter(|(_, sum)| *sum != 0).map(|(by, sum)| format!("rank {by}: {sum}")).collect();
        match &some[..] {
            [] if is_whole => "; nobody has raised it".into(),
            [] => String::new(),
            some => {
                let dots = if some.len() > NAMED { ", .." } else { "" };
                format!("; raised by {}{dots}", some[..some.len().min(NAMED)].join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(raised: &[(u32, u32, u64)], own: &[(u32, u64, Option<u64>)]) -> Sums {
        Sums {
            raised: raised.iter().map(|&(peer, word, sum)| Raised { peer, context: 1, word, id: word - 8, sum }).collect(),
            uncounted: false,
            own: own
                .iter()
                .map(|&(word, value, awaited)| Held { at: 0, context: 1, word, id: word - 8, value, awaited })
                .collect(),
        }
    }

    fn counts(all: &[Sums]) -> Counts {
        Counts::of((0..).zip(all.iter().map(|sums| encode(sums, 4096))), all.len() as u32)
    }

    fn told(word: u32, has: u64, lacks: u64) -> Told {
        Told { signal: Some((1, word)), has, lacks, ..Told::default() }
    }

    #[test]
    fn a_page_carries_sums_or_says_that_there_are_more() {
        let all = sums(&[(0, 9, 1), (7, 8, u64::MAX)], &[(8, 3, Some(1)), (9, 0, Some(0)), (10, 7, None)]);
        let mut back = decode(&encode(&all, 4096)).unwrap();
        back.raised.reverse();
        assert_eq!(back, all);
        assert_eq!(decode(""), None, "who says nothing does not count");
        assert_eq!(decode(&encode(&Sums::default(), 4096)), Some(Sums::default()));
        let cut = decode(&encode(&all, 40)).unwrap();
        assert!(cut.uncounted && cut.raised.len() == 1 && cut.own.is_empty(), "{cut:?}");
        let more = Sums { uncounted: true, ..Sums::default() };
        assert_eq!(decode(&encode(&more, 4096)), Some(more));
        assert!(decode("r 1 2\nnonsense\n+").unwrap().raised.is_empty());
    }

    #[test]
    fn who_raised_what_is_awaited_and_who_did_not() {
        let all = counts(&[sums(&[(1, 8, 1)], &[]), sums(&[], &[]), Sums { uncounted: true, ..Sums::default() }]);
        let wait = told(8, 1, 0);
        assert_eq!(all.before_leaving(0, 1, &wait), " after raising the awaited signal by 1");
        assert_eq!(all.before_leaving(1, 1, &wait), " without raising the awaited signal");
        assert_eq!(all.so_far(2, 1, &wait), "", "not known");
        assert_eq!(all.clause(1, &wait), "; raised by rank 0: 1");
        assert_eq!(all.clause(1, &told(9, 0, 0)), "", "rank 2 may have raised it");
        assert_eq!(counts(&[sums(&[], &[]), sums(&[], &[])]).clause(1, &wait), "; nobody has raised it");
        assert_eq!(all.clause(1, &Told::default()), "");
    }

    #[test]
    fn a_signal_that_one_rank_alone_has_raised_is_its() {
        let none = || sums(&[], &[]);
        let one = counts(&[none(), sums(&[(0, 8, 2)], &[]), none()]);
        assert_eq!(one.only_sender(0, &told(8, 2, 0)), Some(1));
        assert_eq!(one.only_sender(0, &told(9, 0, 0)), None, "nobody has raised it");
        assert_eq!(one.only_sender(2, &told(8, 0, 0)), None, "of another rank");
        let two = counts(&[none(), sums(&[(0, 8, 2)], &[]), sums(&[(0, 8, 1)], &[])]);
        assert_eq!(two.only_sender(0, &told(8, 3, 0)), None);
        let to_all = counts(&[sums(&[(0, 8, 1), (2, 8, 1)], &[]), none(), sums(&[(0, 8, 1), (1, 8, 1)], &[])]);
        assert_eq!(to_all.only_sender(1, &told(8, 1, 0)), None, "who is missing is not who has come");
        let own = counts(&[sums(&[(0, 8, 1)], &[]), none()]);
        assert_eq!(own.only_sender(0, &told(8, 1, 0)), None, "its own");
        let unknown = Sums { uncounted: true, ..none() };
        assert_eq!(
            counts(&[none(), sums(&[(0, 8, 2)], &[]), unknown]).only_sender(0, &told(8, 2, 0)),
            None,
            "the other one may have"
        );
    }

    #[test]
    fn a_signal_that_was_reset_and_one_that_went_to_another_rank() {
        let all = |own: &[(u32, u64, Option<u64>)]| {
            counts(&[sums(&[(1, 8, 2), (2, 8, 3)], &[]), sums(&[(2, 8, 5)], &[]), sums(&[], own)])
        };
        let reset = "the awaited signal was raised by 2 in all, and has been reset";
        let more = |own: &[(u32, u64, Option<u64>)], has| all(own).more(1, &told(8, has, 0)).join("; ");
        let nobody = "rank 0 has raised signal 0 of rank 2 by 3, which nobody waits for";
        assert_eq!(more(&[(8, 6, None), (9, 1, None)], 1), format!("{reset}; {nobody}"));
        assert_eq!(more(&[], 2), nobody, "it came when its owner had left");
        assert_eq!(more(&[(8, 3, Some(1))], 2), "rank 0 has raised signal 0 of rank 2 by 3 where 1 is awaited");
        assert_eq!(more(&[(8, 3, Some(3))], 2), "", "rank 2 has waited for all of it");
        assert_eq!(more(&[(8, 0, Some(0))], 2), "", "and reset it");
        assert!(all(&[]).more(1, &told(9, 0, 0)).is_empty(), "nobody has raised that of rank 2");
    }

    #[test]
    fn who_has_not_come_to_a_barrier_has_sent_one_less() {
        let all =
            |third: u64| counts(&[sums(&[(1, 8, 3), (2, 8, 3)], &[]), sums(&[(0, 8, 3)], &[]), sums(&[(0, 8, third)], &[])]);
        let mut wait = told(8, 5, 1);
        all(2).name_absent(0, &mut wait);
        assert_eq!((&wait.absent[..], wait.whom), (&[2][..], Some(2)));
        let mut wait = told(8, 5, 1);
        all(3).name_absent(0, &mut wait);
        assert!(wait.absent.is_empty(), "it has come by now");
        let mut wait = told(8, 5, 2);
        all(2).name_absent(0, &mut wait);
        assert!(wait.absent.is_empty() && wait.whom.is_none(), "another one has not, and who is not known");
    }
}
