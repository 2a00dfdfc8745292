//! One communicator's end in this process: the mailbox of its ranks here, the links to its other processes, and what they
//! may fetch. Ranks of one process share it, so 1024 of them need no descriptors among themselves.
#![forbid(unsafe_code)]

use super::Tally;
use super::address::{Address, Peer};
use super::auth::{self, Key, Secret};
use super::cancel::NOTICE;
use super::circle::Circle;
use super::deaths;
use super::gate::Gate;
use super::link::Link;
use super::lookout::Lookout;
use super::mailbox::Mailbox;
use super::place::Place;
use super::route::Way;
use super::service::Service;
use super::wire::{Endpoint, Frame, Standing};
use crate::error::{Code, Error};
use crate::fault;
use crate::process;
use crate::sync::channel::{Receiver, bounded};
use crate::sync::{Give, Mutex, OnceCell};
use crate::text::listed;
use crate::warn;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// So many ranks of a process dial the root at a time. It lets 64 connections prove themselves and sends the rest away, who come again: of
/// 4096 ranks of four processes that dialled at once 8707 times, and the rendezvous took 40 s (`benches/meet.rs`).
const DIALLERS: usize = 8;

/// What became of a request for a descriptor.
pub(super) enum Handed {
    /// Here it is.
    Here(OwnedFd),
    /// The rank has none of that name.
    Nothing,
    /// It was sent, and this process has no descriptor left for it.
    NoRoom,
}

type OnFailure = Box<dyn Fn(&Error) + Send + Sync>;
type OnLost = Box<dyn Fn(Address) + Send + Sync>;
/// Who waits for a descriptor, from where, by ticket. A dropped one means that the link has closed.
type Tickets = HashMap<u64, (Address, Give<Handed>)>;

/// See the module.
pub struct Port {
    pub(super) service: &'static Service,
    pub(super) key: Key,
    pub(super) secret: Secret,
    pub(super) hash: u64,
    pub(super) table: OnceCell<Vec<Endpoint>>,
    /// For each process of the table one of its ranks: one that shares a machine with a rank here, where there is one.
    pub(super) ways: OnceCell<HashMap<Address, (u32, Way)>>,
    pub(super) circle: OnceCell<Circle>,
    pub(super) seats: Mutex<HashMap<u32, (Arc<Place>, usize)>>,
    pub(super) mailbox: Mailbox,
    pub(super) tally: Mutex<Tally>,
    pub(super) links: Mutex<HashMap<Address, Vec<Arc<Link>>>>,
    /// Ranks here that are on their way to the root.
    pub(super) joining: Gate,
    pub(super) dialing: Mutex<HashMap<Address, Arc<Mutex<()>>>>,
    /// Processes whose links have closed, and ranks that have left, since when.
    pub(super) lost: Mutex<HashMap<Address, Instant>>,
    pub(super) left: Mutex<HashMap<u32, Instant>>,
    pub(super) lookout: OnceCell<std::sync::Weak<dyn Lookout>>,
    pub(super) on_lost: Mutex<Option<OnLost>>,
    /// How the link to a process that closed last did.
    pub(super) endings: Mutex<HashMap<Address, String>>,
    pub(super) published: Mutex<HashMap<(u32, u64), Arc<OwnedFd>>>,
    pub(super) tickets: Mutex<Tickets>,
    pub(super) last_ticket: AtomicU64,
    pub(super) standings: Mutex<HashMap<u32, (Instant, Standing)>>,
    pub(super) failure: OnceCell<Error>,
    /// Behind its name, where its ranks have other numbers in the job.
    family: OnceCell<String>,
    /// Processes of machines that were silent when it came: nobody waits for them any more.
    pub(super) forsaken: OnceCell<HashSet<Address>>,
    /// Held from a failure until those linked have been told.
    telling: Mutex<()>,
    /// Ranks that aborted with nothing under way.
    pub(super) quiescent: Mutex<HashSet<u32>>,
    pub(super) on_failure: Mutex<Vec<OnFailure>>,
    pub(super) warned: Mutex<Option<Instant>>,
    /// Closes when all processes have been told of the failure.
    pub(super) spreading: Mutex<Option<Receiver<()>>>,
    /// The watch's state of this communicator in this process.
    pub(crate) watch: Mutex<std::sync::Weak<dyn std::any::Any + Send + Sync>>,
}

