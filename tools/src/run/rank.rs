//! One rank: how its process starts, and how it ended.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use super::args::Options;
use super::output::{Printer, Reader, Stream};

/// A started process.
pub struct Rank {
    /// Its number.
    pub number: usize,
    child: Child,
    output: Reader,
    errors: Reader,
    status: Option<ExitStatus>,
}

/// What all ranks of a job share.
pub struct Job<'a> {
    /// From the command line.
    pub options: &'a Options,
    /// The folder that GINRS_RUN_ID names.
    pub folder: &'a Path,
    /// MASTER_PORT.
    pub port: u16,
    /// Where their lines go.
    pub printer: &'a Arc<Printer>,
}

impl Rank {
    /// Starts rank `number`. Must run on the main thread: the kernel ends the child when the thread that made it ends.
    pub fn start(job: &Job, number: usize) -> Result<Rank, String> {
        let (program, arguments) = job.options.program.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ranks = job.options.ranks.to_string();
        command
            .env("RANK", number.to_string())
            .env("LOCAL_RANK", number.to_string())
            .env("WORLD_SIZE", &ranks)
            .env("LOCAL_WORLD_SIZE", &ranks)
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", job.port.to_string())
            .env("GINRS_RUN_ID", job.folder);
        if let Some(devices) = job.options.devices {
            command.env("GINRS_CPU_DEVICES", devices.to_string());
        }
        // A group of its own: signals reach what the rank starts too, and Ctrl-C comes once, from us.
        command.process_group(0);
        let parent = std::process::id();
        // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid, sigprocmask and _exit.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() as u32 != parent {
                    libc::_exit(1); // ginrs-run died before the line above
                }
                let mut none: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
                Ok(())
            });
        }
        let mut child = command.spawn().map_err(|e| format!("cannot start `{program}`: {e}"))?;
        let output = child.stdout.take().ok_or("no pipe for stdout")?;
        let errors = child.stderr.take().ok_or("no pipe for stderr")?;
        Ok(Rank {
            number,
            child,
            output: Reader::start(job.printer, Stream::Out, number, output),
            errors: Reader::start(job.printer, Stream::Error, number, errors),
            status: None,
        })
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

impl Drop for Rank {
    fn drop(&mut self) {
        if self.status.is_some() {
            let _ = self.child.wait();
        }
    }
}

/// The status of a child that has ended, without reaping it.
fn peek(pid: u32) -> Option<ExitStatus> {
    // SAFETY: siginfo_t is a plain C struct; waitid writes only it, and si_pid and si_status are the fields that it sets for
    // a child. With WNOHANG and no ended child it leaves si_pid 0.
    let (ended, code, status) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let failed = libc::waitid(libc::P_PID, pid, &mut info, flags) != 0;
        (!failed && info.si_pid() != 0, info.si_code, info.si_status())
    };
    let raw = if code == libc::CLD_EXITED { status << 8 } else { status };
    ended.then(|| ExitStatus::from_raw(raw))
}

/// The status that a shell would give: the program's own, or 128 + the signal's number.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1)
}

fn signal_name(signal: i32) -> &'static str {
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
        _ => "unknown",
    }
}
