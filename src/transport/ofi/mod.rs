//! Peers on other machines, by libfabric: TCP, and RDMA cards with the same code.
//!
//! A *link* is one connection, from a rank to a peer for one *stream*: contexts share four of them. It is dialled when something is to
//! be sent (`door` lets it in, `proof` is how both ends know each other). Small puts of one step of the proxy gather in a message,
//! which the target checks and lands (`outgoing`, `wire`, `incoming`); large ones are writes into the target's registered window,
//! checked by the provider against its key and bounds (`memory`), with data that raise the signal. What goes over a link stays in
//! order, and every message and write is numbered, so that one number says what has landed: the target tells it when a good part of
//! the sender's window is used, when it asks, and by and by when nothing else is to do.
//!
//! | file | what |
//! |---|---|
//! | `sys`, `library` | libfabric's types and its exported functions |
//! | `starting` | no fork while its providers start |
//! | `provider`, `net`, `endpoint`, `listen`, `failure` | which provider carries; its objects with Rust's types |
//! | `single`, `rdm`, `arrivals`, `session`, `waiting`, `places` | links over one endpoint that has no connections |
//! | `spread`, `helper` | a hub for each stream, and threads that drive them while much goes over them |
//! | `sockets` | which of the process's are libfabric's: closed on exec, and none is a stranger's for long |
//! | `stalls` | what was sent over a socket and nobody acknowledges |
//! | `retired` | memory of windows that have gone, into which something may still be landing |
//! | `hub`, `links`, `parting` | all links of a rank: what comes is handed to the one that it is for; how they come and go |
//! | `dial`, `search` | how it calls a peer, and which of the places where that listens it asks |
//! | `room`, `buffers`, `post` | how much a link may have under way; memory of messages; what is posted and not yet done |
//! | `staging`, `reading` | GPU memory: all payloads in messages, which the copy engine fills and empties |
//!
//! Traps: completions say that a source is reusable and nothing more (FI_DELIVERY_COMPLETE has been claimed falsely); a write may land
//! before an earlier message has been looked at, so one to the same place waits; keys go before memory does.

use super::factory::{self, Answer, Pair, Setup, Share};
use super::mapped::Payload;
use super::pipeline::LAST_COPIES;
use super::remote::{Header, Remote};
use super::wait::{self, Step, wait, within};
use super::{Capabilities, Completion, Landing, Part, Region, Source, Submitted, Transport, Words, Work};
use crate::device::{DevPtr, Device, Kind};
use crate::error::Result;
use crate::{bail, log};
use dial::Way;
use door::Address;
use hub::Link;
pub use hub::Ofi;
use outgoing::Carried;
use rustix::fd::{AsFd, BorrowedFd};
use spread::{Spread, When};
use std::borrow::Cow;
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{ABORTED, LEFT, SMALL};

mod arrivals;
mod buffers;
mod dial;
mod door;
mod endpoint;
mod failure;
mod helper;
#[cfg(test)]
mod helper_tests;
mod hub;
mod incoming;
mod library;
mod links;
mod listen;
mod memory;
mod net;
mod outgoing;
mod parting;
mod places;
mod post;
mod proof;
mod provider;
mod rdm;
mod reading;
mod registered;
mod retired;
mod room;
mod search;
mod session;
mod single;
mod sockets;
mod spread;
mod staging;
#[cfg(test)]
mod staging_tests;
mod stalls;
mod starting;
pub mod sys;
#[cfg(test)]
mod tests;
mod waiting;
mod wire;

/// A message of a peer, and what a stranger says when it connects: records lie within the message, a hello is read whole or not at all.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    wire::fuzz(bytes);
    let _ = proof::Hello::decode(bytes);
    session::fuzz(bytes);
}

/// What the checks of `rounds` puts like `work` cost at the source and at the target, of regions that this rank has: for the benchmark.
#[doc(hidden)]
pub fn time_checks(regions: &[Region], work: &Work, rounds: u32) -> Result<[Duration; 2]> {
    let (mut bounds, name) = (Remote::new(NAME), random_key()?);
    regions.iter().try_for_each(|region| bounds.register(region, name))?;
    fn time(rounds: u32, check: impl Fn() -> bool) -> Duration {
        let begin = Instant::now();
        assert!((0..rounds).all(|_| check()));
        begin.elapsed()
    }
    let source = time(rounds, || bounds.outgoing(black_box(work), PIECE).is_ok());
    let landing = |bytes, to, signal| bounds.incoming(bytes, to, signal).is_ok();
    let target = time(rounds, || landing(black_box(work.bytes), black_box((name, work.target.1)), black_box(work.signal)));
    Ok([source, target])
}

