//! How a rank calls a peer: it asks one place after the other at which that listens (`search`), until one takes it and proves who it is.
//!
//! Only a place of which it is known that nothing came of the call is given up for the next: it refused, there is no way there, or its machine has not
//! answered the kernel, so that the request has never left this one. What has taken the connection may be the peer, which lets each stream in
//! once: it has the time that a peer has to answer.
#![forbid(unsafe_code)]

use super::door::Address;
use super::endpoint::Endpoint;
use super::hub::{Link, Ofi};
use super::net;
use super::outgoing::{Outgoing, State};
use super::proof::Ends;
use super::search::{Next, Outcome, PAUSE, Search};
use super::sockets;
use super::{NAME, STREAMS, address_of};
use crate::error::{Code, Error, Result};
use crate::info;
use std::time::{Duration, Instant};

/// Where a put goes.
pub(super) enum Way {
    Link(u32),
    /// This rank does not send there.
    Closed,
    /// This machine has no way there for now.
    Later,
}

/// A peer and stream that this machine has had no way to.
pub(super) struct Astray {
    to: (u32, u32),
    since: Instant,
    next: Instant,
}

impl Ofi {
    /// The link for `context` to `peer`, dialled now if there is none.
    pub(super) fn link(&mut self, peer: u32, context: u32) -> Result<Way> {
        let stream = context % STREAMS;
        match self.dialled.get(peer as usize).map(|links| links[stream as usize]) {
            Some(0) if self.serves[peer as usize] => self.dial(peer, stream),
            Some(0) | None => Ok(Way::Closed),
            Some(link) => {
                self.ask_again(link - 1);
                Ok(Way::Link(link - 1))
            }
        }
    }

    fn dial(&mut self, peer: u32, stream: u32) -> Result<Way> {
        let astray = self.astray.iter().position(|astray| astray.to == (peer, stream));
        if astray.is_some_and(|at| Instant::now() < self.astray[at].next) {
            return Ok(Way::Later);
        }
        let said = self.said.clone();
        let address = address_of(&said, peer, stream)?;
        let number = self.links.len() as u32;
        let ends = Ends { secret: self.secret, target_nonce: address.nonce, sender: self.rank, target: peer, stream };
        let mut search = Search::new(address.places().count(), self.served_at[peer as usize].into(), Instant::now());
        while let Next::Ask(place) = search.next(Instant::now(), Duration::ZERO) {
            match self.ask(&ends, number, address.places().nth(place).unwrap_or_default())? {
                Ok((endpoint, nonce)) => {
                    astray.map(|at| self.astray.swap_remove(at));
                    self.dialled[peer as usize][stream as usize] = number + 1;
                    self.dialing.push((number, Instant::now()));
                    let to = Outgoing::new(ends, number, nonce, (endpoint, search), self.room.window);
                    self.links.push(Link::To(Box::new(to)));
                    return Ok(Way::Link(number));
                }
                Err(why) => search.failed(Outcome::Away, why),
            }
        }
        self.no_way((peer, stream), astray, (&search, address))
    }

    /// Asks `place`, for link `number`: this rank's end, and its nonce; or why this machine has no way there.
    fn ask(&mut self, ends: &Ends, number: u32, place: &[u8]) -> Result<net::Way<(Endpoint, [u8; 16])>> {
        let endpoint = match self.post.net.caller(place, number.into())? {
            Ok(endpoint) => endpoint,
            Err(why) => return Ok(Err(why)),
        };
        let (hello, nonce) = ends.hello(&endpoint.origin())?;
        if let Err(why) = endpoint.connect(place, &hello)? {
            return Ok(Err(why));
        }
        // Nothing comes before its event has been read here.
        for _ in 0..self.room.words {
            self.post.expect_word(&endpoint, number)?;
        }
        if self.post.net.traits.rdm {
            self.sockets.reached(place);
        } else {
            self.sockets.dialled(&endpoint.address().unwrap_or_default(), number);
        }
        Ok(Ok((endpoint, nonce)))
    }

    /// The place that `link` has asked does not serve it, and the call is over. Some: nor does any other, and why.
    pub(super) fn elsewhere(&mut self, link: u32, outcome: Outcome, why: String) -> Result<Option<String>> {
        let Some(Link::To(to)) = self.links.get_mut(link as usize) else { return Ok(None) };
        if matches!(to.state, State::Dialing(None)) {
            return Ok(None);
        }
        if !to.search.has_others() {
            let (peer, stream) = (to.peer, to.ends.stream);
            return Ok(Some(why + &self.to_itself(peer, stream)));
        }
        if (self.has_left)(to.peer) {
            return Ok(Some(why));
        }
        info!(NET, "rank {}: place {} of rank {} does not serve {NAME}: {why}", self.rank, to.search.place(), to.peer);
        to.state = State::Dialing(None);
        to.early.clear();
        to.search.failed(outcome, why);
        self.post.disown_words(link);
        self.sockets.forget(link);
        self.stalls.forget(link);
        self.seek(link)
    }

