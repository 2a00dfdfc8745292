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
use super::{interfaces, tcp};
use crate::bail;
use crate::error::{Error, Result};
use crate::process::ServiceFd;
use crate::sync::Mutex;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// What other threads ask of the service thread.
pub(super) enum Request {
    /// Serve this root, at a socket of its own where it has one.
    Root(Box<Root>, Option<ServiceFd>),
    /// Let other machines in here.
    Door(ServiceFd),
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
    /// Meeting points of NCCL_COMM_ID where it listens.
    pub(super) points: Mutex<Vec<Doors>>,
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
            self.ask(Request::Door(ServiceFd::new(socket)));
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
        let listener = match at == self.address {
            true => None,
            false if !doors.is_empty() => {
                if !self.listen_at_point(doors)? {
                    return Ok(false);
                }
                None
            }
            false => match at.listen() {
                Err(Errno::ADDRINUSE) if id.root_may_be_late() => return Ok(false),
                listener => Some(ServiceFd::new(or_system("the unique id's root cannot listen", listener)?)),
            },
        };
        self.ask(Request::Root(Box::new(Root::new(id, self.address)), listener));
        Ok(true)
    }

    /// Listens at a meeting point of NCCL_COMM_ID from now on, at each of its addresses that is this machine's: it may serve another
    /// communicator next. False: others have them.
    fn listen_at_point(&'static self, point: Doors) -> Result<bool> {
        let mut points = self.points.lock();
        if points.contains(&point) {
            return Ok(true);
        }
        let (mut refused, mut taken) = (String::new(), false);
        for address in point.iter() {
            match tcp::listen(address) {
                Ok((socket, _)) => {
                    self.ask(Request::Door(ServiceFd::new(socket)));
                    if !points.contains(&point) {
                        points.push(point);
                    }
                }
                Err(Errno::ADDRINUSE) => taken = true,
                Err(e) => refused = format!("{address}: {e}"),
            }
        }
        if taken || points.contains(&point) {
            return Ok(points.contains(&point));
        }
        bail!(
            InvalidUsage,
            10,
            "NCCL_COMM_ID is no address of rank 0's host | {point} | {refused} | fix: set it to an address of the host that runs rank 0"
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
