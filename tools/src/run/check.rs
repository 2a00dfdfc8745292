//! `--check=race`: what a job has to be like for it. `--check`: a plain run and many seeds, races where the program can tell them, and at the
//! first failure what it is, at which line, how it comes back, and a page of that run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::args::Options;
use super::explore::{End, Hunt, Progress, Seeds, TIMEOUT, Under, passed};
use super::finding::Finding;
use super::job::TIMED_OUT;
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
/// What a seed's run may take, of what the plain one has taken: threads take turns in it.
const SLOWER: u32 = 20;

/// Whether races can be looked for in the job: a program that was compiled for it, its ranks on one machine.
///
/// # Errors
/// What is not so, and the command that makes it so.
pub fn can_race(options: &Options) -> Result<(), String> {
    if !options.hosts.is_empty() {
        return Err("--check=race sees the ranks of one machine: leave out --hosts".into());
    }
    match is_built_for_races(&options.program[0]) {
        Some(false) => Err(format!(
            "{} was not built for --check=race; compile it with: ginrs-cc --check=race",
            Path::new(&options.program[0]).display()
        )),
        _ => Ok(()),
    }
}

/// None where that cannot be read: a name without a folder may be found on PATH by the system, a script may start another.
fn is_built_for_races(program: &OsString) -> Option<bool> {
    contains(program, b"ginrs_cpu_race_init")
}

fn contains(program: &OsString, mark: &[u8]) -> Option<bool> {
    let bytes = std::fs::read(program).ok().filter(|bytes| bytes.starts_with(b"\x7fELF"))?;
    Some(bytes.windows(mark.len()).any(|at| at == mark))
}

