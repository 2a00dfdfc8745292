//! `--check=race`: what a job has to be like for it. `--check`: a plain run and many seeds, races where the program can tell them, and at the
//! first failure what it is, at which line, how it comes back, and a page of that run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::args::Options;
use super::explore::{End, Failing, Hunt, Limits, Progress, Seeds, TIMEOUT, Under, how, passed};
use super::finding::Finding;
use super::rank::{shell_status, signal_name};
use super::timeline::Wanted;

/// Seeds that `--check` tries at most, unless `--explore` says how many.
pub const SEEDS: u64 = 100;
/// How long `--check` begins runs of further seeds, unless it says so.
pub const LIMIT: Duration = Duration::from_secs(60);
/// How often the plain job runs that has failed, the first time included.
const PLAIN: u32 = 2;
/// Seeds that are tried for a line, where what has failed names none.
const NAMING: u64 = 20;
/// What a seed's run may take, of what the plain one has taken, and what it takes mostly: threads take turns in it.
const SLOWER: u32 = 20;
const USUALLY: u32 = 2;

/// Whether races can be looked for in the job: a program that was compiled for it, its ranks on one machine.
///
/// # Errors
/// What is not so, and the command that makes it so.
pub fn can_race(options: &Options) -> Result<(), String> {
    if !options.hosts.is_empty() {
        return Err("--check=race sees the ranks of one machine: leave out --hosts".into());
    }
    match is_built_for_races(&program_of(options)) {
        Some(false) => Err(format!(
            "{} was not built for --check=race; compile it with: ginrs-cc --check=race",
            Path::new(&options.program[0]).display()
        )),
        _ => Ok(()),
    }
}

/// Where the program lies, as its ranks find it.
fn program_of(options: &Options) -> PathBuf {
    options.folder.iter().map(Path::new).chain([Path::new(&options.program[0])]).collect()
}

/// None where that cannot be read: a name without a folder may be found on PATH by the system, a script may start another.
fn is_built_for_races(program: &Path) -> Option<bool> {
    contains(program, b"ginrs_cpu_race_init")
}

/// Why the detector has looked at nothing, if a run has printed that.
fn unseen_races(output: &str) -> Option<&str> {
    let (_, why) = output.split_once("ginrs-cpu: race: nothing is checked: ")?;
    why.lines().next()?.split(" (docs/").next()
}

fn contains(program: &Path, mark: &[u8]) -> Option<bool> {
    let bytes = std::fs::read(program).ok().filter(|bytes| bytes.starts_with(b"\x7fELF"))?;
    Some(bytes.windows(mark.len()).any(|at| at == mark))
}

/// A plain run of the job, then seeds until one fails or `limit` is over; the status: 0 where nothing was found, 1 where something was, 2 where
/// no process of the program uses ginrs, or nothing could be looked for.
///
/// # Errors
/// ginrs-run itself cannot be started, or its output not be kept.
pub fn check(options: &Options, limit: Duration) -> Result<i32, String> {
    let mut options = options.clone();
    options.race |= is_built_for_races(&program_of(&options)) == Some(true);
    let page = options.pictures.page.take().unwrap_or_else(|| page_of(&options.program[0]));
    let hunt = Hunt::new(&options, Some(page.clone()))?;
    let mut check = Check { hunt, page, tried: Vec::new(), found: None, noticed: None };
    let status = match (check.run(limit)?, check.hunt.stopped()) {
        (Ended::NotStarted, _) => return Ok(127),
        (Ended::NotOurs, _) => return Ok(2),
        (Ended::Looked, None) => i32::from(check.found.is_some()),
        (Ended::Looked, Some(signal)) => {
            check.tried.push(format!("ended by {}", signal_name(signal)));
            128 + signal
        }
    };
    check.summary();
    Ok(status)
}

/// How far it came.
enum Ended {
    /// It has looked, perhaps until a signal came.
    Looked,
    /// The program could not be started.
    NotStarted,
    /// Nothing of the program is ours to check.
    NotOurs,
}

/// `ring.check.html`, here.
fn page_of(program: &OsString) -> OsString {
    let mut name = Path::new(program).file_name().unwrap_or(program).to_owned();
    name.push(".check.html");
    name
}

struct Check<'a> {
    hunt: Hunt<'a>,
    page: OsString,
    /// Each of the ways, and how it went.
    tried: Vec<String>,
    found: Option<Failure>,
    /// Of a plain run that has passed, which may have asked on purpose for what was refused: a launch, say, of which it has not asked whether.
    noticed: Option<Finding>,
}

/// A run that has failed.
struct Failure {
    words: String,
    finding: Option<Finding>,
    /// The page, or why there is none.
    page: String,
    /// The command that brings it back.
    again: Option<String>,
}

