//! Whether anything in this process could still go on by itself, for the proof that ranks wait in vain (`hang`).
//!
//! Nothing can while all blocks of the CPU device only wait, and every other thread of the program is parked: blocked in a futex without
//! a deadline, of memory that no other process has. Only another thread of the process could wake it, and there is none that runs. Of
//! the library's own threads the proxy's work is seen by itself (`Abort::is_quiet`, `Abort::moves`), and the others wake nobody but
//! host calls with a deadline, whose threads are not parked. Time of a timer, a socket, a pipe, a sleep: no proof.
//!
//! A look takes a while, and sees one thing after the other. So what is seen has a print, in which everything counts how often it has
//! run: the same print twice says that between the two looks nothing has.
#![forbid(unsafe_code)]

use crate::device::cpu::waits::{Blocks, blocks};
use crate::sync::system::{Parked, parked};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The looks of this process.
#[derive(Default)]
pub(super) struct Stillness {
    /// Looks that count, ever.
    looks: u64,
    print: u64,
    /// When the last of them counted: each waiting thread has looked once more since it passed.
    mark: u64,
}

impl Stillness {
    /// One look. Which of those that count it is, and its print; None where something can go on.
    ///
    /// The number rises when every waiting thread has looked in vain, from the first to the last, since it rose before.
    pub fn look(&mut self) -> Option<(u64, u64)> {
        let seen = blocks().filter(|(blocks, _)| blocks.others == 0);
        let Some((blocks, print)) = seen.and_then(|(blocks, tids)| Some((blocks, print_of(&blocks, &tids)?))) else {
            self.print = 0;
            return None;
        };
        self.counts(print, &blocks);
        Some((self.looks, self.print))
    }

    fn counts(&mut self, print: u64, blocks: &Blocks) {
        if print != self.print || blocks.passed >= self.mark {
            (self.print, self.mark) = (print, blocks.mark);
            self.looks += 1;
        }
    }
}

fn print_of(blocks: &Blocks, tids: &[i32]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    (blocks.running, blocks.changes).hash(&mut hasher);
    if has_timers() {
        return None;
    }
    let mut maps: Option<String> = None;
    for entry in std::fs::read_dir("/proc/self/task").ok()? {
        let entry = entry.ok()?;
        let tid: i32 = entry.file_name().to_str()?.parse().ok()?;
        if tids.contains(&tid) {
            continue;
        }
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file));
        // A thread that ends meanwhile was not parked before: the next look finds it gone.
        if is_service(&read("comm").ok()?) {
            continue;
        }
        // All but one sleep in the same way while they take turns.
        let at = match parked(tid) {
            Some(parked) => {
                let Parked { turns, at } = parked?;
                turns.hash(&mut hasher);
                at
            }
            None => {
                let at = parked_at(&read("syscall").ok()?)?;
                // How often it has run.
                let status = read("status").ok()?;
                status.lines().filter(|line| line.contains("ctxt_switches")).for_each(|line| line.hash(&mut hasher));
                at
            }
        };
        if at != 0 {
            let maps = maps.get_or_insert_with(|| std::fs::read_to_string("/proc/self/maps").unwrap_or_default());
            if is_shared(maps, at)? {
                return None;
            }
        }
        tid.hash(&mut hasher);
    }
    Some(hasher.finish().max(1))
}

/// One of the library's own that do nothing for the program: not a block, a host function, or a call that somebody else made.
fn is_service(name: &str) -> bool {
    let others = ["ginrs dev", "ginrs host fn", "ginrs async"];
    name.starts_with("ginrs ") && !others.iter().any(|other| name.starts_with(other))
}

/// The address, if `call` (/proc/PID/task/TID/syscall) is a wait at a futex without a deadline.
fn parked_at(call: &str) -> Option<u64> {
    const WAIT: u64 = 0;
    const WAIT_BITSET: u64 = 9;
    let mut words = call.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (at, operation, _value, deadline) = (argument()?, argument()?, argument()?, argument()?);
    let waits = matches!(operation & 0x7f, WAIT | WAIT_BITSET);
    (number == libc::SYS_futex && waits && deadline == 0).then_some(at)
}

/// Whether the memory at `at` may be another process's, too.
fn is_shared(maps: &str, at: u64) -> Option<bool> {
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (range, access) = (words.next()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        (start..end).contains(&at).then(|| access.ends_with('s'))
    })
}

/// A timer may have a handler that lets somebody go on. Where the kernel does not tell, nobody knows.
fn has_timers() -> bool {
    use crate::process::interval_timers;
    interval_timers() || std::fs::read_to_string("/proc/self/timers").is_ok_and(|timers| !timers.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_futex_without_a_deadline_is_parked() {
        let futex = libc::SYS_futex;
        let call =
            |operation: &str, deadline: &str| format!("{futex} 0x7f10 {operation} 0x2 {deadline} 0x0 0xffffffff 0x7ffd 0x7f30\n");
        assert_eq!(parked_at(&call("0x189", "0x0")), Some(0x7f10));
        assert_eq!(parked_at(&call("0x80", "0x0")), Some(0x7f10));
        assert_eq!(parked_at(&call("0x189", "0x7ffd10")), None, "a deadline");
        assert_eq!(parked_at(&call("0x81", "0x0")), None, "a wake");
        for other in ["running\n", "-1 0x7ffd 0x7f30\n", "0 0x3 0x7f10 0x80 0x0 0x0 0x0 0x7ffd 0x7f30\n", ""] {
            assert_eq!(parked_at(other), None, "{other}");
        }
    }

    #[test]
    fn memory_that_other_processes_have_is_told_from_ones_own() {
        let maps = "1000-2000 rw-p 00000000 00:00 0 \n3000-4000 rw-s 00000000 00:01 7 /memfd:x (deleted)\n";
        assert_eq!((is_shared(maps, 0x1fff), is_shared(maps, 0x3000), is_shared(maps, 0x2000)), (Some(false), Some(true), None));
    }

    #[test]
    fn a_look_counts_when_all_have_looked_since_the_last() {
        let mut still = Stillness::default();
        let blocks = |mark, passed| Blocks { running: 1, others: 0, changes: 5, mark, passed };
        still.counts(9, &blocks(1, 0));
        assert_eq!((still.looks, still.print), (1, 9));
        still.counts(9, &blocks(2, 0));
        assert_eq!(still.looks, 1, "somebody has not looked yet");
        still.counts(9, &blocks(3, 1));
        still.counts(9, &blocks(4, 2));
        assert_eq!(still.looks, 2, "2 was no mark of a look that counts");
        still.counts(9, &blocks(5, 3));
        assert_eq!(still.looks, 3);
        still.counts(8, &blocks(6, 3));
        assert_eq!((still.looks, still.print), (4, 8));
    }

    /// This very process: the harness's main thread is in a channel, this one runs.
    #[test]
    fn a_process_with_a_thread_that_runs_is_not_still() {
        assert_eq!(Stillness::default().look(), None);
    }
}
