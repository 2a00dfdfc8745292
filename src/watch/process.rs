//! What the system knows of another process: whether it lives, what it does, how it ended.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;

/// Becomes readable when process `pid` ends. None when it has ended already.
pub(super) fn open(pid: u32) -> rustix::io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Err(rustix::io::Errno::INVAL) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(e) => Err(e),
    }
}

/// `, killed by SIGKILL` or `, exit status 3`, where the system still knows (until its parent has collected it); else nothing.
pub(crate) fn how_ended(pid: u32) -> String {
    match stat(pid) {
        Some((b'Z' | b'X', fields)) => match fields.last().and_then(|code| code.parse::<i32>().ok()) {
            Some(code) if code & 0x7f != 0 => format!(", killed by {}", signal_name(code & 0x7f)),
            Some(code) => format!(", exit status {}", (code >> 8) & 0xff),
            None => String::new(),
        },
        _ => String::new(),
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
        send(libc::SIGKILL);
        let mut polled = [rustix::event::PollFd::new(&watched, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut polled, None).unwrap(), 1);
        assert_eq!(how_ended(pid), ", killed by SIGKILL");
        child.wait().unwrap();
        assert_eq!(how_ended(pid), "");
        assert!(open(pid).unwrap().is_none());
        assert!(process_state(pid).contains("ended"));
    }
}
