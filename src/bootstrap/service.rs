//! The service thread "ginrs boot" as other threads see it: one per process, started at first use, never ended.
#![forbid(unsafe_code)]

use super::address::{Address, or_system};
use super::auth::Key;
use super::fdpass::PORTS;
use super::id::UniqueId;
use super::link::Link;
use super::port::Port;
use super::root::Root;
use super::route::{Doors, Route};
use super::{fixed, interfaces, tcp};
use crate::error::{Error, Result};
use crate::process::ServiceFd;
use crate::sync::Mutex;
use crate::{bail, config};
use rustix::io::Errno;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

/// What other threads ask of the service thread.
pub(super) enum Request {
    /// Serve this root, at a socket of its own where it has one.
    Root(Box<Root>, Option<ServiceFd>),
    /// Let other machines in here; at a meeting point of that address until no root stands there.
    Door(ServiceFd, Option<SocketAddr>),
    /// Read this link.
    Link { link: Arc<Link>, port: Weak<Port>, peer: Address },
    /// A rank of process `from`, which `whom` describes, will not join; the root, which is here or will be, tells the others.
    Decline { key: Key, from: Address, whom: String, rank: u32, error: Error },
    /// Nobody is to join at a root of this process any more.
    Withdraw { key: Key, error: Error },
    /// A rank of this process cannot join; if the root is here it can tell the others.
    GiveUp { key: Key, n_ranks: u32, error: Error },
}

/// The service as other threads see it. Lives as long as the process.
pub struct Service {
    pub(super) address: Address,
    pub(super) epoll: ServiceFd,
    pub(super) bell: ServiceFd,
    pub(super) requests: Mutex<Vec<Request>>,
    pub(super) ports: Mutex<HashMap<Key, Weak<Port>>>,
    pub(super) doors: Mutex<Option<Doors>>,
    /// Where it listens at meeting points of NCCL_COMM_ID. Who begins a root there holds the lock until that is asked for.
    pub(super) points: Mutex<Vec<SocketAddr>>,
}

/// False once somebody has closed the descriptors of this process's service, if it has one.
pub(crate) fn service_is_intact() -> bool {
    Service::get().is_ok_and(|service| service.is_intact())
}

/// Tokens of epoll: the bell, this process's listener; larger ones are given out.
pub(super) const BELL: u64 = 0;
pub(super) const LISTENER: u64 = 1;

impl Service {
    /// False once somebody has closed what it stands on.
    pub fn is_intact(&self) -> bool {
        self.epoll.is_intact() && self.bell.is_intact()
    }

    /// Where this process listens.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Where this process listens for other machines, from now on. E100 where NCCL_SOCKET_IFNAME names no interface.
    pub fn doors(&'static self) -> Result<Doors> {
        let mut doors = self.doors.lock();
        if let Some(doors) = *doors {
            return Ok(doors);
        }
        // Only those are bound that will be told.
        let (chosen, mut bound) = (Doors::of(interfaces::chosen()?), Vec::new());
        for address in chosen.iter() {
            let (socket, address) = match tcp::listen(address) {
                Err(Errno::ADDRINUSE) => bail!(
                    SystemError,
                    105,
                    "no port is free to listen at {} | pid {} | {} | fix: {PORTS}",
                    address.ip(),
                    std::process::id(),
                    tcp::port_range()
                ),
                listener => or_system(&format!("{address} cannot be listened at"), listener)?,
            };
            self.ask(Request::Door(ServiceFd::new(socket), None));
            bound.push(address);
        }
        Ok(*doors.insert(Doors::of(bound)))
    }

    /// How the ranks that are on `machine` reach this process.
    pub fn route(&'static self, machine: u64) -> Result<Route> {
        Ok(Route { address: self.address, machine, doors: self.doors()? })
    }

    /// Serves the id's root from now on. False: another process listens there, whose root says so if it is another rank 0 of this
    /// communicator, or which may end.
    pub fn start_root(&'static self, id: &UniqueId) -> Result<bool> {
        let Route { address: at, doors, .. } = id.root();
        // Until the root is asked for: a door on which none stands is closed.
        let mut points = None;
        let listener = match at == self.address {
            true => None,
            false if !doors.is_empty() => {
                if !self.listen_at_point(doors, &mut *points.insert(self.points.lock()))? {
                    return Ok(false);
                }
                None
            }
            false => match at.listen() {
                Err(Errno::ADDRINUSE) if id.root_may_be_late() => return Ok(false),
                listener => Some(ServiceFd::new(or_system("the unique id's root cannot listen", listener)?)),
            },
        };
        let root = Root::new(id, self.address).named(self.find(&id.key()).map(|port| port.tag()));
        self.ask(Request::Root(Box::new(root), listener));
        Ok(true)
    }

