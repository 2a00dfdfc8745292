//! The error for a rank that is gone.
#![forbid(unsafe_code)]

use super::port::{Fate, Port};
use crate::error::{Code, Error};
use crate::peer_process::Became;

/// The error for a rank that is gone, in a step that began before anything had failed: a failure that shows meanwhile is the cause. May
/// wait for a moment: what closed a connection shows a little later.
pub(super) fn gone(port: &Port, rank: u32, fate: Fate, what: &str) -> Error {
    gone_behind(port, rank, fate, what, false)
}

/// The same where the communicator may have `failed` before, which says nothing of this rank's end.
pub(super) fn gone_behind(port: &Port, rank: u32, fate: Fate, what: &str, failed: bool) -> Error {
    let (tag, name) = (port.tag(), port.name(rank));
    let error = match fate {
        Fate::Left => Error::new(
            Code::RemoteError,
            42,
            format!(
                "{name} has left | {tag}, in \"{what}\" | it destroyed its communicator, or its process {} | fix: make the same calls on every rank before the first destroy",
                // Of a rank that knew of a failure nobody says how its process ended.
                if failed { "has ended, since this failed" } else { "ended with status 0" }
            ),
        ),
        Fate::Lost => {
            if !port.service.is_intact() {
                return crate::process::descriptors_lost();
            }
            let became = port.became(rank);
            // A send fails before its last words are read (tests/leaks.rs, advice.rs, chaos), and it says why before it leaves: so its leave
            // is looked at first.
            port.read_last_words(rank);
            let left = port.left.lock().contains(&rank);
            match became {
                _ if !failed && port.failure().is_some() => return port.failure().expect("just seen").clone(),
                _ if left => return gone_behind(port, rank, Fate::Left, what, failed),
                Became::Lives(_) if failed => return port.failure().expect("seen").clone(),
                Became::Lives(how) => return port.cut_off(rank, &how, &format!(", in \"{what}\"")),
                Became::Ended => Error::new(
                    Code::RemoteError,
                    40,
                    format!(
                        "{name} is gone | {tag}, in \"{what}\" | its process closed its connection without leaving{} | fix: look at the output of rank {rank}{}",
                        port.how_ended(rank),
                        if port.is_near(rank) { "" } else { ", and at the network between the machines" }
                    ),
                ),
            }
        }
    };
    error.by(rank)
}

#[cfg(test)]
mod tests {
    use super::super::UniqueId;
    use super::super::service::Service;
    use super::*;

    /// One that was killed behind a failure was said to have ended with status 0.
    #[test]
    fn how_a_process_ended_behind_a_failure_is_not_made_up() {
        let port = Service::get().unwrap().port(&UniqueId::create().unwrap());
        let told = |failed| gone_behind(&port, 1, Fate::Left, "a step", failed).text;
        assert!(told(false).contains("or its process ended with status 0"), "{}", told(false));
        assert!(told(true).contains("or its process has ended, since this failed"), "{}", told(true));
    }
}
