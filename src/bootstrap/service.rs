//! The thread "ginrs boot", one per process: it accepts, authenticates, reads every link and serves the roots that live
//! here. Nothing in it blocks but its one epoll wait.

use super::address::{Address, Credentials};
use super::auth::{Hello, Key, Role, Secret};
use super::id::UniqueId;
use super::link::{Ended, FrameReader, Link};
use super::port::{Port, or_system};
use super::root::{Root, full};
use super::stranger::{MAX_STRANGERS, Step, Stranger};
use super::wire::{Frame, MAX_FRAME, Reason};
use crate::error::{Error, Result};
use crate::process::{self, PerProcess, ServiceFd, random};
use crate::sync::Mutex;
use crate::{info, warn};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What other threads ask of the service thread.
enum Request {
    Root(Root),
    Link { link: Arc<Link>, port: Weak<Port>, peer: Address },
}

/// The service as other threads see it. Lives as long as the process.
pub struct Service {
    address: Address,
    epoll: ServiceFd,
    bell: ServiceFd,
    requests: Mutex<Vec<Request>>,
    ports: Mutex<HashMap<Key, Weak<Port>>>,
}

const BELL: u64 = 0;
const LISTENER: u64 = 1;

impl Service {
    /// The service of this process, started at first use.
    pub fn get() -> Result<&'static Service> {
        static SERVICE: PerProcess<Mutex<Option<&'static Service>>> = PerProcess::new();
        let mut slot = SERVICE.get(Mutex::default).lock();
        if let Some(service) = *slot {
            return Ok(service);
        }
        process::raise_descriptor_limit();
        let address = Address::Abstract(random());
        let what = "the bootstrap's sockets cannot be made";
        let listener = ServiceFd::new(or_system(what, address.listen())?);
        let epoll = ServiceFd::new(or_system(what, epoll::create(epoll::CreateFlags::CLOEXEC))?);
        let bell = ServiceFd::new(or_system(what, eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))?);
        for (fd, token) in [(&bell, BELL), (&listener, LISTENER)] {
            or_system(what, epoll::add(epoll.as_fd(), fd.as_fd(), epoll::EventData::new_u64(token), epoll::EventFlags::IN))?;
        }
        let service: &'static Service =
            Box::leak(Box::new(Service { address, epoll, bell, requests: Mutex::default(), ports: Mutex::default() }));
        let body = move || Loop::new(service, listener).run();
        process::service_thread("ginrs boot", body, move |error| service.broken(&error))?;
        *slot = Some(service);
        Ok(service)
    }

    /// Where this process listens.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Listens at the id's address from now on.
    pub fn start_root(&'static self, id: &UniqueId) -> Result<()> {
        let listener = match id.root().listen() {
            // Another rank 0 was here first; its root will say so.
            Err(Errno::ADDRINUSE) if id.is_fixed() => return Ok(()),
            listener => or_system("the unique id's root cannot listen", listener)?,
        };
        self.ask(Request::Root(Root::new(id, ServiceFd::new(listener))));
        Ok(())
    }

    /// This process's end of the communicator with that secret.
    pub fn port(&'static self, id: &UniqueId) -> Arc<Port> {
        let mut ports = self.ports.lock();
        if let Some(port) = ports.get(&id.key()).and_then(Weak::upgrade) {
            return port;
        }
        let port = Arc::new(Port::new(self, id.secret()));
        ports.insert(id.key(), Arc::downgrade(&port));
        port
    }

    pub(super) fn forget(&self, key: &Key) {
        let mut ports = self.ports.lock();
        if ports.get(key).is_some_and(|port| port.strong_count() == 0) {
            ports.remove(key);
        }
    }

    /// Reads `link` from now on.
    pub fn adopt(&self, link: Arc<Link>, port: Weak<Port>, peer: Address) {
        self.ask(Request::Link { link, port, peer });
    }

    fn ask(&self, request: Request) {
        self.requests.lock().push(request);
        let _ = rustix::io::write(self.bell.as_fd(), &1u64.to_ne_bytes());
    }

    fn find(&self, key: &Key) -> Option<Arc<Port>> {
        self.ports.lock().get(key).and_then(Weak::upgrade)
    }

    fn broken(&self, error: &Error) {
        let ports: Vec<_> = self.ports.lock().values().filter_map(Weak::upgrade).collect();
        ports.iter().for_each(|port| port.fail(0, error));
    }
}

