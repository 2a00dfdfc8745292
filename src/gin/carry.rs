//! Carries operations out: piece by piece to the transport, with the ledger remembering what is not done at once.
#![forbid(unsafe_code)]

use super::handles::Handles;
use super::lanes::Lane;
use super::ledger::{Open, Reaped};
use super::plan::Operation;
use crate::abort::Abort;
use crate::error::Error;
use crate::log::timeline::{self, Taken};
use crate::seq::Seq;
use crate::transport::{Capabilities, Submitted, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Error number of an operation that was taken and failed.
pub const FAILED: u16 = 50;

/// How long those who watch a peer may take to tell what became of it.
const NEWS: Duration = Duration::from_millis(300);

/// What carrying out a descriptor needs, apart from its queue.
pub(super) struct Carrier {
    pub rank: u32,
    /// How messages call each context.
    pub names: Vec<String>,
    pub handles: Handles,
    pub transports: Vec<Box<dyn Transport>>,
    pub capabilities: Vec<Capabilities>,
    pub by_peer: Vec<u8>,
    pub abort: Arc<Abort>,
    /// From the first refusal or failure on, in the same step already, and after every abort: descriptors are consumed and
    /// credited, nothing moves. What is behind an operation that did not happen must not happen either.
    pub stopped: bool,
    /// What has stopped it, while somebody else may know the cause, and since when. Nothing is credited before the abort is up.
    pub suspicion: Option<(Error, Instant)>,
    /// Pieces that a transport has not finished.
    pub pending: u64,
    /// Descriptors, and bytes done at once, that this step may still take.
    pub operations: u32,
    pub bytes: u64,
    /// Payloads of all descriptors that were taken. Bytes.
    pub taken: u64,
    /// How many of them have one.
    pub puts: u64,
}

/// What a completion brings back: which operation of which queue. 12 bits of context, 20 of peer, 32 of index.
pub(super) fn tag(context: u32, peer: u32, at: Seq) -> u64 {
    u64::from(context) << 52 | u64::from(peer) << 32 | u64::from(at.0)
}

pub(super) fn untag(tag: u64) -> (usize, u32, Seq) {
    ((tag >> 52) as usize, (tag >> 32) as u32 & 0xf_ffff, Seq(tag as u32))
}

/// One queue while its operations are carried out.
pub(super) struct Turn<'a> {
    pub lane: &'a mut Lane,
    pub open: &'a mut [Open],
    pub counters: &'a [AtomicU64],
    /// Is told of an operation that its transport refuses, before that ends the communicator: who sees the abort sees what failed.
    pub refuses: Option<&'a dyn Fn(Seq)>,
}

