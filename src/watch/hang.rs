//! A hang that can be proven ends: every rank that is left only waits, nothing that any has posted is under way, and nothing in any
//! of their processes can go on by itself (`still`).
//!
//! Ranks of several processes agree without a word: each leaves on its page which of its looks has found it still, and a print of all
//! that counts how often anything has run. One of them reads the pages of all. Where all are still at one time T, and later each again,
//! in a look begun behind T, with the same prints, then none has done anything in between: at T all were still at once, nothing was
//! under way, and since only a rank's kernel can end the wait of another's, none ever will.
//!
//! Only ranks of one machine are judged, and those whose waits are told (kernels compiled with our headers, for the CPU device).
#![forbid(unsafe_code)]

use super::counts::{self, Counts};
use super::group::Group;
use super::page::{Membership, SUMS, WAITS};
use super::told::{self, Told};
use crate::abort::Abort;
use crate::device::cpu::waits::Wait;
use crate::error::{Code, Error};
use crate::warn;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// So long a wait lasts before anybody looks further.
pub(super) const LONG: Duration = Duration::from_secs(1);
/// Looks behind the first at which a rank was still. The one that first counts behind it may have begun before it; so may the marks that
/// the next one waits for.
const AGAIN: u64 = 3;
/// By rank: its last look that found it still, and the print of that.
type Looks = BTreeMap<u32, (u64, u64)>;

/// The waits of a communicator that only this process can end, while nothing of it is under way.
pub(super) struct Rest {
    hash: u64,
    /// Of its ranks here: the addresses of their abort words.
    owners: Vec<u64>,
    /// Of them all.
    moves: u64,
}

/// Lines of waits in an error.
const NAMED: usize = 4;

/// What the ranks that are left were at the first look that found all of them still.
#[derive(Default)]
pub(super) struct Hang {
    first: Looks,
    since: Option<Instant>,
}

impl Hang {
    /// What all say of themselves now; for how long they have been still if that is proven.
    fn look(&mut self, now: Option<Looks>) -> Option<Duration> {
        let Some(now) = now else {
            *self = Hang::default();
            return None;
        };
        let prints = |of: &Looks| of.iter().map(|(rank, (_, print))| (*rank, *print)).collect::<Vec<_>>();
        if self.since.is_none() || prints(&now) != prints(&self.first) {
            *self = Hang { first: now, since: Some(Instant::now()) };
            return None;
        }
        let again = now.iter().all(|(rank, (look, _))| *look >= self.first[rank].0 + AGAIN);
        self.since.filter(|_| again).map(|since| since.elapsed())
    }
}

impl Group {
    /// None where a rank of another process may end a wait of its ranks, or something that they have posted.
    pub(super) fn rest(&self, waits: &[Wait]) -> Option<Rest> {
        let members = self.aborts_here();
        let is_whole = (0..self.port.table().len() as u32).all(|rank| self.port.is_here(rank));
        let is_calm = |abort: &Abort| {
            !abort.is_raised() && abort.is_quiet() && !told::of_rank(waits, abort, |_| true).iter().any(|told| told.posted)
        };
        (is_whole && members.iter().all(|(.., abort)| is_calm(abort))).then(|| Rest {
            hash: self.port.hash(),
            owners: members.iter().map(|(.., abort)| abort.host_address()).collect(),
            moves: members.iter().map(|(.., abort)| abort.moves()).sum(),
        })
    }

    /// Shows on the pages of the ranks here what their kernels wait for, of all waits of the process, and whether they are still; `still`
    /// is what a look at the process has found. What waits on another communicator may go on, and then do something here, unless that is at
    /// rest, too.
    pub(super) fn show_waits(&self, waits: &[Wait], still: Option<(u64, u64)>, rests: &[Rest]) {
        let members = self.aborts_here();
        let others: Vec<&Rest> = rests.iter().filter(|rest| rest.hash != self.port.hash()).collect();
        let is_here = |wait: &Wait| members.iter().any(|(.., abort)| abort.host_address() == wait.owner);
        let ours = waits.iter().all(|wait| is_here(wait) || others.iter().any(|rest| rest.owners.contains(&wait.owner)));
        let beside: u64 = others.iter().map(|rest| rest.moves).sum();
        for (_, page, abort) in &members {
            let of_rank = told::of_rank(waits, abort, |_| true);
            page.set_waits(&told::encode(&of_rank, WAITS));
            let under_way = of_rank.iter().any(|told| told.posted);
            let still = still.filter(|_| ours && !under_way && !abort.is_raised() && abort.is_quiet()).map(|(look, print)| {
                let mut hasher = DefaultHasher::new();
                (print, abort.moves(), beside).hash(&mut hasher);
                (look, hasher.finish())
            });
            page.set_still(still);
        }
    }

