//! What the service thread does: it accepts, authenticates, reads every link and serves the roots that live here. Nothing in it
//! blocks but its one epoll wait. `accept` is how connections come in.
#![forbid(unsafe_code)]

use super::address::Address;
use super::auth::{Hello, Key};
use super::budget;
use super::handshake::Handshake;
use super::link::{Ended, FrameReader, Link};
use super::port::Port;
use super::root::{Root, full};
use super::service::{BELL, LISTENER, Request, Service};
use super::wire::{Frame, MAX_FRAME, MAX_WORD};
use crate::error::Error;
use crate::process::{self, ServiceFd};
use crate::sync::system::{epoll_wait, processor_time};
use crate::warn;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What a token of epoll stands for.
pub(super) enum Socket {
    /// `near`: a Unix socket. `turn` is the one in which it last let somebody in.
    Listener {
        socket: ServiceFd,
        near: bool,
        turn: u64,
    },
    Handshake(Box<Handshake>),
    /// One that has proved itself at a root; `joins` until it has said that it knows.
    Member {
        root: Key,
        joins: Option<Box<Hello>>,
        from: Address,
        link: Arc<Link>,
        reader: FrameReader,
    },
    Peer {
        port: Weak<Port>,
        peer: Address,
        link: Arc<Link>,
        reader: FrameReader,
        /// The port sends by it, too. One that was accepted does so with its first frame: who dialled may have given up before the welcome.
        stands: bool,
    },
}

/// A rank that will not join, where its root is still to come.
struct Early {
    key: Key,
    from: Address,
    whom: String,
    rank: u32,
    error: Error,
}

/// How many of these are kept.
const EARLY: usize = 64;

/// See the module.
pub(super) struct EventLoop {
    pub(super) service: &'static Service,
    pub(super) epoll: BorrowedFd<'static>,
    pub(super) sockets: HashMap<u64, Socket>,
    pub(super) roots: HashMap<Key, Root>,
    /// Listeners of one root, by its key.
    own_listeners: HashMap<Key, u64>,
    /// Listeners at meeting points, of all roots that stand there.
    points: HashMap<SocketAddr, u64>,
    /// Ranks that will not join at a root that is not here yet, the latest last.
    early: VecDeque<Early>,
    /// Tokens of the connections that have proved nothing, the oldest first.
    pub(super) handshakes: VecDeque<u64>,
    /// Until when nothing is accepted.
    pub(super) paused: Option<Instant>,
    /// Since when no connection can be accepted for want of descriptors.
    pub(super) starved: Option<Instant>,
    pub(super) starved_told: bool,
    pub(super) next: u64,
    /// Turns of the loop so far, and connections accepted in this one.
    pub(super) turn: u64,
    pub(super) accepted: usize,
    /// Connections turned away so far, and when that was last said.
    pub(super) turned_away: u32,
    pub(super) told: Option<Instant>,
}

impl EventLoop {
    pub fn new(service: &'static Service, listener: ServiceFd) -> Self {
        let sockets = HashMap::from([(LISTENER, Socket::Listener { socket: listener, near: true, turn: 0 })]);
        let epoll = service.epoll.as_fd();
        Self {
            service,
            epoll,
            sockets,
            roots: HashMap::new(),
            own_listeners: HashMap::new(),
            points: HashMap::new(),
            early: VecDeque::new(),
            handshakes: VecDeque::new(),
            paused: None,
            starved: None,
            starved_told: false,
            next: 2,
            turn: 0,
            accepted: 0,
            turned_away: 0,
            told: None,
        }
    }

