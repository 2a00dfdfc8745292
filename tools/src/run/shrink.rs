//! What a seed that fails needs for it: its schedule, or its network, and how many of its choices.

use std::time::Instant;

use super::explore::{End, Failing, Hunt, Progress, Under};
use super::rank::signal_name;
use super::replay::{SCHEDULE, UNTIL};

/// How often a seed that has failed is run again in each way, where it does not decide all.
const AGAIN: u32 = 5;

impl Hunt<'_> {
    /// Runs it again, with and without what the seed decides, and says what is needed; the command that brings it back.
    pub(super) fn shrink(&self, failing: Failing, progress: &mut Progress) -> Result<String, String> {
        let Failing { seed, hung, .. } = failing;
        let Some(told) = self.told() else { return self.shrink_by_tries(failing, progress) };
        progress.tell(&format!("seed {seed} again"));
        let Some(again) = self.fails(failing, Under::BOTH, None)? else {
            self.say_over(seed, progress);
            return Ok(self.command_of(seed, Under::BOTH, None));
        };
        // Where a run is cut off, nobody knows after which choice.
        let same = told.reasons.is_empty() && again && (hung || self.told() == Some(told.clone()));
        progress.clear();
        if !same {
            self.say(&told.line(&seed.to_string()));
            return self.shrink_by_tries(failing, progress);
        }
        let (choices, hash) = (told.choices, told.hash);
        let by = if hung { String::new() } else { format!(", by the same {choices} choices (trace {hash:016x})") };
        self.say(&format!("seed {seed} fails again{by}"));
        self.shrink_exactly(failing, choices, progress)
    }

    /// Whether it fails so; None: no further run begins.
    fn fails(&self, failing: Failing, under: Under, until: Option<u64>) -> Result<Option<bool>, String> {
        if failing.until.is_some_and(|until| until <= Instant::now()) {
            return Ok(None);
        }
        Ok(match self.run(failing.seed, under, until, failing.timeout)? {
            End::Ended(status, _) => Some(self.has_failed(status)),
            End::Stopped(_) => None,
        })
    }

    /// Says why no further run begins.
    fn say_over(&self, seed: u64, progress: &Progress) {
        progress.clear();
        let why = self.stopped().map_or_else(|| "the time is over".into(), |signal| format!("ended by {}", signal_name(signal)));
        self.say(&format!("{why}: seed {seed} is not run again, and may need less"));
    }

    /// One run of each way says all; `choices` are all that the seed has made.
    fn shrink_exactly(&self, failing: Failing, choices: u64, progress: &mut Progress) -> Result<String, String> {
        let seed = failing.seed;
        let ways = [(Under::SCHEDULE, None), (Under::NETWORK, Some(0)), (Under::NEITHER, Some(0))];
        let mut failed = [1, 0, 0, 0];
        for ((under, until), failed) in ways.into_iter().zip(&mut failed[1..]) {
            progress.tell(&format!("seed {seed} with less of it"));
            let Some(fails) = self.fails(failing, under, until)? else {
                self.say_over(seed, progress);
                return Ok(self.command_of(seed, Under::BOTH, None));
            };
            *failed = u32::from(fails);
        }
        let (needed, under) = verdict(failed);
        progress.clear();
        crate::tell(format!("ginrs-run: {needed}"));
        if under == Under::NETWORK || under == Under::NEITHER {
            return Ok(self.command_of(seed, under, Some(0)));
        }
        // Of the choices, from none, which passes, to all: one that passes with the first n and fails with one more.
        let (mut passes, mut fails) = (0, if failing.hung { 0 } else { choices });
        while fails - passes > 1 {
            let middle = passes + (fails - passes) / 2;
            progress.tell(&format!("seed {seed} with its first {middle} choices"));
            match self.fails(failing, under, Some(middle))? {
                Some(true) => fails = middle,
                Some(false) => passes = middle,
                None => {
                    self.say_over(seed, progress);
                    return Ok(self.command_of(seed, under, Some(fails).filter(|fails| *fails < choices)));
                }
            }
        }
        progress.clear();
        if fails > 0 {
            self.say(&format!("its first {fails} choices are enough; with one less, and then none drawn, it passes"));
        }
        Ok(self.command_of(seed, under, Some(fails).filter(|fails| *fails > 0)))
    }

    /// The same where a seed does not decide all: each way several times.
    fn shrink_by_tries(&self, failing: Failing, progress: &mut Progress) -> Result<String, String> {
        let seed = failing.seed;
        let ways = [
            (Under::BOTH, "both"),
            (Under::SCHEDULE, "GINRS_SCHEDULE alone"),
            (Under::NETWORK, "GINRS_CHAOS alone"),
            (Under::NEITHER, "no seed"),
        ];
        let mut failures = [0; 4];
        for ((under, name), failed) in ways.iter().zip(&mut failures) {
            for run in 1..=AGAIN {
                progress.tell(&format!("seed {seed} again with {name} ({run} of {AGAIN})"));
                let Some(fails) = self.fails(failing, *under, None)? else {
                    self.say_over(seed, progress);
                    return Ok(self.command_of(seed, Under::BOTH, None));
                };
                *failed += u32::from(fails);
            }
        }
        progress.clear();
        let counts: Vec<String> = ways.iter().zip(failures).map(|((_, name), failed)| format!("{name} {failed}")).collect();
        self.say(&format!("of {AGAIN} runs each fail with {}", counts.join(", ")));
        let (needed, under) = verdict(failures);
        crate::tell(format!("ginrs-run: {needed}"));
        Ok(self.command_of(seed, under, None))
    }

    fn command_of(&self, seed: u64, under: Under, until: Option<u64>) -> String {
        let until = until.map(|until| format!("{UNTIL}={until}"));
        // Threads take turns where there is a schedule, be it a plain one.
        let plain = (until.is_some() && !under.has_schedule()).then(|| format!("{SCHEDULE}={seed}"));
        let settings = under.settings(seed).filter(|_| under != Under::BOTH).chain(plain).chain(until);
        let option = if under == Under::BOTH { format!(" --seed {seed}") } else { String::new() };
        self.command(settings, &option)
    }
}