impl Check<'_> {
    fn run(&mut self, limit: Duration) -> Result<Ended, String> {
        let options = self.hunt.options;
        let mut progress = Progress::new();
        progress.tell("a plain run");
        let until = Instant::now() + limit;
        let timeout = options.timeout.unwrap_or(TIMEOUT);
        let Some((status, took)) = plain(&self.hunt, timeout)? else { return Ok(Ended::Looked) };
        progress.clear();
        let limits = Limits {
            timeout: options.timeout.unwrap_or(TIMEOUT.max(took * SLOWER)),
            usual: took * USUALLY,
            until: Some(until),
            more: limit / 2,
        };
        let has_failed = self.hunt.has_failed(status);
        if has_failed {
            self.hunt.show_output()?;
        }
        let status = shell_status(status);
        if status == 127 {
            return Ok(Ended::NotStarted); // or it says that something else could not be
        }
        // One of ours may fail before it uses ginrs.
        let is_ours = !self.hunt.timeline().is_empty() || has_failed && contains(&program_of(options), b"libginrs") == Some(true);
        if !is_ours {
            let program = Path::new(&options.program[0]).display();
            let ended = if status == 0 { "ended with status 0".into() } else { how(status, timeout) };
            crate::tell(format!(
                "ginrs-run: --check: no process of {program} uses ginrs, so nothing of it can be checked; it {ended} | fix: link it with libginrs, as ginrs-cc does"
            ));
            return Ok(Ended::NotOurs);
        }
        if !has_failed {
            self.tried.push("a plain run passed".into());
            self.noticed = Finding::of(&self.hunt.printed());
        } else if self.fails_always(status, timeout, took, &mut progress)? {
            if !is_named(self.found.as_ref()) {
                self.look_for_line(limits, &mut progress)?;
            }
            return Ok(Ended::Looked);
        }
        if self.hunt.stopped().is_some() {
            return Ok(Ended::Looked);
        }
        let kernels = self.hunt.timeline().iter().map(|file| crate::timeline::kernels(file)).sum::<Result<usize, _>>()?;
        if kernels == 0 {
            self.tried.push("no seeds: no kernel has run on the CPU device, and they are of its kernels and its network".into());
            return Ok(Ended::Looked);
        }
        self.seeds(limits, &mut progress)?;
        Ok(Ended::Looked)
    }

    /// The plain run has failed: whether it does so each time.
    fn fails_always(&mut self, status: i32, timeout: Duration, took: Duration, progress: &mut Progress) -> Result<bool, String> {
        let failure = self.found.insert(Failure::of(&self.hunt, &self.page, format!("the plain run {}", how(status, timeout))));
        let (mut runs, mut failed) = (1, 1);
        while runs < PLAIN {
            progress.tell("the plain run again");
            let Some((status, _)) = plain(&self.hunt, timeout.min(took * 2 + TIMEOUT / 10))? else { break };
            runs += 1;
            failed += u32::from(self.hunt.has_failed(status));
        }
        progress.clear();
        self.tried.push(match runs {
            1 => "a plain run failed".into(),
            _ => format!("of {runs} plain runs {failed} failed"),
        });
        if failed == PLAIN {
            failure.again = Some(self.hunt.command([], ""));
        }
        Ok(failed == PLAIN)
    }

    fn seeds(&mut self, limits: Limits, progress: &mut Progress) -> Result<(), String> {
        let options = self.hunt.options;
        let (first, count) = (options.seed.unwrap_or(1), options.explore.unwrap_or(SEEDS));
        let tried = match self.hunt.seeds(first, count, limits, progress)? {
            Seeds::Passed(count) => format!("{} of schedule and network", passed(first, count)),
            Seeds::Stopped { seed, .. } if seed == first => return Ok(()),
            Seeds::Stopped { seed, .. } => passed(first, seed - first),
            Seeds::Fails(failing @ Failing { seed, .. }, status) => {
                let failure = Failure::of(&self.hunt, &self.page, format!("seed {seed} {}", how(status, limits.timeout)));
                self.tried.push(match seed - first {
                    0 => format!("seed {seed} fails"),
                    n => format!("{}, seed {seed} fails", passed(first, n)),
                });
                let again = Some(self.hunt.shrink(failing, progress)?);
                self.found = Some(Failure { again, ..failure });
                return if is_named(self.found.as_ref()) { Ok(()) } else { self.look_for_line(limits, progress) };
            }
        };
        self.tried.push(tried);
        Ok(())
    }

    /// What has failed has named no line: one of the seeds may have it looked at where races are.
    fn look_for_line(&mut self, limits: Limits, progress: &mut Progress) -> Result<(), String> {
        let options = self.hunt.options;
        let (first, count) = (options.seed.unwrap_or(1), options.explore.unwrap_or(NAMING).min(NAMING));
        for seed in first..=first + (count - 1) {
            if !options.race || limits.until.is_some_and(|until| until <= Instant::now()) {
                break;
            }
            progress.tell(&format!("seed {seed}, for a line"));
            if let End::Stopped(_) = self.hunt.run(seed, Under::BOTH, None, limits.timeout)? {
                break;
            }
            if Finding::of(&self.hunt.printed()).is_some_and(|finding| !finding.places().is_empty()) {
                let words = self.found.take().map_or_else(String::new, |first| first.words);
                let failure = Failure::of(&self.hunt, &self.page, format!("{words}; seed {seed} shows where"));
                progress.clear();
                self.hunt.show_output()?;
                self.tried.push(format!("seed {seed} names a line"));
                let again = Some(self.hunt.command([], &format!(" --seed {seed}")));
                self.found = Some(Failure { again, ..failure });
                break;
            }
        }
        progress.clear();
        Ok(())
    }

    fn summary(&self) {
        let tell = |text: String| crate::tell(format!("ginrs-run: {text}"));
        tell(match &self.found {
            Some(failure) => format!("--check has found a failure: {}", failure.words),
            None if self.hunt.stopped().is_some() => "--check was ended, and had found nothing".into(),
            None => "--check has found nothing".into(),
        });
        if let Some(failure) = &self.found {
            let mut lines = failure.lines(self.hunt.stopped().is_some());
            if !is_named(self.found.as_ref()) && is_built_for_races(&program_of(self.hunt.options)) == Some(false) {
                lines.push(
                    "  hint: built with ginrs-cc --check=race, it has a line where data are read too early or overwritten".into(),
                );
            }
            lines.into_iter().for_each(tell);
        } else if let Some(noticed) = &self.noticed {
            tell(format!("  noticed, and it goes on: {}", noticed.lines.join("; ")));
        }
        tell(format!("  tried: {}", self.tried.join("; ")));
        tell(format!("  not looked for: {}", self.not_looked_for().join("; ")));
    }

    fn not_looked_for(&self) -> Vec<String> {
        let options = self.hunt.options;
        let mut missing = vec!["other inputs and numbers of ranks".to_owned()];
        if let Some(why) = unseen_races(&self.hunt.printed()) {
            missing.push(format!("races: {why}"));
        }
        if !options.race {
            missing.push(match is_built_for_races(&program_of(options)) {
                Some(_) => "races (build it with: ginrs-cc --check=race)".into(),
                None => "races, unless what the program starts was built with: ginrs-cc --check=race".into(),
            });
        }
        if contains(&program_of(options), b"__asan_init") != Some(true) {
            missing.push("memory that is not yours (build it with: ginrs-cc -g -fsanitize=address)".into());
        }
        missing
    }
}

