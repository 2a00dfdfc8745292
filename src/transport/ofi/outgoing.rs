//! The sender's end of a link: small puts gather in a message, large ones are written behind it.

use super::NAME;
use super::endpoint::Endpoint;
use super::memory::{Memories, Place};
use super::post::{Post, Write};
use super::proof::Ends;
use super::wire::{self, ABORTED, HEADER, LEFT, MESSAGE, NUMBER};
use crate::error::{Code, Error, Result};
use crate::transport::remote::Header;
use crate::transport::{Submitted, Work, wait};
use std::collections::VecDeque;

/// Number of the error where a peer says what cannot be.
const NONSENSE: u16 = 123;

/// How it stands with the peer.
pub(super) enum State {
    /// Asked, not yet answered.
    Dialing(Endpoint),
    Open(Endpoint),
    /// It has left: what is sent counts as landed.
    Left,
    /// It has aborted: nothing is taken until this rank hears of that.
    Aborted,
    /// The connection is no more, for this reason.
    Gone(String),
}

/// Where payloads of a message go, roughly: bytes of one window, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Hull {
    at: Option<(u32, u64, u64)>,
    several: bool,
}

impl Hull {
    fn add(&mut self, region: u32, from: u64, to: u64) {
        match &mut self.at {
            None => self.at = Some((region, from, to)),
            Some((of, low, high)) if *of == region => (*low, *high) = (from.min(*low), to.max(*high)),
            Some(_) => self.several = true,
        }
    }

    fn touches(&self, region: u32, from: u64, to: u64) -> bool {
        self.several || self.at.is_some_and(|(of, low, high)| of == region && from < high && low < to)
    }
}

/// Small puts that go together.
struct Batch {
    place: u32,
    bytes: usize,
    /// Number of the first piece.
    first: u64,
    hull: Hull,
}

/// A message or a write of which it is not known that it has landed.
struct UnderWay {
    first: u64,
    hull: Hull,
}

/// What goes to one peer on one stream.
pub(super) struct Outgoing {
    pub peer: u32,
    pub link: u32,
    pub ends: Ends,
    /// What this rank's request had in it.
    pub nonce: [u8; 16],
    pub state: State,
    /// What the target calls this link.
    pub theirs: u32,
    batch: Option<Batch>,
    /// Messages and writes that have gone, and those of them that have landed.
    sent: u64,
    landed: u64,
    /// At most so many may be under way.
    window: u64,
    under_way: VecDeque<UnderWay>,
    /// The peer was asked to tell of everything before this one.
    prompted: u64,
    /// It has asked, and the next message is to say so.
    asked: bool,
}

impl Outgoing {
    pub fn new(ends: Ends, link: u32, nonce: [u8; 16], endpoint: Endpoint, window: u64) -> Self {
        Self {
            peer: ends.target,
            link,
            ends,
            nonce,
            state: State::Dialing(endpoint),
            theirs: 0,
            batch: None,
            sent: 0,
            landed: 0,
            window,
            under_way: VecDeque::new(),
            prompted: 0,
            asked: false,
        }
    }

    /// Messages and writes that are not known to have landed.
    pub fn unlanded(&self) -> u64 {
        self.under_way.len() as u64 + u64::from(self.batch.is_some())
    }

    /// The number of the first piece among them.
    pub fn oldest(&self) -> Option<u64> {
        self.under_way.front().map(|event| event.first).or(self.batch.as_ref().map(|batch| batch.first))
    }

    pub fn has_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// The batch waits for the peer, not for room in a queue of ours: an event will tell.
    pub fn waits_for_peer(&self) -> bool {
        !matches!(self.state, State::Open(_)) || self.is_full()
    }

    /// Nothing more is sent, and nobody asks what became of what was.
    pub fn end(&mut self, post: &mut Post, state: State) {
        self.state = state;
        self.under_way.clear();
        if let Some(batch) = self.batch.take() {
            post.messages.give(batch.place);
        }
    }

    /// Room for a record of `bytes` in the batch; false if there is none now. `piece` is its number.
    fn make_room(&mut self, post: &mut Post, bytes: usize, piece: u64) -> Result<bool> {
        if self.batch.as_ref().is_some_and(|batch| batch.bytes + bytes > MESSAGE) && !self.flush(post)? {
            return Ok(false);
        }
        if self.batch.is_none() {
            let place = post.messages.take(&post.net, self.link)?;
            self.batch = Some(Batch { place, bytes: NUMBER, first: piece, hull: Hull::default() });
        }
        Ok(true)
    }

    /// Puts a small piece into the batch; `payload` copies its bytes there.
    pub fn pack(
        &mut self,
        post: &mut Post,
        header: &Header,
        work: &Work,
        piece: u64,
        payload: impl FnOnce(&mut [u8]),
    ) -> Result<Submitted> {
        match &self.state {
            State::Left => return Ok(Submitted::Done),
            State::Aborted => return Ok(Submitted::Full),
            State::Gone(why) => return Err(self.lost(why)),
            State::Dialing(_) | State::Open(_) => {}
        }
        let carried = if header.value.is_some() { 0 } else { header.bytes as usize };
        let bytes = wire::room(carried);
        if !self.make_room(post, bytes, piece)? {
            return Ok(Submitted::Full);
        }
        let batch = self.batch.as_mut().expect("room was made");
        let record = &mut post.messages.bytes(batch.place)[batch.bytes..][..bytes];
        wire::put_header(record, header);
        payload(&mut record[HEADER..][..carried]);
        batch.bytes += bytes;
        if work.bytes > 0 {
            batch.hull.add(work.target.0, work.target.1, work.target.1 + work.bytes);
        }
        Ok(Submitted::Done)
    }

