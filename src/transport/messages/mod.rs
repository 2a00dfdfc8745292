//! Ranks that have only messages for each other: nothing of a peer's memory is mapped, the target lands what comes. For tests
//! (GINRS_TRANSPORT=messages): it is what a network is, without one.
//!
//! A message goes through a Unix socket, one for each peer that something was sent to, dialled then ([`dial`]). The socket
//! copies it, so its source is reusable at once; the target checks it, lands it, and says how many have landed. A full socket
//! is [`Submitted::Full`]. Messages of one socket stay in order, which puts a signal behind all earlier work of that peer.
//!
//! | bytes | from -> to | when |
//! |---|---|---|
//! | hello | sender -> target | first; a stranger's socket is closed |
//! | header, payload | sender -> target | for each piece |
//! | how many have landed, or [`LEFT`], or [`ABORTED`] | target -> sender | after each look at the socket that landed any |
#![forbid(unsafe_code)]

use super::factory::{self, Answer, ELSEWHERE, Pair, Setup, Share};
use super::remote::{Header, Remote};
use super::wait::{self, Step, wait};
use super::{Capabilities, Completion, Landing, Part, Region, SIGNALS, Submitted, Transport, Words, Work};
use crate::bail;
use crate::device::{Device, Kind};
use crate::error::Result;
use dial::{Address, Door};
use incoming::Incoming;
use outgoing::Outgoing;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

mod dial;
mod incoming;
mod outgoing;
#[cfg(test)]
pub(in crate::transport) mod tests;

const NAME: &str = "messages";
/// Most payload bytes of a message: several fit a socket of the default size.
const PIECE: u64 = 32 << 10;
/// Bytes of a header.
const HEADER: usize = 48;
/// In place of a number of landed messages: the target has left, and whatever is sent counts as landed.
const LEFT: u64 = u64::MAX;
/// The same: the target has aborted and lands nothing more.
const ABORTED: u64 = u64::MAX - 1;
/// Sockets looked at in one step.
const EVENTS: usize = 64;
/// Says in an event that it is the listener's; others are a peer's number, and with [`FROM`] a sender's place.
const DOOR: u64 = u64::MAX;
const FROM: u64 = 1 << 32;

/// Its line in the list.
pub struct Factory;

impl factory::Factory for Factory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can(&self, pair: &Pair) -> Answer {
        match pair {
            Pair { same_machine: false, .. } => ELSEWHERE,
            Pair { kind: Kind::Cuda, .. } => Err("the CPU cannot write GPU memory".into()),
            _ => Ok("by messages alone"),
        }
    }

    fn prepare(&self, setup: &Setup<'_>) -> Result<(Box<dyn Transport>, Vec<u8>)> {
        let (messages, words) = Messages::new(setup.rank, setup.serves.clone(), (setup.senders)(setup.rank))?;
        Ok((Box::new(messages), words))
    }
}

/// Puts by messages.
pub struct Messages {
    rank: u32,
    /// By rank; None for those that others serve.
    peers: Vec<Option<Outgoing>>,
    incoming: Vec<Option<Incoming>>,
    door: Option<Door>,
    /// All sockets and the door.
    poll: OwnedFd,
    regions: Remote,
    /// Messages so far.
    taken: u64,
    /// Keys of all ranks' parts, by [`Region::id`] and rank.
    keys: Vec<Vec<u64>>,
    /// Scratch: the message that goes or comes.
    buffer: Vec<u8>,
    /// A sender's socket was too full to tell it what has landed.
    owing: bool,
    stopped: bool,
}

impl Messages {
    fn new(rank: u32, serves: Vec<bool>, senders: Vec<u32>) -> Result<(Self, Vec<u8>)> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed("epoll", error))?;
        let (door, address) = Door::open(senders)?;
        watch(&poll, &door, DOOR, EventFlags::IN)?;
        let peers = serves.into_iter().zip(0..).map(|(serves, peer)| serves.then(|| Outgoing::new(peer))).collect();
        let messages = Self {
            rank,
            peers,
            incoming: Vec::new(),
            door: Some(door),
            poll,
            regions: Remote::new(NAME),
            taken: 0,
            keys: Vec::new(),
            buffer: Vec::with_capacity(HEADER + PIECE as usize),
            owing: false,
            stopped: false,
        };
        Ok((messages, address.encode()))
    }

    /// Lets in who knocks and is no stranger.
    fn admit(&mut self) -> Result<bool> {
        let Some(door) = &mut self.door else { return Ok(false) };
        let admitted = door.admit(&self.poll)?;
        let moved = !admitted.is_empty();
        for (from, socket) in admitted {
            let data = EventData::new_u64(FROM | self.incoming.len() as u64);
            epoll::modify(&self.poll, &socket, data, EventFlags::IN).map_err(|error| failed("epoll", error))?;
            self.incoming.push(Some(Incoming::new(from, socket)));
        }
        Ok(moved)
    }

    /// What came from sender number `at`. A sender that has gone is no error here: whoever watches it says so.
    fn receive(&mut self, at: usize) -> Result<bool> {
        let Some(incoming) = self.incoming.get_mut(at).and_then(Option::as_mut) else { return Ok(false) };
        let (moved, open) = incoming.receive(&self.regions, &mut self.buffer)?;
        if open {
            self.owing |= incoming.is_owing();
        } else {
            self.incoming[at] = None;
        }
        Ok(moved)
    }

    /// Until what was sent has landed; lands meanwhile what others send, who may wait for the same.
    fn land(&mut self, patience: Duration) -> Result<()> {
        let mut done = Vec::new();
        let landed = wait(patience, || match self.landing().left() {
            0 => Ok(Step::Idle),
            _ => Ok(Step::of(self.progress(&mut done)?)),
        });
        if landed? { Ok(()) } else { Err(wait::not_landed(NAME, &self.unlanded())) }
    }

    /// Nothing comes or goes from here on; `word` tells the senders why.
    fn stop(&mut self, word: u64) {
        self.stopped = true;
        self.door = None;
        self.incoming.drain(..).flatten().for_each(|incoming| incoming.end(word));
        self.peers.iter_mut().flatten().for_each(|to| to.end());
    }
}

