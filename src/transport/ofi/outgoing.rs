//! The sender's end of a link: small puts gather in a message, large ones are written behind it.

use super::NAME;
use super::endpoint::Endpoint;
use super::memory::{Memories, Place};
use super::post::{Post, Write};
use super::proof::Ends;
use super::search::Search;
use super::staging::{Copies, WAITING};
use super::wire::{self, ABORTED, HEADER, LEFT, NUMBER};
use crate::device::{DevPtr, MemCopy};
use crate::error::{Code, Error, Result};
use crate::transport::remote::Header;
use crate::transport::{Submitted, Work, wait};
use std::collections::VecDeque;

/// Number of the error where a peer says what cannot be.
const NONSENSE: u16 = 123;

/// How it stands with the peer.
pub(super) enum State {
    /// Asked, not yet answered; None: to be asked again.
    Dialing(Option<Endpoint>),
    Open(Endpoint),
    /// The connection is no more, with something under way: perhaps it has left (`parting`).
    Parting(#[expect(dead_code, reason = "what was posted to it may still end")] Option<Endpoint>),
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
    /// Copies into it that have to end first, as `Copies` numbers them.
    wait: u64,
    prompts: bool,
}

/// What brings the payload into a message.
#[derive(Clone, Copy)]
pub(super) enum Carried {
    /// None, or it stands in the header.
    Nothing,
    /// At an address of a window that the host can touch.
    Host(*const u8),
    /// The device has to copy it.
    Device(DevPtr),
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
    /// Which of its places have been asked for the link.
    pub search: Search,
    pub state: State,
    /// What the target calls this link.
    pub theirs: u32,
    batch: Option<Batch>,
    /// Before it: full, or of an earlier step, and their copies are under way.
    waiting: VecDeque<Batch>,
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
    /// Places of words that came before it was known that there is a connection.
    pub early: Vec<u32>,
}

impl Outgoing {
    /// Dialled, as `search` says.
    pub fn new(ends: Ends, link: u32, nonce: [u8; 16], (endpoint, search): (Endpoint, Search), window: u64) -> Self {
        Self {
            peer: ends.target,
            link,
            ends,
            nonce,
            search,
            state: State::Dialing(Some(endpoint)),
            theirs: 0,
            batch: None,
            waiting: VecDeque::new(),
            sent: 0,
            landed: 0,
            window,
            under_way: VecDeque::new(),
            prompted: 0,
            asked: false,
            early: Vec::new(),
        }
    }

    /// Messages and writes that are not known to have landed.
    pub fn unlanded(&self) -> u64 {
        (self.under_way.len() + self.batches().count()) as u64
    }

    fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.waiting.iter().chain(&self.batch)
    }

    /// The number of the first piece among them.
    pub fn oldest(&self) -> Option<u64> {
        self.under_way.front().map(|event| event.first).or(self.batches().next().map(|batch| batch.first))
    }

    pub fn has_batch(&self) -> bool {
        self.batches().next().is_some()
    }

    /// The batch waits for the peer, not for room in a queue of ours: an event will tell.
    pub fn waits_for_peer(&self) -> bool {
        !matches!(self.state, State::Open(_)) || self.is_full()
    }

    /// Nothing more is sent, and nobody asks what became of what was.
    pub fn end(&mut self, post: &mut Post, state: State) {
        self.state = state;
        self.under_way.clear();
        for batch in self.waiting.drain(..).chain(self.batch.take()) {
            post.drop_message(batch.place, batch.wait);
        }
    }

    /// Room for a record of `bytes` in the batch; false if there is none now. `piece` is its number.
    fn make_room(&mut self, post: &mut Post, bytes: usize, piece: u64) -> Result<bool> {
        let most = post.messages.size();
        let is_full = |batch: &mut Batch| batch.bytes + bytes > most;
        if self.batch.as_mut().is_some_and(is_full)
            && !self.flush(post)?
            && let Some(full) = self.batch.take_if(is_full)
        {
            // Where there are no copies a message goes, or gathers more.
            let keeps = post.copies.is_some() && self.waiting.len() < WAITING;
            if !keeps {
                self.batch = Some(full);
                return Ok(false);
            }
            self.waiting.push_back(full);
        }
        if self.batch.is_none() {
            let place = post.messages.take(&post.net, self.link)?;
            self.batch = Some(Batch { place, bytes: NUMBER, first: piece, hull: Hull::default(), wait: 0, prompts: false });
        }
        Ok(true)
    }

    /// Puts a piece into the batch, of which `outgoing` has checked where it comes from.
    pub fn pack(&mut self, post: &mut Post, header: &Header, work: &Work, piece: u64, from: Carried) -> Result<Submitted> {
        match &self.state {
            State::Left => return Ok(Submitted::Done),
            State::Aborted | State::Parting(_) => return Ok(Submitted::Full),
            State::Gone(why) => return Err(self.lost(why)),
            State::Dialing(_) | State::Open(_) => {}
        }
        let carried = if header.value.is_some() { 0 } else { header.bytes as usize };
        let bytes = wire::room(carried);
        let has_room = |post: &mut Post| post.copies.as_mut().is_some_and(Copies::has_room);
        if matches!(from, Carried::Device(_)) && !has_room(post) || !self.make_room(post, bytes, piece)? {
            return Ok(Submitted::Full);
        }
        let batch = self.batch.as_mut().expect("room was made");
        let record = post.messages.part(batch.place, batch.bytes, bytes);
        wire::put_header(record, header);
        let mut submitted = Submitted::Done;
        match (from, &mut post.copies) {
            // SAFETY: the source was checked to lie in a region of host memory, which stays mapped until it is deregistered; the
            // target is a buffer of ours. Kernels that write the source now break the API's contract.
            (Carried::Host(from), _) => unsafe { std::ptr::copy(from, record[HEADER..].as_mut_ptr(), carried) },
            (Carried::Device(from), Some(copies)) => {
                let to = post.messages.device(batch.place) + (batch.bytes + HEADER) as u64;
                batch.wait = copies.gather(MemCopy { from, to, bytes: carried as u64 }, work.tag);
                submitted = Submitted::Pending;
            }
            _ => {}
        }
        batch.bytes += bytes;
        if work.bytes > 0 {
            batch.hull.add(work.target.0, work.target.1, work.target.1 + work.bytes);
        }
        Ok(submitted)
    }

