//! How links of a rank come and go: let in, refused, ended; `dial` is how it calls.
#![forbid(unsafe_code)]

use super::hub::{Link, Ofi};
use super::incoming::Incoming;
use super::listen::Request;
use super::net::Event;
use super::outgoing::State;
use super::search::Outcome;
use super::{NAME, address_of};
use crate::bail;
use crate::error::Result;
use crate::transport::Words;

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
        match (family_of(address_of(said, self.rank, 0)?.at()), family_of(theirs.at())) {
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

    /// What has happened to connections; true if anything has.
    pub(super) fn events(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(event) = self.post.net.event()? {
            moved = true;
            self.event(event)?;
        }
        self.tend_dials()?;
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
                && let State::Dialing(Some(endpoint)) | State::Open(endpoint) = &to.state
                && to.unlanded() > 0
                && endpoint.remind()
                && (self.has_left)(to.peer)
            {
                to.end(&mut self.post, State::Left);
                self.late.extend(self.post.forget(to.link).into_iter().map(|write| (write.tag, Ok(()))));
            }
        }
    }

    fn event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Asks { request, said } => self.admit(&request, &said),
            Event::Connected { link, said } => {
                let Some(Link::To(to)) = self.links.get_mut(link as usize) else { return Ok(()) };
                let answered = to.ends.answered(&to.nonce, &said);
                match (std::mem::replace(&mut to.state, State::Left), answered) {
                    (State::Dialing(Some(endpoint)), Some(theirs)) => {
                        to.theirs = theirs;
                        self.served_at[to.peer as usize] = to.search.place() as u8;
                        to.state = State::Open(endpoint);
                        let early = std::mem::take(&mut to.early);
                        let mut late = std::mem::take(&mut self.late);
                        let heard = early.into_iter().try_for_each(|place| self.came_word(place, &mut late));
                        self.late = late;
                        heard
                    }
                    (state @ State::Dialing(_), None) => {
                        to.state = state;
                        let why = "what answers there does not know the communicator's secret".into();
                        match to.search.has_others() {
                            true => self.not_answered(link as u32, Outcome::Refused, why),
                            false => to.gone(&mut self.post, why),
                        }
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
            Event::Refused { link, why, away } => {
                self.not_answered(link as u32, if away { Outcome::Away } else { Outcome::Refused }, why)
            }
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
            // It may have ended the connection before it said so on it.
            Some(Link::To(_)) => self.not_answered(link, Outcome::Refused, why),
            Some(from @ Link::From(_)) => {
                *from = Link::Ended;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Something that was posted to `link` has not ended well. Of one that asks several places an event says what has become of it.
    pub(super) fn broke(&mut self, link: u32, why: String) -> Result<()> {
        match self.links.get(link as usize) {
            Some(Link::To(to)) if matches!(to.state, State::Dialing(_)) && to.search.has_others() => Ok(()),
            _ => self.gone(link, why),
        }
    }

    /// A link to a peer is no more: one that never stood is asked for elsewhere. The peer may have left, and closed its door before it said so.
    pub(super) fn not_answered(&mut self, link: u32, outcome: Outcome, why: String) -> Result<()> {
        match self.links.get(link as usize) {
            Some(Link::To(to)) if matches!(to.state, State::Dialing(_)) => match self.elsewhere(link, outcome, why)? {
                Some(why) => self.part(link, why),
                None => Ok(()),
            },
            _ => self.part(link, why),
        }
    }
}