    /// Asks the next place, if it is time; Some: there is none, and why.
    fn seek(&mut self, link: u32) -> Result<Option<String>> {
        let said = self.said.clone();
        loop {
            let Some(Link::To(to)) = self.links.get_mut(link as usize) else { return Ok(None) };
            let (ends, address) = (to.ends, address_of(&said, to.peer, to.ends.stream)?);
            let place = match to.search.next(Instant::now(), self.gap) {
                Next::Ask(place) => address.places().nth(place).unwrap_or_default(),
                Next::Give => return Ok(Some(none_serves(&to.search, address))),
                Next::Wait => {
                    if to.search.has_silent() {
                        self.stalls.tell(self.rank, to.peer, &none_serves(&to.search, address));
                    }
                    return Ok(None);
                }
            };
            let asked = self.ask(&ends, link, place)?;
            let Some(Link::To(to)) = self.links.get_mut(link as usize) else { return Ok(None) };
            match asked {
                Ok((endpoint, nonce)) => {
                    (to.state, to.nonce) = (State::Dialing(Some(endpoint)), nonce);
                    return Ok(None);
                }
                Err(why) => to.search.failed(Outcome::Away, why),
            }
        }
    }

    /// Goes on with links whose peer none of its places has led to so far, and ends dials that nobody answers: 1.17 tells neither of an answer that
    /// is none nor of a listener that closes in place of it.
    pub(super) fn tend_dials(&mut self) -> Result<()> {
        let links = &self.links;
        self.dialing.retain(|(link, _)| matches!(&links[*link as usize], Link::To(to) if matches!(to.state, State::Dialing(_))));
        let now = Instant::now();
        let due = |link: &u32| matches!(&links[*link as usize], Link::To(to) if to.search.is_due(now));
        let due: Vec<u32> = self.dialing.iter().map(|(link, _)| *link).filter(due).collect();
        for link in due {
            if let Some(why) = self.seek(link)? {
                self.part(link, why)?;
            }
        }
        // In the order in which they were dialled.
        match self.dialing.first() {
            Some(&(link, since)) if since.elapsed() > self.answer => {
                let why = self.silence_of(link)?;
                self.part(link, why)
            }
            _ => Ok(()),
        }
    }

    /// Why a call ends that nobody has answered.
    fn silence_of(&self, link: u32) -> Result<String> {
        let Some(Link::To(to)) = self.links.get(link as usize) else { return Ok(String::new()) };
        let more = match to.search.has_others() {
            true => format!(": {}", to.search.explain(names(address_of(&self.said, to.peer, to.ends.stream)?))),
            false => self.to_itself(to.peer, to.ends.stream),
        };
        let seconds = self.answer.as_secs();
        Ok(format!("what listens there has not answered for {seconds} s, or a firewall drops what asks it{more}"))
    }

    /// True while one waits for its next turn: nothing wakes anybody for that.
    pub(super) fn has_turns(&self) -> bool {
        let waits = |(link, _): &(u32, Instant)| matches!(&self.links[*link as usize], Link::To(to) if matches!(to.state, State::Dialing(None)));
        self.dialing.iter().any(waits)
    }

    /// Why a peer may not be reached that listens at a loopback address: so does a machine whose other addresses are of one link alone.
    fn to_itself(&self, peer: u32, stream: u32) -> String {
        match address_of(&self.said, peer, stream).ok().and_then(|address| sockets::decode(address.at())) {
            Some((ip, _)) if ip.is_loopback() => format!(
                "; it listens at {ip}, where only its own machine reaches it: each machine needs an address that the others reach, as IPv6's \
                 link-local ones are not"
            ),
            Some((ip, _)) => format!(
                "; it listens at {ip}: if this machine has no way there, name an interface that all machines share in NCCL_SOCKET_IFNAME on each"
            ),
            None => String::new(),
        }
    }

    /// A route or an address may be away for a moment: as long as a machine may be silent.
    fn no_way(&mut self, to: (u32, u32), astray: Option<usize>, (search, address): (&Search, Address<'_>)) -> Result<Way> {
        let now = Instant::now();
        let gap = self.gap;
        let why = search.explain(names(address));
        let Some(astray) = astray.map(|at| &mut self.astray[at]) else {
            info!(
                NET,
                "rank {}: no way to rank {} by {NAME} now, {why}; tried again for {} s",
                self.rank,
                to.0,
                gap.as_secs_f32()
            );
            self.astray.push(Astray { to, since: now, next: now + PAUSE });
            return Ok(Way::Later);
        };
        if now - astray.since < gap {
            astray.next = now + PAUSE;
            return Ok(Way::Later);
        }
        let ((peer, stream), seconds) = (to, gap.as_secs_f32());
        self.astray.retain(|astray| astray.to != to);
        let at: Vec<String> = address.places().filter_map(sockets::decode).map(|(ip, _)| ip.to_string()).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        let text = format!(
            "a peer cannot be reached | {NAME}, rank {peer}{at}, stream {stream} | this machine has had no way to its network for {seconds} s: {why} | fix: see \
             `ip route` and `ip address` here; NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY on that rank choose another of its addresses; GINRS_HOST_DEADLINE says \
             how long such a gap may last"
        );
        Err(Error::new(Code::RemoteError, 122, text).by(peer))
    }
}

/// The places of a peer, for a person.
fn names(address: Address<'_>) -> impl Iterator<Item = String> {
    address.places().map(|place| sockets::decode(place).map_or("an address".into(), |(ip, port)| format!("port {port} of {ip}")))
}

/// Why a peer with several places has not been reached.
fn none_serves(search: &Search, address: Address<'_>) -> String {
    format!(
        "none of the places where it listens is reached: {}; each machine needs one that the others reach: name interfaces that all share in NCCL_SOCKET_IFNAME, \
         and let TCP through",
        search.explain(names(address))
    )
}
