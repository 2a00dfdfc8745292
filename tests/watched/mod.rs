//! Ranks as processes: each is this test's binary once more, in a role, and what it says is read line by line.

#![allow(dead_code)]

#[path = "../../src/hang_limit.rs"]
pub mod hang_limit;
mod roles;

use ginrs::bootstrap::UniqueId;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

pub struct Process {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub lines: std::sync::mpsc::Receiver<String>,
}

impl Process {
    pub fn start(role: &str, environment: &[(&str, String)]) -> Process {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), role, environment)
    }

    /// As [`Self::start`], by a command that ends in this program.
    pub fn start_by(mut command: Command, role: &str, environment: &[(&str, String)]) -> Process {
        command
            .args(["--ignored", "--exact", "watched::roles::child", "--nocapture", "--test-threads=1"])
            .env("GINRS_TEST_ROLE", role)
            .env("RUST_BACKTRACE", "0");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = std::sync::mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] = [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // libtest may leave its own words before ours on a line.
                    let line = line.split_once("OUT ").map_or_else(|| format!("(raw) {line}"), |(_, ours)| ours.to_owned());
                    let _ = tell.send(line);
                }
            });
        }
        let stdin = child.stdin.take();
        Process { child, stdin, lines }
    }

    /// The next line that `child` said; warnings and libtest's words are passed over, and shown when it never comes.
    pub fn line(&self) -> String {
        let (mut passed, until) = (Vec::new(), hang_limit::hang_deadline());
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("(raw)") => passed.push(line),
                Ok(line) => return line,
                Err(e) => panic!("process {}: {e}; it said {passed:#?}", self.child.id()),
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, not yet waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `n` processes in a role, one rank each, with more environment.
pub fn start(role: &str, n: u32, more: &[(&str, &str)]) -> (UniqueId, Vec<Process>) {
    let id = UniqueId::create().unwrap();
    let all = (0..n).map(|rank| start_rank(role, &id, rank, n, more)).collect();
    (id, all)
}

pub fn start_rank(role: &str, id: &UniqueId, rank: u32, n: u32, more: &[(&str, &str)]) -> Process {
    let hex = id.bytes().iter().map(|b| format!("{b:02x}")).collect();
    let mut environment = vec![("GINRS_TEST_ID", hex), ("GINRS_TEST_RANK", rank.to_string()), ("GINRS_TEST_N", n.to_string())];
    environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Process::start(role, &environment)
}

/// One process for each rank, each on the machine that `places` says, by a command that ends in a program there; all of them ready.
pub fn start_on(
    command: impl Fn(usize, PathBuf) -> Command,
    role: &str,
    places: &[usize],
    more: &[(&str, &str)],
) -> Vec<Process> {
    let program = std::env::current_exe().unwrap();
    let mut all: Vec<Process> = Vec::new();
    let mut id = String::new();
    for (rank, place) in places.iter().enumerate() {
        let mut environment = vec![
            ("GINRS_TEST_ID", id.clone()),
            ("GINRS_TEST_RANK", rank.to_string()),
            ("GINRS_TEST_N", places.len().to_string()),
        ];
        environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        all.push(Process::start_by(command(*place, program.clone()), role, &environment));
        if rank == 0 {
            id = all[0].line();
        }
    }
    all.iter().for_each(|process| assert_eq!(process.line(), "ready"));
    all
}