    /// Shows on the pages of the ranks here, or of that one, which leaves, what they have raised of each other's signals.
    pub(super) fn show_sums(&self, only: Option<u32>) {
        for (rank, page, abort) in self.aborts_here() {
            if only.is_none_or(|only| only == rank)
                && !abort.is_raised()
                && let Some(sums) = abort.sums(only.is_some())
            {
                page.set_sums(&counts::encode(&sums, SUMS));
            }
        }
    }

    /// What the ranks of this machine have raised, as their pages say.
    pub(super) fn counts(&self) -> Counts {
        let shown = self.pages_here().into_iter().filter_map(|(rank, page)| Some((rank, page.sums()?)));
        Counts::of(shown, self.port.table().len() as u32)
    }

    /// What the kernels of each rank on this machine wait for.
    pub(super) fn waits_shown(&self) -> BTreeMap<u32, Vec<Told>> {
        let shown = self.pages_here().into_iter().map(|(rank, page)| (rank, told::decode(&page.waits().unwrap_or_default())));
        shown.filter(|(_, waits)| !waits.is_empty()).collect()
    }

    /// An error of the rank that waits, with what it waits for where that is told.
    pub(super) fn with_waits(&self, rank: u32, mut error: Error) -> Error {
        let waits = self.waits_shown().remove(&rank).unwrap_or_default();
        if let (Some(at), Some(told)) = (error.text.rfind(" | fix: "), waits.first()) {
            error.text.insert_str(at, &format!("; {}{}", told.cause(rank), self.counts().clause(rank, told)));
        }
        error
    }

    /// Whether any wait of its ranks has lasted for long.
    pub(super) fn waits_long(&self) -> bool {
        self.waits_shown().values().flatten().any(|told| told.lasts >= LONG)
    }

    /// Ends a hang that is proven. The lowest rank that waits does it, for all.
    pub(super) fn judge_hang(&self) {
        if self.is_over() {
            return;
        }
        let mut waits = self.waits_shown();
        let found = if waits.is_empty() { None } else { self.still_ranks() };
        let (now, left) = found.unzip();
        let Some(lasts) = self.hang.lock().look(now) else { return };
        let left = left.unwrap_or_default();
        let Some((_, _, abort)) = self.aborts_here().into_iter().find(|(rank, ..)| Some(rank) == waits.keys().next()) else {
            return;
        };
        let name = |rank: u32| self.port.name(rank);
        let counts = self.counts();
        waits.iter_mut().for_each(|(rank, all)| all.iter_mut().for_each(|told| counts.name_absent(*rank, told)));
        let cause = Cause::of(&waits, &left, &counts, self.port.table().len() as u32);
        let text = format!(
            "no rank can go on: {} | {} | for {:.0} s kernels have only waited, nothing that was posted is under way, and no thread of the \
             program can run | fix: {}",
            cause.text(&waits, &left, &counts, name),
            self.port.tag(),
            lasts.as_secs_f64(),
            cause.fix(&waits, &left)
        );
        let error = Error::new(Code::InvalidUsage, 140, text);
        let error = match cause.culprit(&waits, self.port.table().len()) {
            Some(rank) => error.by(rank),
            None => error,
        };
        // The one line of it, before a program that goes on can end its process.
        warn!("{error}");
        abort.raise(error);
    }

    /// The ranks that are left, each still, and those that have left and of which nothing runs. None where anything may go on, or that is
    /// not known.
    fn still_ranks(&self) -> Option<(Looks, Vec<u32>)> {
        let pages = self.pages_here();
        if pages.len() != self.port.table().len() {
            return None;
        }
        let (mut still, mut left) = (BTreeMap::new(), Vec::new());
        for (rank, page) in pages {
            match page.membership() {
                Membership::Alive => _ = still.insert(rank, page.still()?),
                Membership::Leaving if page.is_over() || self.has_ended(rank) => left.push(rank),
                _ => return None,
            }
        }
        Some((still, left))
    }
}

/// Why nobody goes on.
#[derive(Debug, PartialEq, Eq)]
enum Cause {
    /// These wait for each other, each for the next.
    Cycle(Vec<u32>),
    /// This rank waits for what nobody will do, or for one that has left, or does nothing any more.
    Wait { rank: u32, whom: Option<u32> },
}

