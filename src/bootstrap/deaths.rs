//! Processes that have died lately, as communicators of this process have seen: for the message of a rendezvous at which ranks are missed. Which
//! of a new id's ranks such a process was to be nobody knows, nor whether another is to come in its place, so nothing ends by that.
#![forbid(unsafe_code)]

use super::gone::DEAD;
use crate::error::Error;
use crate::sync::{Mutex, PerProcess};
use std::collections::VecDeque;
use std::time::Instant;

/// How many are told of.
const KEPT: usize = 4;

struct Death {
    /// `rank 3 (pid 77) died, killed by SIGKILL`, and of which communicator it was.
    what: String,
    at: Instant,
}

static DEATHS: PerProcess<Mutex<VecDeque<Death>>> = PerProcess::new();

/// The communicator `tag` has failed by `cause`.
pub(super) fn note(tag: &str, cause: &Error) {
    if !DEAD.contains(&cause.id) {
        return;
    }
    let what = cause.text.split(" | ").next().unwrap_or_default();
    let mut deaths = DEATHS.lock();
    deaths.truncate(KEPT - 1);
    deaths.push_front(Death { what: format!("{what}, in {tag}"), at: Instant::now() });
}

/// `; 11 s ago rank 3 (pid 77) died, killed by SIGKILL, in comm 0x..`, and others before it; nothing where none has.
pub(super) fn lately() -> String {
    let deaths = DEATHS.lock();
    deaths.iter().map(|death| format!("; {} s ago {}", death.at.elapsed().as_secs(), death.what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::root::{Headcount, late};
    use super::*;
    use crate::error::Code;
    use std::time::Duration;

    #[test]
    fn who_is_missed_is_told_with_who_has_died() {
        for pid in 1..20 {
            let text = format!("rank 2 (pid {pid}) died, killed by SIGKILL | comm 0x77 | fix: look");
            note("comm 0x77", &Error::new(Code::RemoteError, 40, text));
            note("comm 0x78", &Error::new(Code::RemoteError, 41, "rank 1 aborts | comm 0x78"));
        }
        let headcount = Headcount { joined: 2, n_ranks: 3, missing: vec![2], unauthenticated: 0 };
        let told = late("comm 0x79", Duration::from_secs(12), &headcount, "").text;
        let wanted = "missing rank 2 after 12 s; 0 s ago rank 2 (pid 19) died, killed by SIGKILL, in comm 0x77; ";
        assert!(told.contains(wanted) && told.contains("(pid 16)") && !told.contains("(pid 15)"), "{told}");
        assert!(!told.contains("aborts"), "{told}");
    }
}
