//! What goes wrong in a run, when its time has come.

use crate::plan::Fault;
use ginrs_baton::baton;
use rustix::fd::BorrowedFd;
use rustix::net::{AddressFamily, Shutdown, getpeername, shutdown};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Of one run.
#[derive(Default)]
pub struct Faults {
    over: AtomicBool,
    /// How many struck.
    pub struck: AtomicU32,
}

impl Faults {
    /// Strikes with what strikes by itself, each at its time, until all is over.
    pub fn run(&self, faults: &[Fault]) {
        let mut timed: Vec<(u64, &Fault)> = faults.iter().filter_map(|fault| Some((time_of(fault)?, fault))).collect();
        timed.sort_by_key(|(at, _)| *at);
        let begin = Instant::now();
        for (at, fault) in timed {
            while begin.elapsed() < Duration::from_nanos(at) {
                if self.over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep((Duration::from_nanos(at).saturating_sub(begin.elapsed())).min(Duration::from_millis(1)));
            }
            if strike(fault) {
                self.struck();
            }
        }
    }

    pub fn struck(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn time_of(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::Stall { at, .. } | Fault::Cut { at, .. } => Some(*at),
        _ => None,
    }
}

fn strike(fault: &Fault) -> bool {
    match *fault {
        Fault::Stall { which, length, .. } => {
            let others = baton::others();
            !others.is_empty() && baton::hold(others[which as usize % others.len()], length)
        }
        Fault::Cut { which, .. } => {
            let connections = connections();
            let cut = |fd: i32| {
                // SAFETY: it was open just now, and no other thread has run since; cutting another's is what a network does.
                shutdown(unsafe { BorrowedFd::borrow_raw(fd) }, Shutdown::Both).is_ok()
            };
            !connections.is_empty() && cut(connections[which as usize % connections.len()])
        }
        _ => false,
    }
}

/// Descriptors of connections over TCP, rising.
pub fn connections() -> Vec<i32> {
    let open = std::fs::read_dir("/proc/self/fd").expect("/proc").flatten();
    let mut found: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.retain(|fd| {
        // SAFETY: a number that was open just now; of anything else than a socket the system says so.
        let peer = getpeername(unsafe { BorrowedFd::borrow_raw(*fd) });
        peer.is_ok_and(|peer| {
            peer.is_some_and(|peer| matches!(peer.address_family(), AddressFamily::INET | AddressFamily::INET6))
        })
    });
    found.sort_unstable();
    found
}
