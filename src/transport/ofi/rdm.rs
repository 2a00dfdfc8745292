//! A rank's one endpoint without connections (FI_EP_RDM), and the links over it that [`Endpoint`](super::endpoint::Endpoint) has for
//! connections elsewhere: `session` says what goes through it.
//!
//! What is sent is copied into places of this file, so a link can end while the provider still sends from them. Writes read the
//! program's memory: that must stay until they have ended or the endpoint is closed ([`Rdm::orphans`]).

use super::endpoint::Range;
use super::library::Functions;
use super::net::{Ended, Event};
use super::places::{Places, Use};
use super::provider::Traits;
use super::session::{self, Envelope, Kind, ORIGIN, Session};
use super::sys::*;
use super::waiting::Waiting;
use crate::error::Result;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Whether it was taken, or libfabric's error.
type Posted = std::result::Result<bool, isize>;

/// How long something may be held for want of what goes before it. Longer than a process may be stopped without being taken for dead.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a target learns that a write has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// By data of the write itself, in 8 bytes or in 4. First, because a provider that connects anew by itself (rxm) loses what was on its
    /// way, and a message behind a lost write would speak for it.
    Marked { wide: bool },
    /// A message behind it comes behind it (FI_ORDER_SAW).
    Ordered,
    /// Not at all: everything goes in messages.
    None,
}

pub(super) struct Line {
    pub session: Session,
    /// Where messages go, and under which number: the oldest first.
    pub posted: VecDeque<(Range, u64)>,
    /// It has been said that something was lost: once, though the line stays until it is known whether the peer has left.
    given_up: bool,
    /// The DIAL or the ANSWER of this end, which may be lost: said again until the other end is known to have it.
    greeting: Option<(Envelope, Vec<u8>)>,
}

/// See the module. All calls are of one thread at a time.
pub(super) struct Rdm {
    pub ep: *mut fid_ep,
    av: *mut fid_av,
    library: &'static Functions,
    pub writes: Writes,
    pub address: Vec<u8>,
    peers: HashMap<Vec<u8>, u64>,
    pub lines: Vec<Option<Line>>,
    /// Of links that have ended here: key, peer and last message, which may have been lost.
    pub graves: HashMap<u32, (u64, u64, Envelope)>,
    pub places: Places,
    /// Messages that must go and found no room.
    pub(super) waiting: Waiting,
    pub ready: VecDeque<Ended>,
    pub events: VecDeque<Event>,
    pub patience: Duration,
    /// For tests: the next of that kind that must go is lost.
    #[cfg(test)]
    pub lose_next: Option<Kind>,
    /// For tests: what comes is held back and mixed up.
    #[cfg(test)]
    pub mixed: Option<(u64, Vec<Vec<u8>>)>,
}

// SAFETY: the objects belong to no thread, and the places are this struct's own.
unsafe impl Send for Rdm {}

impl Rdm {
    /// Takes over an enabled endpoint and its address vector.
    ///
    /// # Safety
    /// Both are live, nobody else closes them, and `places` are of their domain.
    pub unsafe fn own(ep: *mut fid_ep, av: *mut fid_av, library: &'static Functions, traits: &Traits, places: Places) -> Self {
        let writes = match (traits.marks, traits.ordered) {
            (0..4, true) => Writes::Ordered,
            (0..4, false) => Writes::None,
            (bytes, _) => Writes::Marked { wide: bytes >= 8 },
        };
        #[cfg(test)]
        let writes = super::tests::HOW.get().writes.unwrap_or(writes);
        Self {
            ep,
            av,
            library,
            writes,
            address: Vec::new(),
            peers: HashMap::new(),
            lines: Vec::new(),
            graves: HashMap::new(),
            places,
            waiting: Waiting::default(),
            ready: VecDeque::new(),
            events: VecDeque::new(),
            patience: PATIENCE,
            #[cfg(test)]
            lose_next: None,
            #[cfg(test)]
            mixed: super::tests::HOW.get().mixed.then_some((1, Vec::new())),
        }
    }

    /// Posts all receives.
    pub fn listen(&mut self) -> isize {
        self.places.receives().map(|place| self.receive(place)).find(|result| *result != 0).unwrap_or(0)
    }

