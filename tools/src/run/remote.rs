//! A job on several machines: starts a helper on each over ssh, prints what it says, and ends all when one fails.

use super::args::Options;
use super::folder::Folder;
use super::frame::{Channel, Frame, GREETING, Share, VERSION};
use super::hosts::Host;
use super::output::{Stream, Writer};
use super::rank::shell_status;
use super::rsh;
use super::signals::{self, Signals, unblock};
use super::timeline;
use crate::tell;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a machine may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// What a helper gets beyond the time that it gives its ranks, and then its connection.
const SLACK: Duration = Duration::from_secs(3);
const TIMED_OUT: i32 = 124;

/// What happens, and on which machine.
enum Event {
    Frame(usize, Frame),
    /// Its output has ended, after what was no frame.
    Closed(usize, Option<String>),
    Signal(i32),
}

/// Where a machine stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It has not answered.
    Called,
    /// Its helper waits; this port is free there.
    Ready(u16),
    Running,
    Ended,
    /// The connection has gone.
    Gone,
}

struct Machine<'a> {
    host: &'a Host,
    child: Child,
    to: Channel,
    state: State,
    /// Its last line on stderr, and who takes it there.
    words: Arc<Mutex<String>>,
    overhears: Option<JoinHandle<()>>,
}

impl Machine<'_> {
    /// It has not answered, and nothing of it is waited for: its remote shell ends with what that has started, which may hold the pipes.
    fn give_up(&mut self) {
        // SAFETY: a plain system call; nobody has waited for the child yet, so that its group is no other's.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        self.state = State::Gone;
    }
}

struct Ending {
    status: i32,
    /// When the connections are closed, and when what is left of ssh is killed.
    close_at: Instant,
    kill_at: Instant,
}

struct Job<'a> {
    options: &'a Options,
    /// Where the files of timelines go, if pictures are asked for.
    files: Option<Folder>,
    machines: Vec<Machine<'a>>,
    ending: Option<Ending>,
}

/// Runs the job; its status.
pub fn run(options: &Options) -> Result<i32, String> {
    let folder = match &options.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|e| format!("this folder: {e}; name one with --wdir"))?.into_os_string(),
    };
    let signals = Signals::block();
    let pictures = options.pictures.create()?;
    let files = pictures.as_ref().map(|_| Folder::new()).transpose()?;
    let writer = Arc::new(Mutex::new(Writer::new(options.prefix)?));
    let (events, inbox) = mpsc::channel();
    let mut job = Job { options, files, machines: Vec::new(), ending: None };
    for host in &options.hosts {
        job.machines.push(call(options, host)?);
    }
    let channels: Arc<[Channel]> = job.machines.iter().map(|machine| machine.to.clone()).collect();
    for (number, machine) in job.machines.iter_mut().enumerate() {
        let (out, err) = machine.child.stdout.take().zip(machine.child.stderr.take()).ok_or("no pipes")?;
        let (events, to, lines) = (events.clone(), channels.clone(), writer.clone());
        drop(thread(move || listen(number, out, &to, &lines, &events))?);
        let (name, words, lines) = (machine.host.name.clone(), machine.words.clone(), writer.clone());
        machine.overhears = Some(thread(move || overhear(&name, err, &words, &lines))?);
    }
    drop(thread(move || {
        loop {
            if let Some(signal) = signals.wait(None).filter(|&signal| signal != libc::SIGCHLD) {
                let _ = events.send(Event::Signal(signal));
            }
        }
    })?);
    let status = job.work(&inbox, folder);
    let lost = writer.lock().unwrap_or_else(|e| e.into_inner()).lost();
    let status = if status == 0 && lost.is_some() { 1 } else { status };
    Ok(match pictures.zip(job.files.as_ref()) {
        Some((pictures, files)) => pictures.finish(&files.0, status),
        None => status,
    })
}

fn thread(body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    std::thread::Builder::new().spawn(body).map_err(|e| format!("a thread: {e}; raise the limit on processes (ulimit -u)"))
}

