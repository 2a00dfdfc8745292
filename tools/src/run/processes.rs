//! Processes of this machine, as /proc shows them, and whose jobs they are.

use super::args::{Asked, Options};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One, when it was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Whose child it is.
    pub parent: u32,
    /// As ps shows it: `R`, `S`, `T` (stopped), `Z` (ended).
    pub state: char,
    /// The first 15 bytes of its program's name.
    pub name: String,
}

impl Process {
    fn of(stat: &str) -> Option<Process> {
        let (head, rest) = stat.rsplit_once(')')?;
        let (pid, name) = head.split_once(" (")?;
        let mut words = rest.split_ascii_whitespace();
        let (state, parent) = (words.next()?.chars().next()?, words.next()?.parse().ok()?);
        Some(Process { pid: pid.parse().ok()?, parent, state, name: name.into() })
    }

    /// The one with this id, now.
    pub fn with_id(pid: u32) -> Option<Process> {
        Process::of(&std::fs::read_to_string(folder(pid).join("stat")).ok()?)
    }

    /// Somebody has stopped it, a debugger perhaps.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Nobody has yet asked for its status.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whose it is.
    pub fn user(&self) -> Option<u32> {
        std::fs::metadata(folder(self.pid)).ok().map(|data| data.uid())
    }

    /// RANK, as launchers set it.
    pub fn rank(&self) -> Option<usize> {
        let all = std::fs::read(folder(self.pid).join("environ")).ok()?;
        let value = all.split(|&byte| byte == 0).find_map(|item| item.strip_prefix(b"RANK="))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    }

    /// `rank 1 (pid 77)`, or `pid 77`.
    pub fn describe(&self) -> String {
        self.rank().map_or(format!("pid {}", self.pid), |rank| format!("rank {rank} (pid {})", self.pid))
    }

    /// Its command line, each word once more than a blank away.
    pub fn words(&self) -> Vec<String> {
        let all = std::fs::read(folder(self.pid).join("cmdline")).unwrap_or_default();
        let words = all.split(|&byte| byte == 0).filter(|word| !word.is_empty());
        words.map(|word| String::from_utf8_lossy(word).replace(char::is_control, "?")).collect()
    }

    /// A ginrs-run whose job has ranks on other machines, too.
    pub fn has_other_machines(&self) -> bool {
        let words = self.words().into_iter().skip(1).map(Into::into).collect();
        match Options::parse(words) {
            Ok(Asked::Run(options)) => !options.hosts.is_empty(),
            asked => asked == Ok(Asked::Serve),
        }
    }

    fn launches(&self) -> bool {
        self.name == "ginrs-run"
    }
}

fn folder(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// All processes that are seen from here.
#[derive(Default)]
pub struct Processes(Vec<Process>);

impl Processes {
    /// Those of now.
    pub fn now() -> Processes {
        let all = std::fs::read_dir("/proc").into_iter().flatten();
        let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Processes(pids.filter_map(Process::with_id).collect())
    }

    /// The one with this id.
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.0.iter().find(|process| process.pid == pid)
    }

    /// What it has started itself.
    pub fn children(&self, pid: u32) -> impl Iterator<Item = &Process> {
        self.0.iter().filter(move |process| process.parent == pid)
    }

    /// It, and what it has started, and what these have.
    pub fn family(&self, pid: u32) -> Vec<&Process> {
        let mut all: Vec<&Process> = self.get(pid).into_iter().collect();
        let mut next = 0;
        while let Some(process) = all.get(next) {
            all.extend(self.children(process.pid).filter(|child| child.pid != child.parent));
            next += 1;
        }
        all
    }

    /// The ginrs-run that it is, or that has started it: of two, one for the other, the first.
    pub fn launcher(&self, pid: u32) -> Option<&Process> {
        let parent = |process: &&Process| self.get(process.parent).filter(|parent| parent.pid != process.pid);
        let mut at = std::iter::successors(self.get(pid), parent).skip_while(|process| !process.launches());
        let first = at.next()?;
        Some(at.take_while(|process| process.launches()).last().unwrap_or(first))
    }

    /// Each ginrs-run of this user with a job of its own.
    pub fn jobs(&self, user: u32) -> Vec<&Process> {
        let has_job = |process: &&Process| {
            process.launches()
                && process.user() == Some(user)
                && self.children(process.pid).next().is_some()
                && self.get(process.parent).is_none_or(|parent| self.launcher(parent.pid).is_none())
        };
        self.0.iter().filter(has_job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_says_who_it_is() {
        let process = Process::of("77 (a) b ( ) T 1 44 3 0 -1\n").unwrap();
        assert_eq!(process, Process { pid: 77, parent: 1, state: 'T', name: "a) b ( ".into() });
        assert!(process.is_stopped() && !process.has_ended());
        assert_eq!(Process::of("nonsense"), None);
        let now = Processes::now();
        let own = now.get(std::process::id()).unwrap();
        assert!(own.user() == own.user() && own.words()[0].contains("ginrs_tools"), "{:?}", own.words());
    }

    #[test]
    fn a_job_is_found_from_each_of_its_processes() {
        let at = |pid, parent, name: &str| Process { pid, parent, state: 'S', name: name.into() };
        let all = Processes(vec![
            at(1, 0, "init"),
            at(5, 1, "ginrs-run"),
            at(6, 5, "sh"),
            at(7, 6, "halo"),
            at(8, 5, "ginrs-run"),
            at(9, 8, "halo"),
            at(20, 1, "halo"),
            at(21, 20, "child"),
        ]);
        let pids = |all: Vec<&Process>| all.iter().map(|process| process.pid).collect::<Vec<_>>();
        for pid in [5, 6, 7, 8, 9] {
            assert_eq!(all.launcher(pid).map(|process| process.pid), Some(5), "{pid}");
        }
        assert!(all.launcher(20).is_none() && all.launcher(99).is_none());
        assert_eq!(pids(all.family(5)), [5, 6, 8, 7, 9]);
        assert_eq!(pids(all.family(20)), [20, 21]);
        assert!(all.family(99).is_empty());
    }
}