impl Cause {
    /// The one that is nearest to the mistake, of those that the waits of all ranks lead to: a rank that does nothing any more, else a
    /// cycle, else a wait for anybody.
    fn of(waits: &BTreeMap<u32, Vec<Told>>, left: &[u32], counts: &Counts, n_ranks: u32) -> Cause {
        let whom = |rank: u32| {
            let named = waits[&rank].iter().find_map(|told| told.whom);
            // Of two ranks the other one.
            let other = || (n_ranks == 2).then_some(1 - rank.min(1));
            named.or_else(other).or_else(|| waits[&rank].iter().find_map(|told| counts.only_sender(rank, told)))
        };
        let nearest = |cause: &Cause| match cause {
            Cause::Wait { whom: Some(_), .. } => 0,
            Cause::Cycle(_) => 1,
            Cause::Wait { whom: None, .. } => 2,
        };
        waits.keys().map(|&rank| Cause::from(rank, waits, left, whom)).min_by_key(nearest).expect("somebody waits")
    }

    /// From `rank` to whom it waits for and so on, as long as that is known.
    fn from(mut rank: u32, waits: &BTreeMap<u32, Vec<Told>>, left: &[u32], whom: impl Fn(u32) -> Option<u32>) -> Cause {
        let mut path = vec![rank];
        loop {
            let next = whom(rank);
            match next {
                Some(next) if left.contains(&next) || !waits.contains_key(&next) => {
                    return Cause::Wait { rank, whom: Some(next) };
                }
                None => return Cause::Wait { rank, whom: None },
                Some(next) => {
                    if let Some(at) = path.iter().position(|&seen| seen == next) {
                        return Cause::Cycle(path.split_off(at));
                    }
                    path.push(next);
                    rank = next;
                }
            }
        }
    }

    /// Whom the wait itself names, or of two ranks the other: no guess from what has come.
    fn culprit(&self, waits: &BTreeMap<u32, Vec<Told>>, n_ranks: usize) -> Option<u32> {
        match self {
            Cause::Cycle(_) => None,
            Cause::Wait { rank, whom } => whom.filter(|_| n_ranks == 2 || waits[rank].iter().any(|told| told.whom == *whom)),
        }
    }

    fn text(&self, waits: &BTreeMap<u32, Vec<Told>>, left: &[u32], counts: &Counts, name: impl Fn(u32) -> String) -> String {
        let wait = |rank: u32| waits[&rank].iter().find(|told| told.whom.is_some()).unwrap_or(&waits[&rank][0]);
        let first = |rank: u32| wait(rank).cause(rank);
        let mut parts = Vec::new();
        let mut told = Vec::new();
        match self {
            Cause::Cycle(ranks) => {
                let circle: Vec<String> = ranks.iter().skip(1).chain(&ranks[..1]).map(|rank| format!("rank {rank}")).collect();
                parts.push(format!("rank {} waits for {}", ranks[0], circle.join(", which waits for ")));
                parts.extend(ranks.iter().map(|&rank| first(rank)));
                told.extend(ranks);
            }
            Cause::Wait { rank, whom } => {
                parts.push(first(*rank));
                told.push(*rank);
                if let Some(whom) = whom.filter(|whom| !left.contains(whom)) {
                    parts.push(format!("{} runs no kernel{}", name(whom), counts.so_far(whom, *rank, wait(*rank))));
                }
            }
        }
        let others: Vec<u32> = waits.keys().copied().filter(|rank| !told.contains(rank)).collect();
        parts.extend(others.iter().take(NAMED).map(|&rank| first(rank)));
        if others.len() > NAMED {
            parts.push(format!("{} more ranks wait", others.len() - NAMED));
        }
        // Behind all that wait: who has left may have had no more to do.
        let before = |left: u32| match self {
            Cause::Wait { rank, .. } => counts.before_leaving(left, *rank, wait(*rank)),
            Cause::Cycle(_) => String::new(),
        };
        // One line for those that did the same.
        let mut leavers: Vec<(String, Vec<u32>)> = Vec::new();
        for &rank in left {
            let before = before(rank);
            match leavers.iter_mut().find(|(same, _)| *same == before) {
                Some((_, ranks)) => ranks.push(rank),
                None => leavers.push((before, vec![rank])),
            }
        }
        for (before, ranks) in leavers {
            let names: Vec<String> = ranks.iter().take(NAMED).map(|&rank| name(rank)).collect();
            let more = if ranks.len() > NAMED { format!(" and {} more", ranks.len() - NAMED) } else { String::new() };
            parts.push(format!("{}{more} {} left{before}", names.join(", "), if ranks.len() == 1 { "has" } else { "have" }));
        }
        if let Cause::Wait { rank, .. } = self {
            parts.extend(counts.more(*rank, wait(*rank)));
        }
        parts.join("; ")
    }