/// The job without a seed: how it ended and how long it took; None where a signal has ended this.
fn plain(hunt: &Hunt, timeout: Duration) -> Result<Option<(ExitStatus, Duration)>, String> {
    Ok(match hunt.run(0, Under::NEITHER, None, timeout)? {
        End::Ended(status, took) => Some((status, took)),
        End::Stopped(_) => None,
    })
}

impl Failure {
    /// What the last run says of it, with its page.
    fn of(hunt: &Hunt, page: &OsString, words: String) -> Failure {
        let page = draw(page, &hunt.timeline()).unwrap_or_else(|why| why);
        Failure { words, finding: Finding::of(&hunt.printed()), page, again: None }
    }

    fn lines(&self, is_ended: bool) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.finding {
            Some(finding) => {
                let (first, rest) = finding.lines.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
                lines.push(format!("  what: {first}"));
                lines.extend(rest.iter().map(|line| format!("    {}", line.trim_start())));
                lines.push(match (finding.places(), finding.launches()) {
                    (places, _) if !places.is_empty() => format!("  where: {}", places.join(", ")),
                    (_, launches) if !launches.is_empty() => format!("  where: the launch at {}", launches.join(", ")),
                    _ => "  where: no line of yours is named".into(),
                });
            }
            None => lines.push("  what: none of ours says what is wrong; the program's output above does".into()),
        }
        let again = self.again.as_deref().unwrap_or(match is_ended {
            true => "ended before that was looked for",
            false => "it does not fail in each run, and no seed was found that brings it back",
        });
        lines.push(format!("  again: {again}"));
        lines.push(format!("  picture: {}", self.page));
        lines
    }
}

fn is_named(failure: Option<&Failure>) -> bool {
    failure.and_then(|failure| failure.finding.as_ref()).is_some_and(|finding| !finding.places().is_empty())
}

/// Beside the page of an earlier run, which stays unless this one is whole.
fn draw(page: &OsString, files: &[PathBuf]) -> Result<String, String> {
    let mut unfinished = page.clone();
    unfinished.push(".part");
    let drawn = || {
        let wanted = Wanted { page: Some(unfinished.clone()), ..Wanted::default() };
        wanted.create()?.ok_or("none")?.merge(files)?;
        std::fs::rename(&unfinished, page).map_err(|error| format!("{}: {error}", Path::new(page).display()))
    };
    drawn().inspect_err(|_| _ = std::fs::remove_file(&unfinished))?;
    Ok(Path::new(page).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::unseen_races;

    #[test]
    fn why_races_are_not_seen_is_read() {
        let output = "[0] ginrs-cpu: race: nothing is checked: a communicator has ranks on other machines, whose accesses are not seen\n[0] ginrs-cpu: fix: x\n";
        assert_eq!(unseen_races(output), Some("a communicator has ranks on other machines, whose accesses are not seen"));
        assert_eq!(unseen_races("[0] ginrs-cpu: race: its table is full (docs/user/races.md)"), None);
    }
}
