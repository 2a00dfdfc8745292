//! How much may be under way on a link, and what that takes of a provider's queues.
#![forbid(unsafe_code)]

use super::hub::{Link, Ofi};
use super::provider::Traits;
use super::{STREAMS, staging};
use std::time::{Duration, Instant};

/// Messages and writes under way on a link where the provider has the sender wait by itself until there is a receive, as TCP does.
const WINDOW: u64 = 64;
/// Receives posted there: for messages, and for words.
const FEW: [u64; 2] = [4, 2];
/// The same window where writes take receives. A card that finds none is told to ask again later, and holds back all that comes behind
/// on its link meanwhile. So each message, write and word finds one.
const COUNTED: u64 = 16;
/// Words that say something else than how much has landed, of a link at once: the target asks, and leaves or aborts.
const BESIDE: u64 = 2;
/// Between two times that senders are told of what they have not asked for, and have room without. Each word is a packet of its own and
/// wakes somebody: one whenever nothing else was to do was a tenth of all that an all-reduce sent.
const BY_AND_BY: Duration = Duration::from_millis(50);
/// Completions that a queue has room for where nothing is counted.
const COMPLETIONS: usize = 4096;

/// Of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Messages and writes under way.
    pub window: u64,
    /// Receives posted for them at the target.
    pub messages: u64,
    /// Receives posted for words at the sender. A word says that more has landed than the one before it, so no more of them than the
    /// window are on their way.
    pub words: u64,
    /// Places that the queues of its connection have to send, and to receive, where each of them is counted.
    pub queue: Option<usize>,
}

impl Room {
    pub fn of(traits: &Traits, staged: bool) -> Self {
        let [few, words] = FEW;
        match (staged, traits.receives) {
            (false, false) => Self { window: WINDOW, messages: few, words, queue: None },
            (true, false) => Self { window: staging::WINDOW, messages: staging::WINDOW, words, queue: None },
            (_, true) => {
                let window = if staged { staging::WINDOW } else { COUNTED };
                let words = window + BESIDE;
                Self { window, messages: window, words, queue: Some(words as usize) }
            }
        }
    }

    /// Completions that a rank may leave unread: `peers` are those it sends to and those that send to it, together.
    pub fn completions(&self, peers: usize) -> usize {
        self.queue.map_or(COMPLETIONS, |queue| STREAMS as usize * peers.max(1) * 2 * queue)
    }
}

impl Ofi {
    /// Tells all senders what has landed; true if any was told.
    pub(super) fn tell(&mut self) -> bool {
        let before = self.owing.len();
        let Self { links, post, owing, .. } = self;
        owing.retain(|&link| match &mut links[link as usize] {
            Link::From(from) => {
                from.tell(post);
                from.owed() > 0
            }
            _ => false,
        });
        owing.len() < before
    }

    /// The same, if it is time; true if something is left that should have gone.
    pub(super) fn tell_by_and_by(&mut self) -> bool {
        if self.owing.is_empty() || self.told.elapsed() < BY_AND_BY {
            return false;
        }
        self.tell();
        let left = !self.owing.is_empty();
        if !left {
            self.told = Instant::now();
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::ofi::provider;
    use std::net::Ipv4Addr;

    #[test]
    fn each_has_a_receive_where_nobody_waits_for_one() {
        let mut traits = provider::choose(Ipv4Addr::LOCALHOST.into()).unwrap().traits();
        for staged in [false, true] {
            traits.receives = true;
            let room = Room::of(&traits, staged);
            assert!(room.messages >= room.window && room.words >= room.window + BESIDE);
            // A target's end sends words, and receives messages and writes; a sender's the other way round.
            let queue = room.queue.unwrap() as u64;
            assert!(queue >= room.words && queue >= room.messages && queue >= room.window);
            assert!(room.completions(3) >= 3 * STREAMS as usize * (room.words + room.window) as usize);
            traits.receives = false;
            let room = Room::of(&traits, staged);
            assert_eq!((room.queue, room.completions(1000)), (None, COMPLETIONS));
        }
    }
}