impl Turn<'_> {
    /// Goes on with the current operation; true if anything was taken.
    pub fn resume(&mut self, carrier: &mut Carrier) -> bool {
        if carrier.stopped {
            return false;
        }
        let Some(current) = self.lane.current.take() else { return false };
        let (at, operation) = *current;
        let before = operation.submitted();
        self.carry(carrier, at, operation, true);
        self.lane.current.as_ref().is_none_or(|current| current.1.submitted() > before)
    }

    /// Submits what the transport takes. An operation that is not done at once is held in the ledger; one that is not
    /// wholly submitted stays the queue's current one. A transport that finishes at once gets one piece in a step.
    #[inline]
    pub fn carry(&mut self, carrier: &mut Carrier, at: Seq, mut operation: Operation, mut held: bool) {
        let route = carrier.by_peer[operation.peer() as usize] as usize;
        let max = carrier.capabilities[route].piece;
        if timeline::is_on() {
            timeline::carrying(carrier.abort.host_address());
        }
        while let Some(piece) = operation.piece(max) {
            let submitted = match carrier.transports[route].submit(&piece) {
                Ok(submitted) => submitted,
                Err(error) => {
                    self.refuses.iter().for_each(|refuses| refuses(at));
                    return carrier.failed(piece.tag, error);
                }
            };
            if submitted == Submitted::Done {
                // What this thread moved itself. Bytes that a device moves cost a step nothing.
                carrier.bytes = carrier.bytes.saturating_sub(piece.bytes);
            }
            if let Some((offset, value)) = piece.signal.filter(|_| submitted != Submitted::Full) {
                self.lane.tally.add(offset, value);
            }
            let last = submitted != Submitted::Full && operation.took(&piece);
            if last && submitted == Submitted::Done {
                break;
            }
            if !held {
                self.lane.ledger.hold(self.open, at, operation.counter());
                held = true;
            }
            if submitted == Submitted::Pending {
                self.lane.ledger.add_piece(self.open, at);
                carrier.pending += 1;
                if last {
                    break;
                }
                continue;
            }
            self.lane.current = Some(Box::new((at, operation)));
            return;
        }
        let is_done = !held || self.reap(at) == Some(true);
        if let (false, Some(id)) = (held, operation.counter()) {
            self.raise_counter(id);
        }
        if is_done && timeline::is_on() {
            timeline::done(carrier.abort.host_address(), operation.tag());
        }
    }

    /// Whether the operation is done; None if no piece of it was under way.
    pub fn reap(&mut self, at: Seq) -> Option<bool> {
        let reaped = self.lane.ledger.reap(self.open, at)?;
        if let Reaped::Done(Some(id)) = reaped {
            self.raise_counter(id);
        }
        Some(reaped != Reaped::Partly)
    }

    /// Before the index moves over the operation: who sees the credit sees the counter.
    fn raise_counter(&self, id: u16) {
        self.counters[id as usize].fetch_add(1, Ordering::Release);
    }
}

impl Carrier {
    /// Nothing moves from here on, and the communicator ends with `error`. The abort is up before anything is credited. A peer that
    /// is to blame may have gone because of another: whoever watches it knows a moment later.
    #[cold]
    pub fn stop(&mut self, error: Error) {
        let blames = error.culprit.is_some_and(|culprit| culprit != self.rank);
        if blames && !self.stopped {
            self.suspicion = Some((error, Instant::now()));
        } else if self.suspicion.is_none() {
            self.abort.raise(error);
        }
        self.stopped = true;
    }

    /// True unless a suspicion stands that may turn out to be of somebody else.
    pub fn is_decided(&mut self) -> bool {
        let Some((error, since)) = self.suspicion.take() else { return true };
        if self.abort.is_raised() || since.elapsed() >= NEWS {
            self.abort.raise(error);
            return true;
        }
        self.suspicion = Some((error, since));
        false
    }

    /// For the timeline: what was taken from the slot at this address, and which index of its queue it was. Inline: an operation whose
    /// address goes to another function is copied behind it, which made a step 8 ns of 31 slower (benches/proxy).
    #[inline(always)]
    pub fn write_down(&self, operation: &Operation, tag: u64, slot: (usize, u32)) {
        let (owner, peer, bytes) = (self.abort.host_address(), operation.peer(), operation.bytes());
        timeline::take(Taken { owner, tag, slot, peer, bytes, signal: operation.signal(), counter: operation.counter() });
    }

    #[cold]
    pub fn failed(&mut self, tag: u64, error: Error) {
        let whose = self.whose(tag);
        let text = format!("GIN operation failed | {whose} | {error} | fix: see the cause");
        self.stop(Error { text, id: FAILED, ..error });
    }

    /// See [`super::context::Context::name`].
    pub fn name(&self, context: u32) -> &str {
        self.names.get(context as usize).map_or("unknown context", String::as_str)
    }

    #[cold]
    pub fn whose(&self, tag: u64) -> String {
        let (context, peer, at) = untag(tag);
        format!("rank {}, {}, operation {} to rank {peer}", self.rank, self.name(context as u32), at.0)
    }
}
