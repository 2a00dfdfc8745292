//! Starting all ranks, waiting for them, and ending the rest when one fails.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::args::Options;
use super::output::Printer;
use super::rank::{Job, Rank, shell_status, signal_name};
use super::signals::{self, OpenFiles, Signals};
use crate::tell;

/// How long the lines of an ended rank may take to arrive; whatever it started may hold its pipes open for ever.
const DRAIN: Duration = Duration::from_millis(500);

/// The status of timeout(1).
const TIMED_OUT: i32 = 124;

/// Why the job ends before all ranks have ended by themselves.
struct Ending {
    status: i32,
    kill_at: Instant,
    killed: bool,
}

/// How long others may go on after a rank that ended well before a line tells of it: it may be the one that they wait for.
const LONELY: Duration = Duration::from_secs(10);

/// Runs the job; its status.
pub fn run(options: &Options) -> Result<i32, String> {
    let signals = Signals::block();
    let files = OpenFiles::raise();
    let folder = Folder(crate::private_folder("ginrs-run").map_err(|e| format!("the job's private folder: {e}"))?);
    let printer = Printer::new(options.prefix)?;
    let job = Job { options, folder: &folder.0, port: free_port()?, printer: &printer, files };
    let mut ranks: Vec<Rank> = Vec::with_capacity(options.ranks);
    let mut ending = None;
    for number in 0..options.ranks {
        match Rank::start(&job, number) {
            Ok(rank) => ranks.push(rank),
            Err(message) => {
                tell(format!("ginrs-run: rank {number}: {message}"));
                ending = Some(end(options, &ranks, 127, libc::SIGTERM));
                break;
            }
        }
    }
    let status = wait(options, &signals, &mut ranks, ending);
    // What a rank left behind in its group would keep the pipes open.
    ranks.iter().for_each(|r| r.signal(libc::SIGKILL));
    drain(&ranks);
    match printer.lost() {
        Some(_) if status == 0 => Ok(1),
        _ => Ok(status),
    }
}

fn wait(options: &Options, signals: &Signals, ranks: &mut [Rank], mut ending: Option<Ending>) -> i32 {
    let deadline = options.timeout.map(|t| Instant::now() + t);
    let mut lonely: Option<Instant> = None;
    let mut paused = false;
    loop {
        for i in 0..ranks.len() {
            if let Some(signal) = ranks[i].has_just_stopped().filter(|_| ending.is_none() && !paused) {
                let (number, pid, name) = (ranks[i].number, ranks[i].pid(), signal_name(signal));
                tell(format!(
                    "ginrs-run: rank {number} (pid {pid}) was stopped by signal {signal} ({name}); kill -CONT {pid} lets it go on"
                ));
            }
            if !ranks[i].has_just_ended() {
                continue;
            }
            let Some(status) = ranks[i].status().filter(|s| !s.success()) else {
                lonely = lonely.or(Some(Instant::now() + LONELY));
                continue;
            };
            if ending.is_none() {
                drain(&ranks[i..=i]);
                let others = ranks.iter().filter(|r| r.status().is_none()).count();
                let rest = if others > 0 { format!("; ending the other {others}") } else { String::new() };
                tell(format!("ginrs-run: {}{rest}", ranks[i].describe()));
                ending = Some(end(options, ranks, shell_status(status), libc::SIGTERM));
            }
        }
        if ranks.iter().all(|r| r.status().is_some()) {
            return ending.map_or(0, |e| e.status);
        }
        let now = Instant::now();
        if let (None, Some(_)) = (&ending, deadline.filter(|d| *d <= now)) {
            let seconds = options.timeout.unwrap_or_default().as_secs_f64();
            let stopped = numbers(ranks.iter().filter(|r| r.is_stopped()));
            let stopped = if stopped.is_empty() { stopped } else { format!("; stopped: rank {stopped}") };
            tell(format!(
                "ginrs-run: not done after {seconds} s (--timeout); still running: rank {}{stopped}",
                numbers(running(ranks))
            ));
            ending = Some(end(options, ranks, TIMED_OUT, libc::SIGTERM));
        }
        if lonely.is_some_and(|at| at <= now) && ending.is_none() {
            let (gone, left) = (numbers(ranks.iter().filter(|r| r.status().is_some())), numbers(running(ranks)));
            tell(format!(
                "ginrs-run: rank {gone} ended with status 0 more than {} s ago, rank {left} still running; --timeout ends a job that waits for who has left",
                LONELY.as_secs()
            ));
            lonely = Some(now + Duration::from_secs(u32::MAX.into()));
        }
        if let Some(ending) = ending.as_mut().filter(|e| !e.killed && e.kill_at <= now) {
            running(ranks).for_each(|r| r.signal(libc::SIGKILL));
            ending.killed = true;
        }
        let deadline = deadline.into_iter().chain(lonely).min().filter(|_| ending.is_none());
        let until = ending.as_ref().filter(|e| !e.killed).map(|e| e.kill_at).or(deadline);
        match signals.wait(until.map(|u| u.saturating_duration_since(now))) {
            Some(libc::SIGCHLD) | None => {}
            // Ctrl-Z stops the ranks, then us; fg lets us go on, then them.
            Some(libc::SIGTSTP) => {
                paused = true;
                running(ranks).for_each(|r| r.signal(libc::SIGTSTP));
                signals::stop();
            }
            Some(signal @ (libc::SIGCONT | libc::SIGUSR1 | libc::SIGUSR2)) => {
                paused &= signal != libc::SIGCONT;
                running(ranks).for_each(|r| r.signal(signal));
            }
            Some(signal) => match &mut ending {
                // A second Ctrl-C does not wait.
                Some(ending) => ending.kill_at = now,
                None => ending = Some(end(options, ranks, 128 + signal, signal)),
            },
        }
    }
}

fn running(ranks: &[Rank]) -> impl Iterator<Item = &Rank> {
    ranks.iter().filter(|r| r.status().is_none())
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

/// A port for MASTER_PORT whose successor is free too: programs use both (docs/ginrs-run.md).
fn free_port() -> Result<u16, String> {
    for _ in 0..64 {
        let first = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("a free port on 127.0.0.1: {e}"))?;
        let port = first.local_addr().map_err(|e| format!("a free port on 127.0.0.1: {e}"))?.port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return Ok(port);
        }
    }
    Err("found no two free ports in a row on 127.0.0.1".into())
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
