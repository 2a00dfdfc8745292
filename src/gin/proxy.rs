//! The proxy's loop body: one pure [`Engine::step`], called by the proxy thread and by waiting blocks.
//!
//! A step costs what is active: queues named by hints or found by a slow scan are drained, the others are looked at a
//! slice at a time. It never blocks, moves a bounded number of bytes, and never waits for a half-written descriptor.
#![forbid(unsafe_code)]

use super::Backend;
use super::carry::{Carrier, FAILED, Turn, tag, untag};
use super::context::{Context, Words};
use super::gdaki::Watch;
use super::handles::Handles;
use super::plan::{Fault, plan};
use super::queue;
use super::shared::prefetch;
use super::signal::{self, Pools};
use crate::abort::Abort;
use crate::error::{Code, Error};
use crate::info;
use crate::log::timeline;
use crate::seq::Seq;
use crate::transport::{Completion, Region, Transport};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Descriptors taken from one queue before its credit is published and the next queue has its turn.
pub(super) const BATCH: u32 = 64;
/// Descriptors of one step over all queues, and bytes that it moves itself: transports that let a device do it take more.
const STEP_OPERATIONS: u32 = 1024;
const STEP_BYTES: u64 = 2 << 20;
/// Active queues looked at, and hints read, in one step.
const STEP_VISITS: usize = 256;
const HINTS_AT_ONCE: usize = 1024;
/// So many visits ahead a queue's next slot is asked for.
const AHEAD: usize = 8;
/// Idle visits before a queue that gives no hints is left to the slow scan: this many shared among all active queues,
/// and the least and the most for each.
const LINGER_VISITS: u32 = 8192;
const LINGER: (u32, u32) = (8, 256);
/// Queue heads that the slow scan looks at: in a step that found work, and in one that found none.
const SCAN_BUSY: usize = 4;
pub(super) const SCAN_IDLE: usize = 64;

/// Between two looks at the words of an aborted communicator: a kernel may reset one and wait again.
const RELEASE_AGAIN: Duration = Duration::from_millis(1);

/// Which transport carries to whom.
pub struct Routes {
    /// The transports in use.
    pub transports: Vec<Box<dyn Transport>>,
    /// By peer, an index into `transports`.
    pub by_peer: Vec<u8>,
}

/// Everything of one communicator's GIN that the proxy touches.
pub struct Engine {
    pub(super) contexts: Vec<Context>,
    pub(super) carrier: Carrier,
    done: Vec<Completion>,
    /// What transports were told of, by number; kept until they have forgotten it.
    pub(super) regions: Vec<Option<Region>>,
    /// Where the slow scan goes on.
    scan: (usize, u32),
    /// When the words of an aborted communicator were moved last; None until [`Engine::cancel`].
    released: Option<Instant>,
    /// By [`Backend`].
    pools: [Pools; 2],
    /// Of the proxied contexts, by number; all sets of them share these.
    words: Vec<Arc<Words>>,
    /// Of a real card.
    pub(super) watch: Option<Watch>,
}

impl Engine {
    /// `contexts` are equal in shape; `salt` differs between communicators.
    pub fn new(rank: u32, contexts: Vec<Context>, routes: Routes, abort: Arc<Abort>, salt: u64) -> Self {
        let shape = contexts[0].shape;
        let capabilities = routes.transports.iter().map(|transport| transport.capabilities()).collect();
        Self {
            carrier: Carrier {
                rank,
                names: contexts.iter().map(Context::name).collect(),
                handles: Handles::new(salt),
                transports: routes.transports,
                capabilities,
                by_peer: routes.by_peer,
                abort,
                stopped: false,
                suspicion: None,
                pending: 0,
                operations: 0,
                bytes: 0,
                taken: 0,
                puts: 0,
            },
            words: contexts.iter().map(|context| context.words.clone()).collect(),
            contexts,
            watch: None,
            done: Vec::new(),
            regions: Vec::new(),
            scan: (0, 0),
            released: None,
            pools: std::array::from_fn(|_| Pools::new(shape.signals, shape.counters)),
        }
    }

