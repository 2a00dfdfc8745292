//! `--explore`: the job under one seed after the other until it fails, and then what makes it fail. Each run is a ginrs-run of its own,
//! which ends its ranks whatever they do; its lines go to a file, and are shown if it has failed.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::args::Options;
use super::finding::Finding;
use super::job::TIMED_OUT;
use super::rank::{shell_status, signal_name};
use super::replay::{self, Told, Trace, UNTIL};
use super::signals::{Signals, unblock};
use super::timeline;
use crate::timeline::files_in;

/// Of each run, unless `--timeout` says otherwise.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two lines on how far it is, where they are not written over each other.
const TELL: Duration = Duration::from_secs(10);
/// The least time for a run of a seed that has hung.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a seed decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Under {
    schedule: bool,
    network: bool,
}

impl Under {
    /// Both.
    pub const BOTH: Under = Under { schedule: true, network: true };
    pub(super) const SCHEDULE: Under = Under { schedule: true, network: false };
    pub(super) const NETWORK: Under = Under { schedule: false, network: true };
    pub(super) const NEITHER: Under = Under { schedule: false, network: false };

    const fn variables(self) -> [(&'static str, bool); 2] {
        [("GINRS_SCHEDULE", self.schedule), ("GINRS_CHAOS", self.network)]
    }

    /// Whether the schedule is the seed's.
    pub(super) fn has_schedule(self) -> bool {
        self.schedule
    }

    /// The variables with this seed, `NAME=SEED` each.
    pub fn settings(self, seed: u64) -> impl Iterator<Item = String> {
        self.variables().into_iter().filter(|(_, set)| *set).map(move |(name, _)| format!("{name}={seed}"))
    }
}

/// How a run ended.
pub(super) enum End {
    /// By itself, after so long.
    Ended(ExitStatus, Duration),
    /// Because ginrs-run got this signal.
    Stopped(i32),
}

pub(super) struct Hunt<'a> {
    pub(super) options: &'a Options,
    ginrs_run: PathBuf,
    signals: Signals,
    folder: Folder,
    /// Where one process runs its threads one at a time: what it tells of its choices.
    trace: Option<Trace>,
    /// The page that a failing run gets; then all runs write timelines, which are choices of a seed, too.
    page: Option<OsString>,
    begun: Instant,
    /// The signal that has ended it: nothing is run any more.
    stopped: Cell<Option<i32>>,
}

/// What became of some seeds.
pub(super) enum Seeds {
    /// All so many passed.
    Passed(u64),
    /// This one fails, with this status.
    Fails(Failing, i32),
    /// ginrs-run got a signal in this one.
    Stopped { signal: i32, seed: u64 },
}

/// A seed that fails, and what it takes to see that again.
#[derive(Clone, Copy)]
pub(super) struct Failing {
    pub(super) seed: u64,
    /// Its time was over.
    pub(super) hung: bool,
    /// A run's longest, by what those before it took.
    pub(super) timeout: Duration,
    /// No further run begins then.
    pub(super) until: Option<Instant>,
}

/// How long runs of seeds are tried.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Each of them.
    pub(super) timeout: Duration,
    /// What one takes that passes, as far as that is known.
    pub(super) usual: Duration,
    /// No further seed's run begins then.
    pub(super) until: Option<Instant>,
    /// So long those of a seed that has failed begin, though that is over.
    pub(super) more: Duration,
}

/// Runs the job under `count` seeds until it fails; the status.
///
/// # Errors
/// ginrs-run itself cannot be started, or its output not be kept.
pub fn explore(options: &Options, count: u64) -> Result<i32, String> {
    let hunt = Hunt::new(options, None)?;
    let first = options.seed.unwrap_or(1);
    let mut progress = Progress::new();
    let limits = Limits { timeout: options.timeout.unwrap_or(TIMEOUT), usual: Duration::ZERO, until: None, more: Duration::ZERO };
    match hunt.seeds(first, count, limits, &mut progress)? {
        Seeds::Passed(_) => {
            hunt.say(&format!("no failure: {}", passed(first, count)));
            Ok(0)
        }
        Seeds::Stopped { signal, seed } => {
            hunt.say(&match seed - first {
                0 => format!("ended by {} in seed {seed}; none has run to its end", signal_name(signal)),
                n => format!("ended by {} in seed {seed}; the {n} before it passed", signal_name(signal)),
            });
            Ok(128 + signal)
        }
        Seeds::Fails(_, 127) => Ok(127), // it could not be started, or it says that something else could not
        Seeds::Fails(failing, _) => {
            let command = hunt.shrink(failing, &mut progress)?;
            crate::tell(format!("ginrs-run: it comes back with: {command}"));
            Ok(hunt.stopped().map_or(1, |signal| 128 + signal))
        }
    }
}