impl Port {
    pub(super) fn new(service: &'static Service, secret: Secret) -> Self {
        Self {
            service,
            key: auth::derive(&secret, "key"),
            hash: u64::from_le_bytes(auth::derive(&secret, "hash")),
            secret,
            table: OnceCell::new(),
            ways: OnceCell::new(),
            circle: OnceCell::new(),
            seats: Mutex::default(),
            mailbox: Mailbox::default(),
            tally: Mutex::default(),
            links: Mutex::default(),
            joining: Gate::new(DIALLERS),
            dialing: Mutex::default(),
            lost: Mutex::default(),
            left: Mutex::default(),
            lookout: OnceCell::new(),
            on_lost: Mutex::default(),
            endings: Mutex::default(),
            published: Mutex::default(),
            tickets: Mutex::default(),
            last_ticket: AtomicU64::new(0),
            standings: Mutex::default(),
            failure: OnceCell::new(),
            family: OnceCell::new(),
            forsaken: OnceCell::new(),
            telling: Mutex::default(),
            quiescent: Mutex::default(),
            on_failure: Mutex::default(),
            warned: Mutex::default(),
            spreading: Mutex::default(),
            watch: Mutex::new(std::sync::Weak::<()>::new()),
        }
    }

    /// `comm 0x0123456789abcdef`, as messages name it; of a part of another one that counts its ranks otherwise with `, made of ranks 1, 3 of the job`.
    pub fn tag(&self) -> String {
        format!("comm 0x{:016x}{}", self.hash, self.family.get().map_or("", String::as_str))
    }

    /// The numbers that its ranks have in the job, for its name, where they are others.
    pub(crate) fn set_family(&self, ranks: &[u32]) {
        const NAMED: usize = 16;
        if ranks.iter().copied().eq(0..ranks.len() as u32) {
            return;
        }
        self.family.get_or_init(|| format!(", made of ranks {} of the job", listed(ranks, NAMED)));
    }