/// Starts ginrs-run on a machine.
fn call<'a>(options: &Options, host: &'a Host) -> Result<Machine<'a>, String> {
    let mut command = rsh::command(options.rsh.as_deref(), &host.name)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C comes through us.
    command.process_group(0);
    // SAFETY: between fork and exec only signal, sigemptyset and sigprocmask are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            unblock();
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(|e| {
        let program = command.get_program().display();
        format!(
            "cannot start `{program}` to reach {}: {e} | fix: install it (openssh-client), or name another with --rsh",
            host.name
        )
    })?;
    let to = child.stdin.take().ok_or("no pipe")?;
    Ok(Machine { host, child, to: Channel::new(OwnedFd::from(to)), state: State::Called, words: Arc::default(), overhears: None })
}

/// The thread that hears one machine.
fn listen(number: usize, out: ChildStdout, to: &[Channel], writer: &Mutex<Writer>, events: &Sender<Event>) {
    let mut from = BufReader::new(out);
    let mut first = Vec::new();
    let _ = (&mut from).take(GREETING.len() as u64).read_until(b'\n', &mut first);
    if first != GREETING {
        let odd = String::from_utf8_lossy(&first).trim().to_owned();
        let _ = events.send(Event::Closed(number, (!odd.is_empty()).then_some(odd)));
        return;
    }
    loop {
        match Frame::read(&mut from) {
            Ok(Some(Frame::Line(stream, rank, line))) => {
                writer.lock().unwrap_or_else(|e| e.into_inner()).print(stream, &rank.to_string(), &line);
            }
            // Ranks ask rank 0, which is on the first machine; the id's upper half says whose answer it is.
            Ok(Some(frame @ (Frame::Open(id) | Frame::Data(id, _) | Frame::Close(id)))) => {
                let asks = (id >> 32) as usize;
                let whose = if number == 0 { asks } else { 0 };
                if number == 0 || asks == number {
                    to.get(whose).inspect(|to| to.send(&frame));
                }
            }
            Ok(Some(frame)) => drop(events.send(Event::Frame(number, frame))),
            Ok(None) => return drop(events.send(Event::Closed(number, None))),
            Err(error) => return drop(events.send(Event::Closed(number, Some(error.to_string())))),
        }
    }
}

/// The thread that prints what ssh has to say.
fn overhear(name: &str, err: ChildStderr, words: &Mutex<String>, writer: &Mutex<Writer>) {
    let mut from = BufReader::new(err);
    let mut line = Vec::new();
    while let Ok(1..) = from.read_until(b'\n', &mut line) {
        writer.lock().unwrap_or_else(|e| e.into_inner()).print(Stream::Error, name, &line);
        *words.lock().unwrap_or_else(|e| e.into_inner()) = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        line.clear();
    }
}

