//! The port's dealings with other processes: links, the frames on them, descriptors.
#![forbid(unsafe_code)]

use super::address::Address;
use super::auth::{Hello, Role};
use super::dial::{Dialled, NoLink, dial};
use super::link::Link;
use super::port::{Handed, Port};
use super::route::{Doors, Route};
use super::tcp;
use super::wire::{Frame, Standing};
use crate::config;
use crate::process::ServiceFd;
use crate::sync::Give;
use std::collections::HashSet;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Port {
    /// Sends to every process that a link stands to; gives their addresses.
    pub(super) fn tell_links(&self, frame: &Frame) -> Vec<Address> {
        let bytes: Arc<[u8]> = frame.encode().into();
        let links = self.links.lock();
        let told = links.iter().filter(|(_, links)| links[0].send_bytes(bytes.clone(), None));
        told.map(|(address, _)| *address).collect()
    }

    /// The link to a process, made now if there is none.
    pub(super) fn link(
        self: &Arc<Self>,
        to: Address,
        until: Instant,
        mut go_on: impl FnMut() -> bool,
    ) -> std::result::Result<Arc<Link>, NoLink> {
        if let Some(link) = self.standing_link(to) {
            return Ok(link);
        }
        let turn = self.dialing.lock().entry(to).or_default().clone();
        let _turn = turn.lock();
        if let Some(link) = self.standing_link(to) {
            return Ok(link);
        }
        let n_ranks = self.table().len() as u32;
        let pid = std::process::id();
        let route = Route { address: self.own_address(), machine: 0, doors: Doors::default() };
        let hello = Hello { role: Role::Link, key: self.key, rank: 0, n_ranks, patience: 0, pid, firsts: 0, route };
        let (way, its_pid) = self.way(to);
        // The other process may have dialled meanwhile, also where it cannot let us in (tests/advice.rs).
        let dialled = dial(way, &hello, &self.secret, until, || self.standing_link(to).is_none() && go_on());
        let Dialled { socket, mut peer, seal } = match dialled {
            Ok(made) => made,
            Err(why) => return self.standing_link(to).ok_or(why),
        };
        if peer.from.is_some() {
            peer.pid = its_pid;
        }
        let link = Link::new(ServiceFd::new(socket), peer, seal);
        self.add_link(to, link.clone());
        self.service.adopt(link.clone(), Arc::downgrade(self), to);
        // The other process may have dialled at the same time. All goes by the first link, or a Left would overtake what was sent
        // by another one.
        Ok(self.standing_link(to).unwrap_or(link))
    }

    /// Until the last words of the last rank here are on the other machines: the process may end behind this. Not for those that were silent when the
    /// communicator failed: a cut network held up each ncclCommAbort for GINRS_HOST_DEADLINE. Where none takes anything, at most for as long as a silent
    /// one counts as there.
    pub(super) fn say_last_words(&self) {
        if !self.seats.lock().is_empty() {
            return;
        }
        let patience = config::seconds("GINRS_HOST_DEADLINE");
        let is_awaited = |to: &Address| self.forsaken.get().is_none_or(|silent| !silent.contains(to));
        let links: Vec<Arc<Link>> =
            self.links.lock().iter().filter(|(to, _)| is_awaited(to)).flat_map(|(_, links)| links.iter().cloned()).collect();
        let (mut least, mut moved) = (usize::MAX, Instant::now());
        loop {
            let left = links.iter().map(|link| link.under_way()).sum();
            if left < least {
                (least, moved) = (left, Instant::now());
            }
            if left == 0 || moved.elapsed() >= patience {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn standing_link(&self, to: Address) -> Option<Arc<Link>> {
        self.links.lock().get(&to).map(|links| links[0].clone())
    }

    /// Addresses of this machine by which links to others go.
    pub(super) fn used_addresses(&self) -> HashSet<IpAddr> {
        let links = self.links.lock();
        let far = links.values().flatten().filter(|link| link.peer().from.is_some());
        far.filter_map(|link| tcp::own(link.as_fd())).collect()
    }

    pub(super) fn add_link(&self, to: Address, link: Arc<Link>) {
        self.links.lock().entry(to).or_default().push(link);
        self.lost.lock().remove(&to);
    }

    /// A link has closed. When it was the last one to its process, its ranks will send nothing more.
    pub(super) fn link_closed(&self, to: Address, link: &Arc<Link>, how: String) {
        self.endings.lock().insert(to, how);
        let mut links = self.links.lock();
        if let Some(all) = links.get_mut(&to) {
            all.retain(|other| !Arc::ptr_eq(other, link));
            let all_gone = all.is_empty();
            if all_gone {
                links.remove(&to);
                self.note_lost(to);
            }
            // Between machines one of two may have been cut with frames under way.
            if all_gone || link.peer().from.is_some() {
                self.on_lost.lock().iter().for_each(|hook| hook(to));
            }
        }
        drop(links);
        link.closed();
        self.tickets.lock().retain(|_, (address, _)| *address != to);
        self.mailbox.ring();
    }

    /// A frame of another process. False: the link must go.
    pub(super) fn frame(&self, link: &Arc<Link>, frame: Frame, fd: Option<OwnedFd>) -> bool {
        match frame {
            Frame::Blocks(message) => self.mailbox.put(message),
            Frame::Poison { from, quiescent, cause } => {
                if quiescent {
                    self.note_quiescent(from);
                }
                // The sender may die before it has told everybody.
                if self.fail_and_tell(from, &cause).is_none() {
                    self.hear_of_death(&cause, &Frame::Poison { from, quiescent, cause: cause.clone() });
                }
            }
            Frame::Left { rank } => {
                self.leaves(rank);
                self.mailbox.ring();
            }
            Frame::Probe => drop(link.send(&Frame::Status(self.standings_here()))),
            Frame::Status(all) => {
                let now = Instant::now();
                let n_ranks = self.table().len();
                let known = all.into_iter().filter(|standing| (standing.rank as usize) < n_ranks);
                self.standings.lock().extend(known.map(|standing| (standing.rank, (now, standing))));
            }
            Frame::Fetch { ticket, owner, key } => {
                let found = self.published(owner, key);
                link.send_bytes(Frame::Handed { ticket, found: found.is_some() }.encode().into(), found);
            }
            Frame::Handed { ticket, found } => {
                if let Some((_, waiting)) = self.tickets.lock().remove(&ticket) {
                    waiting.give(if found { fd.map_or(Handed::NoRoom, Handed::Here) } else { Handed::Nothing });
                }
            }
            Frame::Beat(beat) => self.lookout().into_iter().for_each(|lookout| lookout.heard(&beat)),
            Frame::Leaving { rank, ended, called } => {
                if self.lookout().is_some_and(|lookout| lookout.leaves(rank, ended, &called)) {
                    self.tell_links(&Frame::Leaving { rank, ended, called });
                }
            }
            Frame::Decline { key, rank, cause } => {
                // Of a process of this communicator: whose, does not matter.
                self.service.decline_for(key, Address::None, link.peer().to_string(), rank, &cause);
            }
            Frame::Headcount { .. } | Frame::Refused(_) | Frame::Table(_) | Frame::Met { .. } | Frame::Here => return false,
        }
        true
    }

    /// What `rank` of another process answered to a probe since `since`.
    pub(super) fn answer(&self, rank: u32, since: Instant) -> Option<Standing> {
        self.standings.lock().get(&rank).filter(|(at, _)| *at >= since).map(|(_, standing)| standing.clone())
    }

    // Descriptors.

    pub(super) fn publish(&self, owner: u32, key: u64, fd: OwnedFd) {
        self.published.lock().insert((owner, key), Arc::new(fd));
    }

    pub(super) fn withdraw(&self, owner: u32, key: u64) {
        self.published.lock().remove(&(owner, key));
    }

    /// What `owner` published.
    pub(super) fn published(&self, owner: u32, key: u64) -> Option<Arc<OwnedFd>> {
        self.published.lock().get(&(owner, key)).cloned()
    }

    pub(super) fn ticket(&self, to: Address, answer: Give<Handed>) -> u64 {
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1;
        self.tickets.lock().insert(ticket, (to, answer));
        ticket
    }

    pub(super) fn drop_ticket(&self, ticket: u64) {
        self.tickets.lock().remove(&ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::super::UniqueId;
    use super::super::address::Peer;
    use super::super::auth::tests::seals;
    use super::super::service::Service;
    use super::super::tcp;
    use super::*;
    use crate::hang_limit::hang_deadline;
    use rustix::net::{Shutdown, accept, shutdown};

    /// Who leaves waits for what is under way, and on a link that has closed nothing is: with some still queued the last rank of a process
    /// waited for GINRS_HOST_DEADLINE, in two of three runs of `benches/meet.rs` with 128 ranks.
    #[test]
    fn nothing_is_under_way_on_a_link_that_has_closed() {
        let service = Service::get().unwrap();
        let port = service.port(&UniqueId::create().unwrap());
        let (listener, at) = tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let near = tcp::connect(at, hang_deadline()).unwrap();
        let link = Link::new(ServiceFd::new(near), Peer { pid: 0, from: Some(at.ip()) }, Some(seals().0));
        // It reads nothing, so some stays queued here, and it ends its half without a reset.
        let far = loop {
            match accept(&listener) {
                Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
                far => break far.unwrap(),
            }
        };
        let to = Address::Abstract([7; 16]);
        port.add_link(to, link.clone());
        service.adopt(link.clone(), Arc::downgrade(&port), to);
        assert!(link.send_bytes(vec![0; 32 << 20].into(), None));
        shutdown(&far, Shutdown::Write).unwrap();
        while port.standing_link(to).is_some() {
            std::thread::yield_now();
        }
        // The service thread is about to say so.
        let end = hang_deadline();
        while link.under_way() > 0 {
            assert!(Instant::now() < end, "{} bytes are still to go", link.under_way());
            std::thread::yield_now();
        }
        assert!(!link.send_bytes([0].into(), None));
    }
}
