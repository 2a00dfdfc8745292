//! Who is gone, and the error for one that is.
#![forbid(unsafe_code)]

use super::address::Address;
use super::port::Port;
use super::wire::Frame;
use crate::error::{Code, Error};
use crate::peer_process::Became;
use std::time::{Duration, Instant};

/// Why a rank will send nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It said so: its communicator was destroyed.
    Left,
    /// Its process closed its connection without a word.
    Lost,
}

/// Number of the error of a rank that has left.
pub(crate) const LEFT: u16 = 42;
/// Numbers of the errors of a rank, and of a machine, that is dead.
pub(crate) const DEAD: [u16; 2] = [40, 110];

impl Port {
    /// `rank` sends nothing more, and has said so.
    pub(super) fn leaves(&self, rank: u32) {
        self.left.lock().entry(rank).or_insert_with(Instant::now);
    }

    /// No link leads to the process at `to` any more. True if that is news.
    pub(super) fn note_lost(&self, to: Address) -> bool {
        let mut lost = self.lost.lock();
        let before = lost.len();
        lost.entry(to).or_insert_with(Instant::now);
        lost.len() > before
    }

    /// `rank` has left and its process has ended. Where a link stands, its end will say so, after the rank's last messages.
    pub(crate) fn has_ended(&self, rank: u32) {
        if self.table().get(rank as usize).is_some_and(|entry| self.standing_link(entry.address).is_none()) {
            self.leaves(rank);
            self.mailbox.ring();
        }
    }

    /// The process at `address` has ended. Where a link stands, its end will say so.
    pub(crate) fn process_ended(&self, address: Address) {
        if self.standing_link(address).is_none() {
            self.note_lost(address);
        }
    }

    /// False while no rank has a [`Self::fate`].
    pub(super) fn somebody_has_gone(&self) -> bool {
        !self.left.lock().is_empty() || !self.lost.lock().is_empty()
    }

    /// Why `rank` will send nothing more, if so.
    pub fn fate(&self, rank: u32) -> Option<Fate> {
        self.fate_since(rank).map(|(fate, _)| fate)
    }

    /// And since when that is known here.
    pub(super) fn fate_since(&self, rank: u32) -> Option<(Fate, Instant)> {
        if let Some(since) = self.left.lock().get(&rank) {
            return Some((Fate::Left, *since));
        }
        let address = self.table().get(rank as usize)?.address;
        let since = *self.lost.lock().get(&address)?;
        let left = self.lookout().is_some_and(|lookout| lookout.has_left(rank));
        Some((if left { Fate::Left } else { Fate::Lost }, since))
    }

    /// Until the service thread has read all that the process of `rank` sent before it closed its links, but not for long.
    pub(super) fn read_last_words(&self, rank: u32) {
        let end = Instant::now() + Duration::from_millis(300);
        let address = self.table()[rank as usize].address;
        while self.standing_link(address).is_some() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// `rank` has died behind a failure: nobody on other machines would hear of it.
    pub(crate) fn tell_of_death(&self, rank: u32, cause: &Error) {
        self.tell_links(&self.poison(rank, cause));
    }

    /// As another process tells of it, by `frame`; passed on where it is news.
    pub(super) fn hear_of_death(&self, cause: &Error, frame: &Frame) {
        let dead = cause.culprit.filter(|_| DEAD.contains(&cause.id)).and_then(|rank| self.table().get(rank as usize));
        if dead.is_some_and(|entry| entry.address != self.own_address() && self.note_lost(entry.address)) {
            self.mailbox.ring();
            self.tell_links(frame);
        }
    }
}

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
            LEFT,
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
            let left = port.left.lock().contains_key(&rank);
            match became {
                _ if !failed && port.failure().is_some() => return port.failure().expect("just seen").clone(),
                _ if left => return gone_behind(port, rank, Fate::Left, what, failed),
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