    /// Listens at each address of a meeting point of NCCL_COMM_ID that is this machine's, until no root stands there. False: others have
    /// one of them, and those who only reach that one would find no root.
    fn listen_at_point(&self, point: Doors, open: &mut Vec<SocketAddr>) -> Result<bool> {
        let (mut refused, mut bound) = (String::new(), Vec::new());
        for address in point.iter().filter(|address| !open.contains(address)) {
            match tcp::listen(interfaces::scoped(address)) {
                Ok((socket, _)) => bound.push((socket, address)),
                Err(Errno::ADDRINUSE) => return Ok(false),
                Err(e) => refused = format!("{}: {e}", interfaces::scoped(address)),
            }
        }
        for (socket, address) in bound {
            self.ask(Request::Door(ServiceFd::new(socket), Some(address)));
            open.push(address);
        }
        if point.iter().any(|address| open.contains(&address)) {
            return Ok(true);
        }
        let missing = fixed::interface().map(|(_, name)| name).filter(|name| interfaces::number(name).is_none());
        let missing = missing.map_or(String::new(), |name| format!(", and no interface is \"{name}\""));
        bail!(
            InvalidUsage,
            10,
            "{} is no address of rank 0's host | {point} | {refused}{missing} | fix: set it to an address of the host that runs rank 0",
            fixed::named(&config::text("NCCL_COMM_ID").unwrap_or_default()).variable
        )
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

    /// Nobody is to join at a root of this process any more.
    pub fn withdraw(&self, key: Key, error: &Error) {
        self.ask(Request::Withdraw { key, error: error.clone() });
    }

    /// A rank of this process cannot join.
    pub fn give_up(&self, key: Key, n_ranks: u32, error: &Error) {
        self.ask(Request::GiveUp { key, n_ranks, error: error.clone() });
    }

    /// A rank of this process will not join.
    pub fn decline(&self, key: Key, rank: u32, error: &Error) {
        self.decline_for(key, self.address, format!("pid {}", std::process::id()), rank, error);
    }

    /// A rank of process `from`, which `whom` describes, will not join.
    pub fn decline_for(&self, key: Key, from: Address, whom: String, rank: u32, error: &Error) {
        self.ask(Request::Decline { key, from, whom, rank, error: error.clone() });
    }

    fn ask(&self, request: Request) {
        self.requests.lock().push(request);
        let _ = rustix::io::write(self.bell.as_fd(), &1u64.to_ne_bytes());
    }

    pub(super) fn find(&self, key: &Key) -> Option<Arc<Port>> {
        self.ports.lock().get(key).and_then(Weak::upgrade)
    }

    /// It serves nobody any more.
    pub(super) fn broken(&self, error: &Error) {
        let ports: Vec<_> = self.ports.lock().values().filter_map(Weak::upgrade).collect();
        ports.iter().for_each(|port| port.fail(0, error));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bootstrap;
    use super::super::route::Route;
    use super::*;
    use crate::hang_limit::hang_deadline;
    use std::time::{Duration, Instant};

    /// Two communicators at one meeting point may have their rank 0 in different processes.
    #[test]
    fn a_meeting_point_is_taken_whole_and_left_when_its_root_is_over() {
        // No other test listens at these hosts, so the port stays free.
        let free = tcp::listen("127.0.31.1:0".parse().unwrap()).unwrap().1.port();
        let [own, other] = [1, 2].map(|host| SocketAddr::from(([127, 0, 31, host], free)));
        let id = UniqueId::fixed(Route { address: Address::None, machine: 0, doors: Doors::of([own, other]) }, &[7; 32]);
        let service = Service::get().unwrap();
        let (taken, _) = tcp::listen(other).unwrap();
        assert!(!service.start_root(&id).unwrap(), "one of its addresses is another's");
        let soon = hang_deadline();
        assert!(tcp::connect(own, soon).is_err(), "no root stands there");
        drop(taken);
        drop(Bootstrap::join(&id, 0, 1).unwrap());
        for address in [own, other] {
            while tcp::listen(address).is_err() {
                assert!(Instant::now() < soon, "{address} is still taken");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        drop(Bootstrap::join(&id, 0, 1).unwrap());
    }
}
