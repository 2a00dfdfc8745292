//! What comes out of an endpoint without connections: completions of what was posted, and messages, each handed to the link that it is
//! for in its turn.

use super::failure::Failure;
use super::listen::Request;
use super::net::{Ended, Event};
use super::places::Use;
use super::proof::HELLO;
use super::rdm::{Line, Rdm, Writes};
use super::session::{self, Arrival, Envelope, Kind, ORIGIN};
use super::sys::*;

impl Rdm {
    /// Something has ended: an entry of the queue, and its error.
    pub fn ended(&mut self, entry: &fi_cq_data_entry, error: Option<Failure>) {
        if error.is_none() && entry.flags & FI_REMOTE_CQ_DATA != 0 && entry.flags & FI_RECV == 0 {
            let (wide, link) = (self.writes == Writes::Marked { wide: true }, session::marked_link(entry.data));
            if let Some(line) = self.line(link) {
                line.session.marked(wide, entry.data);
                self.hand_on(link);
            }
            return;
        }
        let Some(place) = self.places.of(entry.op_context) else { return };
        match std::mem::replace(&mut self.places.uses[place], Use::Free) {
            Use::Free => {}
            Use::Receive => {
                if error.is_none() {
                    let bytes = self.places.bytes(place, entry.len).to_vec();
                    self.came(bytes);
                }
                if error.is_none_or(|error| error.error != ECANCELED) && self.receive(place) != 0 {
                    self.places.unposted.push(place);
                }
            }
            Use::Send { link } => {
                self.places.give(place);
                match error {
                    Some(error) => self.lost(link, -(error.error as isize)),
                    None => self.took(link),
                }
            }
            Use::Write { cookie, .. } => {
                self.places.give(place);
                self.ready.push_back(Ended { cookie, bytes: 0, data: None, error });
            }
        }
    }

    #[cfg(not(test))]
    fn came(&mut self, bytes: Vec<u8>) {
        self.understand(&bytes);
    }

    /// Every other message is put aside, and what was put aside comes in any order.
    #[cfg(test)]
    fn came(&mut self, bytes: Vec<u8>) {
        let Some((state, aside)) = &mut self.mixed else { return self.understand(&bytes) };
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (*state >> 33) as usize % (aside.len() + 1);
        aside.insert(at, bytes);
    }

    #[cfg(test)]
    fn unmix(&mut self) -> bool {
        let Some((state, aside)) = &mut self.mixed else { return false };
        let (go, late) = (*state >> 40 & 1 == 0, aside.pop());
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        match late {
            Some(late) if go => self.understand(&late),
            Some(late) => aside.push(late),
            None => return false,
        }
        true
    }

    fn understand(&mut self, bytes: &[u8]) {
        let Some((Envelope { key, link, kind, number }, payload)) = Envelope::decode(bytes) else { return };
        if kind == Kind::Dial {
            // Whether it may: the proof in its hello says.
            if let Some((ends, rest)) = payload.split_at_checked(ORIGIN)
                && let Some((hello, address)) = rest.split_at_checked(HELLO)
                && !self.dialled_again(ends)
            {
                self.events
                    .push_back(Event::Asks { request: Request::Rdm { origin: [ends, address].concat() }, said: hello.to_vec() });
            }
            return;
        }
        if let Some(&(_, peer, bye)) = self.graves.get(&link).filter(|grave| grave.0 == key && kind == Kind::Probe) {
            return self.must_go(link, peer, &bye, &[]);
        }
        let Some(line) = self.line(link).filter(|line| line.session.key == key) else { return };
        let arrival = match kind {
            Kind::Dial => return,
            Kind::Answer => {
                if line.session.theirs.is_none()
                    && let Some((theirs, key, said)) = session::origin(payload)
                {
                    line.session.theirs = Some((theirs, key));
                    self.events.push_back(Event::Connected { link: link.into(), said: said.to_vec() });
                }
                return;
            }
            Kind::Message => Arrival::Message(payload.to_vec()),
            Kind::Wrote => match payload.try_into() {
                Ok(data) => Arrival::Wrote(u64::from_le_bytes(data)),
                Err(_) => return,
            },
            Kind::Bye => Arrival::Bye,
            Kind::Probe | Kind::Sent => {
                line.session.probed(number);
                if let Some(sent) = line.session.sent(Kind::Sent).filter(|_| kind == Kind::Probe) {
                    let peer = line.session.peer;
                    self.must_go(link, peer, &sent, &[]);
                }
                return;
            }
        };
        line.session.arrived(number, arrival);
        self.hand_on(link);
    }

    /// Hands on what is next of `link`.
    pub fn hand_on(&mut self, link: u32) {
        let Some(Some(Line { session, posted, .. })) = self.lines.get_mut(link as usize) else { return };
        while let Some(arrival) = session.next(!posted.is_empty()) {
            match arrival {
                Arrival::Wrote(data) => self.ready.push_back(Ended { cookie: 0, bytes: 0, data: Some(data), error: None }),
                Arrival::Bye => self.events.push_back(Event::Shut { link: link.into() }),
                Arrival::Message(message) => {
                    let Some((into, cookie)) = posted.pop_front() else { return };
                    let bytes = message.len().min(into.bytes);
                    // SAFETY: who posted it keeps so much memory until this is known to have ended, or has closed the link.
                    unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), into.at, bytes) };
                    self.ready.push_back(Ended { cookie, bytes, data: None, error: None });
                }
            }
        }
    }

    /// What does not wait for the queue; true if anything moved.
    pub fn tend(&mut self) -> bool {
        for place in std::mem::take(&mut self.places.unposted) {
            if self.receive(place) != 0 {
                self.places.unposted.push(place);
            }
        }
        #[cfg(test)]
        if self.unmix() {
            return true;
        }
        self.retry()
    }

    pub fn next_ready(&mut self) -> Option<Ended> {
        self.ready.pop_front()
    }

    pub fn next_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.give_up();
        }
        let event = self.events.pop_front()?;
        if let Event::Connected { link, .. } = event {
            if let Some(line) = self.line(link as u32) {
                line.session.open = true;
            }
            self.hand_on(link as u32);
        }
        Some(event)
    }
}