impl Transport for Messages {
    fn capabilities(&self) -> Capabilities {
        Capabilities { inline: PIECE, align: 8, polled: true, lands: true, ..Capabilities::of(NAME, PIECE) }
    }

    fn connect(&mut self, _: &dyn Device, _: &dyn Share, peers: &Arc<Vec<Words>>) -> Result<()> {
        for to in self.peers.iter_mut().flatten() {
            to.address = match peers.get(to.peer as usize).and_then(|words| Address::decode(words.of(NAME))) {
                Some(address) => address,
                None => bail!(
                    RemoteError,
                    53,
                    "a peer says nothing of where it listens | {NAME}, rank {} | fix: load the same libginrs on every rank",
                    to.peer
                ),
            };
        }
        Ok(())
    }

    fn prepare(&mut self, part: &Part<'_>) -> Result<Vec<u8>> {
        // Signals go by their offset alone. Others by a number that nobody can guess, and that no later memory will have.
        if part.id == SIGNALS { Ok(Vec::new()) } else { Ok(dial::random::<8>()?.to_vec()) }
    }

    fn register(&mut self, region: &Region) -> Result<()> {
        let mut keys = vec![0; self.peers.len()];
        if region.id != SIGNALS {
            for (rank, key) in keys.iter_mut().enumerate() {
                let Ok(said) = region.words(rank, NAME).try_into() else {
                    // A rank of which no pair speaks messages has no key, and none is asked for.
                    continue;
                };
                *key = u64::from_le_bytes(said);
            }
            if keys[self.rank as usize] == 0 {
                bail!(InternalError, 37, "memory was not prepared | memory {}, {NAME} | fix: report this", region.name);
            }
        }
        self.regions.register(region, keys[self.rank as usize])?;
        let id = region.id as usize;
        if self.keys.len() <= id {
            self.keys.resize(id + 1, Vec::new());
        }
        self.keys[id] = keys;
        Ok(())
    }

    fn deregister(&mut self, region: u32) {
        self.regions.deregister(region);
    }

    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        if self.stopped {
            return Ok(Submitted::Full);
        }
        let Some(Some(to)) = self.peers.get_mut(work.peer as usize) else { return self.regions.refuse(work, "peer") };
        self.buffer.clear();
        self.buffer.resize(HEADER, 0);
        let value = self.regions.gather(work, PIECE, &mut self.buffer)?;
        let keys = self.keys.get(work.target.0 as usize);
        let key = keys.and_then(|keys| keys.get(work.peer as usize)).copied().unwrap_or(0);
        let header = Header { bytes: work.bytes, value, target: (key, work.target.1), signal: work.signal };
        let words = header.encode();
        for (to, word) in self.buffer.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let submitted = to.send(self.rank, self.taken, &self.poll, &self.buffer)?;
        self.taken += u64::from(submitted == Submitted::Done);
        Ok(submitted)
    }

    fn progress(&mut self, _done: &mut Vec<Completion>) -> Result<bool> {
        if self.stopped {
            return Ok(false);
        }
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let events = match epoll::wait(&self.poll, &mut events[..], Some(&now)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &mut [],
            Err(error) => return Err(failed("epoll", error)),
        };
        let mut moved = false;
        for event in events {
            let data = event.data.u64();
            moved |= match data {
                DOOR => self.admit()?,
                _ if data & FROM != 0 => self.receive((data & !FROM) as usize)?,
                _ => match self.peers.get_mut(data as usize) {
                    Some(Some(to)) => to.hear(&self.poll)?,
                    _ => false,
                },
            };
        }
        if self.owing {
            self.owing = false;
            for incoming in self.incoming.iter_mut().flatten() {
                self.owing |= incoming.tell();
            }
        }
        Ok(moved)
    }

    fn landing(&self) -> Landing {
        let oldest = self.peers.iter().flatten().filter_map(Outgoing::oldest).min();
        Landing { taken: self.taken, landed: oldest.unwrap_or(self.taken) }
    }

    fn unlanded(&self) -> Vec<(u32, u64)> {
        self.peers.iter().flatten().map(|to| (to.peer, to.unlanded())).filter(|(_, left)| *left > 0).collect()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poll.as_fd())
    }

    fn arm(&mut self) -> Result<bool> {
        Ok(!self.owing)
    }

    fn close(&mut self, patience: Duration) -> Result<()> {
        let left = self.land(patience);
        self.stop(LEFT);
        left
    }

    fn abort(&mut self) {
        self.stop(ABORTED);
    }
}

/// From now on `poll` says `data` when `socket` is ready.
fn watch(poll: &OwnedFd, socket: impl AsFd, data: u64, flags: EventFlags) -> Result<()> {
    epoll::add(poll, socket, EventData::new_u64(data), flags).map_err(|error| failed("epoll", error))
}

#[cold]
fn failed(what: &str, error: Errno) -> crate::error::Error {
    let text = format!("messages cannot be passed | {NAME}, {what} | {error} | fix: look at `ulimit -n`");
    crate::error::Error::new(crate::error::Code::SystemError, 88, text)
}