    /// What its name is made of.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    pub(crate) fn own_address(&self) -> Address {
        self.service.address()
    }

    /// The root's table; empty before the rendezvous is over.
    pub fn table(&self) -> &[Endpoint] {
        self.table.get().map_or(&[], |table| table)
    }

    /// The first one stays.
    pub(super) fn set_table(&self, table: Vec<Endpoint>) {
        if self.table.get().is_some() {
            return;
        }
        let own: HashSet<u64> =
            table.iter().filter(|entry| entry.address == self.own_address()).map(|entry| entry.machine).collect();
        let mut ways = HashMap::new();
        for (rank, entry) in (0..).zip(&table) {
            // Whoever shares a machine with one of us passes descriptors to it: the Unix socket serves the others of the process, too.
            let near = own.contains(&entry.machine);
            if near || !ways.contains_key(&entry.address) {
                let any = own.iter().next().copied().unwrap_or(entry.machine);
                ways.insert(entry.address, (rank, entry.route().way(if near { entry.machine } else { any })));
            }
        }
        self.ways.get_or_init(|| ways);
        self.circle.get_or_init(|| Circle::new(&table, self.own_address()));
        self.table.get_or_init(|| table);
        self.mailbox.ring();
    }

    /// Its ranks as they stand in exchanges; only behind the rendezvous.
    pub(super) fn circle(&self) -> &Circle {
        self.circle.get().expect("ranks exchange when they have met")
    }

    /// How its process is reached, and its id for messages.
    pub(super) fn way(&self, to: Address) -> (Way, u32) {
        match self.ways.get().and_then(|ways| ways.get(&to)) {
            Some((rank, way)) => (*way, self.table()[*rank as usize].pid),
            None => (Way::Near(to), 0),
        }
    }

    /// True where its process is reached within this machine, and the system here can be asked about it.
    pub fn is_near(&self, rank: u32) -> bool {
        self.table().get(rank as usize).is_some_and(|entry| matches!(self.way(entry.address).0, Way::Near(_)))
    }

    /// True for a rank of this process.
    pub fn is_here(&self, rank: u32) -> bool {
        self.table().get(rank as usize).is_some_and(|entry| entry.address == self.own_address())
    }

    /// `rank 3 (pid 4411)`; where there are several machines, `rank 3 (pid 4411 on node7)`, before these are known with its address.
    pub fn name(&self, rank: u32) -> String {
        let Some(entry) = self.table().get(rank as usize) else { return format!("rank {rank}") };
        if let Some(host) = self.lookout().and_then(|lookout| lookout.host(rank)) {
            return format!("rank {rank} (pid {} on {host})", entry.pid);
        }
        let from = if self.is_near(rank) { None } else { entry.doors.iter().next().map(|door| door.ip()) };
        format!("rank {rank} ({})", Peer { pid: entry.pid, from })
    }

    // Ranks of this process.

    /// A rank takes its seat. Two takers of one seat share it until the root has told them.
    pub(super) fn sit(&self, rank: u32) -> Arc<Place> {
        let mut seats = self.seats.lock();
        let (place, users) = seats.entry(rank).or_insert_with(|| (Arc::new(Place::new(rank)), 0));
        *users += 1;
        place.clone()
    }

    /// The rank takes part no more; the others are told.
    pub(super) fn stand_up(&self, rank: u32) {
        {
            let mut seats = self.seats.lock();
            let Some((_, users)) = seats.get_mut(&rank) else { return };
            *users -= 1;
            if *users > 0 {
                return;
            }
            seats.remove(&rank);
        }
        self.published.lock().retain(|(owner, _), _| *owner != rank);
        self.leaves(rank);
        self.mailbox.ring();
        drop(self.telling.lock());
        self.tell_links(&Frame::Left { rank });
    }

    pub(super) fn standings_here(&self) -> Vec<Standing> {
        self.seats.lock().values().map(|(place, _)| place.standing()).collect()
    }

    /// Between two looks of a rank here, that waits for the root, whether its creation is to end. All do: 4096 ranks that looked every 20 ms
    /// left two cores no time for the rendezvous itself.
    pub(super) fn notice(&self) -> Duration {
        NOTICE * (1 + self.seats.lock().len() as u32 / 32)
    }

    // Failure and absence.

    /// The first failure, if any.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Ends every exchange of this communicator, here and elsewhere. The first cause is kept. Never blocks: links that stand are
    /// used at once, the others are made by a thread of their own.
    pub fn fail(self: &Arc<Self>, from: u32, cause: &Error) {
        let Some(told) = self.fail_and_tell(from, cause) else { return };
        let frame = self.poison(from, cause);
        let mut rest: HashSet<Address> = self.table().iter().map(|entry| entry.address).collect();
        rest.remove(&self.own_address());
        rest.retain(|address| !told.contains(address));
        if !rest.is_empty() {
            let port = self.clone();
            let until = Instant::now() + Duration::from_secs(2);
            // Dropped at the end of the thread, or where there is none.
            let (under_way, over) = bounded::<()>(1);
            *self.spreading.lock() = Some(over);
            let spread = move || {
                let _under_way = under_way;
                for address in rest {
                    if let Ok(link) = port.link(address, until, || true) {
                        link.send(&frame);
                    }
                }
            };
            if let Err(e) = process::service_thread("ginrs poison", spread, |_| {}) {
                warn!(
                    "GINRS-W004 no thread to tell the other ranks of a failure | {} | {} | they end when they miss this one | fix: raise ulimit -u",
                    self.tag(),
                    e.text
                );
            }
        }
    }

    /// The part of `fail` for this process and those it is linked with, which it gives; None where it has failed before. A rank that sees
    /// the failure may leave at once, and nobody is to hear of that first.
    pub(super) fn fail_and_tell(&self, from: u32, cause: &Error) -> Option<Vec<Address>> {
        let _telling = self.telling.lock();
        self.fail_here(cause).then(|| self.tell_links(&self.poison(from, cause)))
    }

    pub(super) fn poison(&self, from: u32, cause: &Error) -> Frame {
        Frame::Poison { from, quiescent: self.is_quiescent(from), cause: cause.clone() }
    }

    /// `rank` aborts, or has, and nothing was under way there. Before the abort is told: both go in one frame.
    pub(crate) fn note_quiescent(&self, rank: u32) {
        self.quiescent.lock().insert(rank);
    }

    /// As [`Self::note_quiescent`] was told.
    pub(crate) fn is_quiescent(&self, rank: u32) -> bool {
        self.quiescent.lock().contains(&rank)
    }

    /// Until all have been told of the failure, but not for long: the process may end behind this, and who was not told would take its end
    /// for the cause.
    pub(super) fn join_spreading(&self) {
        if let Some(over) = self.spreading.lock().take() {
            let _ = over.recv_timeout(Duration::from_secs(1));
        }
    }

    /// As `fail`, for a cause that every process will see by itself: only links that stand are used.
    pub(crate) fn fail_near(&self, cause: &Error) {
        self.fail_and_tell(cause.culprit.unwrap_or(0), cause);
    }

    /// The part of `fail` for this process. True for the first cause.
    pub(super) fn fail_here(&self, cause: &Error) -> bool {
        let mut first = false;
        let silent = if self.failure.get().is_none() { self.silent() } else { HashSet::new() };
        self.failure.get_or_init(|| {
            first = true;
            self.forsaken.get_or_init(|| silent);
            cause.clone()
        });
        if first {
            self.mailbox.ring();
            deaths::note(&self.tag(), cause);
            let _ = fault::step("failure");
            self.on_failure.lock().iter().for_each(|hook| hook(cause));
        }
        first
    }

    /// Runs `hook` when the communicator fails, at once if it has. The hook must not block.
    pub fn on_failure(&self, hook: OnFailure) {
        let mut hooks = self.on_failure.lock();
        hooks.push(hook);
        if let (Some(cause), Some(hook)) = (self.failure(), hooks.last()) {
            hook(cause);
        }
    }

    /// The error for a rank whose process lives on without its links.
    pub(crate) fn cut_off(&self, rank: u32, how: &str, step: &str) -> Error {
        let text = format!(
            "{} has closed its links | {}{step} | {how} | fix: call ncclCommDestroy before exec, and close only descriptors of your own (close_range, closefrom \
             and dup2 take any)",
            self.name(rank),
            self.tag()
        );
        Error::new(Code::RemoteError, 46, text).by(rank)
    }

    /// True while a rank of this process is in a collective step.
    pub(crate) fn is_in_step(&self) -> bool {
        self.standings_here().iter().any(|standing| standing.inside)
    }

    /// True for the first that asks in any `every`: one rank's line is enough for a process that waits.
    pub(super) fn may_warn(&self, every: Duration) -> bool {
        let mut warned = self.warned.lock();
        let due = warned.is_none_or(|at| at.elapsed() > every / 2);
        if due {
            *warned = Some(Instant::now());
        }
        due
    }

    /// Runs `hook` when the last link to a process closes. The hook must not block.
    pub(crate) fn on_lost(&self, hook: OnLost) {
        *self.on_lost.lock() = Some(hook);
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.service.forget(&self.key);
        self.links.lock().values().flatten().for_each(|link| link.finish());
        zeroize::Zeroize::zeroize(&mut self.secret);
    }
}
