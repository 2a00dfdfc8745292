//! Asking the processes of a job what their kernels wait for: SIGQUIT with a value, which libginrs answers with lines on the process's
//! standard error (src/process/quit.rs). Only processes that have a communicator, and catch the signal, are asked: others it would end.

use std::path::Path;
use std::time::Duration;

/// The lower half of the value that libginrs knows; the upper one is the question's number.
const ASK: u64 = 0x6769_6e72;
/// So long the answers may take at most: 0.7 s was too short on two cores with five processes that compute.
pub const ANSWER: Duration = Duration::from_secs(3);

/// What was asked, and whom.
pub struct Question {
    /// Larger than those of all questions before it.
    pub number: u32,
    /// Processes.
    pub pids: Vec<u32>,
}

/// Asks the processes whose group is one of `groups`. Sleeps of theirs may end early: for jobs that end next.
pub fn ask(groups: &[u32]) -> Question {
    let number = tenths();
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let asks = |&pid: &u32| listens(Path::new("/proc").join(pid.to_string()).as_path(), groups) && send(pid, number);
    Question { number, pids: pids.filter(asks).collect() }
}

/// Of a second, since the machine was started: for 13 years.
fn tenths() -> u32 {
    // SAFETY: fills a plain struct.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now
    };
    (now.tv_sec * 10 + now.tv_nsec / 100_000_000) as u32
}

fn listens(process: &Path, groups: &[u32]) -> bool {
    let read = |file: &str| std::fs::read_to_string(process.join(file)).unwrap_or_default();
    group(&read("stat")).is_some_and(|group| groups.contains(&group))
        && catches(&read("status"))
        && read("maps").contains("/memfd:ginrs-status")
}

/// The process group in /proc/PID/stat, the third word behind the name, which may have spaces and parentheses.
fn group(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(2)?.parse().ok()
}

fn catches(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (libc::SIGQUIT - 1) & 1 != 0)
}

fn send(pid: u32, number: u32) -> bool {
    let value = u64::from(number) << 32 | ASK;
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(value as usize) };
    // SAFETY: takes numbers only. A process that has just become another without a handler is ended: the window is that of any kill.
    unsafe { libc::sigqueue(pid as i32, libc::SIGQUIT, value) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_listens_is_asked() {
        assert_eq!(group("77 (a) b ( ) S 1 44 3 0 -1"), Some(44));
        assert_eq!(group("nonsense"), None);
        assert!(catches("Name:\tx\nSigCgt:\t0000000000000004\n") && !catches("SigCgt:\t00000000fffffffb\n") && !catches(""));
        let own = Path::new("/proc/self");
        let groups = [group(&std::fs::read_to_string("/proc/self/stat").unwrap()).unwrap()];
        assert!(!listens(own, &groups), "this process has no communicator");
    }
}
