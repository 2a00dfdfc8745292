//! How links of a rank come and go: dialled, let in, refused, given up.
#![forbid(unsafe_code)]

use super::hub::{Link, Ofi};
use super::incoming::Incoming;
use super::listen::Request;
use super::net::Event;
use super::outgoing::{Outgoing, State};
use super::proof::Ends;
use super::sockets;
use super::{NAME, STREAMS, address_of};
use crate::error::{Code, Error, Result};
use crate::transport::Words;
use crate::{bail, info};
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

/// Between two dials of one that there was no way to.
const PAUSE: Duration = Duration::from_millis(20);

/// What an address of IP's begins with.
fn family_of(address: &[u8]) -> Option<&'static str> {
    match i32::from(u16::from_ne_bytes(*address.first_chunk()?)) {
        libc::AF_INET => Some("IPv4"),
        libc::AF_INET6 => Some("IPv6"),
        _ => None,
    }
}

impl Ofi {
    /// Whether rank `peer` listens where this one can connect from. libfabric would only say so at the first put.
    pub(super) fn has_the_family_of(&self, peer: u32, said: &[Words]) -> Result<()> {
        let theirs = address_of(said, peer, 0)?;
        if !self.post.net.traits.internet {
            return Ok(());
        }
        match (family_of(address_of(said, self.rank, 0)?.at), family_of(theirs.at)) {
            (Some(own), Some(other)) if own != other => bail!(
                InvalidUsage,
                126,
                "two machines have no address of one family | {NAME}, rank {} has {own}, rank {peer} {other} | no family is on the chosen interfaces of all ranks \
                 | fix: give all machines an address of one family there, or set NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY to what all have; \
                 `ginrs-info --why` shows each machine's",
                self.rank
            ),
            _ => Ok(()),
        }
    }

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
        let address = address_of(&self.said, peer, stream)?;
        let number = self.links.len() as u32;
        let ends = Ends { secret: self.secret, target_nonce: address.nonce, sender: self.rank, target: peer, stream };
        let endpoint = match self.post.net.caller(address.at, number.into())? {
            Ok(endpoint) => endpoint,
            Err(why) => return self.no_way((peer, stream), astray, &why),
        };
        let (hello, nonce) = ends.hello(&endpoint.origin())?;
        if let Err(why) = endpoint.connect(address.at, &hello)? {
            return self.no_way((peer, stream), astray, &why);
        }
        // Nothing comes before its event has been read here.
        for _ in 0..self.room.words {
            self.post.expect_word(&endpoint, number)?;
        }
        if self.post.net.traits.rdm {
            self.sockets.reached(address.at);
        } else {
            self.sockets.dialled(&endpoint.address().unwrap_or_default(), number);
        }
        astray.map(|at| self.astray.swap_remove(at));
        self.dialled[peer as usize][stream as usize] = number + 1;
        self.dialing.push((number, Instant::now()));
        self.links.push(Link::To(Box::new(Outgoing::new(ends, number, nonce, endpoint, self.room.window))));
        Ok(Way::Link(number))
    }

    /// Why a peer may not be reached that listens at a loopback address: so does a machine whose other addresses are of one link alone.
    fn to_itself(&self, peer: u32, stream: u32) -> String {
        match address_of(&self.said, peer, stream).ok().and_then(|address| sockets::decode(address.at)) {
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
    fn no_way(&mut self, to: (u32, u32), astray: Option<usize>, why: &str) -> Result<Way> {
        let now = Instant::now();
        let gap = self.gap;
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
        let at = address_of(&self.said, peer, stream).ok().and_then(|address| sockets::decode(address.at));
        let at = at.map_or(String::new(), |(ip, _)| format!(" at {ip}"));
        let text = format!(
            "a peer cannot be reached | {NAME}, rank {peer}{at}, stream {stream} | this machine has had no way to its network for {seconds} s: {why} | fix: see \
             `ip route` and `ip address` here; NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY on that rank choose another of its addresses; GINRS_HOST_DEADLINE says \
             how long such a gap may last"
        );
        Err(Error::new(Code::RemoteError, 122, text).by(peer))
    }

    /// What has happened to connections; true if anything has.
    pub(super) fn events(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(event) = self.post.net.event()? {
            moved = true;
            self.event(event)?;
        }
        self.give_up()?;
        moved |= self.see_partings()?;
        if self.post.net.traits.rdm {
            self.remind();
        }
        Ok(moved)
    }

    /// Where nobody says that a connection has ended: word that a peer has left may be lost with its endpoint, and comes on links of its own, too.
    fn remind(&mut self) {
        for link in &mut self.links {
            if let Link::To(to) = link
                && let State::Dialing(endpoint) | State::Open(endpoint) = &to.state
                && to.unlanded() > 0
                && endpoint.remind()
                && (self.has_left)(to.peer)
            {
                to.end(&mut self.post, State::Left);
                self.late.extend(self.post.forget(to.link).into_iter().map(|write| (write.tag, Ok(()))));
            }
        }
    }

    /// Ends dials that nobody answers: 1.17 tells neither of an answer that is none nor of a listener that closes in place of it.
    fn give_up(&mut self) -> Result<()> {
        let links = &self.links;
        self.dialing.retain(|(link, _)| matches!(&links[*link as usize], Link::To(to) if matches!(to.state, State::Dialing(_))));
        // In the order in which they were dialled.
        match self.dialing.first() {
            Some(&(link, since)) if since.elapsed() > self.answer => self.gone(
                link,
                format!("what listens there has not answered for {} s, or a firewall drops what asks it", self.answer.as_secs()),
            ),
            _ => Ok(()),
        }
    }

    fn event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Asks { request, said } => self.admit(&request, &said),
            Event::Connected { link, said } => {
                let Some(Link::To(to)) = self.links.get_mut(link as usize) else { return Ok(()) };
                let answered = to.ends.answered(&to.nonce, &said);
                match (std::mem::replace(&mut to.state, State::Left), answered) {
                    (State::Dialing(endpoint), Some(theirs)) => {
                        to.theirs = theirs;
                        to.state = State::Open(endpoint);
                        let early = std::mem::take(&mut to.early);
                        let mut late = std::mem::take(&mut self.late);
                        let heard = early.into_iter().try_for_each(|place| self.came_word(place, &mut late));
                        self.late = late;
                        heard
                    }
                    (State::Dialing(endpoint), None) => {
                        to.state = State::Dialing(endpoint);
                        to.gone(&mut self.post, "what answers there does not know the communicator's secret".into())
                    }
                    (state, _) => {
                        to.state = state;
                        Ok(())
                    }
                }
            }
            Event::Shut { link } => {
                // What it has said before it went comes first.
                let mut late = std::mem::take(&mut self.late);
                let read = loop {
                    match self.completions(&mut late) {
                        Ok(true) => {}
                        Ok(false) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                };
                late.append(&mut self.late);
                self.late = late;
                read?;
                self.gone(
                    link as u32,
                    "its connection has ended; libfabric does not say whether the other end closed it or the network broke it"
                        .into(),
                )
            }
            Event::Refused { link, why } => self.gone(link as u32, why),
        }
    }

    /// Lets in a sender that proves who it is.
    fn admit(&mut self, request: &Request, said: &[u8]) -> Result<()> {
        let Some(door) = &mut self.door else { return Ok(()) };
        let Some((ends, nonce)) = door.admits(self.rank, &self.secret, request, said) else {
            door.reject(request);
            return Ok(());
        };
        let number = self.links.len() as u32;
        self.sockets.admitted(request.from(), number);
        let made = self.post.net.called(request, number.into()).and_then(|endpoint| {
            for _ in 0..self.room.messages {
                self.post.expect_message(&endpoint, number)?;
            }
            endpoint.accept(&ends.answer(&nonce, number))?;
            Ok(endpoint)
        });
        self.links.push(Link::From(Incoming::new(ends.sender, number, made?)));
        Ok(())
    }

    /// A connection is no more. That a sender has gone is no error here: whoever watches it says so.
    pub(super) fn gone(&mut self, link: u32, why: String) -> Result<()> {
        match self.links.get_mut(link as usize) {
            // It may have ended the connection, or closed its door to one that was dialled just then, before it said so on it.
            Some(Link::To(to)) => {
                let never_stood = matches!(to.state, State::Dialing(_));
                let (peer, stream) = (to.peer, to.ends.stream);
                let hint = if never_stood { self.to_itself(peer, stream) } else { String::new() };
                self.part(link, why + &hint)
            }
            Some(from @ Link::From(_)) => {
                *from = Link::Ended;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
