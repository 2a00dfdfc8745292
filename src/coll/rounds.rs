//! In which order a rank's sends and receives go, and which of them one launch takes.
//!
//! A message from a to b goes in round (b - a) mod n, so in every round a rank sends to one rank and receives from one. All
//! ranks take the rounds in one order; within a round the messages of a pair go in the order of the calls, [`STEP`] at a
//! time. A launch takes whole steps. So the first unfinished step always finds both its ends at work: nothing deadlocks,
//! whichever calls a rank makes first and however many launches it needs.

use super::work::{P2P_ITEMS, P2pItem};
use crate::device::DevPtr;
use std::collections::HashMap;

/// Messages of a pair and direction that belong together: a step has two directions and must fit one launch.
const STEP: u32 = P2P_ITEMS as u32 / 2;

/// One send or receive of this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// True for a send.
    pub sends: bool,
    /// The other rank; may be this one.
    pub peer: u32,
    /// The buffer.
    pub at: DevPtr,
    /// Its size; 0 is a message too.
    pub bytes: u64,
    /// Where the program calls it (`device::cpu::line_at`).
    pub site: u64,
}

/// What one launch takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// By round, then in call order.
    pub sends: Vec<P2pItem>,
    /// Likewise.
    pub recvs: Vec<P2pItem>,
}

/// The launches of one group, in order.
pub fn batches(rank: u32, n_ranks: u32, messages: &[Message]) -> Vec<Batch> {
    let mut counts: HashMap<(bool, u32), u32> = HashMap::new();
    let mut keyed: Vec<((u32, u32), &Message)> = Vec::with_capacity(messages.len());
    for message in messages {
        let (from, to) = if message.sends { (rank, message.peer) } else { (message.peer, rank) };
        let round = (to + n_ranks - from) % n_ranks;
        let count = counts.entry((message.sends, message.peer)).or_default();
        keyed.push(((round, *count / STEP), message));
        *count += 1;
    }
    keyed.sort_by_key(|(step, _)| *step);
    let mut batches: Vec<Batch> = Vec::new();
    for step in keyed.chunk_by(|a, b| a.0 == b.0) {
        match batches.last() {
            Some(last) if last.sends.len() + last.recvs.len() + step.len() <= P2P_ITEMS => (),
            _ => batches.push(Batch::default()),
        }
        let batch = batches.last_mut().expect("pushed above");
        for ((round, _), message) in step {
            let item = P2pItem { at: message.at, bytes: message.bytes, peer: message.peer, round: *round, seen: 0 };
            if message.sends { &mut batch.sends } else { &mut batch.recvs }.push(item);
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sends: bool, peer: u32, at: DevPtr) -> Message {
        Message { sends, peer, at, bytes: 8, site: 0 }
    }

    #[test]
    fn rounds_are_distances_and_calls_keep_their_order_in_them() {
        let calls = [message(true, 0, 1), message(false, 3, 2), message(true, 3, 3), message(true, 0, 4), message(true, 1, 5)];
        let [batch] = &batches(1, 4, &calls)[..] else { panic!() };
        let shown = |items: &[P2pItem]| items.iter().map(|item| (item.round, item.peer, item.at)).collect::<Vec<_>>();
        assert_eq!(shown(&batch.sends), [(0, 1, 5), (2, 3, 3), (3, 0, 1), (3, 0, 4)]);
        assert_eq!(shown(&batch.recvs), [(2, 3, 2)]);
        assert!(batches(0, 2, &[]).is_empty());
    }

    /// Every rank is a machine that runs its launches one after the other; in a launch each direction of each round is served
    /// by itself, in order, and a message moves when both ends are at it. Nothing is buffered: the hardest case.
    fn finishes(n_ranks: u32, calls: &[Vec<Message>]) -> bool {
        let mut launches: Vec<Vec<Batch>> = (0..n_ranks).map(|rank| batches(rank, n_ranks, &calls[rank as usize])).collect();
        loop {
            let mut moved = false;
            for batch in launches.iter_mut() {
                if batch.first().is_some_and(|batch| batch.sends.is_empty() && batch.recvs.is_empty()) {
                    batch.remove(0);
                    moved = true;
                }
            }
            for a in 0..n_ranks as usize {
                let Some(send) = launches[a].first().and_then(|batch| batch.sends.first().copied()) else { continue };
                let b = send.peer as usize;
                let recv = launches[b].first().and_then(|batch| batch.recvs.first().copied());
                if recv.is_some_and(|recv| recv.peer as usize == a) {
                    launches[a][0].sends.remove(0);
                    launches[b][0].recvs.remove(0);
                    moved = true;
                }
            }
            if launches.iter().all(Vec::is_empty) {
                return true;
            }
            if !moved {
                return false;
            }
        }
    }

    #[test]
    fn many_messages_in_any_order_of_calls_end_without_buffers() {
        let mut seed = 7u32;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        for n_ranks in [1u32, 2, 3, 5, 8] {
            let mut calls: Vec<Vec<Message>> = vec![Vec::new(); n_ranks as usize];
            for _ in 0..1500 {
                let (a, b) = (random(n_ranks as usize), random(n_ranks as usize));
                // A random place of its own on each side, behind all earlier messages of that pair and direction.
                for (own, peer, sends) in [(a, b, true), (b, a, false)] {
                    let list = &mut calls[own];
                    let first = list.iter().rposition(|m| m.sends == sends && m.peer == peer as u32).map_or(0, |at| at + 1);
                    let at = first + random(list.len() - first + 1);
                    list.insert(at, message(sends, peer as u32, 0));
                }
            }
            assert!(finishes(n_ranks, &calls), "{n_ranks} ranks");
            let most = (0..n_ranks).flat_map(|rank| batches(rank, n_ranks, &calls[rank as usize]));
            assert!(most.into_iter().all(|batch| batch.sends.len() + batch.recvs.len() <= P2P_ITEMS));
        }
    }
}