    pub fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
            let timeout = timeout.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match epoll_wait(self.epoll, &mut events, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing else ends it: the descriptor was closed, or is another file's now.
                Err(_) => return self.service.broken(&process::descriptors_lost()),
            }
            // Who has proved itself comes first, who has yet to be let in last.
            events.sort_by_key(|event| self.rank_of(event.data.u64()));
            self.accepted = 0;
            self.turn += 1;
            let (mut began, turned_away) = (None, self.turned_away);
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                if began.is_none() && self.rank_of(token).0 > 0 {
                    began = Some(processor_time());
                }
                self.event(token, flags);
            }
            self.on_time();
            if let Some(began) = began
                && self.turned_away != turned_away
                && self.paused.is_none()
            {
                let joining = self.roots.values().any(Root::is_joining);
                self.pause(budget::rest(processor_time().saturating_sub(began), joining));
            }
            budget::count(self.accepted, self.turned_away);
        }
    }

    /// Among listeners the one that has waited for longest comes first, or the flood at one would keep the ranks at another out.
    fn rank_of(&self, token: u64) -> (u8, u64) {
        match self.sockets.get(&token) {
            None | Some(Socket::Member { .. } | Socket::Peer { .. }) => (0, 0),
            Some(Socket::Handshake(_)) => (1, 0),
            Some(Socket::Listener { turn, .. }) => (2, *turn),
        }
    }

    pub(super) fn handshake_at(&self, token: u64) -> Option<&Handshake> {
        match self.sockets.get(&token) {
            Some(Socket::Handshake(handshake)) => Some(handshake),
            _ => None,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        // In the order in which they came: the first one's time is up first.
        let handshake = self.handshakes.front().and_then(|token| self.handshake_at(*token)).map(Handshake::deadline);
        self.roots.values().filter_map(Root::next_deadline).chain(handshake).chain(self.paused).min()
    }

    fn event(&mut self, token: u64, flags: epoll::EventFlags) {
        if token == BELL {
            let mut count = [0; 8];
            let _ = rustix::io::read(self.service.bell.as_fd(), &mut count);
            return self.heed();
        }
        match self.sockets.get_mut(&token) {
            None => {} // closed by an earlier event of this round
            Some(Socket::Listener { .. }) => self.accept(token),
            Some(Socket::Handshake(_)) => self.advance(token),
            Some(Socket::Member { root, joins, from, link, reader }) => {
                if flags.contains(epoll::EventFlags::OUT) {
                    link.writable();
                }
                // A member has nothing to say but that it is here, and why it cannot join or goes. That, or an end, means that it goes.
                let (mut why, mut here) = (None, false);
                let ended = reader.read(link.as_fd(), MAX_WORD, |frame, _| match frame {
                    Frame::Poison { from, cause, .. } if why.is_none() => why = Some((from, cause)),
                    Frame::Here => here = true,
                    _ => {}
                });
                let ended = if why.is_some() { Ended::Closed(None) } else { ended };
                if let Some(root) = self.roots.get_mut(root) {
                    if let Some(hello) = joins.take_if(|_| here) {
                        root.admit(&hello, link.clone());
                    }
                    if let Some((rank, cause)) = why {
                        root.told(link, *from, rank, cause);
                    }
                } else if here {
                    link.send(&Frame::Refused(full("this id", joins.as_ref().map_or(0, |hello| hello.rank))));
                    link.finish();
                }
                if ended != Ended::Drained {
                    let (root, link) = (*root, link.clone());
                    self.close(token);
                    if let Some(root) = self.roots.get_mut(&root) {
                        root.member_closed(&link);
                    }
                }
            }
            Some(Socket::Peer { port, peer, link, reader, stands }) => {
                if flags.contains(epoll::EventFlags::OUT) {
                    link.writable();
                }
                let (mut obeys, owner) = (true, port.upgrade());
                let ended = reader.read(link.as_fd(), MAX_FRAME, |frame, fd| {
                    let Some(port) = &owner else { return };
                    if !std::mem::replace(stands, true) {
                        port.add_link(*peer, link.clone());
                    }
                    obeys &= port.frame(link, frame, fd);
                });
                if ended != Ended::Drained || !obeys {
                    if ended == Ended::Malformed || !obeys {
                        warn!(
                            "GINRS-E018 a peer broke the protocol | {} | connection closed | fix: load the same libginrs on every rank",
                            link.peer()
                        );
                    }
                    let (peer, link, stood) = (*peer, link.clone(), *stands);
                    self.close(token);
                    if let Some(port) = owner.filter(|_| stood) {
                        port.link_closed(
                            peer,
                            &link,
                            match ended {
                                Ended::Closed(Some(e)) => e.to_string(),
                                Ended::Closed(None) => "the other end closed it".into(),
                                Ended::Malformed | Ended::Drained => "something else came by it".into(),
                            },
                        );
                    }
                }
            }
        }
    }

    /// Does what other threads have asked for.
    pub(super) fn heed(&mut self) {
        let requests = std::mem::take(&mut *self.service.requests.lock());
        requests.into_iter().for_each(|request| self.request(request));
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Root(root, listener) => self.add_root(*root, listener),
            Request::Door(socket, point) => {
                let token = self.add_listener(socket, false);
                self.points.extend(point.zip(token));
            }
            Request::Decline { key, from, whom, rank, error } => match self.roots.get_mut(&key) {
                Some(root) => root.decline(from, &whom, rank, error),
                None => {
                    self.early.push_back(Early { key, from, whom, rank, error });
                    if self.early.len() > EARLY {
                        self.early.pop_front();
                    }
                }
            },
            Request::Withdraw { key, error } => self.roots.get_mut(&key).into_iter().for_each(|root| root.withdraw(&error)),
            Request::GiveUp { key, n_ranks, error } => {
                self.roots.get_mut(&key).into_iter().for_each(|root| root.give_up(n_ranks, &error))
            }
            Request::Link { link, port, peer } => self.add_peer(link, port, peer),
        }
    }

    pub(super) fn add_root(&mut self, mut root: Root, listener: Option<ServiceFd>) {
        let key = *root.key();
        for early in self.early.iter().filter(|early| early.key == key) {
            root.decline(early.from, &early.whom, early.rank, early.error.clone());
        }
        self.early.retain(|early| early.key != key);
        if let Some(token) = listener.and_then(|socket| self.add_listener(socket, true)) {
            self.own_listeners.insert(key, token);
        }
        // Two ranks 0 of this process are one root's business.
        self.roots.entry(key).or_insert(root);
    }

    fn add_listener(&mut self, socket: ServiceFd, near: bool) -> Option<u64> {
        let token = self.next;
        self.next += 1;
        self.watch(token, socket.as_fd(), epoll::EventFlags::IN).then(|| {
            self.sockets.insert(token, Socket::Listener { socket, near, turn: 0 });
            token
        })
    }

    pub(super) fn watch(&self, token: u64, fd: BorrowedFd<'_>, what: epoll::EventFlags) -> bool {
        match epoll::add(self.epoll, fd, epoll::EventData::new_u64(token), what) {
            Ok(()) => true,
            Err(e) => {
                warn!(
                    "GINRS-E024 a socket cannot be watched | pid {} | {e} | fix: raise fs.epoll.max_user_watches",
                    std::process::id()
                );
                false
            }
        }
    }

    fn add_peer(&mut self, link: Arc<Link>, port: Weak<Port>, peer: Address) {
        let token = self.next;
        self.next += 1;
        if !self.watch(token, link.as_fd(), epoll::EventFlags::IN | epoll::EventFlags::OUT) {
            if let Some(port) = port.upgrade() {
                port.link_closed(peer, &link, "it cannot be watched".into());
            }
            return;
        }
        link.watched(self.epoll, token);
        let reader = link.reader();
        self.sockets.insert(token, Socket::Peer { port, peer, link, reader, stands: true });
    }

    /// Takes a socket out. Explicitly out of epoll too: a forked child may hold a copy of the socket, and then closing it here
    /// would not stop its events.
    pub(super) fn close(&mut self, token: u64) {
        if let Some(socket) = self.sockets.remove(&token) {
            let fd = match &socket {
                Socket::Listener { socket, .. } => socket.as_fd(),
                Socket::Handshake(handshake) => handshake.socket.as_fd(),
                Socket::Member { link, .. } | Socket::Peer { link, .. } => link.as_fd(),
            };
            let _ = epoll::delete(self.epoll, fd);
        }
        self.handshakes.retain(|other| *other != token);
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            self.set_listeners(epoll::EventFlags::IN);
        }
        while let Some(token) = self.handshakes.front().copied() {
            if self.handshake_at(token).is_some_and(|handshake| handshake.deadline() > now) {
                break;
            }
            self.close(token);
            self.turn_away("it was silent for 2 s");
        }
        let over: Vec<Key> = self.roots.iter_mut().filter_map(|(key, root)| root.on_time(now).then_some(*key)).collect();
        for key in &over {
            self.roots.remove(key);
            if let Some(token) = self.own_listeners.remove(key) {
                self.close(token);
            }
        }
        if !over.is_empty() {
            self.leave_points();
        }
    }

    /// The next communicator's rank 0 may be another process.
    fn leave_points(&mut self) {
        let mut open = self.service.points.lock();
        // Roots that have been begun meanwhile rely on what is open.
        self.heed();
        let needed: Vec<SocketAddr> = self.roots.values().flat_map(|root| root.doors().iter()).collect();
        open.retain(|at| needed.contains(at));
        let over: Vec<u64> = self.points.extract_if(|at, _| !needed.contains(at)).map(|(_, token)| token).collect();
        over.into_iter().for_each(|token| self.close(token));
    }
}
