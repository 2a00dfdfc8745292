//! The sockets that libfabric opens for a rank. It names none of them, so they are looked for by their addresses, now and then, for
//! three reasons. What the kernel says of a link's is asked for (`stalls`). It opens them without CLOEXEC: a program that this process becomes or starts would keep connections open for whose
//! end peers wait. And it holds for ever who connects to where a rank listens and says nothing, or half of a request (1.17 may take
//! that for nothing, and never looks at the socket again): each costs a descriptor.
//!
//! A socket with an address of ours is this rank's and closed by libfabric alone, within calls of the thread that looks here: it is no
//! other file by the time that it is touched. Which descriptors are sockets with which address is looked up for all ranks of the process
//! at once ([`Census`]): with a look of its own for each, 256 ranks of a process spent a fifth of their set-up on it.

use super::provider::Traits;
use crate::sync::system::processor_time;
use crate::sync::{Mutex, PerProcess};
use rustix::fd::{BorrowedFd, RawFd};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{Shutdown, SocketAddrAny, getpeername, getsockname, shutdown};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A sender has this long to say who it is: far longer than a process that is only stopped for a while needs.
const PATIENCE: Duration = Duration::from_secs(20);
/// More strangers than this are too many: those that wait longest go at once.
const MOST: usize = 64;
/// Between two looks, at least; and how much of a core a process spends on them, and on what they share, at most: with nothing new and
/// with a new socket. They are this far apart at most while they keep within the latter: no sooner can `stalls` ask a socket that the provider has made.
const PERIOD: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(4);
const SHARE: u32 = 1000;
const SHARE_FRESH: u32 = 20;

/// Ranks of this process that look.
static LOOKERS: AtomicU32 = AtomicU32::new(0);

pub(super) type At = (IpAddr, u16);

/// Somebody who has connected and is not let in.
#[derive(Clone, Copy)]
struct Stranger {
    since: Instant,
    /// When it was shut down, and looks since.
    shut: Option<(Instant, u32)>,
}

/// A link's socket, and which of its addresses tells it: where it begins.
#[derive(Clone, Copy)]
struct Found {
    fd: RawFd,
    begin: At,
    came: bool,
}

/// What is known of them.
pub(super) struct Sockets {
    /// Where the rank listens, the best first; nowhere for providers that have no sockets.
    doors: Vec<At>,
    /// All links go through one endpoint: its connections are the provider's, and nobody here knows whose each is.
    shared: bool,
    /// Where peers listen that it has connected to.
    reached: HashSet<At>,
    /// Where connections that were dialled since the last look begin, here, and for which link.
    dialled: HashMap<At, u32>,
    /// Where those that were let in begin, there, and for which link.
    admitted: HashMap<At, u32>,
    /// By link.
    found: HashMap<u32, Found>,
    /// Where links share connections: those of the last look, with both of their addresses.
    lines: Vec<(RawFd, [At; 2])>,
    strangers: HashMap<(RawFd, At), Stranger>,
    next: Instant,
    /// What the next look is to see stood there by then.
    since: Instant,
    /// Of the last look, as [`processor_time`] has it: a look may wait for a core, and its process be stopped meanwhile.
    cost: Duration,
    pub patience: Duration,
}

impl Sockets {
    /// Of a rank that listens at `doors`, as libfabric writes addresses.
    pub fn new(traits: &Traits, doors: &[Vec<u8>]) -> Self {
        let doors: Vec<At> = doors.iter().filter_map(|door| decode(door)).collect();
        LOOKERS.fetch_add(1, Ordering::Relaxed);
        Self {
            doors: if traits.sockets { doors.clone() } else { Vec::new() },
            shared: traits.rdm,
            // It has connected to itself for a trial.
            reached: doors.into_iter().collect(),
            dialled: HashMap::new(),
            admitted: HashMap::new(),
            found: HashMap::new(),
            lines: Vec::new(),
            strangers: HashMap::new(),
            next: Instant::now(),
            since: Instant::now(),
            cost: Duration::ZERO,
            patience: PATIENCE,
        }
    }

    /// The connection of `link` begins at `address` of this machine.
    pub fn dialled(&mut self, address: &[u8], link: u32) {
        self.dialled.extend(decode(address).map(|at| (at, link)));
        self.hurry();
    }

    /// The endpoint that serves all links sends to one that listens at `address`.
    pub fn reached(&mut self, address: &[u8]) {
        self.reached.extend(decode(address));
        self.hurry();
    }