/// What is needed, by how many of the runs with both, with the schedule, with the network and with neither have failed; and the least that
/// brings it back.
fn verdict(failed: [u32; 4]) -> (&'static str, Under) {
    let [both, schedule, network, neither] = failed;
    match failed.map(|failed| failed > 0) {
        _ if neither > 0 && neither < both => ("it fails without a seed, too, less often", Under::BOTH),
        _ if neither > 0 => ("no seed is needed: it fails without one, too", Under::NEITHER),
        [_, true, false, _] => ("the schedule is what it needs, the network is not", Under::SCHEDULE),
        [_, false, true, _] => ("the network is what it needs, the schedule is not", Under::NETWORK),
        [_, true, true, _] if schedule >= network => ("the schedule or the network: either is enough", Under::SCHEDULE),
        [_, true, true, _] => ("the schedule or the network: either is enough", Under::NETWORK),
        _ if both > 0 => ("it needs the schedule and the network together", Under::BOTH),
        _ => ("it has not come back: it needs something that no seed decides (docs/user/schedules.md)", Under::BOTH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_what_fails_alone() {
        for (failed, under, word) in [
            ([5, 5, 0, 0], Under::SCHEDULE, "the schedule is"),
            ([5, 0, 1, 0], Under::NETWORK, "the network is"),
            ([5, 2, 3, 0], Under::NETWORK, "either"),
            ([3, 0, 0, 0], Under::BOTH, "together"),
            ([0, 0, 0, 0], Under::BOTH, "not come back"),
            ([5, 5, 5, 5], Under::NEITHER, "without one"),
            ([5, 5, 0, 1], Under::BOTH, "less often"),
        ] {
            let (text, found) = verdict(failed);
            assert!(found == under && text.contains(word), "{failed:?}: {text}");
        }
    }
}
