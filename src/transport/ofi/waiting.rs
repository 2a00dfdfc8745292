//! What must go through an endpoint without connections and was not taken yet, for each peer in its order: one that takes nothing keeps nobody else
//! waiting.
//!
//! A provider that connects by itself (rxm) takes nothing for a peer until its connection stands, and dials at each try; a peer whose endpoint has
//! gone is dialled for as long as something is there for it. So one that has taken nothing for [`AWAY`] is tried now and then, and keeps nobody awake.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Longer than a connection takes to be made.
const AWAY: Duration = Duration::from_millis(100);
/// Between two tries of a peer that is away.
const AGAIN: Duration = Duration::from_millis(20);

struct Queue {
    /// Of which links, and their bytes.
    messages: VecDeque<(u32, Vec<u8>)>,
    /// Since when the peer has taken nothing, and when it was tried last.
    since: Instant,
    tried: Instant,
}

/// See the module.
pub(super) struct Waiting {
    queues: BTreeMap<u64, Queue>,
    /// [`AWAY`]; longer in tests of peers that are there, however busy the machine is.
    pub away: Duration,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), away: AWAY }
    }
}

impl Waiting {
    /// `peer` has just refused something of `link`, or has to take something else first.
    pub fn push(&mut self, now: Instant, link: u32, peer: u64, bytes: Vec<u8>) {
        let queue = self.queues.entry(peer).or_insert_with(|| Queue { messages: VecDeque::new(), since: now, tried: now });
        queue.messages.push_back((link, bytes));
    }

    /// Something must go to `peer` first.
    pub fn holds(&self, peer: u64) -> bool {
        self.queues.contains_key(&peer)
    }

    /// Nothing must go.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Nothing must go but to peers that are away.
    pub fn rests(&self, now: Instant) -> bool {
        self.queues.values().all(|queue| now - queue.since >= self.away)
    }

    /// `peer` has taken something that was under way, and may take more.
    pub fn took(&mut self, now: Instant, peer: u64) {
        if let Some(queue) = self.queues.get_mut(&peer) {
            queue.since = now;
        }
    }

    /// Tries what is there by `send`, which says false where the peer refuses; true if any went.
    pub fn retry(&mut self, now: Instant, mut send: impl FnMut(u32, u64, &[u8]) -> bool) -> bool {
        let (mut moved, away) = (false, self.away);
        self.queues.retain(|&peer, queue| {
            if now - queue.since >= away && now - queue.tried < AGAIN {
                return true;
            }
            queue.tried = now;
            while let Some((link, bytes)) = queue.messages.front() {
                if !send(*link, peer, bytes) {
                    return true;
                }
                queue.messages.pop_front();
                (queue.since, moved) = (now, true);
            }
            false
        });
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `retry` hands out, where those of `refuses` take nothing.
    fn tried(waiting: &mut Waiting, now: Instant, refuses: &[u64]) -> Vec<(u64, u8)> {
        let mut tried = Vec::new();
        waiting.retry(now, |_, peer, bytes| {
            tried.push((peer, bytes[0]));
            !refuses.contains(&peer)
        });
        tried
    }

    #[test]
    fn each_peer_takes_in_its_order_and_one_that_is_away_is_tried_now_and_then() {
        let (mut waiting, mut now) = (Waiting::default(), Instant::now());
        [(5, 1), (9, 2), (5, 3)].iter().for_each(|&(peer, byte)| waiting.push(now, 0, peer, vec![byte]));
        assert!(!waiting.rests(now), "it may be about to be connected");
        assert_eq!(tried(&mut waiting, now, &[5]), [(5, 1), (9, 2)]);
        assert_eq!(tried(&mut waiting, now, &[5]), [(5, 1)], "soon it is tried with each step");
        assert!(waiting.holds(5) && !waiting.holds(9));
        now += AWAY;
        assert!(waiting.rests(now));
        assert_eq!(tried(&mut waiting, now, &[5]), [(5, 1)]);
        assert_eq!(tried(&mut waiting, now, &[5]), [], "so soon again");
        waiting.push(now, 0, 9, vec![4]);
        assert!(!waiting.rests(now));
        assert_eq!(tried(&mut waiting, now, &[5]), [(9, 4)], "the others' turn it is all the same");
        now += AGAIN;
        assert_eq!(tried(&mut waiting, now, &[5]), [(5, 1)]);
        waiting.took(now, 5);
        assert!(!waiting.rests(now));
        assert_eq!(tried(&mut waiting, now, &[]), [(5, 1), (5, 3)], "it takes again");
        assert!(waiting.is_empty());
    }
}
