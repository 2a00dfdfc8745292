//! Starting all ranks, waiting for them, and ending the rest when one fails.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use super::args::Options;
use super::ask;
use super::folder::Folder;
use super::frame::Share;
use super::output::Printer;
use super::rank::{Job, Rank, shell_status, signal_name};
use super::signals::{self, OpenFiles, Signals};
use super::waits;
/// How long the lines of an ended rank may take to arrive; whatever it started may hold its pipes open for ever.
const DRAIN: Duration = Duration::from_millis(500);

/// The status of timeout(1).
pub const TIMED_OUT: i32 = 124;

/// Of a rank that `--check=race` has found races in, at its end.
const RACED: i32 = 66;

/// Why the job ends before all ranks have ended by themselves.
struct Ending {
    status: i32,
    kill_at: Instant,
    killed: bool,
}

/// How long the others may go on after a rank that failed while races are looked for: one of them may have found the race that made it fail, and
/// have yet to name its lines, or be about to find it. Who waits for the failed one ends as a hang that is proven does.
const TELLING: Duration = Duration::from_secs(10);

/// How long others may go on after a rank that ended well before a line tells of it: it may be the one that they wait for.
const LONELY: Duration = Duration::from_secs(10);

/// Runs the job on this machine; its status.
pub fn run(options: &Options) -> Result<i32, String> {
    let signals = Signals::block();
    let files = OpenFiles::raise();
    if let Some(folder) = &options.folder {
        std::env::set_current_dir(folder).map_err(|e| format!("--wdir {}: {e}", folder.display()))?;
    }
    let pictures = options.pictures.create()?;
    let folder = Folder::new()?;
    let printer = Printer::new(options.prefix)?;
    let (place, port) = ([0, options.ranks], free_port("127.0.0.1")?);
    let environment = &options.exports;
    let timeline = pictures.is_some();
    let job =
        Job { options, environment, place, address: "127.0.0.1", port, folder: &folder.0, timeline, printer: &printer, files };
    let status = work(&job, &signals, true)?;
    Ok(pictures.map_or(status, |pictures| pictures.finish(&folder.0, status)))
}

/// Runs one machine's share of a job; its status. `prepare` gets the folder before a rank starts, `finish` when all have ended.
pub fn run_share(
    options: &Options,
    share: &Share,
    signals: &Signals,
    printer: &Printer,
    prepare: impl FnOnce(&Path) -> Result<(), String>,
    finish: impl FnOnce(&Path),
) -> Result<i32, String> {
    let files = OpenFiles::raise();
    let folder = Folder::new()?;
    prepare(&folder.0)?;
    let [first, _, all] = share.ranks.map(|n| n as usize);
    let ((address, port), environment, place) = (&share.master, &share.environment, [first, all]);
    let timeline = share.timeline;
    let job = Job { options, environment, place, address, port: *port, folder: &folder.0, timeline, printer, files };
    let status = work(&job, signals, false)?;
    finish(&folder.0);
    Ok(status)
}

/// `stops`: Ctrl-Z stops this process, too.
fn work(job: &Job, signals: &Signals, stops: bool) -> Result<i32, String> {
    let (options, printer) = (job.options, job.printer);
    let mut ranks: Vec<Rank> = Vec::with_capacity(options.ranks);
    let mut ending = None;
    for number in job.place[0]..job.place[0] + options.ranks {
        match Rank::start(job, number) {
            Ok(rank) => ranks.push(rank),
            Err(message) => {
                printer.failed(127, &format!("rank {number}: {message}"), 0, false);
                ending = Some(end(options, &ranks, 127, libc::SIGTERM));
                break;
            }
        }
    }
    let status = wait(job, signals, stops, &mut ranks, ending);
    // What a rank left behind in its group would keep the pipes open.
    ranks.iter().for_each(|r| r.signal(libc::SIGKILL));
    drain(&ranks);
    match printer.lost() {
        Some(_) if status == 0 => Ok(1),
        _ => Ok(status),
    }
}