impl Job<'_> {
    fn work(&mut self, inbox: &Receiver<Event>, folder: OsString) -> i32 {
        let began = Instant::now();
        let deadline = self.options.timeout.map(|limit| began + limit);
        while self.machines.iter().any(|machine| machine.state != State::Gone) {
            let now = Instant::now();
            let called = self.machines.iter().any(|machine| machine.state == State::Called);
            let answer = called.then_some(began + ANSWER);
            let next = match &self.ending {
                Some(ending) if ending.close_at > now => Some(ending.close_at),
                Some(ending) => Some(ending.kill_at),
                None => deadline.into_iter().chain(answer).min(),
            };
            let wait = next.map_or(Duration::from_secs(60), |next| next.saturating_duration_since(now));
            match inbox.recv_timeout(wait) {
                Ok(Event::Frame(number, frame)) => self.heard(number, frame, &folder),
                Ok(Event::Closed(number, odd)) => self.closed(number, odd),
                Ok(Event::Signal(signal)) => self.signal(signal),
                Err(RecvTimeoutError::Timeout) => self.late(deadline, answer),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.ending.as_ref().map_or(0, |ending| ending.status)
    }

    fn heard(&mut self, number: usize, frame: Frame, folder: &OsStr) {
        let name = &self.machines[number].host.name;
        match frame {
            Frame::Hello(version, _) if version != VERSION => {
                let text = format!(
                    "host {name}: its ginrs-run is {version}, this one {VERSION} | fix: install one version on all machines"
                );
                self.fail(1, &text, None);
            }
            Frame::Hello(_, port) => {
                self.machines[number].state = State::Ready(port);
                if self.ending.is_none() && self.machines.iter().all(|machine| matches!(machine.state, State::Ready(_))) {
                    self.start(folder);
                }
            }
            Frame::File(file, piece) => {
                let taken = self.files.iter().try_for_each(|files| timeline::take(&files.0, number, &file, &piece));
                if let Err(error) = taken {
                    tell(format!("ginrs-run: host {name}: what {file} says is not in the timeline: {error}"));
                }
            }
            Frame::Say(text) => tell(format!("ginrs-run: host {name}: {text}")),
            Frame::Failed(status, text) => {
                let text = format!("host {name}: {text}");
                self.fail(status, &text, Some(number));
            }
            Frame::Ended(status) => {
                self.machines[number].state = State::Ended;
                self.machines[number].to.close();
                // It has told why, or was asked to end.
                if status != 0 && self.ending.is_none() {
                    let text = format!("host {name}: its ranks ended with status {status}");
                    self.fail(status, &text, Some(number));
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, folder: &OsStr) {
        let State::Ready(port) = self.machines[0].state else { return };
        let environment = environment(&self.options.exports);
        let master = (address(self.machines[0].host, self.machines.len() > 1), port);
        for (number, machine) in (0..).zip(&mut self.machines) {
            let Host { first, count, .. } = *machine.host;
            machine.to.send(&Frame::Start(Share {
                host: number,
                ranks: [first, count, self.options.ranks].map(|n| n as u32),
                master: master.clone(),
                devices: self.options.devices.unwrap_or(0) as u32,
                grace: self.options.grace.as_millis().try_into().unwrap_or(u32::MAX),
                timeline: self.files.is_some(),
                folder: folder.into(),
                environment: environment.clone(),
                program: self.options.program.clone(),
            }));
            machine.state = State::Running;
        }
    }

    fn closed(&mut self, number: usize, odd: Option<String>) {
        let machine = &mut self.machines[number];
        let was = std::mem::replace(&mut machine.state, State::Gone);
        machine.to.close();
        // What has closed its output ends in a moment, unless its shell printed and goes on.
        let until = Instant::now() + Duration::from_secs(1);
        let status = loop {
            match machine.child.try_wait() {
                Ok(None) if Instant::now() < until && odd.is_none() => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(status)) => break Some(shell_status(status)),
                _ => {
                    let _ = machine.child.kill();
                    let _ = machine.child.wait();
                    break None;
                }
            }
        };
        // What it said last is on its way.
        while Instant::now() < until && machine.overhears.as_ref().is_some_and(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let name = &machine.host.name;
        let words = machine.words.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let words = if words.is_empty() { String::new() } else { format!("; last line: {words}") };
        let ended = status.map_or("was ended".into(), |status| format!("ended with status {status}"));
        let text = match (was, odd) {
            (State::Ended | State::Gone, _) => return,
            (State::Called, Some(odd)) => format!(
                "host {name}: its shell prints `{odd}` before ginrs-run starts there | fix: let its start-up files print nothing without a terminal"
            ),
            (State::Called, None) if status == Some(127) => format!(
                "host {name}: no ginrs-run there, neither where it is here nor in PATH{words} | fix: install ginrs at the same place on all machines"
            ),
            (State::Called, None) => {
                format!("host {name}: cannot be reached, the remote shell {ended}{words} | fix: {}", rsh::fix(name, &words))
            }
            (_, odd) => {
                let odd = odd.map_or(String::new(), |odd| format!(" ({odd})"));
                format!(
                    "host {name}: the connection to its ginrs-run is lost{odd}, the remote shell {ended}{words}; its ranks end with it"
                )
            }
        };
        self.fail(1, &text, Some(number));
    }

    fn signal(&mut self, signal: i32) {
        let running = self.machines.iter().filter(|machine| machine.state == State::Running);
        running.for_each(|machine| machine.to.send(&Frame::Signal(signal)));
        match signal {
            libc::SIGTSTP => signals::stop(),
            libc::SIGCONT | libc::SIGUSR1 | libc::SIGUSR2 => {}
            _ => match &mut self.ending {
                // A second Ctrl-C does not wait.
                Some(ending) => ending.close_at = Instant::now(),
                None => self.end(128 + signal),
            },
        }
    }

    fn late(&mut self, deadline: Option<Instant>, answer: Option<Instant>) {
        let now = Instant::now();
        if let Some(ending) = &mut self.ending {
            let kill = ending.kill_at <= now;
            for machine in self.machines.iter_mut().filter(|machine| machine.state != State::Gone) {
                machine.to.close();
                if kill {
                    let _ = machine.child.kill();
                }
            }
            // What still holds its pipes open is waited for no longer.
            if kill {
                self.machines.iter_mut().for_each(|machine| machine.state = State::Gone);
            }
            return;
        }
        if deadline.is_some_and(|at| at <= now) {
            let seconds = self.options.timeout.unwrap_or_default().as_secs_f64();
            let (what, state) = match answer {
                Some(_) => ("no answer yet from", State::Called),
                None => ("still running:", State::Running),
            };
            let text = format!("not done after {seconds} s (--timeout); {what} {}", self.named(|of| of == state));
            self.fail(TIMED_OUT, &text, None);
        } else if answer.is_some_and(|at| at <= now) {
            let text = format!(
                "no answer after {} s from {} | fix: `ssh HOST true` must work without a question, or see --rsh",
                ANSWER.as_secs(),
                self.named(|state| state == State::Called)
            );
            self.fail(1, &text, None);
        }
    }

    /// "a (ranks 0 to 3), b (rank 4)"
    fn named(&self, which: impl Fn(State) -> bool) -> String {
        let of = |host: &Host| match host.count {
            1 => format!("{} (rank {})", host.name, host.first),
            count => format!("{} (ranks {} to {})", host.name, host.first, host.first + count - 1),
        };
        let found: Vec<String> =
            self.machines.iter().filter(|machine| which(machine.state)).map(|machine| of(machine.host)).collect();
        found.join(", ")
    }

    /// The first failure is told, and the others are ended; `by` ends by itself.
    fn fail(&mut self, status: i32, text: &str, by: Option<usize>) {
        if self.ending.is_some() {
            return;
        }
        let others =
            self.machines.iter().enumerate().filter(|(number, machine)| Some(*number) != by && machine.state == State::Running);
        let others: Vec<&Machine> = others.map(|(_, machine)| machine).collect();
        let rest = if others.is_empty() { "" } else { "; ending the other hosts' ranks" };
        tell(format!("ginrs-run: {text}{rest}"));
        others.iter().for_each(|machine| machine.to.send(&Frame::Signal(libc::SIGTERM)));
        self.end(status);
    }

    fn end(&mut self, status: i32) {
        let close_at = Instant::now() + self.options.grace + SLACK;
        self.ending = Some(Ending { status, close_at, kill_at: close_at + SLACK });
        // Helpers that were never asked for anything have nothing to end.
        for machine in self.machines.iter_mut().filter(|machine| matches!(machine.state, State::Called | State::Ready(_))) {
            machine.to.close();
            if machine.state == State::Called {
                machine.give_up();
            }
        }
    }
}

/// The first host's name for ranks that are on others, too.
fn address(host: &Host, others: bool) -> String {
    match host.address() {
        "localhost" if others => std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
        address => address.to_owned(),
    }
}

/// What ranks on other machines get of ours.
fn environment(exports: &[OsString]) -> Vec<OsString> {
    const NAMES: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
    const PREFIXES: [&str; 4] = ["NCCL_", "GINRS_", "CUDA_", "FI_"];
    const OURS: [&str; 2] = ["GINRS_RUN_ID", "GINRS_RSH"];
    let pair = |name: &OsStr, value: &OsStr| OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat());
    let ours =
        |name: &str| (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))) && !OURS.contains(&name);
    let own = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)).map(|(name, value)| pair(&name, &value));
    let asked = exports.iter().filter_map(|item| match item.as_bytes().contains(&b'=') {
        true => Some(item.clone()),
        false => Some(pair(item, &std::env::var_os(item)?)),
    });
    own.chain(asked).collect()
}
