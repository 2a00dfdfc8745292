//! Which times of silence are worth a line. Where a network loses packets for good a machine is silent and goes on every few seconds: that is
//! told once, and again when it gets worse or after a time without.
#![forbid(unsafe_code)]

use crate::bootstrap::Ill;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What comes back sooner is told only if it lasts twice as long as what was told.
pub(super) const CALM: Duration = Duration::from_secs(60);

/// What lasts, or is not long over; by what, and the first rank of the process or machine.
#[derive(Default)]
pub(super) struct Spells(HashMap<(Ill, u32), Spell>);

struct Spell {
    /// There was a line of this time.
    told: bool,
    /// The longest of which there was one.
    longest: Duration,
    ended: Option<Instant>,
}

impl Spells {
    /// Those that `lasts` says are over: of which there was a line, each once.
    pub fn over(&mut self, now: Instant, lasts: impl Fn((Ill, u32)) -> bool) -> Vec<(Ill, u32)> {
        let mut over = Vec::new();
        self.0.retain(|&what, spell| {
            if lasts(what) {
                return true;
            }
            let ended = *spell.ended.get_or_insert(now);
            if std::mem::take(&mut spell.told) {
                over.push(what);
            }
            // A process is stopped by somebody, each time.
            what.0 == Ill::Silent && now.saturating_duration_since(ended) < CALM
        });
        over
    }

    /// This has lasted for so long: true if there is to be a line.
    pub fn are_worth_a_line(&mut self, what: (Ill, u32), lasted: Duration) -> bool {
        let mut is_worth = false;
        let spell = self.0.entry(what).or_insert_with(|| Spell { told: false, longest: Duration::ZERO, ended: None });
        spell.ended = None;
        if !spell.told && lasted >= 2 * spell.longest {
            (spell.told, is_worth) = (true, true);
        }
        if spell.told {
            spell.longest = spell.longest.max(lasted);
        }
        is_worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a machine that is silent for so many ms every two seconds: the numbers of the times that are told, each with its end.
    fn told(spells: &mut Spells, begin: Instant, times: &[u64]) -> Vec<usize> {
        let (what, ms) = ((Ill::Silent, 4), Duration::from_millis);
        let one = |(i, lasts): (usize, &u64)| {
            let now = begin + ms(2000 * i as u64);
            let lines = (500..=*lasts).step_by(50).filter(|lasted| spells.are_worth_a_line(what, ms(*lasted))).count();
            assert_eq!(spells.over(now, |_| true), []);
            let over = (0..3).map(|turn| spells.over(now + ms(50 * turn), |_| false).len()).sum::<usize>();
            assert_eq!(lines, over, "time {i}");
            (lines > 0).then_some(i)
        };
        times.iter().enumerate().filter_map(one).collect()
    }

    #[test]
    fn what_comes_again_and_again_is_told_once_and_when_it_gets_worse() {
        let (mut spells, begin) = (Spells::default(), Instant::now());
        assert_eq!(told(&mut spells, begin, &[600, 550, 700, 1150, 1200, 900, 2350, 2400, 600]), [0, 4, 7]);
        let soon = begin + Duration::from_millis(2000 * 8) + CALM - Duration::from_secs(1);
        assert_eq!(told(&mut spells, soon, &[600]), [0; 0], "it counts from the last time, told or not");
        assert_eq!(told(&mut spells, soon + CALM, &[500, 500]), [0; 0], "nobody has looked in between");
        assert_eq!(spells.over(soon + 3 * CALM, |_| false), []);
        assert_eq!(told(&mut spells, soon + 3 * CALM, &[500, 500]), [0], "as if for the first time");
    }

    #[test]
    fn a_process_is_told_of_each_time_that_it_is_stopped() {
        let (mut spells, now) = (Spells::default(), Instant::now());
        for _ in 0..3 {
            assert!(spells.are_worth_a_line((Ill::Stopped, 1), Duration::from_secs(1)));
            assert!(!spells.are_worth_a_line((Ill::Stopped, 1), Duration::from_secs(9)));
            assert_eq!(spells.over(now, |_| false), [(Ill::Stopped, 1)]);
        }
    }
}