fn wait(job: &Job, signals: &Signals, stops: bool, ranks: &mut [Rank], mut ending: Option<Ending>) -> i32 {
    let (options, printer) = (job.options, job.printer);
    let deadline = options.timeout.map(|t| Instant::now() + t);
    let mut lonely: Option<Instant> = None;
    // The status of the first that failed where the others tell of races, and until when they may.
    let mut failed: Option<(i32, Instant)> = None;
    let (mut paused, mut raced) = (false, false);
    loop {
        for i in 0..ranks.len() {
            if let Some(signal) = ranks[i].has_just_stopped().filter(|_| ending.is_none() && !paused) {
                let (number, pid, name) = (ranks[i].number, ranks[i].pid(), signal_name(signal));
                printer.say(&format!(
                    "rank {number} (pid {pid}) was stopped by signal {signal} ({name}); kill -CONT {pid} lets it go on"
                ));
            }
            if !ranks[i].has_just_ended() {
                continue;
            }
            let Some(status) = ranks[i].status().filter(|s| !s.success()) else {
                lonely = lonely.or(Some(Instant::now() + LONELY));
                continue;
            };
            // At its own end, as the others come to theirs: what they find is told, too.
            if options.race && status.code() == Some(RACED) {
                (raced, lonely) = (true, lonely.or(Some(Instant::now() + LONELY)));
            } else if ending.is_none() && failed.is_none() {
                drain(&ranks[i..=i]);
                let status = shell_status(status);
                let others = ranks.iter().filter(|r| r.status().is_none()).count();
                printer.failed(status, &ranks[i].describe(), others, options.race);
                match options.race {
                    true => failed = Some((status, Instant::now() + TELLING)),
                    false => ending = Some(end(options, ranks, status, libc::SIGTERM)),
                }
            }
        }
        if ranks.iter().all(|r| r.status().is_some()) {
            let own = if raced { RACED } else { failed.map_or(0, |(status, _)| status) };
            return ending.map_or(own, |ending| ending.status);
        }
        let now = Instant::now();
        if let Some((status, _)) = failed.filter(|(_, until)| *until <= now && ending.is_none()) {
            ending = Some(end(options, ranks, if raced { RACED } else { status }, libc::SIGTERM));
        }
        if let (None, Some(_)) = (&ending, deadline.filter(|d| *d <= now)) {
            let seconds = options.timeout.unwrap_or_default().as_secs_f64();
            let stopped = numbers(ranks.iter().filter(|r| r.is_stopped()));
            let stopped = if stopped.is_empty() { stopped } else { format!("; stopped: rank {stopped}") };
            printer.say(&format!(
                "not done after {seconds} s (--timeout); still running: rank {}{stopped}",
                numbers(running(ranks))
            ));
            ask(ranks);
            ending = Some(end(options, ranks, TIMED_OUT, libc::SIGTERM));
        }
        if lonely.is_some_and(|at| at <= now) && failed.is_none() && ending.is_none() {
            let (gone, left) = (numbers(ranks.iter().filter(|r| r.status().is_some())), numbers(running(ranks)));
            printer.say(&format!(
                "rank {gone} ended with status 0 more than {} s ago, rank {left} still running; --timeout ends a job that waits for who has left",
                LONELY.as_secs()
            ));
            lonely = Some(now + Duration::from_secs(u32::MAX.into()));
        }
        if let Some(ending) = ending.as_mut().filter(|e| !e.killed && e.kill_at <= now) {
            running(ranks).for_each(|r| r.signal(libc::SIGKILL));
            ending.killed = true;
        }
        let deadline = deadline.into_iter().chain(failed.map(|(_, until)| until).or(lonely)).min().filter(|_| ending.is_none());
        let until = ending.as_ref().filter(|e| !e.killed).map(|e| e.kill_at).or(deadline);
        match signals.wait(until.map(|u| u.saturating_duration_since(now))) {
            Some(libc::SIGCHLD) | None => {}
            // Ctrl-Z stops the ranks, then us; fg lets us go on, then them.
            Some(libc::SIGTSTP) => {
                paused = true;
                running(ranks).for_each(|r| r.signal(libc::SIGTSTP));
                if stops {
                    signals::stop();
                }
            }
            Some(signal @ (libc::SIGCONT | libc::SIGUSR1 | libc::SIGUSR2)) => {
                paused &= signal != libc::SIGCONT;
                running(ranks).for_each(|r| r.signal(signal));
            }
            Some(signal) => match &mut ending {
                // A second Ctrl-C does not wait.
                Some(ending) => ending.kill_at = now,
                None => {
                    if signal == libc::SIGQUIT {
                        ask(ranks);
                    }
                    ending = Some(end(options, ranks, 128 + signal, signal));
                }
            },
        }
    }
}

fn running(ranks: &[Rank]) -> impl Iterator<Item = &Rank> {
    ranks.iter().filter(|r| r.status().is_none())
}

/// Has all that are left print what their kernels wait for.
fn ask(ranks: &[Rank]) {
    let groups: Vec<u32> = running(ranks).map(Rank::pid).collect();
    waits::until_told(&ask::ask(&groups), Instant::now() + ask::ANSWER);
}

/// "0, 2"
fn numbers<'a>(ranks: impl Iterator<Item = &'a Rank>) -> String {
    ranks.map(|r| r.number.to_string()).collect::<Vec<_>>().join(", ")
}

/// Asks all that are left to end; who is stopped could not hear it.
fn end(options: &Options, ranks: &[Rank], status: i32, signal: i32) -> Ending {
    for rank in running(ranks) {
        rank.signal(signal);
        rank.signal(libc::SIGCONT);
    }
    Ending { status, kill_at: Instant::now() + options.grace, killed: false }
}

/// Waits for lines that are on their way.
fn drain(ranks: &[Rank]) {
    let until = Instant::now() + DRAIN;
    while !ranks.iter().all(Rank::is_drained) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A port for MASTER_PORT whose successor is free too: programs use both (docs/user/ginrs-run.md).
pub fn free_port(address: &str) -> Result<u16, String> {
    for _ in 0..64 {
        let first = TcpListener::bind((address, 0)).map_err(|e| format!("a free port on {address}: {e}"))?;
        let port = first.local_addr().map_err(|e| format!("a free port on {address}: {e}"))?.port();
        if port < u16::MAX && TcpListener::bind((address, port + 1)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!("found no two free ports in a row on {address}"))
}
