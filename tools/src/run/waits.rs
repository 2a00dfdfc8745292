//! `--waits`: what the kernels of a running job wait for, asked from another terminal. Each process that has a communicator listens at a
//! Unix socket with its id in the name (src/watch/asked.rs); its answer also names the processes of its communicators' other ranks, so
//! that all are found whoever has started them. Nothing is ended or held up by it.

use super::ask::Question;
use super::processes::{Process, Processes};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// So long answers may take: a process that has more threads at work than cores may be late.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at who prints his answer.
const LOOK: Duration = Duration::from_millis(10);
/// Nobody could be asked.
const NOBODY: i32 = 2;

/// What came of asking one process.
enum Answer {
    /// It has no communicator of a library that answers.
    NotThere,
    /// It listens, and says nothing.
    Silent,
    /// Its words; whole, or not.
    Said(String, bool),
}

/// Prints what the job of `pid`, or the only one of this user, waits for; the status: 0 if all have answered.
pub fn waits(pid: Option<u32>) -> i32 {
    // SAFETY: takes nothing.
    let user = unsafe { libc::geteuid() };
    let processes = Processes::now();
    match find(&processes, pid, user) {
        Ok((start, launcher)) => match ask_all(&processes, start) {
            answers if answers.is_empty() && launcher.is_none() => {
                let started = if processes.family(start.pid).len() > 1 { ", and nothing that it has started," } else { "" };
                crate::tell(format!(
                    "ginrs-run: process {}{started} has no communicator of ginrs | it has made none yet, or has ended them, or loads another \
                     library or network namespace | fix: name a ginrs-run, a rank, or what has started the ranks",
                    start.pid
                ));
                NOBODY
            }
            answers => report(&processes, launcher, answers),
        },
        Err(message) => {
            crate::tell(format!("ginrs-run: {message}"));
            NOBODY
        }
    }
}

/// Where to begin, and the ginrs-run of it, if it has one.
fn find(processes: &Processes, pid: Option<u32>, user: u32) -> Result<(&Process, Option<&Process>), String> {
    let Some(pid) = pid else {
        return match *processes.jobs(user) {
            [job] => Ok((job, Some(job))),
            [] => {
                Err("no ginrs-run of this user has ranks here | fix: ginrs-run --waits PID, of any rank or what has started it"
                    .into())
            }
            ref jobs => {
                let list: Vec<String> = jobs.iter().map(|job| format!("\n  {} {}", job.pid, job.words().join(" "))).collect();
                Err(format!("{} jobs run | fix: name one, ginrs-run --waits PID{}", jobs.len(), list.concat()))
            }
        };
    };
    let Some(process) = processes.get(pid).filter(|process| !process.has_ended()) else {
        return Err(format!("no process {pid} runs here | fix: name a ginrs-run, or any rank of the job"));
    };
    match process.user() {
        Some(owner) if owner != user && user != 0 => {
            Err(format!("process {pid} is another user's ({owner}) | fix: ask as that user, or as root"))
        }
        _ => {
            let launcher = processes.launcher(pid);
            Ok((launcher.unwrap_or(process), launcher))
        }
    }
}

/// Asks `start`, all that it has started, and the processes that these name, each once.
fn ask_all(processes: &Processes, start: &Process) -> BTreeMap<u32, Answer> {
    let mut next: BTreeSet<u32> = processes.family(start.pid).iter().map(|process| process.pid).collect();
    let (mut asked, mut answers) = (BTreeSet::<u32>::new(), BTreeMap::new());
    while !next.is_empty() {
        asked.extend(&next);
        let said = ask(processes, std::mem::take(&mut next));
        let peers = said.values().filter_map(|answer| if let Answer::Said(text, _) = answer { Some(text) } else { None });
        next = peers.flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("peer ")?.parse().ok()).collect();
        next.retain(|pid| !asked.contains(pid));
        answers.extend(said.into_iter().filter(|(_, answer)| !matches!(answer, Answer::NotThere)));
    }
    answers
}

/// Asks these at the same time.
fn ask(processes: &Processes, pids: BTreeSet<u32>) -> BTreeMap<u32, Answer> {
    let until = Instant::now() + PATIENCE;
    let (answered, answers) = mpsc::channel();
    let mut all = BTreeMap::new();
    for pid in pids {
        // One that is stopped would be waited for in vain.
        let patience = if processes.get(pid).is_some_and(Process::is_stopped) { Duration::ZERO } else { PATIENCE };
        let answered = answered.clone();
        // A thread for each: nothing can hold up the others.
        let asking =
            std::thread::Builder::new().stack_size(256 << 10).spawn(move || answered.send((pid, question(pid, patience))));
        if asking.is_ok() {
            all.insert(pid, Answer::Silent);
        }
    }
    drop(answered);
    while let Ok((pid, answer)) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        all.insert(pid, answer);
    }
    all
}

