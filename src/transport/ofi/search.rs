//! Which of the places where its peer listens a link asks, one at a time. A place that refuses is not asked again: its machine has another's
//! address, or something there rejects. One that there is no way to, or whose machine does not answer, is asked again when all others have
//! been, for as long as that may last.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// Between two turns, and between two dials of a peer that there was no way to.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// A machine that does not answer is asked for so long at least.
const LEAST: Duration = Duration::from_secs(10);

/// What has become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This machine has no way there for now.
    Away,
    /// The machine there does not answer.
    Silent,
    /// Whatever listens there does not want this rank, or nothing does.
    Refused,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask this place.
    Ask(usize),
    /// Nobody now: see [`Search::is_due`].
    Wait,
    /// None serves.
    Give,
}

/// See the module.
pub(super) struct Search {
    since: Instant,
    /// By place: what came of the last call.
    answers: Vec<Option<(Outcome, String)>>,
    /// The place that is asked first, and how many come before the one that is asked, or is next.
    first: usize,
    at: usize,
    /// When the next turn begins.
    turn: Option<Instant>,
}

impl Search {
    /// Of a peer with so many places, from `first` on and round: one that has served another link.
    pub fn new(places: usize, first: usize, now: Instant) -> Self {
        Self { since: now, answers: vec![None; places], first, at: 0, turn: None }
    }

    /// The place that is asked.
    pub fn place(&self) -> usize {
        (self.first + self.at) % self.answers.len().max(1)
    }

    /// There is another place than the one that is asked.
    pub fn has_others(&self) -> bool {
        self.answers.len() > 1
    }

    /// The place that is asked does not serve, for this reason.
    pub fn failed(&mut self, outcome: Outcome, why: String) {
        let place = self.place();
        if let Some(answer) = self.answers.get_mut(place) {
            *answer = Some((outcome, why));
        }
        self.at += 1;
    }

    /// `gap`: for so long there may be no way to a machine.
    pub fn next(&mut self, now: Instant, gap: Duration) -> Next {
        if self.turn.is_some_and(|turn| now < turn) {
            return Next::Wait;
        }
        self.turn = None;
        while self.at < self.answers.len() {
            let place = self.place();
            if !matches!(self.answers[place], Some((Outcome::Refused, _))) {
                return Next::Ask(place);
            }
            self.at += 1;
        }
        let lasts = |(outcome, _): &(Outcome, String)| match outcome {
            Outcome::Refused => Duration::ZERO,
            Outcome::Away => gap,
            Outcome::Silent => gap.max(LEAST),
        };
        let patience = self.answers.iter().flatten().map(lasts).max().unwrap_or_default();
        if now.duration_since(self.since) >= patience {
            return Next::Give;
        }
        (self.at, self.turn) = (0, Some(now + PAUSE));
        Next::Wait
    }

    /// A turn is over, and another one may begin.
    pub fn is_due(&self, now: Instant) -> bool {
        self.turn.is_some_and(|turn| now >= turn)
    }

    /// A machine has not answered.
    pub fn has_silent(&self) -> bool {
        self.answers.iter().flatten().any(|(outcome, _)| *outcome == Outcome::Silent)
    }

    /// What came of each place, by its `names`.
    pub fn explain(&self, names: impl Iterator<Item = String>) -> String {
        let each = names.zip(&self.answers).map(|(name, answer)| match answer {
            Some((_, why)) if self.has_others() => format!("{name}: {why}"),
            Some((_, why)) => why.clone(),
            None => format!("{name}: no answer so far"),
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Next::*;
    use Outcome::*;

    const GAP: Duration = Duration::from_secs(3);

    /// What a link to a peer of three places does when these come of them, all in no time; the last turn ends at `at`.
    fn after(outcomes: &[Outcome], at: Duration) -> (Vec<usize>, Next) {
        let now = Instant::now();
        let (mut search, mut asked, mut left) = (Search::new(3, 0, now), Vec::new(), outcomes.iter());
        loop {
            let time = if left.len() > 0 { now } else { now + at };
            match search.next(time, GAP) {
                Ask(place) => {
                    let Some(outcome) = left.next() else { return (asked, Ask(place)) };
                    asked.push(place);
                    search.failed(*outcome, format!("{outcome:?}"));
                }
                next => return (asked, next),
            }
        }
    }

    #[test]
    fn the_places_are_asked_in_their_order_until_one_serves() {
        assert_eq!(after(&[], Duration::ZERO), (vec![], Ask(0)));
        assert_eq!(after(&[Away], Duration::ZERO), (vec![0], Ask(1)));
        assert_eq!(after(&[Refused, Silent], Duration::ZERO), (vec![0, 1], Ask(2)));
    }

    #[test]
    fn the_one_that_has_served_is_asked_first() {
        let now = Instant::now();
        let mut search = Search::new(3, 2, now);
        for place in [2, 0, 1] {
            assert_eq!((search.next(now, GAP), search.place()), (Ask(place), place));
            search.failed(Refused, place.to_string());
        }
        let names = ["a", "b", "c"].map(String::from).into_iter();
        assert_eq!((search.next(now, GAP), search.explain(names)), (Give, "a: 0; b: 1; c: 2".into()));
    }

    #[test]
    fn where_all_refuse_it_is_over_at_once_and_else_when_a_gap_has_lasted_too_long() {
        let all = |outcomes, seconds| after(outcomes, Duration::from_secs(seconds)).1;
        assert_eq!(all(&[Refused; 3], 0), Give);
        assert_eq!([all(&[Refused, Away, Refused], 2), all(&[Refused, Away, Refused], 3)], [Wait, Give]);
        assert_eq!([all(&[Silent, Away, Refused], 9), all(&[Silent, Away, Refused], 10)], [Wait, Give]);
    }

    #[test]
    fn a_turn_passes_over_what_has_refused_and_begins_after_a_pause() {
        let now = Instant::now();
        let mut search = Search::new(3, 0, now);
        for outcome in [Refused, Away, Silent] {
            assert!(matches!(search.next(now, GAP), Ask(_)));
            search.failed(outcome, format!("{outcome:?}"));
        }
        assert_eq!((search.next(now, GAP), search.next(now, GAP), search.is_due(now)), (Wait, Wait, false));
        assert!(search.is_due(now + PAUSE) && search.has_silent());
        assert_eq!(search.next(now + PAUSE, GAP), Ask(1));
        let names = || ["a", "b", "c"].map(String::from).into_iter();
        assert_eq!(search.explain(names()), "a: Refused; b: Away; c: Silent");
        search.failed(Refused, "no".into());
        assert_eq!((search.next(now + PAUSE, GAP), search.explain(names())), (Ask(2), "a: Refused; b: no; c: Silent".into()));
    }

    #[test]
    fn one_place_has_no_name() {
        let mut search = Search::new(1, 0, Instant::now());
        search.failed(Away, "no route".into());
        assert_eq!((search.explain(["a".into()].into_iter()), search.has_others()), ("no route".into(), false));
    }
}
