//! A visit to one queue of a GDAKI context; what `Context::serve` is for the proxy's queues.

use super::Nic;
use super::requests::{Origin, request};
use super::rings::{Failed, Rings};
use super::watch::failure;
use crate::error::Error;
use crate::gin::carry::{Carrier, FAILED, Turn, tag, untag};
use crate::gin::context::Context;
use crate::gin::plan::Fault;
use crate::gin::proxy::BATCH;
use crate::nic::completion::Syndrome;
use crate::trace;

impl Context {
    /// Copies of rings that fail end the communicator. A kernel that waits for a completion posts nothing more, so nothing need be visited.
    #[inline]
    pub(in crate::gin) fn hear_copies(&self, index: u32, carrier: &mut Carrier) {
        if let Some(Nic::Model(queues)) = &self.nic
            && !carrier.stopped
            && let Some(error) = queues.broken()
        {
            let whose = format!("rank {}, {}", carrier.rank, carrier.name(index));
            let text = format!("rings in GPU memory cannot be copied | {whose} | {error} | fix: see the cause");
            carrier.stop(Error { text, id: FAILED, ..error });
        }
    }

    /// Takes elements until the queue is empty, its batch is full, or one cannot be finished now.
    pub(in crate::gin) fn serve_elements(&mut self, index: u32, peer: u32, carrier: &mut Carrier) -> bool {
        let queues = match self.nic.clone() {
            Some(Nic::Model(queues)) => queues,
            Some(Nic::Card(rings)) => return self.serve_card(&rings, index, peer, carrier),
            None => return false,
        };
        let depth = self.shape.depth as usize;
        let base = peer as usize * depth;
        let counters = self.words.on_host().1;
        let mut turn = Turn { lane: self.lanes.of(peer), open: &mut self.open[base..base + depth], counters };
        if carrier.stopped {
            self.parts.clear();
        }
        let mut worked = turn.resume(carrier);
        let mut left = BATCH.min(carrier.operations);
        while left > 0 && turn.lane.current.is_none() && carrier.bytes > 0 && carrier.suspicion.is_none() {
            if let Some(next) = self.parts.iter().position(|part| part.peer() == peer)
                && let Some(part) = self.parts.remove(next)
            {
                turn.carry(carrier, untag(part.tag()).2, part, true);
                worked = true;
                continue;
            }
            let at = turn.lane.ledger.next();
            let Some(element) = queues.take(peer, at, carrier.stopped) else { break };
            turn.lane.ledger.take();
            left -= 1;
            carrier.operations -= 1;
            worked = true;
            if carrier.stopped {
                continue;
            }
            let number = queues.number(peer);
            if let Ok(element) = &element {
                trace!(NET, "rank {} to {peer}: qp {number:#x} wqe {:#x}: {element}", carrier.rank, at.0);
            }
            let origin = Origin { rank: carrier.rank, peer, context: index, tag: tag(index, peer, at) };
            let checked = element.map_err(Fault::Element).and_then(|element| {
                if let Some(syndrome) = queues.fault().and_then(|fault| fault.hits(&element, carrier.rank, (number, at.0))) {
                    return Err(Fault::Injected { element, syndrome });
                }
                let known = (&*queues, &carrier.handles, &self.limits);
                request(element, origin, known, counters, &mut self.parts)
            });
            match checked {
                Ok(operation) => {
                    carrier.taken += operation.bytes();
                    let parts = self.parts.iter().filter(|part| part.tag() == origin.tag);
                    let (n, bytes) = parts.fold((0, 0), |(n, bytes), part| (n + 1, bytes + part.bytes()));
                    carrier.taken += bytes;
                    if n > 0 {
                        turn.lane.ledger.hold(turn.open, at, None);
                        (0..n).for_each(|_| turn.lane.ledger.add_piece(turn.open, at));
                    }
                    turn.carry(carrier, at, operation, n > 0);
                }
                Err(fault) => {
                    queues.fail(peer, at, fault.syndrome());
                    // The entry that says so stands before the abort, whose sweeps end waits for completions as if all were well.
                    turn.lane.ledger.credit(turn.open, &queues.completions(peer));
                    queues.settle(peer);
                    carrier.stop(fault.error(&format!("{}, queue pair {number:#x}", carrier.whose(origin.tag))));
                }
            }
        }
        if worked && carrier.suspicion.is_none() {
            turn.lane.ledger.credit(turn.open, &queues.completions(peer));
        }
        worked
    }

    /// Rings for a real card, and looks at what it has done. True if there was something.
    fn serve_card(&self, rings: &Rings, index: u32, peer: u32, carrier: &mut Carrier) -> bool {
        if carrier.stopped {
            rings.end(peer);
            return false;
        }
        let rung = rings.ring(peer);
        let (seen, failed) = rings.look(peer);
        // Of others the card itself says more (`watch`).
        if let Some(failed) = failed.filter(Failed::says_why) {
            carrier.stop(failure(carrier, index, peer, (rings.numbers(peer).0, failed)));
        }
        rung || seen
    }

    /// Operation `tag` was taken and failed: its queue says so.
    #[cold]
    pub(in crate::gin) fn fail_element(&self, whose: u64) {
        let (_, peer, at) = untag(whose);
        if let Some(Nic::Model(queues)) = self.nic.as_ref().filter(|_| (peer as usize) < self.lanes.len()) {
            queues.fail(peer, at, Syndrome::Retries);
        }
    }
}