    /// Who connects from `address` is let in, as `link`.
    pub fn admitted(&mut self, address: &[u8], link: u32) {
        self.admitted.extend(decode(address).map(|at| (at, link)));
        self.hurry();
    }

    /// The socket of a link that has one of its own, once it has been found. Only to be asked.
    pub fn of_link(&self, link: u32) -> Option<BorrowedFd<'_>> {
        let Found { fd, begin, came } = *self.found.get(&link)?;
        // SAFETY: only asked, and its address says whose it is: see the head of this file.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let now = if came { at(getpeername(socket).ok().flatten()) } else { at(getsockname(socket).ok()) };
        (now == Some(begin)).then_some(socket)
    }

    /// Returns the same where all links share an endpoint, for a peer that listens at `address`: the connection
    /// that this rank has dialled. Without one, it returns the only connection that the peer's machine has dialled:
    /// which of its ranks has dialled it is not known. Connections of this process to this rank do not
    /// count: its own trial is one, and an older census may contain no other.
    pub fn of_peer(&self, address: &[u8]) -> Option<BorrowedFd<'_>> {
        let (peer, door) = (decode(address)?, *self.doors.first()?);
        let dialled = self.lines.iter().find(|(_, [_, to])| *to == peer);
        let is_from_here = |from: &At| self.lines.iter().any(|(_, [begin, to])| begin == from && self.doors.contains(to));
        let came = |(_, [here, from]): &&(RawFd, [At; 2])| *here == door && from.0 == peer.0 && !is_from_here(from);
        let mut came = self.lines.iter().filter(came);
        let &(fd, ends) = dialled.or_else(|| came.next().filter(|_| came.next().is_none()))?;
        // SAFETY: only asked, and its addresses say whose it is: see the head of this file.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        (both_ends(socket) == Some(ends)).then_some(socket)
    }

    /// Links share an endpoint and its connections.
    pub fn are_shared(&self) -> bool {
        self.shared
    }

    /// The link is no more.
    pub fn forget(&mut self, link: u32) {
        self.found.remove(&link);
    }

    fn hurry(&mut self) {
        self.since = Instant::now();
        self.next = self.next.min(self.since + self.all_cost() * SHARE_FRESH);
    }

    /// Of a look by each rank of the process.
    fn all_cost(&self) -> Duration {
        self.cost * LOOKERS.load(Ordering::Relaxed)
    }

    /// Looks, if it is time. All requests that there are have been answered before.
    pub fn tend(&mut self) {
        if !self.doors.is_empty() && Instant::now() >= self.next {
            self.look();
        }
    }

    pub fn look(&mut self) {
        let census = match Census::since(self.since) {
            Ok(census) => census,
            Err(later) => return self.next = later,
        };
        let (begin, cost) = (Instant::now(), processor_time());
        let mut strangers = HashMap::new();
        self.lines.clear();
        let ours = |(_, at): &&(RawFd, At)| self.shared || self.doors.contains(at) || self.dialled.contains_key(at);
        for &(fd, _) in census.sockets.iter().filter(ours) {
            // SAFETY: only asked for its addresses, unless they say whose it is: see the head of this file.
            let socket = unsafe { BorrowedFd::borrow_raw(fd) };
            let Some(local) = at(getsockname(socket).ok()) else { continue };
            let came = self.doors.contains(&local);
            let goes = || self.shared && at(getpeername(socket).ok().flatten()).is_some_and(|peer| self.reached.contains(&peer));
            if !came && !self.dialled.contains_key(&local) && !goes() {
                continue;
            }
            if fcntl_getfd(socket).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
                let _ = fcntl_setfd(socket, FdFlags::CLOEXEC);
            }
            if self.shared {
                self.lines.extend(both_ends(socket).map(|ends| (fd, ends)));
            }
            let from = if came && !self.shared { at(getpeername(socket).ok().flatten()) } else { None };
            let link = if came { from.and_then(|from| self.admitted.get(&from)) } else { self.dialled.get(&local) };
            if let Some(&link) = link {
                self.found.insert(link, Found { fd, begin: from.unwrap_or(local), came });
            } else if let Some(from) = from {
                let known = self.strangers.get(&(fd, from)).copied();
                strangers.insert((fd, from), known.unwrap_or(Stranger { since: begin, shut: None }));
            }
        }
        self.strangers = strangers;
        self.dialled.clear();
        self.send_away(begin);
        self.cost = processor_time() - cost;
        self.since = Instant::now();
        self.next = self.since + rest(self.all_cost().max(census.cost));
        if self.strangers.len() > MOST {
            self.hurry();
        }
    }

    /// Ends what has waited too long. libfabric sees the end and closes the socket; what it has forgotten is closed here.
    fn send_away(&mut self, now: Instant) {
        let mut waiting: Vec<_> = self.strangers.iter_mut().map(|((fd, _), stranger)| (*fd, stranger)).collect();
        waiting.sort_unstable_by_key(|(_, stranger)| stranger.since);
        let too_many = waiting.len().saturating_sub(MOST);
        for (i, (fd, stranger)) in waiting.into_iter().enumerate() {
            if i >= too_many && now.duration_since(stranger.since) < self.patience {
                continue;
            }
            match &mut stranger.shut {
                None => {
                    // SAFETY: this rank's socket; nobody who was let in uses it.
                    let _ = shutdown(unsafe { BorrowedFd::borrow_raw(fd) }, Shutdown::Both);
                    stranger.shut = Some((now, 0));
                }
                Some((at, looks)) if *looks < 2 || now - *at < PERIOD => *looks += 1,
                // SAFETY: libfabric has looked at its sockets before each look here, and for so long, and closes each whose end it sees: this one
                // it does not know any more.
                Some(_) => unsafe { rustix::io::close(fd) },
            }
        }
    }
}