/// What would carry to other machines from `address` of this one, "tcp on eth0"; or why nothing does.
pub fn carrier(address: IpAddr) -> std::result::Result<String, String> {
    let traits = provider::choose(address)?.traits();
    let untried = if traits.name.split(';').any(|part| UNTRIED.contains(&part)) { ", not verified on hardware" } else { "" };
    Ok(format!("{} on {}{untried}", traits.name, traits.device))
}

const NAME: &str = "ofi";
/// Providers of cards. No card has been tried: verbs on soft RoCE alone (scripts/rxe).
const UNTRIED: [&str; 3] = ["verbs", "efa", "cxi"];
/// Most bytes of a write.
const PIECE: u64 = 1 << 20;
/// Links to a peer: contexts beyond share them.
const STREAMS: u32 = 4;
/// Looks in vain after which senders are told what has landed, if it is time.
const IDLE: u32 = 256;
/// So many looks at completions for one at events of connections.
const EVENTS_EVERY: u32 = 32;
/// How long a rank that leaves waits until its senders have heard of it.
const FAREWELL: Duration = Duration::from_millis(50);
/// And before that, until its last words have gone: a lost one is repeated by a card after 70 ms or so.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Its line in the list.
pub struct Factory;

impl factory::Factory for Factory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn far(&self) -> bool {
        true
    }

    /// The first call loads libfabric and lets it look for its providers: 0.1 s of a core and 512 naps of its dependencies, which on a
    /// machine with a load of 100 took up to 38 s.
    fn here(&self, _device: &dyn Device, address: IpAddr) -> std::result::Result<(), Cow<'static, str>> {
        provider::choose(address).map(drop).map_err(Cow::from)
    }

    fn can(&self, pair: &Pair) -> Answer {
        match pair.kind {
            Kind::Cpu if pair.same_machine => Ok("by libfabric"),
            Kind::Cpu => Ok("another machine"),
            Kind::Cuda if pair.same_machine => Ok("by libfabric, through host memory"),
            Kind::Cuda => Ok("another machine, through host memory"),
        }
    }

    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        let info = || hub::chosen(setup.address);
        if spread::is_wanted(&info()?, setup) {
            let (spread, words) = Spread::new(setup, info, When::USUAL)?;
            return Ok((Box::new(spread), words));
        }
        let queue = || setup.device.copy_queue();
        let staged = setup.device.kind() == Kind::Cuda;
        let (ofi, words) = Ofi::new(setup, staged.then_some(&queue as _))?;
        Ok((Box::new(ofi), words))
    }
}

/// `N` bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => bail!(SystemError, 7, "no random bytes | {NAME} | {error} | fix: look at /dev/urandom"),
    }
}

fn random_key() -> Result<u64> {
    Ok(u64::from_le_bytes(random()?))
}

/// Where rank `peer` listens for `stream`, as it said.
fn address_of(said: &[Words], peer: u32, stream: u32) -> Result<Address<'_>> {
    match said.get(peer as usize).and_then(|words| Address::decode(words.of(NAME), stream)) {
        Some(address) => Ok(address),
        None => bail!(
            RemoteError,
            53,
            "a peer says nothing of where it listens | {NAME}, rank {peer} | fix: load the same libginrs on every rank"
        ),
    }
}

/// Until what was sent has landed; lands meanwhile what others send, who may wait for the same. A link that ends loses what is on it alone.
fn land(transport: &mut dyn Transport, patience: Duration) -> Result<()> {
    let (mut done, mut lost) = (Vec::new(), None);
    let landed = wait(patience, || match transport.landing().left() {
        0 => Ok(Step::Idle),
        _ => match transport.progress(&mut done) {
            Err(error) if error.culprit.is_some() => {
                lost.get_or_insert(error);
                Ok(Step::Moved)
            }
            moved => moved.map(Step::of),
        },
    })?;
    match lost {
        Some(error) => Err(error),
        None if landed => Ok(()),
        None => Err(wait::not_landed(NAME, &transport.unlanded())),
    }
}