/// Returns once those whom a signal has asked have printed their answers, or at `until`. They say here which question they have answered last.
pub fn until_told(asked: &Question, until: Instant) {
    let answered = |line: &str| line.strip_prefix("told ")?.parse::<u32>().ok();
    let has_told = |pid: u32| match question(pid, until.saturating_duration_since(Instant::now())) {
        Answer::Said(text, _) => text.lines().filter_map(answered).any(|number| number >= asked.number),
        // One that does not listen may be in another network namespace: then there is only the time.
        Answer::NotThere | Answer::Silent => false,
    };
    // One that is stopped would be waited for in vain.
    let can_tell = |pid: u32| Process::with_id(pid).is_some_and(|process| !process.has_ended() && !process.is_stopped());
    for &pid in &asked.pids {
        while Instant::now() < until && can_tell(pid) && !has_told(pid) {
            std::thread::sleep(LOOK);
        }
    }
}

fn question(pid: u32, patience: Duration) -> Answer {
    let address = SocketAddr::from_abstract_name(format!("ginrs-waits-{pid}")).expect("short");
    let mut stream = match UnixStream::connect_addr(&address) {
        Ok(stream) if serves(&stream, pid) => stream,
        _ => return Answer::NotThere,
    };
    if patience.is_zero() {
        return Answer::Silent;
    }
    let (mut bytes, until) = (Vec::new(), Instant::now() + patience);
    let mut part = [0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            break;
        }
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let whole = text.ends_with("end\n");
    if text.is_empty() { Answer::Silent } else { Answer::Said(text, whole) }
}

/// Whether it is that process that listens, and no stranger at its name.
fn serves(stream: &UnixStream, pid: u32) -> bool {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: writes at most so many bytes, into a plain C struct.
    let known = unsafe {
        let at = (&raw mut who).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &mut bytes) == 0
    };
    known && who.pid as u32 == pid
}

/// Prints the answers, and who has given none; the status.
fn report(processes: &Processes, launcher: Option<&Process>, answers: BTreeMap<u32, Answer>) -> i32 {
    let (mut lines, mut silent) = (Vec::new(), Vec::new());
    let describe = |pid: u32| processes.get(pid).map_or(format!("pid {pid}"), Process::describe);
    let stopped = |pid: u32| format!("{} is stopped; kill -CONT {pid} lets it go on", describe(pid));
    for (&pid, answer) in &answers {
        match answer {
            Answer::Said(text, whole) => {
                let said = text.lines().filter_map(|line| line.strip_prefix("wait ")).map(|line| format!("{line} | pid {pid}"));
                let before = lines.len();
                lines.extend(said);
                if lines.len() == before {
                    lines.push(format!("{}: its communicators have ended", describe(pid)));
                }
                if !whole {
                    silent.push(format!("{} has more to say than has come", describe(pid)));
                }
            }
            _ if processes.get(pid).is_some_and(Process::is_stopped) => silent.push(stopped(pid)),
            _ => silent.push(format!("{} has not answered for {} s", describe(pid), PATIENCE.as_secs())),
        }
    }
    let mut notes = Vec::new();
    for rank in launcher.iter().flat_map(|launcher| processes.children(launcher.pid)) {
        let answered = processes.family(rank.pid).iter().any(|process| answers.contains_key(&process.pid));
        match rank {
            _ if answered => {}
            rank if rank.has_ended() => notes.push(format!("pid {} has ended", rank.pid)),
            // It brings words to another machine and back.
            rank if rank.rank().is_none() => {}
            rank if rank.is_stopped() => silent.push(stopped(rank.pid)),
            rank => silent.push(format!("{} has no communicator: it has made none yet, or has ended them", describe(rank.pid))),
        }
    }
    if launcher.is_some_and(Process::has_other_machines) {
        notes.push("ranks on other machines have not been asked: ask there".into());
    }
    for all in [&mut lines, &mut silent] {
        all.sort_by_key(|line| number(line));
    }
    let all: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let status = crate::answer("ginrs-run", all);
    silent.iter().chain(&notes).for_each(|line| crate::tell(format!("ginrs-run: {line}")));
    status.max(i32::from(!silent.is_empty()))
}

/// The rank that a line is of.
fn number(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("rank ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ordered_by_rank() {
        assert_eq!(number("GINRS-W019 rank 12 block 0 waits for rank 3"), Some(12));
        assert_eq!((number("rank 3 (pid 7): ended"), number("pid 7")), (Some(3), None));
    }

    #[test]
    fn who_does_not_listen_is_not_waited_for() {
        assert!(matches!(question(std::process::id(), PATIENCE), Answer::NotThere));
        let processes = Processes::now();
        let own = processes.get(std::process::id()).unwrap();
        assert!(ask_all(&processes, own).is_empty());
        assert!(find(&processes, Some(u32::MAX), 0).unwrap_err().contains("no process 4294967295"));
    }
}