pub(super) fn passed(first: u64, count: u64) -> String {
    match count {
        1 => format!("seed {first} passed"),
        _ => format!("seeds {first} to {} passed", first + (count - 1)),
    }
}

/// How a run that has failed has ended, behind `it`.
pub(super) fn how(status: i32, timeout: Duration) -> String {
    match status {
        TIMED_OUT => format!("was not done after {} s (--timeout), or ended with status {TIMED_OUT}", timeout.as_secs_f64()),
        0 => "ended with status 0, and what it has printed says that it is wrong".into(),
        status => format!("ended with status {status}"),
    }
}

impl Hunt<'_> {
    /// `page`: of the run that fails.
    ///
    /// # Errors
    /// A folder or a file cannot be made.
    pub(super) fn new(options: &Options, page: Option<OsString>) -> Result<Hunt<'_>, String> {
        let folder = Folder(crate::private_folder("ginrs-explore").map_err(|e| format!("a private folder: {e}"))?);
        let trace = match replay::baton(options) {
            Ok(_) => Some(Trace::new(&folder.0)?),
            Err(why) => {
                crate::tell(format!("ginrs-run: a seed brings a failure back often and not always here: {why}"));
                None
            }
        };
        let ginrs_run = std::env::current_exe().map_err(|e| format!("its own path: {e}"))?;
        Ok(Hunt {
            options,
            ginrs_run,
            signals: Signals::block(),
            folder,
            trace,
            page,
            begun: Instant::now(),
            stopped: Cell::new(None),
        })
    }

    /// The signal that has ended it.
    pub(super) fn stopped(&self) -> Option<i32> {
        self.stopped.get()
    }

    /// Runs the job under the seeds from `first` on, `count` of them or until then, to the first that fails, whose output it prints.
    pub(super) fn seeds(&self, first: u64, count: u64, limits: Limits, progress: &mut Progress) -> Result<Seeds, String> {
        let Limits { timeout, usual: mut longest, until, more } = limits;
        for seed in first..=first + (count - 1) {
            if seed > first && until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Seeds::Passed(seed - first));
            }
            progress.tell(&format!("seed {seed} ({} of {count})", seed - first + 1));
            let (status, took) = match self.run(seed, Under::BOTH, None, timeout)? {
                End::Ended(status, took) => (status, took),
                End::Stopped(signal) => {
                    progress.clear();
                    return Ok(Seeds::Stopped { signal, seed });
                }
            };
            if !self.has_failed(status) {
                longest = longest.max(took);
                continue;
            }
            progress.clear();
            self.show_output()?;
            let status = shell_status(status);
            if status != 127 {
                self.say(&format!("seed {seed} fails: it {}; its output is above", how(status, timeout)));
            }
            // A hang is waited for as long as it takes to tell it from a run that passes.
            let hung = status == TIMED_OUT;
            let timeout = if hung && !longest.is_zero() { timeout.min((longest * 10).max(PATIENCE)) } else { timeout };
            let until = until.map(|until| until.max(Instant::now() + more));
            return Ok(Seeds::Fails(Failing { seed, hung, timeout, until }, status));
        }
        progress.clear();
        Ok(Seeds::Passed(count))
    }

    /// By its status, or by what the libraries have told of it.
    pub(super) fn has_failed(&self, status: ExitStatus) -> bool {
        !status.success() || Finding::of(&self.printed()).is_some_and(|found| found.is_mistake())
    }

    /// What the last run has printed.
    pub(super) fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.output()).unwrap_or_default()).into_owned()
    }

    /// The files of the last run's timeline.
    pub(super) fn timeline(&self) -> Vec<PathBuf> {
        files_in(&self.folder.0)
    }

    /// The command of one run: with these settings, `NAME=VALUE` each, in front, and these options.
    pub(super) fn command(&self, settings: impl IntoIterator<Item = String>, options: &str) -> String {
        let mut users: Vec<String> =
            std::env::vars_os().filter_map(|(name, value)| is_users(&name).then(|| setting(&name, &value))).collect();
        users.sort();
        let settings = users.into_iter().chain(settings).map(|setting| setting + " ");
        let page = self.page.iter().map(|page| format!(" --html {}", quoted(page)));
        let rest = arguments(self.options, self.options.timeout);
        let words = page.chain(rest.iter().map(|word| format!(" {}", quoted(word))));
        settings.chain([format!("ginrs-run{options}")]).chain(words).collect()
    }

    /// With how long it took so far.
    pub(super) fn say(&self, text: &str) {
        crate::tell(format!("ginrs-run: {text} ({:.0} s)", self.begun.elapsed().as_secs_f64()));
    }

    fn output(&self) -> PathBuf {
        self.folder.0.join("output")
    }

    /// Prints what the last run has printed.
    pub(super) fn show_output(&self) -> Result<(), String> {
        let mut from = File::open(self.output()).map_err(|e| format!("the run's output: {e}"))?;
        match io::copy(&mut from, &mut io::stdout().lock()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {e}")),
            _ => Ok(()),
        }
    }

    /// What the last run has told of its choices.
    pub(super) fn told(&self) -> Option<Told> {
        self.trace.as_ref().and_then(Trace::told)
    }

    /// Runs the job once; the first `until` choices alone are drawn, if that is said.
    pub(super) fn run(&self, seed: u64, under: Under, until: Option<u64>, timeout: Duration) -> Result<End, String> {
        if let Some(signal) = self.stopped.get() {
            return Ok(End::Stopped(signal));
        }
        if let Some(trace) = &self.trace {
            trace.clear()?;
        }
        let file = File::create(self.output()).map_err(|e| format!("{}: {e}", self.output().display()))?;
        let same = file.try_clone().map_err(|e| format!("{}: {e}", self.output().display()))?;
        let mut command = Command::new(&self.ginrs_run);
        command.args(arguments(self.options, Some(timeout))).stdin(Stdio::null()).stdout(file).stderr(same);
        for (name, set) in under.variables() {
            match set {
                true => command.env(name, seed.to_string()),
                false => command.env_remove(name),
            };
        }
        if self.page.is_some() {
            self.timeline().iter().for_each(|file| _ = std::fs::remove_file(file));
            command.env("GINRS_TIMELINE", timeline::prefix(&self.folder.0));
        }
        // What the libraries tell is what is found.
        let is_quiet = |level: &std::ffi::OsStr| ["NONE", "VERSION"].iter().any(|quiet| level.eq_ignore_ascii_case(quiet));
        if std::env::var_os("NCCL_DEBUG").is_some_and(|level| is_quiet(&level)) {
            command.env("NCCL_DEBUG", "WARN");
        }
        command.env_remove(UNTIL);
        if let Some(until) = until {
            // Threads take turns even where the seed has nothing to choose.
            command.env(replay::SCHEDULE, seed.to_string()).env(UNTIL, until.to_string());
        }
        self.trace.iter().for_each(|trace| _ = command.env(replay::TRACE, trace.file()));
        // Ctrl-C comes once, from us, as ranks get it from theirs.
        command.process_group(0);
        let parent = std::process::id();
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid, signal, sigprocmask and _exit.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() as u32 != parent {
                    libc::_exit(1); // ginrs-run died before the line above
                }
                unblock();
                Ok(())
            });
        }
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", self.ginrs_run.display()))?;
        self.wait(child)
    }

    fn wait(&self, mut child: Child) -> Result<End, String> {
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(|e| format!("waiting for a run: {e}"))? {
                // The child's own end by a signal that was meant for all, or one that it was given alone.
                return Ok(self.stopped.get().map_or(End::Ended(status, begun.elapsed()), End::Stopped));
            }
            match self.signals.wait(None) {
                None | Some(libc::SIGCHLD) => {}
                Some(signal) => {
                    // SAFETY: takes numbers only; the child has not been reaped, so its number is no one else's.
                    unsafe { libc::kill(child.id() as i32, signal) };
                    match signal {
                        libc::SIGTSTP => super::signals::stop(),
                        libc::SIGCONT | libc::SIGUSR1 | libc::SIGUSR2 => {}
                        _ => self.stopped.set(self.stopped.get().or(Some(signal))),
                    }
                }
            }
        }
    }
}