    pub fn receive(&mut self, place: usize) -> isize {
        if self.ep.is_null() {
            return 0;
        }
        self.places.uses[place] = Use::Receive;
        let (at, bytes, descriptor) = self.places.range(place);
        // SAFETY: live; the place is the receive's until it has ended, and outlives the endpoint.
        unsafe { ((*(*self.ep).msg).recv)(self.ep, at.cast(), bytes, descriptor, u64::MAX, self.places.context(place)) }
    }

    /// Who has that address, as libfabric has numbered it; None: it takes no such address.
    pub fn peer(&mut self, address: &[u8]) -> Option<u64> {
        if let Some(peer) = self.peers.get(address) {
            return Some(*peer);
        }
        let mut peer = FI_ADDR_NOTAVAIL;
        // SAFETY: live; a provider reads as many bytes as its addresses have, which are padded here.
        let inserted = unsafe {
            let mut padded = [0u8; 256];
            padded[..address.len().min(256)].copy_from_slice(&address[..address.len().min(256)]);
            ((*(*self.av).ops).insert)(self.av, padded.as_ptr().cast(), 1, &mut peer, 0, std::ptr::null_mut())
        };
        let known = (inserted == 1 && peer != FI_ADDR_NOTAVAIL).then_some(peer)?;
        self.peers.insert(address.to_vec(), known);
        Some(known)
    }

    // ---- Links.

    pub fn line(&mut self, link: u32) -> Option<&mut Line> {
        self.lines.get_mut(link as usize)?.as_mut()
    }

    /// A new link to `peer`; `theirs`: what it is called there, and the key for it, if it has asked for it.
    pub fn open(&mut self, link: u32, peer: u64, theirs: Option<(u32, u64)>) -> Result<()> {
        let mut session = Session::new(peer, matches!(self.writes, Writes::Marked { .. }))?;
        (session.theirs, session.open) = (theirs, theirs.is_some());
        if self.lines.len() <= link as usize {
            self.lines.resize_with(link as usize + 1, || None);
        }
        self.lines[link as usize] = Some(Line { session, posted: VecDeque::new(), given_up: false, greeting: None });
        Ok(())
    }

    /// Link, key and address: what this end says of itself.
    pub fn origin(&mut self, link: u32) -> Vec<u8> {
        let key = self.line(link).map_or(0, |line| line.session.key);
        [&session::put_origin(link, key)[..], &self.address].concat()
    }

    pub fn dial(&mut self, link: u32, hello: &[u8]) {
        let origin = self.origin(link);
        let Some(peer) = self.line(link).map(|line| line.session.peer) else { return };
        let envelope = Envelope { key: 0, link: u32::MAX, kind: Kind::Dial, number: 0 };
        let (ends, address) = origin.split_at(ORIGIN);
        self.greet(link, peer, envelope, [ends, hello, address].concat());
    }

    pub fn accept(&mut self, link: u32, answer: &[u8]) {
        let Some(Line { session, .. }) = self.line(link) else { return };
        let Some((theirs, key)) = session.theirs else { return };
        let (peer, own) = (session.peer, session::put_origin(link, session.key));
        self.greet(link, peer, Envelope { key, link: theirs, kind: Kind::Answer, number: 0 }, [&own[..], answer].concat());
    }

    fn greet(&mut self, link: u32, peer: u64, envelope: Envelope, payload: Vec<u8>) {
        self.must_go(link, peer, &envelope, &payload);
        if let Some(line) = self.line(link) {
            line.greeting = Some((envelope, payload));
        }
    }

    /// Says DIAL or ANSWER of `link` again.
    fn greet_again(&mut self, link: u32) {
        let Some(line) = self.line(link) else { return };
        let peer = line.session.peer;
        if let Some((envelope, payload)) = line.greeting.clone()
            && !self.waits(peer)
        {
            self.must_go(link, peer, &envelope, &payload);
        }
    }

    /// A DIAL of that end, with `origin`, was taken before: it has not heard the answer. False: it is new.
    pub fn dialled_again(&mut self, origin: &[u8]) -> bool {
        let Some((theirs, key, _)) = session::origin(origin) else { return false };
        let same = |line: &Option<Line>| {
            line.as_ref().is_some_and(|line| {
                line.session.theirs == Some((theirs, key))
                    && matches!(line.greeting, Some((Envelope { kind: Kind::Answer, .. }, _)))
            })
        };
        let Some(link) = self.lines.iter().position(same) else { return false };
        self.greet_again(link as u32);
        true
    }