/// A plain run of the job, then seeds until one fails or `limit` is over; the status: 0 where nothing was found, 1 where something was.
///
/// # Errors
/// ginrs-run itself cannot be started, or its output not be kept; the program is none of ginrs.
pub fn check(options: &Options, limit: Duration) -> Result<i32, String> {
    let mut options = options.clone();
    options.race |= is_built_for_races(&options.program[0]) == Some(true);
    let page = options.pictures.page.take().unwrap_or_else(|| page_of(&options.program[0]));
    let hunt = Hunt::new(&options, Some(page.clone()))?;
    let mut check = Check { hunt, page, tried: Vec::new(), found: None };
    let status = check.run(limit)?;
    check.summary(status);
    Ok(status)
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
    fn run(&mut self, limit: Duration) -> Result<i32, String> {
        let options = self.hunt.options;
        let mut progress = Progress::new();
        progress.tell("a plain run");
        let until = Instant::now() + limit;
        let timeout = options.timeout.unwrap_or(TIMEOUT);
        let took = match self.plain(timeout)? {
            Ok((status, took)) if !self.hunt.has_failed(status) => {
                self.tried.push("a plain run passed".into());
                took
            }
            Ok((status, took)) => {
                progress.clear();
                self.hunt.show_output()?;
                let status = shell_status(status);
                if status == 127 {
                    return Ok(127); // it could not be started, or it says that something else could not
                }
                let mut failure = self.failure(format!("the plain run {}", how(status, timeout)));
                let mut failed = 1;
                for _ in 1..PLAIN {
                    progress.tell("the plain run again");
                    match self.plain(timeout.min(took * 2 + TIMEOUT / 10))? {
                        Ok((status, _)) => failed += u32::from(self.hunt.has_failed(status)),
                        Err(signal) => return Ok(128 + signal),
                    }
                }
                progress.clear();
                self.tried.push(format!("of {PLAIN} plain runs {failed} failed"));
                let always = failed == PLAIN;
                failure.again = always.then(|| format!("ginrs-run{}", self.hunt.words()));
                let named = is_named(failure.finding.as_ref());
                self.found = Some(failure);
                if always {
                    return if named { Ok(1) } else { self.look_for_line(until, timeout.max(took * SLOWER), &mut progress) };
                }
                took
            }
            Err(signal) => {
                self.tried.push(format!("ended by {} in the plain run", signal_name(signal)));
                return Ok(128 + signal);
            }
        };
        if self.found.is_none() && self.hunt.timeline().is_empty() {
            progress.clear();
            return Err("nothing of it could be checked: no process of it uses ginrs".into());
        }
        let kernels = self.hunt.timeline().iter().map(|file| crate::timeline::kernels(file)).sum::<Result<usize, _>>()?;
        if kernels == 0 {
            self.tried.push("no seeds: no kernel has run on the CPU device, and they are of its kernels and its network".into());
            return Ok(i32::from(self.found.is_some()));
        }
        let timeout = options.timeout.unwrap_or(TIMEOUT.max(took * SLOWER));
        let (first, count) = (options.seed.unwrap_or(1), options.explore.unwrap_or(SEEDS));
        match self.hunt.seeds(first, count, Some(until), timeout, &mut progress)? {
            Seeds::Passed(count) => {
                self.tried.push(format!("{} of schedule and network", passed(first, count)));
                Ok(i32::from(self.found.is_some()))
            }
            Seeds::Stopped { signal, seed } => {
                self.tried.push(format!("ended by {} in seed {seed}", signal_name(signal)));
                Ok(128 + signal)
            }
            Seeds::Fails { seed, status, timeout } => {
                let mut failure = self.failure(format!("seed {seed} {}", how(status, timeout)));
                self.tried.push(match seed - first {
                    0 => format!("seed {seed} fails"),
                    n => format!("{}, seed {seed} fails", passed(first, n)),
                });
                let (status, command) = self.hunt.shrink(seed, timeout, status == TIMED_OUT, &mut progress)?;
                failure.again = Some(command);
                let named = is_named(failure.finding.as_ref());
                self.found = Some(failure);
                if named || status > 128 { Ok(status) } else { self.look_for_line(until, timeout, &mut progress) }
            }
        }
    }

    /// What has failed has named no line: one of the seeds may have it looked at where races are.
    fn look_for_line(&mut self, until: Instant, timeout: Duration, progress: &mut Progress) -> Result<i32, String> {
        let options = self.hunt.options;
        let (first, count) = (options.seed.unwrap_or(1), options.explore.unwrap_or(NAMING).min(NAMING));
        for seed in first..=first + (count - 1) {
            if !options.race || until <= Instant::now() {
                break;
            }
            progress.tell(&format!("seed {seed}, for a line"));
            match self.hunt.run(seed, Under::BOTH, None, timeout)? {
                End::Stopped(_) => break, // what was found is told
                End::Ended(..) => {}
            }
            if is_named(Finding::of(&self.hunt.printed()).as_ref()) {
                let failure = self.failure(String::new());
                progress.clear();
                self.hunt.show_output()?;
                self.tried.push(format!("seed {seed} names a line"));
                let again = Some(format!("ginrs-run --seed {seed}{}", self.hunt.words()));
                let words = self.found.take().map_or_else(String::new, |first| first.words);
                self.found = Some(Failure { words: format!("{words}; seed {seed} shows where"), again, ..failure });
                break;
            }
        }
        progress.clear();
        Ok(1)
    }

    /// The job without a seed: how it ended and how long it took, or the signal that ended this.
    fn plain(&self, timeout: Duration) -> Result<Result<(std::process::ExitStatus, Duration), i32>, String> {
        Ok(match self.hunt.run(0, Under::NEITHER, None, timeout)? {
            End::Ended(status, took) => Ok((status, took)),
            End::Stopped(signal) => Err(signal),
        })
    }

    /// What the last run says of its failure, with the page of it.
    fn failure(&self, words: String) -> Failure {
        let finding = Finding::of(&self.hunt.printed());
        let files = self.hunt.timeline();
        let page = match files.is_empty() {
            true => Err("none: no process of it uses ginrs".into()),
            false => draw(&self.page, &files),
        };
        Failure { words, finding, page: page.unwrap_or_else(|why| why), again: None }
    }

    fn summary(&self, status: i32) {
        let tell = |text: String| crate::tell(format!("ginrs-run: {text}"));
        tell(match &self.found {
            _ if status > 128 => "--check was ended".into(),
            Some(failure) => format!("--check has found a failure: {}", failure.words),
            None if status == 0 => "--check has found nothing".into(),
            None => return, // it could not be started
        });
        if let Some(failure) = &self.found {
            failure.lines().into_iter().for_each(tell);
        }
        tell(format!("  tried: {}", self.tried.join("; ")));
        tell(format!("  not looked for: {}", self.not_looked_for().join("; ")));
    }

    fn not_looked_for(&self) -> Vec<&'static str> {
        let options = self.hunt.options;
        let mut missing = vec!["other inputs and numbers of ranks"];
        if !options.race {
            missing.push("races (build it with: ginrs-cc --check=race)");
        }
        if contains(&options.program[0], b"__asan_init") != Some(true) {
            missing.push("memory that is not yours (build it with: ginrs-cc -g -fsanitize=address)");
        }
        missing
    }
}

impl Failure {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.finding {
            Some(finding) => {
                let (first, rest) = finding.lines.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
                lines.push(format!("  what: {first}"));
                lines.extend(rest.iter().map(|line| format!("    {}", line.trim_start())));
                lines.push(match finding.places() {
                    places if places.is_empty() => "  where: no line of yours is named".into(),
                    places => format!("  where: {}", places.join(", ")),
                });
            }
            None => lines.push("  what: none of ours says what is wrong; the program's output above does".into()),
        }
        let again = self.again.as_deref().unwrap_or("it does not fail in each run, and no seed was found that brings it back");
        lines.push(format!("  again: {again}"));
        lines.push(format!("  picture: {}", self.page));
        lines
    }
}

fn is_named(finding: Option<&Finding>) -> bool {
    finding.is_some_and(|finding| !finding.places().is_empty())
}

fn how(status: i32, timeout: Duration) -> String {
    match status {
        TIMED_OUT => format!("was not done after {} s (--timeout), or ended with status {TIMED_OUT}", timeout.as_secs_f64()),
        0 => "ended with status 0, and what it has printed says that it is wrong".into(),
        status => format!("ended with status {status}"),
    }
}

fn draw(page: &OsString, files: &[PathBuf]) -> Result<String, String> {
    let wanted = Wanted { page: Some(page.clone()), ..Wanted::default() };
    let outputs = wanted.create()?.ok_or("none")?;
    outputs.merge(files)?;
    Ok(Path::new(page).display().to_string())
}