    /// Writes a large piece. Its signal is in the write's data if it adds one, else in a message behind it.
    pub fn write(&mut self, post: &mut Post, memories: &Memories, work: &Work, place: Place, piece: u64) -> Result<Submitted> {
        match &self.state {
            State::Left => return Ok(Submitted::Done),
            State::Gone(why) => return Err(self.lost(why)),
            State::Aborted | State::Dialing(_) => return Ok(Submitted::Full),
            State::Open(_) => {}
        }
        let (from, to) = (work.target.1, work.target.1 + work.bytes);
        if !self.flush(post)? || self.is_full() {
            return Ok(Submitted::Full);
        }
        // A small put to the same place may not have been landed by the target's CPU when the network lands this one.
        if self.under_way.iter().any(|event| event.hull.touches(work.target.0, from, to)) {
            return Ok(Submitted::Full);
        }
        let (own, other) = match work.signal {
            Some((offset, 1)) if wire::fits(offset) => (Some(offset), None),
            other => (None, other),
        };
        let Some(source) = memories.source(work) else { return memories.bounds.refuse(work, "source") };
        // Before the write, so that nothing can be missing behind it.
        if other.is_some() && !self.make_room(post, HEADER, piece)? {
            return Ok(Submitted::Full);
        }
        let data = wire::immediate(post.net.traits.wide, self.theirs, own);
        let State::Open(endpoint) = &self.state else { return Ok(Submitted::Full) };
        let write = Write { tag: work.tag, link: self.link };
        // SAFETY: `source` is registered memory; its window is deregistered only when nothing is under way, or its endpoints go.
        let written = unsafe { post.write(endpoint, write, source, data, (place.key, place.base + from)) };
        match written {
            Ok(true) => {}
            Ok(false) => {
                self.drop_empty(post);
                return Ok(Submitted::Full);
            }
            Err(error) => return Err(self.lost(&error.text)),
        }
        self.sent += 1;
        self.under_way.push_back(UnderWay { first: piece, hull: Hull::default() });
        if other.is_some() {
            let header = Header { bytes: 0, value: None, target: (0, 0), signal: other };
            self.pack(post, &header, &Work { bytes: 0, ..*work }, piece, |_| ())?;
        }
        Ok(Submitted::Pending)
    }

    /// A batch that room was made in, and nothing came.
    fn drop_empty(&mut self, post: &mut Post) {
        if let Some(batch) = self.batch.take_if(|batch| batch.bytes == NUMBER) {
            post.messages.give(batch.place);
        }
    }

    fn is_full(&self) -> bool {
        self.sent - self.landed >= self.window
    }

    /// Somebody waits until all has landed: asks the peer to say so at once, with an empty message where there is no other.
    pub fn prompt(&mut self, post: &mut Post) -> Result<()> {
        if self.prompted == self.sent || self.is_full() || !matches!(self.state, State::Open(_)) {
            return Ok(());
        }
        if let Some(oldest) = self.oldest()
            && self.make_room(post, 0, oldest)?
            && self.send_batch(post, wire::PROMPT)?
        {
            self.prompted = self.sent;
        }
        Ok(())
    }

    /// The peer wants to know when all before has come: a message goes now, or as soon as one can. `piece` is the next one's number.
    pub fn answer(&mut self, post: &mut Post, piece: u64) -> Result<()> {
        if matches!(self.state, State::Open(_)) && self.make_room(post, 0, piece)? {
            self.asked = true;
            self.flush(post)?;
        }
        Ok(())
    }

    /// Sends the batch; false if there still is one.
    pub fn flush(&mut self, post: &mut Post) -> Result<bool> {
        self.send_batch(post, 0)
    }

    fn send_batch(&mut self, post: &mut Post, flags: u64) -> Result<bool> {
        let Some(batch) = &self.batch else { return Ok(true) };
        let State::Open(endpoint) = &self.state else { return Ok(false) };
        if self.is_full() {
            return Ok(false);
        }
        let flags = flags | if self.asked { wire::ANSWER } else { 0 };
        post.messages.bytes(batch.place)[..NUMBER].copy_from_slice(&(self.sent | flags).to_le_bytes());
        match post.send_message(endpoint, batch.place, batch.bytes) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => return Err(self.lost(&error.text)),
        }
        self.sent += 1;
        self.under_way.push_back(UnderWay { first: batch.first, hull: batch.hull });
        self.asked = false;
        self.batch = None;
        Ok(true)
    }

    /// What the peer says of what has landed.
    pub fn heard(&mut self, post: &mut Post, word: u64) -> Result<()> {
        if !matches!(self.state, State::Open(_)) {
            // One that has left still lands what comes until all have heard of it.
            return Ok(());
        }
        match word {
            wire::ASKED => {}
            LEFT => self.end(post, State::Left),
            ABORTED => self.state = State::Aborted,
            landed => {
                let more = wait::more_landed(NAME, NONSENSE, self.peer, landed, self.landed, self.under_way.len() as u64)?;
                self.under_way.drain(..more as usize);
                self.landed = landed;
            }
        }
        Ok(())
    }

    /// The connection is no more: an error if something was under way.
    pub fn gone(&mut self, post: &mut Post, why: String) -> Result<()> {
        if !matches!(self.state, State::Dialing(_) | State::Open(_)) {
            return Ok(());
        }
        let lost = (self.unlanded() > 0).then(|| self.lost(&why));
        self.end(post, State::Gone(why));
        lost.map_or(Ok(()), Err)
    }

    #[cold]
    fn lost(&self, why: &str) -> Error {
        let text = format!(
            "a peer is gone | {NAME}, rank {}, stream {} | {why} | fix: see why that rank ended, or what cut the network",
            self.peer, self.ends.stream
        );
        Error::new(Code::RemoteError, 122, text).by(self.peer)
    }
}