    /// This end has gone.
    pub fn close(&mut self, link: u32) {
        let Some(mut line) = self.lines.get_mut(link as usize).and_then(Option::take) else { return };
        // To one that has gone before nothing need be said, and it may have no endpoint any more.
        if !line.session.parted
            && let Some(envelope) = line.session.envelope(Kind::Bye)
        {
            self.must_go(link, line.session.peer, &envelope, &[]);
            self.graves.insert(link, (line.session.key, line.session.peer, envelope));
        }
    }

    /// Takes the next message of `link` into `into`.
    pub fn post(&mut self, link: u32, into: Range, cookie: u64) {
        if let Some(line) = self.line(link) {
            line.posted.push_back((into, cookie));
            self.hand_on(link);
        }
    }

    // ---- What goes.

    /// Sends a message of `link`, which is copied. False: the queue is full.
    pub fn message(&mut self, link: u32, bytes: &[u8]) -> Posted {
        let Some(peer) = self.line(link).map(|line| line.session.peer) else { return Ok(false) };
        if self.waits(peer) || !self.places.has_room() {
            return Ok(false);
        }
        let Some(envelope) = self.line(link).and_then(|line| line.session.envelope(Kind::Message)) else { return Ok(false) };
        let sent = self.send(link, peer, &[&envelope.encode(), bytes]);
        if !matches!(sent, Ok(true))
            && let Some(line) = self.line(link)
        {
            line.session.take_back();
        }
        sent
    }

