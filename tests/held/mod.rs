//! What a process holds: nothing more than before once its communicators have gone.
#![allow(dead_code)]

use ginrs::device::graveyard;
use std::time::{Duration, Instant};

/// What this process holds: descriptors, threads, mappings of shared memory, reserved flat spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub descriptors: usize,
    pub threads: usize,
    pub memfds: usize,
    pub spaces: usize,
}

/// Now.
pub fn held() -> Held {
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_space = |line: &&str| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        line.contains(" ---p 00000000 00:00 0") && to - from >= 1 << 30
    };
    Held {
        descriptors: entries("/proc/self/fd"),
        threads: entries("/proc/self/task"),
        memfds: maps.lines().filter(|line| line.contains("/memfd:ginrs")).count(),
        spaces: maps.lines().filter(is_space).count(),
    }
}

/// Returns what is held once it is `wanted`, or after `limit`: other threads close what has ended.
pub fn settled(wanted: Held, limit: Duration) -> Held {
    let end = Instant::now() + limit;
    loop {
        graveyard::sweep();
        let now = held();
        if now == wanted || Instant::now() > end {
            return now;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What is open and which threads there are, for people.
pub fn listing() -> String {
    let link = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = std::fs::read_link(entry.path()).ok()?.display().to_string();
        let fd = entry.file_name().to_str()?.parse().ok()?;
        // SAFETY: a number that was open just now; of anything but a socket the system says so.
        let socket = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
        let ends = (rustix::net::getsockname(socket).ok(), rustix::net::getpeername(socket).ok().flatten());
        Some(if let (Some(own), peer) = ends { format!("{name} {own:?} to {peer:?}") } else { name })
    };
    let links: Vec<String> = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(link).collect();
    let names =
        std::fs::read_dir("/proc/self/task").unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path().join("comm")));
    format!("{links:?} {:?}", names.flatten().collect::<Vec<_>>())
}
