//! How connections come in: the service thread accepts them, lets them prove themselves, or sends them away.
#![forbid(unsafe_code)]

use super::address::{Credentials, system};
use super::auth::{Hello, Role, Secret};
use super::budget::{PER_TURN, SHORTEST};
use super::event_loop::{EventLoop, Socket};
use super::handshake::{Handshake, MAX_HANDSHAKES, Step};
use super::link::{FrameReader, Link};
use super::root::full;
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
            let Some(Socket::Listener { socket, root, turn }) = self.sockets.get_mut(&listener) else { return };
            let root = *root;
            *turn = self.turn;
            match accept_with(socket.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.starved = None;
                    STARVED_NOW.store(0, Ordering::Relaxed);
                    self.accepted += 1;
                    self.begin(ServiceFd::new(socket), root);
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
                        if let Some(root) = root.and_then(|root| self.roots.get_mut(&root)) {
                            root.give_up(0, &error);
                        }
                    }
                    return self.pause(Duration::from_millis(100));
                }
            }
        }
    }

    fn begin(&mut self, socket: ServiceFd, root: Option<u64>) {
        let peer = match Credentials::of(socket.as_fd()) {
            Ok(peer) if peer.is_mine() => peer,
            _ => return self.turn_away(root, "it belongs to another user"),
        };
        let token = self.next;
        self.next += 1;
        if self.watch(token, socket.as_fd(), epoll::EventFlags::IN) {
            self.sockets.insert(token, Socket::Handshake(Box::new(Handshake::new(socket, peer, root))));
            self.handshakes.push_back(token);
            self.advance(token);
        }
    }

    pub(super) fn advance(&mut self, token: u64) {
        let Some(Socket::Handshake(handshake)) = self.sockets.get_mut(&token) else { return };
        let (service, roots) = (self.service, &self.roots);
        let root = handshake.root;
        let secret_of = |hello: &Hello| -> Option<Secret> {
            match (hello.role, root) {
                (Role::Join | Role::Decline, Some(root)) => roots.get(&root)?.secret_for(&hello.key),
                (Role::Link, None) => service.find(&hello.key).map(|port| *port.secret()),
                _ => None,
            }
        };
        match handshake.step(secret_of) {
            Step::Wait => {}
            Step::Refused(why) => {
                self.close(token);
                self.turn_away(root, why);
            }
            Step::Proved(hello) => self.proved(token, hello),
        }
    }

    fn proved(&mut self, token: u64, hello: Hello) {
        self.handshakes.retain(|other| *other != token);
        let Some(Socket::Handshake(handshake)) = self.sockets.remove(&token) else { return };
        let link = Link::new(handshake.socket, handshake.peer);
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        let _ = epoll::modify(self.epoll, link.as_fd(), epoll::EventData::new_u64(token), both);
        link.watched(self.epoll, token);
        let reader = FrameReader::default();
        match handshake.root {
            Some(root) => match self.roots.get_mut(&root) {
                Some(gathering) => {
                    if hello.role == Role::Join {
                        gathering.admit(&hello, link.clone());
                    }
                    self.sockets.insert(token, Socket::Member { root, link, reader });
                }
                // It ended between the greeting and the proof.
                None => {
                    let _ = epoll::delete(self.epoll, link.as_fd());
                    link.send(&Frame::Refused(full("this id", hello.rank)));
                }
            },
            None => {
                let port = self.service.find(&hello.key);
                if let Some(port) = &port {
                    port.add_link(hello.address, link.clone());
                }
                let port = port.map_or_else(Weak::new, |port| Arc::downgrade(&port));
                self.sockets.insert(token, Socket::Peer { port, peer: hello.address, link, reader });
            }
        }
    }

    pub(super) fn turn_away(&mut self, root: Option<u64>, why: &str) {
        self.turned_away += 1;
        if let Some(root) = root.and_then(|root| self.roots.get_mut(&root)) {
            root.turned_away();
        }
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
        let handshake = self.handshake_at(token).inspect(|handshake| handshake.send_away());
        let root = handshake.and_then(|handshake| handshake.root);
        self.close(token);
        self.turn_away(root, "it kept others waiting");
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
