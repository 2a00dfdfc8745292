//! Processes that stand still: stopped by a signal, or held by a debugger. That is no death, and ends nothing by itself; whoever
//! waits for one is told once, and told again when it goes on.
#![cfg_attr(not(test), forbid(unsafe_code))]

use crate::bootstrap::Address;
use crate::peer_process;
use crate::{config, warn};
use std::collections::HashMap;
use std::time::Instant;

/// Looks in a row that must see it: a debugger stops a process for a moment at every call that it traces.
const LOOKS: u32 = 2;
/// Most processes that one look asks for; the others have their turn at the next ones.
const AT_ONCE: usize = 64;

struct Stop {
    since: Instant,
    looks: u32,
    told: bool,
}

/// By process id.
#[derive(Default)]
pub(super) struct Stops {
    by_pid: HashMap<u32, Stop>,
    turn: usize,
}

impl Stops {
    /// True for one that was seen stopped at the last look.
    pub fn is_stopped(&self, pid: u32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// For how long it has been seen so, in more than one look.
    pub fn stopped_for(&self, pid: u32) -> Option<std::time::Duration> {
        self.by_pid.get(&pid).filter(|stop| stop.looks >= LOOKS).map(|stop| stop.since.elapsed())
    }

    /// Looks at `processes`. `awake`: this process did not stand still itself since the last look. `name` is who lives there, and on which
    /// communicator.
    pub fn look(&mut self, processes: &[(Address, u32)], awake: bool, name: impl Fn(Address) -> Option<String>) {
        self.by_pid.retain(|pid, _| processes.iter().any(|(_, other)| other == pid));
        let every = config::seconds("GINRS_WAIT_WARN");
        let first = if processes.len() > AT_ONCE { self.turn % processes.len() } else { 0 };
        self.turn = first + AT_ONCE;
        for &(address, pid) in processes.iter().cycle().skip(first).take(AT_ONCE.min(processes.len())) {
            if !peer_process::is_stopped(pid) {
                if let Some(stop) = self.by_pid.remove(&pid)
                    && stop.told
                    && let Some(name) = name(address)
                {
                    warn!("GINRS-W021 {name} | it was stopped for {:.1} s and goes on", stop.since.elapsed().as_secs_f64());
                }
                continue;
            }
            let stop = self.by_pid.entry(pid).or_insert_with(|| Stop { since: Instant::now(), looks: 0, told: false });
            stop.looks = if awake { stop.looks + 1 } else { 0 };
            if stop.looks >= LOOKS
                && !stop.told
                && !every.is_zero()
                && let Some(name) = name(address)
            {
                stop.told = true;
                warn!(
                    "GINRS-W020 {name} | its process is stopped, and others wait | by SIGSTOP, SIGTSTP, SIGTTIN or a debugger; that ends nothing by itself \
                     | fix: kill -CONT {pid}, or let the debugger go on"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn one_that_stands_still_in_two_looks_is_told_once_and_until_it_goes_on() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        // SAFETY: a signal to the child that this test started and has not reaped.
        let send = |signal| assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
        let asked = std::cell::Cell::new(0);
        let mut stops = Stops::default();
        let processes = [(Address::Abstract([7; 16]), pid)];
        let look = |stops: &mut Stops, awake| {
            asked.set(0);
            let name = |_| {
                asked.set(asked.get() + 1);
                Some("rank 1 (pid 7)".to_owned())
            };
            stops.look(&processes, awake, name);
            asked.get()
        };
        let wait = |stopped| {
            while peer_process::is_stopped(pid) != stopped {
                std::thread::yield_now();
            }
        };
        assert_eq!(look(&mut stops, true), 0);
        send(libc::SIGSTOP);
        wait(true);
        assert_eq!([look(&mut stops, true), look(&mut stops, false), look(&mut stops, true)], [0, 0, 0]);
        assert_eq!([look(&mut stops, true), look(&mut stops, true)], [1, 0]);
        assert!(stops.is_stopped(pid));
        send(libc::SIGCONT);
        wait(false);
        assert_eq!([look(&mut stops, true), look(&mut stops, true)], [1, 0]);
        assert!(!stops.is_stopped(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
