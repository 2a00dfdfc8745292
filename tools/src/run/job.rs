//! Starting all ranks, waiting for them, and ending the rest when one fails.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::args::Options;
use super::output::Printer;
use super::rank::{Job, Rank, shell_status};

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
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

/// Runs the job; its status.
pub fn run(options: &Options) -> Result<i32, String> {
    let signals = Signals::block();
    let folder = Folder(crate::private_folder("ginrs-run").map_err(|e| format!("the job's private folder: {e}"))?);
    let printer = Printer::new(options.prefix);
    let job = Job { options, folder: &folder.0, port: free_port()?, printer: &printer };
    let mut ranks: Vec<Rank> = Vec::with_capacity(options.ranks);
    for number in 0..options.ranks {
        match Rank::start(&job, number) {
            Ok(rank) => ranks.push(rank),
            Err(message) => {
                eprintln!("ginrs-run: rank {number}: {message}");
                ranks.iter().for_each(|r| r.signal(libc::SIGKILL));
                return Ok(127);
            }
        }
    }
    let status = wait(options, &signals, &mut ranks);
    // What a rank left behind in its group would keep the pipes open.
    ranks.iter().for_each(|r| r.signal(libc::SIGKILL));
    drain(&ranks);
    Ok(status)
}

fn wait(options: &Options, signals: &Signals, ranks: &mut [Rank]) -> i32 {
    let deadline = options.timeout.map(|t| Instant::now() + t);
    let mut ending: Option<Ending> = None;
    loop {
        for i in 0..ranks.len() {
            if !ranks[i].has_just_ended() {
                continue;
            }
            let Some(status) = ranks[i].status().filter(|s| !s.success()) else { continue };
            if ending.is_none() {
                drain(&ranks[i..=i]);
                let others = ranks.iter().filter(|r| r.status().is_none()).count();
                let rest = if others > 0 { format!("; ending the other {others}") } else { String::new() };
                eprintln!("ginrs-run: {}{rest}", ranks[i].describe());
                ending = Some(end(ranks, shell_status(status), libc::SIGTERM));
            }
        }
        if ranks.iter().all(|r| r.status().is_some()) {
            return ending.map_or(0, |e| e.status);
        }
        let now = Instant::now();
        if let (None, Some(_)) = (&ending, deadline.filter(|d| *d <= now)) {
            let left: Vec<String> = running(ranks).map(|r| r.number.to_string()).collect();
            let seconds = options.timeout.unwrap_or_default().as_secs_f64();
            eprintln!("ginrs-run: not done after {seconds} s (--timeout); still running: rank {}", left.join(", "));
            ending = Some(end(ranks, TIMED_OUT, libc::SIGTERM));
        }
        if let Some(ending) = ending.as_mut().filter(|e| !e.killed && e.kill_at <= now) {
            running(ranks).for_each(|r| r.signal(libc::SIGKILL));
            ending.killed = true;
        }
        let until = ending.as_ref().filter(|e| !e.killed).map(|e| e.kill_at).or(deadline.filter(|_| ending.is_none()));
        match signals.wait(until.map(|u| u.saturating_duration_since(now))) {
            Some(libc::SIGCHLD) | None => {}
            Some(signal) => match &mut ending {
                // A second Ctrl-C does not wait.
                Some(ending) => ending.kill_at = now,
                None => ending = Some(end(ranks, 128 + signal, signal)),
            },
        }
    }
}

fn running(ranks: &[Rank]) -> impl Iterator<Item = &Rank> {
    ranks.iter().filter(|r| r.status().is_none())
}

fn end(ranks: &[Rank], status: i32, signal: i32) -> Ending {
    running(ranks).for_each(|r| r.signal(signal));
    Ending { status, kill_at: Instant::now() + GRACE, killed: false }
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

/// The signals that the main thread waits for, blocked in all threads.
struct Signals(libc::sigset_t);

impl Signals {
    fn block() -> Signals {
        // SAFETY: the set is a plain C struct that sigemptyset initialises; the calls read and write only it.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Signals(set)
        }
    }

    /// The next signal; None when the time is over. Without a limit, looks around every second all the same.
    fn wait(&self, limit: Option<Duration>) -> Option<i32> {
        let limit = limit.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
        let limit = libc::timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        // SAFETY: reads the set and the time, both alive; no siginfo is asked for.
        let signal = unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &limit) };
        (signal > 0).then_some(signal)
    }
}