/// For a ginrs-run that runs the job once.
fn arguments(options: &Options, timeout: Option<Duration>) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["-n".into(), options.ranks.to_string().into()];
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    options.devices.inspect(|devices| option("--devices", devices.to_string().into()));
    timeout.inspect(|timeout| option("--timeout", timeout.as_secs_f64().to_string().into()));
    let usual = Options::default();
    if options.grace != usual.grace {
        option("--grace", options.grace.as_secs_f64().to_string().into());
    }
    options.exports.iter().for_each(|export| option("-x", export.clone()));
    options.folder.iter().for_each(|folder| option("--wdir", folder.clone()));
    words.extend((!options.prefix).then(|| "--no-prefix".into()));
    words.extend(options.race.then(|| "--check=race".into()));
    words.extend(options.program.first().filter(|program| program.as_encoded_bytes().starts_with(b"-")).map(|_| "--".into()));
    words.extend(options.program.iter().cloned());
    words
}

/// Whether what a run does may hang on a variable of the user's: those of seeds and timelines are ours here, and NCCL_DEBUG and its kin
/// say what is printed.
fn is_users(name: &OsStr) -> bool {
    const OURS: [&str; 4] = [replay::SCHEDULE, "GINRS_CHAOS", "GINRS_TIMELINE", "NCCL_DEBUG"];
    let name = name.to_string_lossy();
    (name.starts_with("GINRS_") || name.starts_with("NCCL_")) && !OURS.iter().any(|ours| name.starts_with(ours))
}