    /// Writes a large piece. Its signal is in the write's data if it adds one, else in a message behind it.
    pub fn write(&mut self, post: &mut Post, memories: &Memories, work: &Work, place: Place, piece: u64) -> Result<Submitted> {
        match &self.state {
            State::Left => return Ok(Submitted::Done),
            State::Gone(why) => return Err(self.lost(why)),
            State::Aborted | State::Dialing(_) | State::Parting(_) => return Ok(Submitted::Full),
            State::Open(_) => {}
        }
        let (from, to) = (work.target.1, work.target.1 + work.bytes);
        if !self.flush(post)? || self.is_full() {
            return Ok(Submitted::Full);
        }
        // A small put to the same place may not have been landed by the target's CPU when the network lands this one: it has to say so.
        if self.under_way.iter().any(|event| event.hull.touches(work.target.0, from, to)) {
            self.prompt(post)?;
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
            self.pack(post, &header, &Work { bytes: 0, ..*work }, piece, Carried::Nothing)?;
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
        let Some(oldest) = self.oldest() else { return Ok(()) };
        if self.waiting.is_empty() && !self.make_room(post, 0, oldest)? {
            return Ok(());
        }
        if let Some(newest) = self.batch.as_mut().or(self.waiting.back_mut()) {
            newest.prompts = true;
        }
        self.flush(post).map(drop)
    }

    /// The peer wants to know when all before has come: a message goes now, or as soon as one can. `piece` is the next one's number.
    pub fn answer(&mut self, post: &mut Post, piece: u64) -> Result<()> {
        if matches!(self.state, State::Open(_)) && self.make_room(post, 0, piece)? {
            self.asked = true;
            self.flush(post)?;
        }
        Ok(())
    }

    /// Sends what has gathered, as far as its copies have ended; false if something is left.
    pub fn flush(&mut self, post: &mut Post) -> Result<bool> {
        while let Some(batch) = self.waiting.pop_front() {
            if let Some(batch) = self.send_batch(post, batch)? {
                self.waiting.push_front(batch);
                break;
            }
        }
        let Some(batch) = self.batch.take() else { return Ok(self.waiting.is_empty()) };
        let left = if self.waiting.is_empty() { self.send_batch(post, batch)? } else { Some(batch) };
        if let Some(batch) = left {
            // What comes later would have it wait for its copies, too.
            let waits = !post.has_gathered(batch.wait) && self.waiting.len() < WAITING;
            if waits { self.waiting.push_back(batch) } else { self.batch = Some(batch) }
        }
        Ok(!self.has_batch())
    }

    /// Sends one; it comes back where it cannot go yet.
    fn send_batch(&mut self, post: &mut Post, batch: Batch) -> Result<Option<Batch>> {
        let State::Open(endpoint) = &self.state else { return Ok(Some(batch)) };
        if self.is_full() || !post.has_gathered(batch.wait) {
            return Ok(Some(batch));
        }
        let flags = if batch.prompts { wire::PROMPT } else { 0 } | if self.asked { wire::ANSWER } else { 0 };
        post.messages.part(batch.place, 0, NUMBER).copy_from_slice(&(self.sent | flags).to_le_bytes());
        match post.send_message(endpoint, batch.place, batch.bytes) {
            Ok(true) => {}
            Ok(false) => return Ok(Some(batch)),
            Err(error) => return Err(self.lost(&error.text)),
        }
        self.sent += 1;
        if batch.prompts {
            self.prompted = self.sent;
        }
        self.under_way.push_back(UnderWay { first: batch.first, hull: batch.hull });
        self.asked = false;
        Ok(None)
    }

    /// What the peer says of what has landed.
    pub fn heard(&mut self, post: &mut Post, word: u64) -> Result<()> {
        if !matches!(self.state, State::Open(_) | State::Parting(_)) {
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

    /// The connection is no more. True if it stood: then [`Self::gone`] or [`Self::end`] is still to come.
    pub fn part(&mut self) -> bool {
        self.state = match std::mem::replace(&mut self.state, State::Left) {
            State::Dialing(endpoint) => State::Parting(endpoint),
            State::Open(endpoint) => State::Parting(Some(endpoint)),
            state => state,
        };
        self.is_parting()
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    pub fn is_parting(&self) -> bool {
        matches!(self.state, State::Parting(_))
    }

    /// The connection is no more: an error if something was under way.
    pub fn gone(&mut self, post: &mut Post, why: String) -> Result<()> {
        if !matches!(self.state, State::Dialing(_) | State::Open(_) | State::Parting(_)) {
            return Ok(());
        }
        let lost = (self.unlanded() > 0).then(|| self.lost(&why));
        self.end(post, State::Gone(why));
        lost.map_or(Ok(()), Err)
    }

    #[cold]
    fn lost(&self, why: &str) -> Error {
        let text = format!(
            "the link to a peer has ended | {NAME}, rank {}, stream {} | {why} | fix: if that rank has ended, see why; if it goes on, see what cut the network",
            self.peer, self.ends.stream
        );
        Error::new(Code::RemoteError, 122, text).by(self.peer)
    }
}