/// What a token of epoll stands for.
enum Entry {
    Listener { socket: ServiceFd, root: Option<u64> },
    Stranger(Box<Stranger>),
    Member { root: u64, link: Arc<Link>, reader: FrameReader },
    Peer { port: Weak<Port>, peer: Address, link: Arc<Link>, reader: FrameReader },
}

struct Loop {
    service: &'static Service,
    epoll: BorrowedFd<'static>,
    entries: HashMap<u64, Entry>,
    roots: HashMap<u64, Root>,
    strangers: Vec<u64>,
    /// Until when nothing is accepted, and whether only for want of a place among the strangers.
    paused: Option<(Instant, bool)>,
    next: u64,
    /// Connections turned away so far, and when that was last said.
    turned_away: u32,
    told: Option<Instant>,
}

impl Loop {
    fn new(service: &'static Service, listener: ServiceFd) -> Self {
        let entries = HashMap::from([(LISTENER, Entry::Listener { socket: listener, root: None })]);
        let epoll = service.epoll.as_fd();
        Self { service, epoll, entries, roots: HashMap::new(), strangers: Vec::new(), paused: None, next: 2, turned_away: 0, told: None }
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
            let timeout = timeout.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match epoll::wait(self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => panic!("epoll wait failed: {e}"),
            }
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                self.event(token, flags);
            }
            self.on_time();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let strangers = self.strangers.iter().filter_map(|token| match &self.entries[token] {
            Entry::Stranger(s) => Some(if self.paused.is_some() { s.yields_at().min(s.deadline()) } else { s.deadline() }),
            _ => None,
        });
        strangers.chain(self.roots.values().filter_map(Root::next_deadline)).chain(self.paused.map(|(until, _)| until)).min()
    }

    fn event(&mut self, token: u64, flags: epoll::EventFlags) {
        if token == BELL {
            let mut count = [0; 8];
            let _ = rustix::io::read(self.service.bell.as_fd(), &mut count);
            let requests = std::mem::take(&mut *self.service.requests.lock());
            requests.into_iter().for_each(|request| self.request(request));
            return;
        }
        match self.entries.get_mut(&token) {
            None => {} // closed by an earlier event of this round
            Some(Entry::Listener { .. }) => self.accept(token),
            Some(Entry::Stranger(_)) => self.handshake(token),
            Some(Entry::Member { root, link, reader }) => {
                if flags.contains(epoll::EventFlags::OUT) {
                    link.writable();
                }
                // A member has nothing to say: any byte or an end means that it goes.
                let ended = reader.read(link.as_fd(), 0, |_, _| {});
                if ended != Ended::Drained {
                    let (root, link) = (*root, link.clone());
                    self.close(token);
                    if let Some(root) = self.roots.get_mut(&root) {
                        root.member_closed(&link);
                    }
                }
            }
            Some(Entry::Peer { port, peer, link, reader }) => {
                if flags.contains(epoll::EventFlags::OUT) {
                    link.writable();
                }
                let (mut obeys, owner) = (true, port.upgrade());
                let ended = reader.read(link.as_fd(), MAX_FRAME, |frame, fd| {
                    obeys &= owner.as_ref().is_none_or(|port| port.frame(link, frame, fd));
                });
                if ended != Ended::Drained || !obeys {
                    if ended == Ended::Malformed || !obeys {
                        warn!(
                            "GINRS-E018 a peer broke the protocol | pid {} | connection closed | fix: load the same libginrs on every rank",
                            link.peer().pid
                        );
                    }
                    let (peer, link) = (*peer, link.clone());
                    self.close(token);
                    if let Some(port) = owner {
                        port.link_closed(peer, &link);
                    }
                }
            }
        }
    }

    fn request(&mut self, request: Request) {
        let token = self.next;
        match request {
            Request::Root(mut root) => {
                let socket = root.take_listener();
                if self.watch(token, socket.as_fd(), epoll::EventFlags::IN) {
                    self.entries.insert(token, Entry::Listener { socket, root: Some(token) });
                    self.roots.insert(token, root);
                }
            }
            Request::Link { link, port, peer } => self.add_peer(link, port, peer, FrameReader::default()),
        }
        self.next += 1;
    }

    fn watch(&self, token: u64, fd: BorrowedFd<'_>, what: epoll::EventFlags) -> bool {
        match epoll::add(self.epoll, fd, epoll::EventData::new_u64(token), what) {
            Ok(()) => true,
            Err(e) => {
                warn!("GINRS-E024 a socket cannot be watched | pid {} | {e} | fix: raise fs.epoll.max_user_watches", std::process::id());
                false
            }
        }
    }

    fn add_peer(&mut self, link: Arc<Link>, port: Weak<Port>, peer: Address, reader: FrameReader) {
        let token = self.next;
        self.next += 1;
        if !self.watch(token, link.as_fd(), epoll::EventFlags::IN | epoll::EventFlags::OUT) {
            if let Some(port) = port.upgrade() {
                port.link_closed(peer, &link);
            }
            return;
        }
        link.watched(self.epoll, token);
        self.entries.insert(token, Entry::Peer { port, peer, link, reader });
    }

    /// Takes an entry out. Explicitly out of epoll too: a forked child may hold a copy of the socket, and then closing it here
    /// would not stop its events.
    fn close(&mut self, token: u64) {
        if let Some(entry) = self.entries.remove(&token) {
            let fd = match &entry {
                Entry::Listener { socket, .. } => socket.as_fd(),
                Entry::Stranger(stranger) => stranger.socket.as_fd(),
                Entry::Member { link, .. } | Entry::Peer { link, .. } => link.as_fd(),
            };
            let _ = epoll::delete(self.epoll, fd);
        }
        self.strangers.retain(|other| *other != token);
    }

    fn accept(&mut self, listener: u64) {
        loop {
            if self.strangers.len() >= MAX_STRANGERS && !self.make_room() {
                return self.pause(Duration::ZERO);
            }
            let Some(Entry::Listener { socket, root }) = self.entries.get(&listener) else { return };
            let root = *root;
            match accept_with(socket.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => self.stranger(ServiceFd::new(socket), root),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => {
                    warn!("GINRS-E024 no connection can be accepted | pid {} | {e} | fix: raise ulimit -n", std::process::id());
                    return self.pause(Duration::from_millis(500));
                }
            }
        }
    }

    fn stranger(&mut self, socket: ServiceFd, root: Option<u64>) {
        let peer = match Credentials::of(socket.as_fd()) {
            Ok(peer) if peer.is_mine() => peer,
            _ => return self.turn_away(root, "it belongs to another user"),
        };
        let token = self.next;
        self.next += 1;
        if self.watch(token, socket.as_fd(), epoll::EventFlags::IN) {
            self.entries.insert(token, Entry::Stranger(Box::new(Stranger::new(socket, peer, root))));
            self.strangers.push(token);
            self.handshake(token);
        }
    }

    fn handshake(&mut self, token: u64) {
        let Some(Entry::Stranger(stranger)) = self.entries.get_mut(&token) else { return };
        let (service, roots) = (self.service, &self.roots);
        let root = stranger.root;
        let secret_of = |hello: &Hello| -> Option<Secret> {
            match (hello.role, root) {
                (Role::Join, Some(root)) => roots.get(&root)?.secret_for(&hello.key),
                (Role::Link, None) => service.find(&hello.key).map(|port| *port.secret()),
                _ => None,
            }
        };
        match stranger.step(secret_of) {
            Step::Wait => {}
            Step::Refused(why) => {
                self.close(token);
                self.turn_away(root, why);
            }
            Step::Proved(hello) => self.proved(token, hello),
        }
    }

    fn proved(&mut self, token: u64, hello: Hello) {
        self.strangers.retain(|other| *other != token);
        let Some(Entry::Stranger(stranger)) = self.entries.remove(&token) else { return };
        let link = Link::new(stranger.socket, stranger.peer);
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        let _ = epoll::modify(self.epoll, link.as_fd(), epoll::EventData::new_u64(token), both);
        link.watched(self.epoll, token);
        let reader = FrameReader::default();
        match stranger.root {
            Some(root) => match self.roots.get_mut(&root) {
                Some(gathering) => {
                    gathering.admit(&hello, link.clone());
                    self.entries.insert(token, Entry::Member { root, link, reader });
                }
                // It ended between the greeting and the proof.
                None => {
                    let _ = epoll::delete(self.epoll, link.as_fd());
                    link.send(&Frame::Refused(Reason::from(&full("this id", hello.rank))));
                }
            },
            None => {
                let port = self.service.find(&hello.key);
                if let Some(port) = &port {
                    port.add_link(hello.address, link.clone());
                }
                let port = port.map_or_else(Weak::new, |port| Arc::downgrade(&port));
                self.entries.insert(token, Entry::Peer { port, peer: hello.address, link, reader });
            }
        }
    }

    fn turn_away(&mut self, root: Option<u64>, why: &str) {
        self.turned_away += 1;
        if let Some(root) = root.and_then(|root| self.roots.get_mut(&root)) {
            root.stranger();
        }
        let count = self.turned_away;
        if self.told.is_none_or(|at| at.elapsed() > Duration::from_secs(10)) {
            self.told = Some(Instant::now());
            info!(BOOTSTRAP, "GINRS-I011 ignored {count} unauthenticated connections so far, the last one because {why}");
        }
    }

    /// Sends the stranger away that has had the most time, if any has had enough.
    fn make_room(&mut self) -> bool {
        let now = Instant::now();
        let yields = |token: &u64| match &self.entries[token] {
            Entry::Stranger(stranger) => Some((stranger.yields_at(), *token, stranger.root)),
            _ => None,
        };
        match self.strangers.iter().filter_map(yields).min() {
            Some((at, token, root)) if at <= now => {
                self.close(token);
                self.turn_away(root, "it kept others waiting");
                true
            }
            _ => false,
        }
    }

    /// Accepts nothing until a stranger may be sent away, or for `least` where that is not the trouble.
    fn pause(&mut self, least: Duration) {
        self.set_listeners(epoll::EventFlags::empty());
        let soonest = self.strangers.iter().filter_map(|token| match &self.entries[token] {
            Entry::Stranger(stranger) => Some(stranger.yields_at()),
            _ => None,
        });
        let now = Instant::now();
        self.paused = match least.is_zero() {
            true => Some((soonest.min().unwrap_or(now), true)),
            false => Some((now + least, false)),
        };
    }

    fn set_listeners(&self, what: epoll::EventFlags) {
        for (token, entry) in &self.entries {
            if let Entry::Listener { socket, .. } = entry {
                let _ = epoll::modify(self.epoll, socket.as_fd(), epoll::EventData::new_u64(*token), what);
            }
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        let room = self.strangers.len() < MAX_STRANGERS;
        if self.paused.is_some_and(|(until, for_room)| until <= now || (for_room && room)) {
            self.paused = None;
            self.set_listeners(epoll::EventFlags::IN);
        }
        let late = |token: &u64| match &self.entries[token] {
            Entry::Stranger(stranger) if stranger.deadline() <= now => Some((*token, stranger.root)),
            _ => None,
        };
        for (token, root) in self.strangers.iter().filter_map(late).collect::<Vec<_>>() {
            self.close(token);
            self.turn_away(root, "it was silent for 2 s");
        }
        let over: Vec<u64> = self.roots.iter_mut().filter_map(|(token, root)| root.on_time(now).then_some(*token)).collect();
        for token in over {
            self.close(token);
            self.roots.remove(&token);
        }
    }
}