fn setting(name: &OsStr, value: &OsStr) -> String {
    format!("{}={}", name.to_string_lossy(), quoted(value))
}

/// For a shell.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A line on stderr that says how far it is: written over by the next one on a terminal, else seldom.
pub(super) struct Progress {
    terminal: bool,
    told: Instant,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { terminal: io::stderr().is_terminal(), told: Instant::now() }
    }

    pub(super) fn tell(&mut self, text: &str) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[Kginrs-run: {text}");
        } else if self.told.elapsed() >= TELL {
            crate::tell(format!("ginrs-run: {text}"));
            self.told = Instant::now();
        }
    }

    pub(super) fn clear(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_all_but_the_seeds() {
        let words = ["--explore", "9", "-n", "2", "--grace=1", "-x", "A=b c", "--no-prefix", "--", "-odd", "x y"];
        let Ok(super::super::args::Asked::Run(options)) = Options::parse(words.map(OsString::from).to_vec()) else { panic!() };
        let told = arguments(&options, Some(TIMEOUT));
        let line: Vec<String> = told.iter().map(|word| quoted(word)).collect();
        assert_eq!(line.join(" "), "-n 2 --timeout 60 --grace 1 -x 'A=b c' --no-prefix -- -odd 'x y'");
        assert_eq!(quoted(OsStr::new("it's")), "'it'\\''s'");
        assert_eq!(setting(OsStr::new("GINRS_FAKE_NODES"), OsStr::new("0 1")), "GINRS_FAKE_NODES='0 1'");
        let users = ["GINRS_FAKE_NODES", "NCCL_GIN_BACKEND", "GINRS_SCHEDULE_UNTIL", "NCCL_DEBUG_FILE", "HOME"];
        assert_eq!(users.map(|name| is_users(OsStr::new(name))), [true, true, false, false, false]);
    }
}