/// The end of `transport`, a rank's, whose links `hubs` finds.
fn leave<T: Transport>(transport: &mut T, patience: Duration, hubs: impl FnOnce(&mut T) -> Vec<&mut Ofi>) -> Result<()> {
    let left = land(transport, patience);
    let mut hubs = hubs(transport);
    if hubs.iter().all(|hub| hub.stopped) {
        return left;
    }
    hubs.iter_mut().for_each(|hub| _ = hub.tell());
    // What a card has not brought over when its endpoint goes is lost. An error is one link's, and the others' words are under way.
    within(LAST_WORD, || {
        let left: usize = hubs.iter_mut().map(|hub| hub.end(LEFT)).sum();
        hubs.iter_mut().for_each(|hub| _ = hub.progress(&mut Vec::new()));
        left == 0
    });
    // A connection that is closed with something unread loses what was said last: the senders close first.
    let has_senders = |hub: &&mut Ofi| hub.links.iter().any(|link| matches!(link, Link::From(_)));
    within(FAREWELL, || {
        hubs.iter_mut().for_each(|hub| _ = hub.progress(&mut Vec::new()));
        !hubs.iter().any(has_senders)
    });
    for hub in hubs {
        hub.drain().unwrap_or_else(|error| log::error(&error));
        hub.stop(Instant::now());
    }
    left
}

/// Nothing moves from here on: the senders of all hubs are told, in one wait of a moment. What comes meanwhile is dropped.
fn abort(mut hubs: Vec<&mut Ofi>) {
    within(FAREWELL, || {
        let left: usize = hubs.iter_mut().map(|hub| hub.end(ABORTED)).sum();
        hubs.iter_mut().for_each(|hub| _ = hub.words_only());
        left == 0
    });
    let deadline = Instant::now() + LAST_COPIES;
    hubs.into_iter().for_each(|hub| hub.stop(deadline));
}

impl Ofi {
    /// The number of the first piece that is not known to have landed.
    fn oldest(&self) -> Option<u64> {
        let oldest = self.links.iter().filter_map(|link| match link {
            Link::To(to) => to.oldest(),
            _ => None,
        });
        oldest.min()
    }

    /// After `forget_wakeups`: true if there is nothing to do by now. An error is the next step's: who is about to sleep takes none.
    fn is_still(&mut self) -> Result<bool> {
        let still = self.failed.is_none()
            && self.has_nothing_to_do().unwrap_or_else(|error| {
                self.failed = Some(error);
                false
            });
        Ok(still)
    }

    /// What is to be looked at now and then.
    fn tend(&mut self) -> Result<()> {
        self.sockets.tend();
        self.retired.tend(&mut self.links, &mut self.post);
        self.look_for_stalls()
    }

    fn has_nothing_to_do(&mut self) -> Result<bool> {
        if self.stopped {
            return Ok(true);
        }
        if self.asked.take() {
            self.prompt()?;
        }
        let owes = self.tell_by_and_by();
        let waits = |link: &u32| matches!(&self.links[*link as usize], Link::To(to) if to.waits_for_peer());
        // Nothing wakes anybody when copies end.
        let copying = self.post.copies.as_mut().is_some_and(|copies| !copies.is_idle()) || !self.reading.is_empty();
        // Nor when there is a way again, or a peer has left.
        let watches = !self.astray.is_empty() || !self.parting.is_empty() || self.has_turns();
        if copying || !self.batches.iter().all(waits) || owes || watches {
            return Ok(false);
        }
        self.tend()?;
        let armed = self.post.net.arm();
        let mut late = std::mem::take(&mut self.late);
        let moved = self.completions(&mut late);
        late.append(&mut self.late);
        self.late = late;
        Ok(armed && !moved? && !self.events()?)
    }
}