    fn fix(&self, waits: &BTreeMap<u32, Vec<Told>>, left: &[u32]) -> &'static str {
        match self {
            Cause::Cycle(ranks) if ranks.iter().any(|rank| waits[rank].iter().all(|told| told.whom.is_none())) => {
                "count what is sent as it is waited for, and let one of them do first what the next one waits for"
            }
            Cause::Cycle(_) => "let one of them do first what the next one waits for",
            Cause::Wait { .. } if !left.is_empty() => {
                "count what is sent as it is waited for, and let no rank leave before all have what they wait for"
            }
            Cause::Wait { .. } => "count what is sent as it is waited for, and let all ranks of a barrier come to it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(of: &[(u32, Option<u32>)]) -> BTreeMap<u32, Vec<Told>> {
        let told = |&(rank, whom): &(u32, Option<u32>)| {
            let what = whom
                .map_or("signal 0 >= 2 (has 1) of context 0".into(), |whom| format!("LSA barrier 0: rank {whom} has not come"));
            let place = Some(format!("a.cu:{}", 10 + rank));
            (rank, vec![Told { who: "block 0".into(), what, place, whom, lasts: LONG, ..Told::default() }])
        };
        of.iter().map(told).collect()
    }

    fn text(of: &[(u32, Option<u32>)], left: &[u32], n_ranks: u32) -> (Cause, String) {
        let waits = waits(of);
        let cause = Cause::of(&waits, left, &Counts::default(), n_ranks);
        let text = cause.text(&waits, left, &Counts::default(), |rank| format!("rank {rank} (pid 7)"));
        (cause, text)
    }

    #[test]
    fn the_cause_is_where_the_waits_lead() {
        let (cause, line) = text(&[(1, None)], &[0], 2);
        assert_eq!(cause, Cause::Wait { rank: 1, whom: Some(0) });
        assert_eq!(line, "rank 1 block 0 waits for signal 0 >= 2 (has 1) of context 0 at a.cu:11; rank 0 (pid 7) has left");
        let (_, line) = text(&[(1, None)], &[], 2);
        assert!(line.ends_with("at a.cu:11; rank 0 (pid 7) runs no kernel"), "{line}");

        let (cause, line) = text(&[(0, None), (1, None)], &[], 2);
        assert_eq!(cause, Cause::Cycle(vec![0, 1]));
        assert!(
            line.starts_with("rank 0 waits for rank 1, which waits for rank 0; rank 0 block 0 waits for signal 0 >= 2"),
            "{line}"
        );
        assert_eq!(text(&[(0, Some(2)), (2, Some(3)), (3, Some(2))], &[1], 4).0, Cause::Cycle(vec![2, 3]));

        // Rank 0 waits for rank 1 at a barrier; rank 1 for a signal that any of the others might send.
        let (cause, line) = text(&[(0, Some(1)), (1, None), (2, Some(1))], &[], 3);
        assert_eq!(cause, Cause::Wait { rank: 1, whom: None });
        assert!(line.starts_with("rank 1 block 0 waits for signal") && line.contains("; rank 0 block 0 waits for LSA"), "{line}");
        let (cause, line) = text(&[(0, Some(2)), (1, Some(2))], &[2], 3);
        assert_eq!(cause, Cause::Wait { rank: 0, whom: Some(2) });
        assert!(
            line.contains("rank 2 has not come at a.cu:10; rank 1 ") && line.ends_with("; rank 2 (pid 7) has left"),
            "{line}"
        );

        // Who waits for one that has left comes before who waits for anybody, or in a cycle.
        let (cause, _) = text(&[(0, None), (1, Some(3)), (2, None)], &[3], 4);
        assert_eq!(cause, Cause::Wait { rank: 1, whom: Some(3) });
        assert_eq!(text(&[(0, Some(1)), (1, Some(0)), (2, Some(3))], &[3], 4).0, Cause::Wait { rank: 2, whom: Some(3) });
        assert_eq!(text(&[(0, None), (1, Some(2)), (2, Some(1))], &[], 3).0, Cause::Cycle(vec![1, 2]));
    }

    #[test]
    fn a_hang_is_proven_by_the_same_prints_in_later_looks_of_all() {
        let at =
            |looks: [u64; 2], prints: [u64; 2]| Some(BTreeMap::from([(0, (looks[0], prints[0])), (1, (looks[1], prints[1]))]));
        let mut hang = Hang::default();
        assert!(hang.look(at([5, 9], [1, 2])).is_none());
        assert!(hang.look(at([7, 30], [1, 2])).is_none(), "rank 0 has not looked again");
        assert!(hang.look(at([8, 30], [1, 2])).is_some());
        assert!(hang.look(at([9, 31], [1, 3])).is_none(), "rank 1 has done something");
        assert!(hang.look(at([12, 33], [1, 3])).is_none());
        assert!(hang.look(None).is_none());
        assert!(hang.look(at([15, 36], [1, 3])).is_none(), "somebody could go on in between");
        assert!(hang.look(at([18, 39], [1, 3])).is_some());
        // A rank that leaves changes who is left.
        assert!(hang.look(Some(BTreeMap::from([(0, (40, 1))]))).is_none());
    }
}
