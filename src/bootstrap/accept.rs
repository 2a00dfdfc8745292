//! How connections come in: the service thread accepts them, lets them prove themselves, or sends them away.
#![forbid(unsafe_code)]

use super::address::{Credentials, Peer, system};
use super::auth::{Hello, Key, Role, Seal, Secret};
use super::budget::{PER_TURN, SHORTEST};
use super::event_loop::{EventLoop, Socket};
use super::handshake::{Handshake, MAX_HANDSHAKES, Step};
use super::link::Link;
use super::root::{Root, full};
use super::tcp;
use super::wire::Frame;
use crate::error::Error;
use crate::process::ServiceFd;
use crate::{hint, info};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Why this process has accepted no connection for a while (an errno); 0 while it does.
static STARVED_NOW: AtomicI32 = AtomicI32::new(0);

/// The error of a rank that waits for a root in its own process, which cannot let it in.
pub(super) fn starved() -> Option<Error> {
    let e = STARVED_NOW.load(Ordering::Relaxed);
    (e != 0).then(|| system("connections cannot be accepted", Errno::from_raw_os_error(e)))
}

/// How long descriptors may be short before the ranks that wait are told.
const STARVED: Duration = Duration::from_secs(1);

impl EventLoop {
    /// Takes some of the connections that wait; epoll tells of the rest in the next turn.
    pub(super) fn accept(&mut self, listener: u64) {
        while self.accepted < PER_TURN {
            if self.paused.is_some() {
                return;
            }
            if self.handshakes.len() >= MAX_HANDSHAKES && !self.make_room() {
                return self.pause(10 * SHORTEST);
            }
            let Some(Socket::Listener { socket, near, turn }) = self.sockets.get_mut(&listener) else { return };
            let near = *near;
            *turn = self.turn;
            match accept_with(socket.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.starved = None;
                    STARVED_NOW.store(0, Ordering::Relaxed);
                    self.accepted += 1;
                    self.begin(ServiceFd::new(socket), near);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => {
                    let since = *self.starved.get_or_insert_with(Instant::now);
                    if since.elapsed() > STARVED {
                        let error = system("connections cannot be accepted", e);
                        STARVED_NOW.store(e.raw_os_error(), Ordering::Relaxed);
                        if !std::mem::replace(&mut self.starved_told, true) {
                            hint!("GINRS-W005 {}", error.text);
                        }
                        self.roots.values_mut().filter(|root| root.is_joining()).for_each(|root| root.give_up(0, &error));
                    }
                    return self.pause(Duration::from_millis(100));
                }
            }
        }
    }

    fn begin(&mut self, socket: ServiceFd, near: bool) {
        let peer = match near {
            true => match Credentials::of(socket.as_fd()) {
                Ok(peer) if peer.is_mine() => Peer { pid: peer.pid, from: None },
                _ => return self.turn_away("it belongs to another user"),
            },
            false => match tcp::peer(socket.as_fd()) {
                Some(from) if tcp::prepare(socket.as_fd()).is_ok() => Peer { pid: 0, from: Some(from.ip()) },
                _ => return self.turn_away("it closed"),
            },
        };
        let token = self.next;
        self.next += 1;
        if self.watch(token, socket.as_fd(), epoll::EventFlags::IN) {
            self.sockets.insert(token, Socket::Handshake(Box::new(Handshake::new(socket, peer))));
            self.handshakes.push_back(token);
            self.advance(token);
        }
    }

    pub(super) fn advance(&mut self, token: u64) {
        // It may ask for a root that was set up before it connected, and after this turn began.
        self.heed();
        let Some(Socket::Handshake(handshake)) = self.sockets.get_mut(&token) else { return };
        let (service, roots) = (self.service, &self.roots);
        let secret_of = |role, key: &Key| -> Option<Secret> {
            match role {
                Role::Join | Role::Decline => roots.get(key).map(|root| *root.secret()),
                Role::Link => service.find(key).map(|port| *port.secret()),
            }
        };
        match handshake.step(secret_of) {
            Step::Wait => {}
            Step::Refused(why) => {
                self.close(token);
                self.turn_away(why);
            }
            Step::Proved(proved) => self.proved(token, proved.0, proved.1),
        }
    }

    fn proved(&mut self, token: u64, hello: Hello, seal: Seal) {
        self.handshakes.retain(|other| *other != token);
        let Some(Socket::Handshake(handshake)) = self.sockets.remove(&token) else { return };
        let (peer, seal) = match handshake.peer {
            near @ Peer { from: None, .. } => (near, None),
            far => (Peer { pid: hello.pid, ..far }, Some(seal)),
        };
        let link = Link::new(handshake.socket, peer, seal);
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        let _ = epoll::modify(self.epoll, link.as_fd(), epoll::EventData::new_u64(token), both);
        link.watched(self.epoll, token);
        let (reader, from) = (link.reader(), hello.route.address);
        if hello.role == Role::Link {
            let port = self.service.find(&hello.key).map_or_else(Weak::new, |port| Arc::downgrade(&port));
            self.sockets.insert(token, Socket::Peer { port, peer: from, link, reader, stands: false });
            return;
        }
        match self.roots.get(&hello.key) {
            Some(root) => {
                let firsts = (hello.role == Role::Join && hello.firsts != 0).then(|| root.of_first_ranks());
                let joins = (hello.role == Role::Join).then(|| Box::new(hello));
                self.sockets.insert(token, Socket::Member { root: hello.key, joins, from, link, reader });
                firsts.into_iter().for_each(|root| self.add_root(root, None));
            }
            // It ended between the greeting and the proof.
            None => {
                let _ = epoll::delete(self.epoll, link.as_fd());
                link.send(&Frame::Refused(full("this id", hello.rank)));
            }
        }
    }

    /// Whom it came for is not known: all that wait for ranks hear of it.
    pub(super) fn turn_away(&mut self, why: &str) {
        self.turned_away += 1;
        self.roots.values_mut().filter(|root| root.is_joining()).for_each(Root::turned_away);
        let count = self.turned_away;
        if self.told.is_none_or(|at| at.elapsed() > Duration::from_secs(10)) {
            self.told = Some(Instant::now());
            info!(BOOTSTRAP, "GINRS-I011 ignored {count} unauthenticated connections so far, the last one because {why}");
        }
    }

    /// Ends the handshake that has had the most time, if any has had enough.
    fn make_room(&mut self) -> bool {
        let now = Instant::now();
        let enough = |token: &&u64| self.handshake_at(**token).is_some_and(|handshake| handshake.yields_at() <= now);
        let Some(token) = self.handshakes.iter().find(enough).copied() else { return false };
        self.handshake_at(token).into_iter().for_each(Handshake::send_away);
        self.close(token);
        self.turn_away("it kept others waiting");
        true
    }

    /// Accepts nothing for so long.
    pub(super) fn pause(&mut self, rest: Duration) {
        self.set_listeners(epoll::EventFlags::empty());
        self.paused = Some(Instant::now() + rest);
    }

    pub(super) fn set_listeners(&self, what: epoll::EventFlags) {
        for (token, entry) in &self.sockets {
            if let Socket::Listener { socket, .. } = entry {
                let _ = epoll::modify(self.epoll, socket.as_fd(), epoll::EventData::new_u64(*token), what);
            }
        }
    }
}