impl Transport for Ofi {
    fn capabilities(&self) -> Capabilities {
        // Of a large put over TCP a word may come in two segments: no promise that it lands whole.
        let inline = if self.is_staged() { 0 } else { SMALL };
        Capabilities { inline, polled: true, lands: true, ..Capabilities::of(NAME, self.piece) }
    }

    fn connect(&mut self, _: &dyn Device, _: &dyn Share, peers: &Arc<Vec<Words>>) -> Result<()> {
        let served = (0..).zip(&self.serves).filter(|(_, serves)| **serves);
        served.map(|(rank, _)| rank).try_for_each(|rank| self.has_the_family_of(rank, peers))?;
        self.said = peers.clone();
        Ok(())
    }

    fn prepare(&mut self, part: &Part<'_>) -> Result<Vec<u8>> {
        self.memories.prepare(&self.post.net, part)
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        self.memories.register(region, self.serves.len())
    }

    fn deregister(&mut self, region: u32) {
        // A caller that flushed finds nothing here. For one that did not, no copy may outlive its memory.
        self.drain().unwrap_or_else(|error| log::error(&error));
        if let Some(memory) = self.memories.deregister(region) {
            self.retired.add(memory, &mut self.links);
        }
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        if self.stopped {
            return Ok(Submitted::Full);
        }
        let payload = self.memories.bounds.outgoing(work, self.piece)?;
        let staged = self.is_staged();
        let link = match self.link(work.peer, work.context)? {
            Way::Link(link) => link,
            Way::Closed => return self.memories.bounds.refuse(work, "peer"),
            Way::Later => return Ok(Submitted::Full),
        };
        let Link::To(to) = &mut self.links[link as usize] else { return Ok(Submitted::Full) };
        let place = self.memories.place(work.target.0, work.peer, work.context % STREAMS);
        let submitted = match payload {
            Payload::Memory(_) if work.bytes > SMALL && !staged && self.post.net.traits.writes => {
                to.write(&mut self.post, &self.memories, work, place, self.taken)?
            }
            _ => {
                let value = if let Payload::Value(value) = payload { Some(value.to_le()) } else { None };
                let header = Header { bytes: work.bytes, value, target: (place.name, work.target.1), signal: work.signal };
                let carried = match (payload, work.source) {
                    (Payload::Memory(from), Source::Region { region, .. }) if self.memories.holds_on_device(region) => {
                        Carried::Device(from.expose_provenance() as DevPtr)
                    }
                    (Payload::Memory(from), _) => Carried::Host(from),
                    _ => Carried::Nothing,
                };
                to.pack(&mut self.post, &header, work, self.taken, carried)?
            }
        };
        if to.has_batch() && !self.batches.contains(&link) {
            self.batches.push(link);
        }
        self.taken += u64::from(submitted != Submitted::Full);
        Ok(submitted)
    }

    fn flush(&mut self) -> Result<()> {
        self.send().map(drop)
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        if self.stopped {
            return Ok(false);
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.asked.take() {
            self.prompt()?;
        }
        let mut moved = self.send()? || !self.late.is_empty();
        done.append(&mut self.late);
        moved |= self.completions(done)?;
        moved |= self.stage(done)?;
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(EVENTS_EVERY) {
            moved |= self.events()?;
            self.tend()?;
        }
        self.idle = if moved { 0 } else { self.idle.saturating_add(1) };
        if self.idle >= IDLE {
            self.tell_by_and_by();
        }
        Ok(moved)
    }

    fn landing(&self) -> Landing {
        let landed = self.oldest().unwrap_or(self.taken);
        self.asked.set(self.asked.get() || landed < self.taken);
        Landing { taken: self.taken, landed }
    }

    fn unlanded(&self) -> Vec<(u32, u64)> {
        let left = self.links.iter().filter_map(|link| match link {
            Link::To(to) => Some((to.peer, to.unlanded())),
            _ => None,
        });
        left.filter(|(_, left)| *left > 0).collect()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.post.net.traits.wakes.then(|| self.poll.as_fd())
    }

    fn arm(&mut self) -> Result<bool> {
        hub::forget_wakeups(&self.poll);
        self.is_still()
    }

    fn close(&mut self, patience: Duration) -> Result<()> {
        leave(self, patience, |own| vec![own])
    }

    fn abort(&mut self) {
        abort(vec![self]);
    }
}
