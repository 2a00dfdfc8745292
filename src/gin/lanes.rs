//! The proxy's state behind each queue of a context. Most queues of a large communicator are never used, and cost a word here.
#![forbid(unsafe_code)]

use super::context::Shape;
use super::ledger::Ledger;
use super::plan::Operation;
use super::tally::Tally;
use crate::seq::Seq;

/// Of one queue: a cache line.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Lane {
    pub ledger: Ledger,
    /// Kernels have claimed up to here, as far as hints say.
    pub claimed: Seq,
    /// Visits without work before a queue without hints is left to the slow scan again.
    pub linger: u32,
    pub active: bool,
    /// An operation that is not wholly submitted; nothing behind it moves.
    pub current: Option<Box<(Seq, Operation)>>,
    /// What was raised through it.
    pub tally: Tally,
}

/// By peer; made when first written.
pub(super) struct Lanes {
    /// One more than the place in `made`; 0: not there yet.
    places: Vec<u32>,
    made: Vec<Lane>,
    /// Where indices start; None: at 0 for all.
    scattered: Option<Shape>,
    /// Where tallies begin, see [`Tally`].
    first_signal: u64,
}

const _: () = assert!(size_of::<Lane>() == 64);

impl Lanes {
    /// Of queues whose indices start at [`Shape::first`].
    pub fn scattered(shape: Shape) -> Self {
        Self { scattered: Some(shape), ..Self::straight(shape.n_ranks) }
    }

    /// Of `n` queues whose indices start at 0.
    pub fn straight(n: u32) -> Self {
        Self { places: vec![0; n as usize], made: Vec::new(), scattered: None, first_signal: 0 }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    fn first(&self, peer: u32) -> Seq {
        self.scattered.map_or(Seq(0), |shape| shape.first(peer))
    }

    /// That of `peer`, one of the ranks.
    #[inline]
    pub fn of(&mut self, peer: u32) -> &mut Lane {
        match self.places[peer as usize] {
            0 => self.make(peer),
            place => &mut self.made[place as usize - 1],
        }
    }

    #[cold]
    fn make(&mut self, peer: u32) -> &mut Lane {
        let start = self.first(peer);
        let tally = Tally::starting_at(self.first_signal);
        self.made.push(Lane { ledger: Ledger::starting_at(start), claimed: start, tally, ..Lane::default() });
        self.places[peer as usize] = self.made.len() as u32;
        self.made.last_mut().expect("pushed just now")
    }

    /// The index that `peer`'s queue is at, and whether it is visited without being searched for.
    #[inline]
    pub fn next(&self, peer: u32) -> (Seq, bool) {
        match self.places[peer as usize] {
            0 => (self.first(peer), false),
            place => {
                let lane = &self.made[place as usize - 1];
                (lane.ledger.next(), lane.active)
            }
        }
    }

    /// Whose have been used.
    pub fn peers(&self) -> Vec<u32> {
        (0..).zip(&self.places).filter(|(_, place)| **place != 0).map(|(peer, _)| peer).collect()
    }

    /// Of `peer`, one of [`Self::peers`].
    pub fn tally(&self, peer: u32) -> &Tally {
        &self.made[self.places[peer as usize] as usize - 1].tally
    }

    /// Counts anew, from the signal at that byte on.
    pub fn count_from(&mut self, first_signal: u64) {
        self.first_signal = first_signal;
        self.made.iter_mut().for_each(|lane| lane.tally = Tally::starting_at(first_signal));
    }

    /// Those that have been used.
    pub fn used(&self) -> impl Iterator<Item = &Lane> {
        self.made.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_starts_where_its_queue_does_and_only_what_is_written_is_made() {
        let shape = Shape { n_ranks: 5, depth: 16, signals: 1, counters: 1, start: Seq(u32::MAX - 3) };
        for mut lanes in [Lanes::scattered(shape), Lanes::straight(5)] {
            let starts: Vec<Seq> = (0..5).map(|peer| lanes.next(peer).0).collect();
            assert_eq!((lanes.len(), lanes.used().count()), (5, 0));
            for peer in [3, 1, 3] {
                let lane = lanes.of(peer);
                lane.active = true;
                let at = lane.ledger.take();
                assert!(lane.claimed == starts[peer as usize] && lanes.next(peer) == (at.next(), true));
            }
            assert_eq!((lanes.next(3).0, lanes.next(0)), (starts[3].next().next(), (starts[0], false)));
            assert_eq!((lanes.used().count(), lanes.peers()), (2, vec![1, 3]));
        }
    }
}