    /// Serves these, too; of the same shape. The number of the first; None where there would be more than `most`.
    pub(super) fn add(&mut self, contexts: Vec<Context>, most: usize) -> Option<usize> {
        let first = self.contexts.len();
        if first + contexts.len() > most {
            return None;
        }
        self.carrier.names.extend(contexts.iter().map(Context::name));
        self.contexts.extend(contexts);
        Some(first)
    }

    /// Whose ids are taken.
    pub(super) fn pools(&mut self, backend: Backend) -> &mut Pools {
        &mut self.pools[backend.pool()]
    }

    /// Zeroes this rank's words in every proxied context.
    pub fn zero(&self, signals: Range<u32>, counters: Range<u32>) {
        for (of_signals, of_counters) in self.proxied_words() {
            let (signals, counters) = (signals.clone(), counters.clone());
            // Those that the host does not reach are not here.
            [(of_signals, signals), (of_counters, counters)]
                .into_iter()
                .filter(|(words, _)| !words.is_empty())
                .for_each(|(words, ids)| signal::zero(words, ids));
        }
    }

    fn proxied_words(&self) -> impl Iterator<Item = (&[AtomicU64], &[AtomicU64])> {
        self.words.iter().map(|words| words.on_host())
    }

    /// Takes, plans, submits and completes what there is. True if anything moved.
    pub fn step(&mut self) -> bool {
        if !self.carrier.is_decided() {
            return false;
        }
        match self.released {
            None if self.carrier.abort.is_raised() => self.cancel(),
            Some(at) if at.elapsed() > RELEASE_AGAIN => self.release_words(),
            _ => {}
        }
        if let Some(watch) = &mut self.watch {
            watch.step(&mut self.carrier);
        }
        let mut moved = self.complete();
        let mut idle = 0;
        self.carrier.operations = STEP_OPERATIONS;
        self.carrier.bytes = STEP_BYTES;
        for (index, context) in self.contexts.iter_mut().enumerate() {
            context.hear(index as u32, &mut self.carrier);
            moved |= context.follow_hints(index, &mut self.carrier).moved;
            let visits = context.go_round(index, &mut self.carrier);
            moved |= visits.moved;
            idle += visits.idle;
        }
        self.flush();
        // The search may cost as much as visits that were for nothing, so it never falls behind them.
        self.look_around(idle + if moved { SCAN_BUSY } else { SCAN_IDLE });
        moved
    }

    /// What this step took goes, where transports gather.
    fn flush(&mut self) {
        let carrier = &mut self.carrier;
        if let Some(error) = carrier.transports.iter_mut().find_map(|transport| transport.flush().err())
            && !carrier.stopped
        {
            carrier.stop(error);
        }
    }

    /// The slow scan: finds queues of kernels that write no hints.
    pub(super) fn look_around(&mut self, slice: usize) {
        let all = self.contexts.len() * self.contexts[0].lanes.len();
        let (mut index, mut peer) = self.scan;
        let mut left = slice.min(all);
        while left > 0 {
            let context = &mut self.contexts[index];
            let end = context.lanes.len().min(peer as usize + left);
            left -= end - peer as usize;
            while (peer as usize) < end {
                if context.is_found(peer) {
                    context.activate(peer);
                    context.lanes.of(peer).linger = LINGER.0;
                }
                peer += 1;
            }
            if end == context.lanes.len() {
                peer = 0;
                index = if index + 1 == self.contexts.len() { 0 } else { index + 1 };
            }
        }
        self.scan = (index, peer);
    }

    /// Collects completions. Their errors end the communicator.
    fn complete(&mut self) -> bool {
        let carrier = &mut self.carrier;
        let mut moved = false;
        for (transport, capabilities) in carrier.transports.iter_mut().zip(&carrier.capabilities) {
            if carrier.pending == 0 && !capabilities.polled {
                continue;
            }
            match transport.progress(&mut self.done) {
                Ok(some) => moved |= some,
                Err(error) => {
                    carrier.stop(error);
                    break;
                }
            }
        }
        // Completions of one queue mostly come together: its credit is published once, behind the last of them.
        let mut uncredited = None;
        for (tag, result) in self.done.drain(..) {
            moved = true;
            if carrier.stopped {
                continue;
            }
            let (index, peer, at) = untag(tag);
            if let Err(error) = result {
                self.contexts.get(index).into_iter().for_each(|context| context.fail_element(tag));
                carrier.failed(tag, error);
                continue;
            }
            if uncredited != Some((index, peer)) {
                credit(&mut self.contexts, uncredited.replace((index, peer)));
            }
            let context = self.contexts.get_mut(index).filter(|context| (peer as usize) < context.lanes.len());
            match context.and_then(|context| context.reap(peer, at)) {
                Some(is_done) => {
                    carrier.pending -= 1;
                    if is_done && timeline::is_on() {
                        timeline::done(carrier.abort.host_address(), tag);
                    }
                }
                None => {
                    uncredited = None;
                    let error = Error::new(Code::InternalError, FAILED, "completion of work that is not under way");
                    carrier.failed(tag, error);
                }
            }
        }
        credit(&mut self.contexts, uncredited);
        moved
    }

