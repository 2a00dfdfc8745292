//! One rank: how its process starts, and how it ended.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::args::Options;
use super::output::{Printer, Reader, Stream};
use super::signals::{OpenFiles, unblock};
use super::timeline;

/// A started process.
pub struct Rank {
    /// Its number.
    pub number: usize,
    child: Child,
    output: Reader,
    errors: Reader,
    status: Option<ExitStatus>,
    stopped: bool,
}

/// What all ranks of a job share.
pub struct Job<'a> {
    /// From the command line.
    pub options: &'a Options,
    /// The first rank here, and how many there are on all machines.
    pub place: [usize; 2],
    /// `NAME=VALUE` each, beside what this process has.
    pub environment: &'a [OsString],
    /// MASTER_ADDR.
    pub address: &'a str,
    /// MASTER_PORT.
    pub port: u16,
    /// The folder that GINRS_RUN_ID names.
    pub folder: &'a Path,
    /// Whether they write what they do into the folder.
    pub timeline: bool,
    /// The limit on open files that they get.
    pub files: OpenFiles,
    /// Where their lines go.
    pub printer: &'a Printer,
}

impl Rank {
    /// Starts rank `number`. Must run on the main thread: the kernel ends the child when the thread that made it ends.
    pub fn start(job: &Job, number: usize) -> Result<Rank, String> {
        let (program, arguments) = job.options.program.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let [first, all] = job.place;
        for (name, value) in job.environment.iter().filter_map(|item| split(item)) {
            command.env(name, value);
        }
        command
            .env("RANK", number.to_string())
            .env("LOCAL_RANK", (number - first).to_string())
            .env("WORLD_SIZE", all.to_string())
            .env("LOCAL_WORLD_SIZE", job.options.ranks.to_string())
            .env("MASTER_ADDR", job.address)
            .env("MASTER_PORT", job.port.to_string())
            .env("GINRS_RUN_ID", job.folder);
        if all > job.options.ranks {
            // It is part of the name by which ranks ask rank 0 (relay.rs), and of another launcher.
            command.env_remove("TORCHELASTIC_RUN_ID");
        }
        if job.timeline {
            command.env("GINRS_TIMELINE", timeline::prefix(job.folder));
        }
        if let Some(devices) = job.options.devices {
            command.env("GINRS_CPU_DEVICES", devices.to_string());
        }
        // A group of its own: signals reach what the rank starts too, and Ctrl-C comes once, from us.
        command.process_group(0);
        let (parent, files) = (std::process::id(), job.files);
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid, signal, sigprocmask, setrlimit and _exit.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() as u32 != parent {
                    libc::_exit(1); // ginrs-run died before the line above
                }
                unblock();
                files.put_back();
                Ok(())
            });
        }
        let mut child = command.spawn().map_err(|e| {
            let fix = match e.raw_os_error() {
                Some(libc::EAGAIN) => "; raise the limit on processes (ulimit -u)",
                Some(libc::EMFILE | libc::ENFILE) => "; raise the limit on open files (ulimit -n)",
                Some(libc::E2BIG) => "; its arguments and the environment are too long",
                _ => "",
            };
            format!("cannot start `{}`: {e}{fix}", program.display())
        })?;
        let output = child.stdout.take().ok_or("no pipe for stdout")?;
        let errors = child.stderr.take().ok_or("no pipe for stderr")?;
        let readers = job.printer.add(Stream::Out, number, output.into()).and_then(|output| {
            let errors = job.printer.add(Stream::Error, number, errors.into())?;
            Ok((output, errors))
        });
        match readers {
            Ok((output, errors)) => Ok(Rank { number, child, output, errors, status: None, stopped: false }),
            Err(message) => {
                // Nobody else knows it yet.
                let _ = child.kill();
                let _ = child.wait();
                Err(message)
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Looks whether it has ended; true the first time that it has.
    pub fn has_just_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = peek(self.pid());
            return self.status.is_some();
        }
        false
    }

    /// How it ended.
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Looks whether somebody has stopped it or has let it go on: the number of the signal when it has just been stopped.
    pub fn has_just_stopped(&mut self) -> Option<i32> {
        let (code, signal) = state(self.pid(), libc::WSTOPPED | libc::WCONTINUED)?;
        let stopped = code == libc::CLD_STOPPED;
        let new = stopped && !self.stopped;
        self.stopped = stopped;
        new.then_some(signal)
    }

    /// True from a stop to the next signal that lets it go on.
    pub fn is_stopped(&self) -> bool {
        self.stopped && self.status.is_none()
    }

    /// Sends a signal to it and to what it started.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill takes no memory. The child is not reaped before Rank is dropped, so its number, which is that of its
        // group, can be no one else's.
        unsafe {
            libc::kill(-(self.pid() as i32), signal);
        }
    }

    /// True when everything it wrote is printed.
    pub fn is_drained(&self) -> bool {
        self.output.is_done() && self.errors.is_done()
    }

    /// "exited with status 3" or "was killed by signal 11 (SIGSEGV)", and its last line on stderr.
    pub fn describe(&self) -> String {
        let how = match self.status {
            None => "is still running".to_string(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with status {code}"),
                (None, Some(signal)) => format!("was killed by signal {signal} ({})", signal_name(signal)),
                (None, None) => "ended".to_string(),
            },
        };
        let words = self.errors.last_line();
        let words = if words.is_empty() { "it wrote nothing to stderr".into() } else { format!("last line on stderr: {words}") };
        format!("rank {} (pid {}) {how}; {words}", self.number, self.pid())
    }
}

/// NAME and VALUE of `NAME=VALUE`.
fn split(item: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = item.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=').filter(|&at| at > 0)?;
    Some((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])))
}

impl Drop for Rank {
    fn drop(&mut self) {
        if self.status.is_some() {
            let _ = self.child.wait();
        }
    }
}

/// The status of a child that has ended, without reaping it.
fn peek(pid: u32) -> Option<ExitStatus> {
    let (code, status) = state(pid, libc::WEXITED | libc::WNOWAIT)?;
    Some(ExitStatus::from_raw(if code == libc::CLD_EXITED { status << 8 } else { status }))
}

/// What has happened to a child, of what is asked for: si_code and si_status.
fn state(pid: u32, what: i32) -> Option<(i32, i32)> {
    // SAFETY: siginfo_t is a plain C struct; waitid writes only it, and si_pid and si_status are the fields that it sets for
    // a child. With WNOHANG and nothing to tell it leaves si_pid 0.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let failed = libc::waitid(libc::P_PID, pid, &mut info, what | libc::WNOHANG) != 0;
        (!failed && info.si_pid() != 0).then(|| (info.si_code, info.si_status()))
    }
}

/// The status that a shell would give: the program's own, or 128 + the signal's number.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1)
}

/// For messages.
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ: ulimit -f",
        libc::SIGSYS => "SIGSYS",
        libc::SIGSTOP => "SIGSTOP",
        libc::SIGTSTP => "SIGTSTP: Ctrl-Z",
        libc::SIGTTIN => "SIGTTIN: reads a terminal",
        libc::SIGTTOU => "SIGTTOU: writes to a terminal",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGUSR2 => "SIGUSR2",
        _ => "unknown",
    }
}
