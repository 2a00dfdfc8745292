//! What the system knows of another process: whether it lives, what it does, how it ended.
#![cfg_attr(not(test), forbid(unsafe_code))]

pub(crate) mod links;
pub(crate) use links::{Became, what_became_of};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Becomes readable when process `pid` ends. None when it has ended already.
pub(crate) fn open(pid: u32) -> rustix::io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Err(rustix::io::Errno::INVAL) };
    crate::fault::step("descriptor")?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(e) => Err(e),
    }
}

/// `, killed by SIGKILL` or `, exit status 3`, where the system still knows (until its parent has collected it); else nothing.
pub(crate) fn how_ended(pid: u32) -> String {
    match stat(pid) {
        Some((b'Z' | b'X', fields)) => fields.last().and_then(|code| code.parse::<i32>().ok()).map_or(String::new(), said_of),
        _ => String::new(),
    }
}

/// The same where `pidfd` was opened while it lived: newer kernels know also when its parent has collected it.
pub(crate) fn how_watched_ended(pid: u32, pidfd: impl AsFd) -> String {
    let known = how_ended(pid);
    if known.is_empty() { crate::process::exit_code(pidfd).map_or(known, said_of) } else { known }
}

fn said_of(code: i32) -> String {
    match code & 0x7f {
        0 => format!(", exit status {}", (code >> 8) & 0xff),
        signal => format!(", killed by {}", signal_name(signal)),
    }
}

/// `, its process is stopped` and the like, for messages about one that does not answer.
pub(crate) fn process_state(pid: u32) -> String {
    match stat(pid) {
        None => ", its process has ended".into(),
        Some((b'T' | b't', _)) => ", its process is stopped".into(),
        Some((b'Z' | b'X', _)) => format!(", its process has ended{}", how_ended(pid)),
        Some((b'D', _)) => ", its process waits for the disk or a driver".into(),
        Some((b'R', _)) => ", its process runs".into(),
        Some(_) => ", its process sleeps".into(),
    }
}

/// True while it is stopped: by a signal, or by a debugger that holds it.
pub(crate) fn is_stopped(pid: u32) -> bool {
    matches!(stat(pid), Some((b'T' | b't', _)))
}

/// True from the moment that it begins to end; its descriptors close a while before it has ended, with a GPU seconds before.
pub(crate) fn is_ending(pid: u32) -> bool {
    const PF_EXITING: u32 = 4;
    match stat(pid) {
        None | Some((b'Z' | b'X', _)) => true,
        Some((_, fields)) => fields.get(FLAGS).and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|f| f & PF_EXITING != 0),
    }
}

/// True once its parent has collected it: nothing more is to be learnt of it.
pub(crate) fn is_collected(pid: u32) -> bool {
    stat(pid).is_none()
}

/// Which program a process runs: another one after it has called exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    file: Option<PathBuf>,
    /// Random for each exec; 0 where the system does not show it.
    stack: u64,
}

impl Program {
    /// What `pid` runs now; None when it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let (_, fields) = stat(pid)?;
        let stack = fields.get(STACK).and_then(|at| at.parse().ok()).unwrap_or(0);
        Some(Self { file: std::fs::read_link(format!("/proc/{pid}/exe")).ok(), stack })
    }

    /// Its file, for messages.
    pub fn name(&self) -> String {
        self.file.as_deref().map_or_else(|| "another program".into(), |file: &Path| file.display().to_string())
    }
}

/// Fields of /proc/PID/stat, counted from the state.
const FLAGS: usize = 6;
const STACK: usize = 25;

/// State letter and the fields of /proc/PID/stat, exit_code last.
fn stat(pid: u32) -> Option<(u8, Vec<String>)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold blanks and brackets: fields start after the last bracket.
    let fields: Vec<String> = text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
    Some((*fields.first()?.as_bytes().first()?, fields))
}

fn signal_name(signal: i32) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
    ];
    known.iter().find(|(number, _)| *number == signal).map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_described_alive_stopped_and_dead() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let watched = open(pid).unwrap().unwrap();
        let alive = process_state(pid);
        assert!(!alive.contains("stopped") && !alive.contains("ended"), "{alive}");
        // SAFETY: a signal to the child that this test started and has not reaped.
        let send = |signal| assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
        send(libc::SIGSTOP);
        while !process_state(pid).contains("stopped") {
            std::thread::yield_now();
        }
        assert!(is_stopped(pid) && !is_ending(pid) && !is_stopped(std::process::id()));
        send(libc::SIGKILL);
        let mut polled = [rustix::event::PollFd::new(&watched, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut polled, None).unwrap(), 1);
        assert_eq!(how_ended(pid), ", killed by SIGKILL");
        assert!(is_ending(pid));
        child.wait().unwrap();
        assert_eq!(how_ended(pid), "");
        // Linux 6.15 and later.
        let told = how_watched_ended(pid, &watched);
        assert!(told == ", killed by SIGKILL" || told.is_empty() && crate::process::exit_code(&watched).is_none(), "{told}");
        assert!(open(pid).unwrap().is_none() && is_collected(pid));
        assert!(process_state(pid).contains("ended"));
    }

    #[test]
    fn an_exec_shows_also_of_the_same_program() {
        let script = "read a; exec sh -c 'read b; exec sleep 60'";
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let (pid, mut input) = (child.id(), child.stdin.take().unwrap());
        let seen = |wanted: &dyn Fn(&Program) -> bool| loop {
            let now = Program::of(pid).unwrap();
            if wanted(&now) {
                return now;
            }
            std::thread::yield_now();
        };
        let first = seen(&|now| now.name().contains("sh") && *now != Program::of(std::process::id()).unwrap());
        std::io::Write::write_all(&mut input, b"1\n").unwrap();
        let second = seen(&|now| *now != first);
        assert_eq!(second.file, first.file);
        std::io::Write::write_all(&mut input, b"2\n").unwrap();
        let third = seen(&|now| now.file != second.file);
        assert!(
            third.name().contains("sleep") || third.name().contains("busybox") || third.name().contains("coreutils"),
            "{third:?}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