    /// From here on nothing moves: what is under way is dropped, all taken descriptors are credited, and words that kernels
    /// may wait on are moved.
    fn cancel(&mut self) {
        // First of all: should a transport panic below, the next step drains all the same.
        self.released = Some(Instant::now());
        self.carrier.stopped = true;
        self.carrier.pending = 0;
        self.done.clear();
        for context in &mut self.contexts {
            context.lanes.peers().into_iter().for_each(|peer| context.credit(peer, true));
        }
        self.release_words();
        // Behind that: their peers are told, and one whose machine has gone takes the time that the word may have.
        for transport in &mut self.carrier.transports {
            transport.abort();
        }
    }

    /// Moves the words that kernels may wait on, for those that know no abort word; again after a kernel has reset one.
    fn release_words(&mut self) {
        self.released = Some(Instant::now());
        let taken = &self.pools[Backend::Proxy.pool()];
        for (signals, counters) in self.proxied_words() {
            // Those that the host does not reach are released by who hears of an abort.
            taken.signals.taken().filter_map(|id| signals.get(id)).for_each(signal::release);
            taken.counters.taken().filter_map(|id| counters.get(id)).for_each(signal::release);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Carrier { rank, taken, puts, names, .. } = &self.carrier;
        info!(NET, "GIN of rank {rank} has taken {taken} bytes of payload in {puts} puts, {}", names[0]);
    }
}

/// What a round over the active queues came to.
#[derive(Default)]
struct Visits {
    moved: bool,
    /// Queues with nothing ready.
    idle: usize,
}

impl Context {
    /// True if no queue is to be visited, and no kernel says anything else.
    pub(super) fn rests(&self) -> bool {
        self.active.is_empty() && !self.hints.wait() && self.refusal[0].load(Ordering::Relaxed) == 0
    }

    /// What no visit would find ends the communicator: a kernel refused to do something, and posted nothing, or copies of rings fail.
    #[inline]
    fn hear(&self, index: u32, carrier: &mut Carrier) {
        let word = self.refusal[0].load(Ordering::Relaxed);
        if word != 0 && !carrier.stopped {
            let whose = format!("rank {}, {}", carrier.rank, carrier.name(index));
            carrier.stop(Fault::refusal(word).error(&whose));
        }
        self.hear_copies(index, carrier);
    }

    /// Visits the queues that hints name: reads the hints first, so that one visit serves all those of one queue.
    fn follow_hints(&mut self, index: usize, carrier: &mut Carrier) -> Visits {
        let mut visits = Visits::default();
        let Some(first) = self.hints.read() else { return visits };
        let mut found = std::mem::take(&mut self.found);
        let mut next = Some(first);
        for _ in 0..HINTS_AT_ONCE {
            let Some(hint) = next.take().or_else(|| self.hints.read()) else { break };
            if hint.peer as usize >= self.lanes.len() {
                continue;
            }
            let lane = self.lanes.of(hint.peer);
            // The slow scan may have been first; a queue with hints need not linger.
            lane.linger = 0;
            if !hint.end.at_or_before(lane.claimed) {
                lane.claimed = hint.end;
            }
            if !lane.active && !lane.claimed.at_or_before(lane.ledger.next()) {
                lane.active = true;
                found.push(hint.peer);
            }
        }
        for (i, &peer) in found.iter().enumerate() {
            if let Some(&later) = found.get(i + AHEAD) {
                prefetch(self.head(later));
            }
            self.lanes.of(peer).active = false;
            self.visit(index, peer, LINGER.0, carrier, &mut visits);
        }
        found.clear();
        self.found = found;
        visits
    }

