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
        let refuses = |at| queues.fail(peer, at, Syndrome::Retries);
        let mut turn =
            Turn { lane: self.lanes.of(peer), open: &mut self.open[base..base + depth], counters, refuses: Some(&refuses) };
        let mut worked = turn.resume(carrier);
        let mut left = BATCH.min(carrier.operations);
        while left > 0 && turn.lane.current.is_none() && carrier.bytes > 0 && carrier.suspicion.is_none() {
            if carrier.stopped {
                // Perhaps by the piece before them.
                self.parts.clear();
            }
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

#[cfg(test)]
mod tests {
    use super::super::{Card, build, keys};
    use super::*;
    use crate::abort::Abort;
    use crate::device::cpu::CpuDevice;
    use crate::device::{ControlMemory, Device};
    use crate::error::{Code, Result};
    use crate::gin::context::{Shape, Words};
    use crate::gin::gdaki::queues::{Handler, Queues};
    use crate::gin::proxy::{Engine, Routes};
    use crate::nic::completion;
    use crate::nic::element::INLINE;
    use crate::seq::Seq;
    use crate::sync::Mutex;
    use crate::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    const DEPTH: u32 = 4;
    const WINDOW: u64 = 4 << 20;

    /// What it says of each piece; and then that it is done.
    struct Scripted {
        answers: VecDeque<Option<Submitted>>,
        pieces: Arc<Mutex<usize>>,
    }

    impl Transport for Scripted {
        fn capabilities(&self) -> Capabilities {
            Capabilities::of("scripted", u64::MAX)
        }
        fn register(&mut self, _: &Region) -> Result<()> {
            Ok(())
        }
        fn deregister(&mut self, _: u32) {}
        fn submit(&mut self, _: &Work) -> Result<Submitted> {
            *self.pieces.lock() += 1;
            let answer = self.answers.pop_front().unwrap_or(Some(Submitted::Done));
            answer.ok_or_else(|| Error::new(Code::SystemError, 1, "as the script has it"))
        }
        fn progress(&mut self, _: &mut Vec<Completion>) -> Result<bool> {
            Ok(false)
        }
        fn abort(&mut self) {}
    }

    /// Rank 0 of 2, and what its kernels post to rank 1.
    struct World {
        engine: Engine,
        abort: Arc<Abort>,
        queues: Arc<Queues>,
        window: u64,
        posted: u32,
        pieces: Arc<Mutex<usize>>,
    }

    fn world(answers: &[Option<Submitted>]) -> World {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let abort = Arc::new(Abort::new(ControlMemory::anonymous(4096).unwrap()));
        let shape = Shape { n_ranks: 2, depth: DEPTH, signals: 1, counters: 1, start: Seq(0) };
        let card = Card::model(Handler::Cpu, false);
        let (contexts, _) = build(&device, shape, &[Arc::new(Words::Foreign)], &card, (0, 0), &abort).unwrap();
        let Some(Nic::Model(queues)) = contexts[0].nic.clone() else { panic!("the model was asked for") };
        let pieces = Arc::new(Mutex::new(0));
        let transport = Scripted { answers: answers.iter().copied().collect(), pieces: pieces.clone() };
        let routes = Routes { transports: vec![Box::new(transport)], by_peer: vec![0; 2] };
        let mut engine = Engine::new(0, contexts, routes, abort.clone(), 1);
        let window = engine.carrier.handles.insert(0, WINDOW).unwrap().1;
        World { engine, abort, queues, window, posted: 0, pieces }
    }

    impl World {
        /// A write of so many bytes, with its segments and `count`, as its header has it.
        fn post(&mut self, segments: u8, count: u32) {
            let mut bytes = [0u8; 64];
            bytes[..4].copy_from_slice(&(self.posted << 8 | 8).to_be_bytes());
            bytes[4..8].copy_from_slice(&(self.queues.number(1) << 8 | u32::from(segments)).to_be_bytes());
            bytes[24..28].copy_from_slice(&keys::of_window(self.window, 1).to_be_bytes());
            bytes[32..36].copy_from_slice(&count.to_be_bytes());
            bytes[36..40].copy_from_slice(&keys::of_window(self.window, 0).to_be_bytes());
            let [slots, _] = self.queues.of_kernels();
            let slot = &slots[(DEPTH + self.posted) as usize];
            for (word, bytes) in slot.iter().zip(bytes.chunks(8)) {
                word.store(u64::from_le_bytes(bytes.try_into().unwrap()), Ordering::Relaxed);
            }
            self.posted += 1;
            self.queues.ring(1, Seq(self.posted));
        }

        /// What completions say of what was posted, all of which is complete.
        fn syndromes(&self) -> Vec<Option<Syndrome>> {
            let [_, entries] = self.queues.of_kernels();
            let entry = |at| &entries[(DEPTH + at) as usize];
            let ended = |at| completion::read(entry(at), DEPTH, at).expect("complete").1;
            let known = |(found, _): (u8, u8)| Syndrome::of(found).expect("one of a card's");
            (0..self.posted).map(|at| ended(at).syndrome.map(known)).collect()
        }

        fn steps(&mut self) {
            (0..20).for_each(|_| _ = self.engine.step());
        }
    }

    /// Whichever piece fails, and also where it waited for its turn: its element's entry says so, and the next one's.
    #[test]
    fn nothing_follows_a_piece_that_failed() {
        use Submitted::{Done, Full};
        for answers in [&[None][..], &[Some(Done), None], &[Some(Full), None], &[Some(Done), Some(Full), None]] {
            let mut world = world(answers);
            world.post(4, INLINE | 28);
            world.post(3, 64);
            let (queues, seen) = (world.queues.clone(), Arc::new(Mutex::new(None)));
            let at_abort = seen.clone();
            world.abort.on_raise(move |_| *at_abort.lock() = Some(queues.result(1, 0)));
            world.steps();
            assert_eq!(*seen.lock(), Some(Err(Syndrome::Retries)), "before the abort, {answers:?}");
            assert_eq!(world.abort.cause().map(|cause| cause.id), Some(FAILED));
            assert_eq!(*world.pieces.lock(), answers.len(), "{answers:?}");
            assert_eq!(world.syndromes(), [Some(Syndrome::Retries), Some(Syndrome::Flushed)], "{answers:?}");
        }
        let mut world = world(&[Some(Done), None]);
        (0..3).for_each(|_| world.post(3, 64));
        world.steps();
        assert_eq!(world.syndromes(), [None, Some(Syndrome::Retries), Some(Syndrome::Flushed)]);
    }

    /// The first piece is done, and the step's bytes are used up.
    #[test]
    fn a_window_is_in_use_while_pieces_wait() {
        let mut world = world(&[]);
        world.post(3, (2 << 20) - 4);
        world.post(4, INLINE | 28);
        while *world.pieces.lock() < 2 {
            world.engine.step();
        }
        assert_eq!(*world.pieces.lock(), 2);
        world.engine.deregister(world.window).unwrap();
        let cause = world.abort.cause().expect("pieces for it wait").to_string();
        assert!(cause.contains("deregistered while a put uses it") && cause.contains("operation 1 to rank 1"), "{cause}");
    }
}