    /// Sends what the link cannot do without, now or when there is room.
    pub fn must_go(&mut self, link: u32, peer: u64, envelope: &Envelope, payload: &[u8]) {
        #[cfg(test)]
        if self.lose_next.take_if(|kind| *kind == envelope.kind).is_some() {
            return;
        }
        let parts = [&envelope.encode()[..], payload];
        if !self.waits(peer) {
            match self.send(link, peer, &parts) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return self.lost(link, error),
            }
        }
        self.waiting.push(Instant::now(), link, peer, parts.concat());
    }

    /// Something must go to `peer` first.
    fn waits(&self, peer: u64) -> bool {
        self.waiting.holds(peer)
    }

    /// Says something to `peer` that it does not understand; true once it takes nothing.
    #[cfg(test)]
    pub fn keeps_waiting(&mut self, peer: u64) -> bool {
        if !self.waits(peer) {
            self.must_go(0, peer, &Envelope { key: 0, link: u32::MAX, kind: Kind::Probe, number: 0 }, &[]);
        }
        self.waits(peer)
    }

    fn send(&mut self, link: u32, peer: u64, parts: &[&[u8]]) -> Posted {
        if self.ep.is_null() {
            return Ok(false);
        }
        let Some(place) = self.places.take(Use::Send { link }) else { return Ok(false) };
        let bytes = self.places.fill(place, parts);
        let (at, _, descriptor) = self.places.range(place);
        // SAFETY: live; the place is the send's until it has ended, and outlives the endpoint.
        let sent = unsafe { ((*(*self.ep).msg).send)(self.ep, at.cast(), bytes, descriptor, peer, self.places.context(place)) };
        self.taken(place, sent)
    }

    fn taken(&mut self, place: usize, result: isize) -> Posted {
        if result != 0 {
            self.places.give(place);
        }
        match result {
            0 => Ok(true),
            result if result == -EAGAIN => Ok(false),
            result => Err(result),
        }
    }

    /// Writes `from` to `to` of the peer's memory `key`, which is told `data` behind it. False: the queue is full.
    ///
    /// # Safety
    /// `from` stays readable until that has ended or the endpoint is closed.
    pub unsafe fn write(&mut self, link: u32, from: Range, data: u64, (key, to): (u64, u64), cookie: u64) -> Posted {
        let writes = self.writes;
        let Some(peer) = self.line(link).map(|line| line.session.peer) else { return Ok(false) };
        if self.ep.is_null() || self.waits(peer) || !self.places.has_room() {
            return Ok(false);
        }
        let Some(Line { session, .. }) = self.line(link) else { return Ok(false) };
        let (Some((theirs, their_key)), number) = (session.theirs, session.number()) else { return Ok(false) };
        let place = self.places.context_for(Use::Write { link, cookie });
        let context = self.places.context(place);
        // SAFETY: live; the source is the caller's care, the context is the write's until it has ended.
        let written = unsafe {
            let rma = &*(*self.ep).rma;
            match writes {
                Writes::Ordered => (rma.write)(self.ep, from.at.cast(), from.bytes, from.descriptor, peer, to, key, context),
                Writes::Marked { wide } => match session::marker(wide, theirs, their_key, number) {
                    Some(mark) => {
                        (rma.writedata)(self.ep, from.at.cast(), from.bytes, from.descriptor, mark, peer, to, key, context)
                    }
                    None => -(libc::EOVERFLOW as isize),
                },
                Writes::None => -(libc::ENOSYS as isize),
            }
        };
        if !self.taken(place, written)? {
            return Ok(false);
        }
        let envelope = self.line(link).and_then(|line| line.session.envelope(Kind::Wrote));
        if let Some(envelope) = envelope {
            self.must_go(link, peer, &envelope, &data.to_le_bytes());
        }
        Ok(true)
    }

    /// Tries again what waits; true if any went.
    pub fn retry(&mut self) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let moved = waiting.retry(Instant::now(), |link, peer, bytes| match self.send(link, peer, &[bytes]) {
            Ok(taken) => taken,
            Err(error) => {
                self.lost(link, error);
                true
            }
        });
        self.waiting = waiting;
        moved
    }

    pub fn lost(&mut self, link: u32, error: isize) {
        let why = format!("libfabric says: {}", self.library.explain(error as i64));
        self.events.push_back(Event::Refused { link: link.into(), why, away: false });
    }

    /// Ends links on which something has been lost: rxm's TCP connections may break and be made again, and nobody says so.
    pub fn give_up(&mut self) {
        let patience = self.patience;
        for (link, line) in self.lines.iter_mut().enumerate() {
            let Some(Line { session, posted, given_up, .. }) = line else { continue };
            if !*given_up && session.has_lost(!posted.is_empty(), patience) {
                *given_up = true;
                let why = format!("something was lost on the way, and has not come for {} s", patience.as_secs());
                self.events.push_back(Event::Refused { link: link as u64, why, away: false });
            }
        }
    }

    /// Somebody waits for word on `link`: asks for it now and then. True if it has been waited for long.
    pub fn remind(&mut self, link: u32) -> bool {
        let pause = self.patience / 8;
        let Some(line) = self.line(link) else { return false };
        if !line.session.is_due(pause) {
            return false;
        }
        let peer = line.session.peer;
        match line.session.sent(Kind::Probe) {
            None => self.greet_again(link),
            // One is enough that has not gone yet.
            Some(_) if self.waits(peer) => {}
            Some(probe) => self.must_go(link, peer, &probe, &[]),
        }
        true
    }

    /// Nothing to hand on, nothing to send but to peers that are away, nothing under way: the provider, whose progress lives in our calls,
    /// can be left alone.
    pub fn is_still(&self) -> bool {
        let at_rest = self.lines.iter().flatten().all(|line| line.session.is_still());
        let still = self.ready.is_empty()
            && self.events.is_empty()
            && self.waiting.rests(Instant::now())
            && self.nothing_under_way()
            && at_rest;
        #[cfg(test)]
        let still = still && self.mixed.as_ref().is_none_or(|(_, aside)| aside.is_empty());
        still
    }

    pub fn sent_all(&self) -> bool {
        self.waiting.is_empty() && self.nothing_under_way()
    }

    fn nothing_under_way(&self) -> bool {
        self.places.uses.iter().all(|of| matches!(of, Use::Free | Use::Receive))
    }

    /// Something of `link` has ended well.
    pub fn took(&mut self, link: u32) {
        if let Some(peer) = self.line(link).map(|line| line.session.peer) {
            self.waiting.took(Instant::now(), peer);
        }
    }

    /// Writes of links that have gone are still under way.
    pub fn orphans(&self) -> bool {
        let gone = |of: &Use| matches!(of, Use::Write { link, .. } if self.lines.get(*link as usize).is_none_or(Option::is_none));
        self.places.uses.iter().any(gone)
    }

    /// Ends everything; false if the provider wants memory to be deregistered before.
    pub fn shut(&mut self) -> bool {
        // SAFETY: each object is live where it is not null, and closed once.
        unsafe {
            if !self.ep.is_null() && ((*(*self.ep).fid.ops).close)((&raw mut (*self.ep).fid).cast()) == 0 {
                self.ep = std::ptr::null_mut();
            }
        }
        self.ep.is_null()
    }
}

impl Drop for Rdm {
    fn drop(&mut self) {
        self.places.deregister();
        if !self.shut() {
            // It may still receive into them.
            self.places.leak();
        }
        super::net::close(self.av.cast());
    }
}