    /// Visits active queues in turn.
    fn go_round(&mut self, index: usize, carrier: &mut Carrier) -> Visits {
        let mut visits = Visits::default();
        if self.active.is_empty() {
            return visits;
        }
        let patience = (LINGER_VISITS / (self.active.len() as u32 + 1)).clamp(LINGER.0, LINGER.1);
        for _ in 0..self.active.len().min(STEP_VISITS) {
            if carrier.operations == 0 || carrier.bytes == 0 {
                break;
            }
            if let Some(&later) = self.active.get(AHEAD) {
                prefetch(self.head(later));
            }
            let Some(peer) = self.active.pop_front() else { break };
            self.lanes.of(peer).active = false;
            self.visit(index, peer, patience, carrier, &mut visits);
        }
        visits
    }

    /// Serves a queue that is not among the active ones, and puts it there if more is to be expected.
    #[inline(always)]
    fn visit(&mut self, index: usize, peer: u32, patience: u32, carrier: &mut Carrier, visits: &mut Visits) {
        let worked = match self.nic {
            None => self.serve(index as u32, peer, carrier),
            Some(_) => self.serve_elements(index as u32, peer, carrier),
        };
        visits.moved |= worked;
        visits.idle += usize::from(!worked);
        let lane = self.lanes.of(peer);
        let expected = lane.current.is_some() || !lane.claimed.at_or_before(lane.ledger.next());
        if worked && lane.linger > 0 {
            lane.linger = patience;
        } else if !expected && !worked {
            lane.linger = lane.linger.saturating_sub(1);
        }
        if expected || lane.linger > 0 {
            self.activate(peer);
        }
    }

    /// Takes descriptors of one queue until it is empty, its batch is full, or one cannot be finished now.
    #[inline]
    fn serve(&mut self, index: u32, peer: u32, carrier: &mut Carrier) -> bool {
        let depth = self.shape.depth as usize;
        let base = peer as usize * depth;
        let lane = self.lanes.of(peer);
        let slots = &self.queues[base..base + depth];
        let open = &mut self.open[base..base + depth];
        let mut turn = Turn { lane, open, counters: self.words.on_host().1, refuses: None };
        let mut worked = turn.resume(carrier);
        let mut left = BATCH.min(carrier.operations);
        while left > 0 && turn.lane.current.is_none() && carrier.bytes > 0 && carrier.suspicion.is_none() {
            let at = turn.lane.ledger.next();
            if at == turn.lane.claimed && turn.lane.linger == 0 {
                // Only hints brought us here, and they promise no more: spare the look at a cold slot.
                break;
            }
            let slot = &slots[at.0 as usize & (depth - 1)];
            let Some(words) = queue::take(slot) else { break };
            turn.lane.ledger.take();
            left -= 1;
            carrier.operations -= 1;
            worked = true;
            if carrier.stopped {
                continue;
            }
            match plan(&words, &carrier.handles, &self.limits, index, peer, tag(index, peer, at)) {
                Ok(operation) => {
                    carrier.taken += operation.bytes();
                    carrier.puts += u64::from(operation.bytes() > 0);
                    if timeline::is_on() {
                        carrier.write_down(&operation, tag(index, peer, at), (slot.as_ptr().addr(), at.0));
                    }
                    turn.carry(carrier, at, operation, false)
                }
                Err(fault) => carrier.stop(fault.error(&carrier.whose(tag(index, peer, at)))),
            }
        }
        if worked && carrier.suspicion.is_none() {
            turn.lane.ledger.credit(turn.open, &self.cis[peer as usize]);
        }
        worked
    }

    /// One pending piece of operation `at` came back: whether that was the last; None if none was under way.
    fn reap(&mut self, peer: u32, at: Seq) -> Option<bool> {
        let depth = self.shape.depth as usize;
        let open = &mut self.open[peer as usize * depth..][..depth];
        Turn { lane: self.lanes.of(peer), open, counters: self.words.on_host().1, refuses: None }.reap(at)
    }
}

/// Publishes the credit of one queue, by context and peer.
fn credit(contexts: &mut [Context], queue: Option<(usize, u32)>) {
    let Some((index, peer)) = queue else { return };
    contexts[index].credit(peer, false);
}