/// How long after a look that costs the process so much there is another, with nothing new.
fn rest(cost: Duration) -> Duration {
    PERIOD.max((cost * SHARE).min(LONGEST)).max(cost * SHARE_FRESH)
}

impl Drop for Sockets {
    fn drop(&mut self) {
        LOOKERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The sockets of this process with their addresses here, as they stood at some time: by now a descriptor may be another file's.
struct Census {
    begun: Instant,
    cost: Duration,
    sockets: Vec<(RawFd, At)>,
}

static LATEST: PerProcess<Mutex<Option<Arc<Census>>>> = PerProcess::new();

impl Census {
    /// One that was begun behind `since`; or when there may be one.
    fn since(since: Instant) -> Result<Arc<Self>, Instant> {
        let mut latest = LATEST.get(Mutex::default).lock();
        let (now, cost) = (Instant::now(), processor_time());
        if let Some(census) = &*latest {
            let next = census.begun + census.cost * SHARE_FRESH;
            if census.begun >= since {
                return Ok(census.clone());
            }
            if now < next {
                return Err(next);
            }
        }
        // SAFETY: only asked for its address.
        let address = |fd| Some((fd, at(getsockname(unsafe { BorrowedFd::borrow_raw(fd) }).ok())?));
        let sockets = descriptors().filter_map(address).collect();
        Ok(latest.insert(Arc::new(Self { begun: now, cost: processor_time() - cost, sockets })).clone())
    }
}

fn descriptors() -> impl Iterator<Item = RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let all: Vec<RawFd> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    all.into_iter()
}

fn at(address: Option<SocketAddrAny>) -> Option<At> {
    let address = SocketAddr::try_from(address?).ok()?;
    Some((address.ip(), address.port()))
}

/// Here, and there.
fn both_ends(socket: BorrowedFd<'_>) -> Option<[At; 2]> {
    Some([at(getsockname(socket).ok())?, at(getpeername(socket).ok().flatten())?])
}

/// A sockaddr_in or sockaddr_in6.
pub(super) fn decode(address: &[u8]) -> Option<At> {
    let (family, rest) = address.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let ip = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => IpAddr::from(*rest.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*rest.get(4..)?.first_chunk::<16>()?),
        _ => return None,
    };
    Some((ip, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_far_apart_as_they_cost() {
        let rests = [20, 2_000, 100_000, 1_000_000].map(Duration::from_micros).map(rest);
        assert_eq!(rests, [1, 2, 4, 20].map(Duration::from_secs), "a core's thousandth, no longer than 4 s, a core's twentieth");
    }

    #[test]
    fn addresses_as_libfabric_writes_them() {
        let v4 = [&2u16.to_ne_bytes()[..], &[0x1f, 0x90, 127, 0, 0, 1], &[0; 8]].concat();
        assert_eq!(decode(&v4), Some(("127.0.0.1".parse().unwrap(), 8080)));
        let v6 = [&10u16.to_ne_bytes()[..], &[0x1f, 0x90, 0, 0, 0, 0], &[0; 15], &[1], &[0; 4]].concat();
        assert_eq!(decode(&v6), Some(("::1".parse().unwrap(), 8080)));
        assert!((0..16).all(|bytes| bytes == 8 || decode(&v4[..bytes]).is_none() || bytes > 8));
        assert_eq!(decode(&[9; 64]), None);
    }
}
