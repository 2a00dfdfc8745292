//! A rank's side of the rendezvous: prove the secret at the root, then wait for the table, for a reason, or for the deadline.
#![forbid(unsafe_code)]

use super::Seat;
use super::accept;
use super::address::{Stopped, receive_exact, send_all, wait_readable};
use super::auth::{Hello, Role, Seal};
use super::cancel::{Cancel, NOTICE};
use super::deaths;
use super::dial::{Dialled, HANDSHAKE, NoLink, dial};
use super::fixed::{Meeting, id_of, secret};
use super::gone::gone;
use super::id::UniqueId;
use super::place::Place;
use super::port::Port;
use super::root::{Headcount, late};
use super::route::{Doors, Route};
use super::sealed;
use super::service::Service;
use super::unjoined::{astray, nobody, unreachable};
use super::wire::{Frame, MAX_FRAME, as_remote};
use crate::error::{Code, Error, Result};
use crate::process::{machine, random};
use crate::{bail, config, log, warn};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of the error of interfaces that are none.
const NO_INTERFACE: u16 = 100;
/// The root's own deadline comes first, because it knows who is missing.
const SLACK: Duration = Duration::from_millis(1500);

/// Takes a seat and meets the others; `firsts`: the first ranks of several blocks are to meet at this root, too.
pub(super) fn join(id: &UniqueId, seat: Seat, firsts: bool, cancel: &Cancel) -> Result<(Arc<Port>, Arc<Place>)> {
    log::report();
    let service = Service::get()?;
    if !id.is_fixed() {
        return join_at(service, id, seat, firsts, cancel);
    }
    let meeting = Meeting::next(id);
    let joined = join_at(service, &meeting.id, seat, false, cancel);
    meeting.over();
    joined
}

impl UniqueId {
    /// A new id. Its root listens in this process from now on and serves one communicator, also when only forked children join it.
    /// Under NCCL_COMM_ID: the id of that meeting point, where rank 0 will listen.
    pub fn create() -> Result<Self> {
        log::report();
        if let Some(point) = config::text("NCCL_COMM_ID") {
            return id_of(&point, secret()?.as_deref());
        }
        let service = Service::get()?;
        let id = Self::build(service.route(machine())?, &random()?);
        service.start_root(&id)?;
        Ok(id)
    }

    /// Nobody is to meet at this point of this process after all, for the reason `why`.
    pub fn withdraw(&self, why: &Error) {
        if let Ok(service) = Service::get() {
            service.withdraw(self.key(), why);
        }
    }

    /// The communicator's messages say from now on that its ranks have these numbers in the job, as long as what this gives is kept or it stands.
    pub fn made_of(&self, ranks: &[u32]) -> Result<impl Sized + use<>> {
        let port = Service::get()?.port(self);
        port.set_family(ranks);
        Ok(port)
    }

    /// This process is the meeting point from now on: for an id that [`super::Bootstrap::id_of_child`] gave, by its first rank.
    pub fn listen(&self) -> Result<()> {
        Service::get()?.start_root(self).map(drop)
    }
}

/// How long a rank that cannot join tries to tell the others.
const WORD: Duration = Duration::from_secs(1);

/// `rank` was to join at `ids`, and cannot: those who wait for it there are told, if there is a root that can be reached. The rank and the
/// number of ranks are what the caller passed, and may be the fault.
pub(super) fn decline(ids: &[UniqueId], rank: u32, n_ranks: u32, error: &Error) -> Result<()> {
    let service = Service::get()?;
    for id in ids {
        if !id.is_fixed() {
            decline_at(service, id, rank, n_ranks, error);
            continue;
        }
        let meeting = Meeting::next(id);
        if rank == 0 {
            service.start_root(&meeting.id)?;
        }
        decline_at(service, &meeting.id, rank, n_ranks, error);
        meeting.over();
    }
    Ok(())
}

fn decline_at(service: &'static Service, id: &UniqueId, rank: u32, n_ranks: u32, error: &Error) {
    service.decline(id.key(), rank, error);
    if id.root().address == service.address() {
        return;
    }
    let (route, pid) = (Route { address: service.address(), machine: machine(), doors: Doors::default() }, std::process::id());
    let hello = Hello { role: Role::Decline, key: id.key(), rank, n_ranks, patience: 0, pid, firsts: 0, route };
    if let Ok(Dialled { socket, seal, .. }) = dial(id.root().way(machine()), &hello, &id.secret(), Instant::now() + WORD, || true)
    {
        let frame = Frame::Poison { from: rank, quiescent: false, cause: error.clone() }.encode();
        let frame = seal.map_or(frame.clone(), |seal| sealed::seal(&seal, &mut 0, &frame));
        let _ = send_all(&socket, &frame, Instant::now() + WORD);
    }
}

fn join_at(
    service: &'static Service,
    id: &UniqueId,
    seat: Seat,
    firsts: bool,
    cancel: &Cancel,
) -> Result<(Arc<Port>, Arc<Place>)> {
    let Seat { rank, n_ranks, .. } = seat;
    let port = service.port(id);
    // The seat comes first: a faster rank may send before this one has read the table.
    let place = port.sit(rank);
    let met = cancel.enters(&port, rank).and_then(|()| meet(id, &port, seat, firsts, cancel));
    match met.and_then(|()| check(&port, rank, n_ranks)) {
        Ok(()) => Ok((port, place)),
        Err(error) => {
            // It may never have come to the root, where others wait for it.
            if let Some(cause) = cancel.cause().or(if error.id == NO_INTERFACE { Some(&error) } else { None }) {
                decline_at(service, id, rank, n_ranks, cause);
            }
            port.stand_up(rank);
            Err(error)
        }
    }
}

fn check(port: &Port, rank: u32, n_ranks: u32) -> Result<()> {
    let table = port.table();
    let mine = table.get(rank as usize).map(|entry| entry.address);
    if table.len() != n_ranks as usize || mine != Some(port.own_address()) {
        bail!(
            RemoteError,
            18,
            "the root's table is wrong | {}, rank {rank} | {} entries for {n_ranks} ranks | fix: load the same libginrs on every rank",
            port.tag(),
            table.len()
        );
    }
    Ok(())
}

/// Behind it the port has the table.
fn meet(id: &UniqueId, port: &Port, seat: Seat, firsts: bool, cancel: &Cancel) -> Result<()> {
    let Seat { rank, n_ranks, machine } = seat;
    let patience = config::seconds("GINRS_INIT_TIMEOUT");
    let start = Instant::now();
    let seconds = u32::try_from(patience.as_secs()).unwrap_or(u32::MAX);
    let (route, pid) = (port.service.route(machine)?, std::process::id());
    let hello =
        Hello { role: Role::Join, key: id.key(), rank, n_ranks, patience: seconds, pid, firsts: u32::from(firsts), route };
    // The rank that listens may not have come yet, where no message said that it has, nor its machine. One that is there may have no way
    // to it for as long as a machine may be silent.
    let gap = if id.is_fixed() { patience } else { config::seconds("GINRS_HOST_DEADLINE").min(patience) };
    let late_root = |why: &NoLink| match why {
        NoLink::Nobody => id.is_fixed(),
        NoLink::Unknown => id.root_may_be_late(),
        NoLink::Unreachable(..) => start.elapsed() < gap,
        _ => false,
    };
    let every = config::seconds("GINRS_WAIT_WARN");
    let (mut pause, mut absent, mut next_warn) = (NOTICE, None, every);
    let mut serves = rank > 0 || !id.is_fixed();
    let met = loop {
        cancel.check()?;
        // A job before this one may still have the meeting point.
        serves = serves || port.service.start_root(id)?;
        let place = port.joining.enter(start + patience, port.notice(), || cancel.check().is_ok());
        let left = (start + patience).saturating_duration_since(Instant::now());
        let dialled = dial(id.root().way(machine), &hello, &id.secret(), start + patience, || cancel.check().is_ok());
        drop(place);
        match dialled {
            Err(why) if late_root(&why) && start.elapsed() < patience => {
                if !every.is_zero() && start.elapsed() >= next_warn {
                    next_warn += every;
                    let fix = "start every rank with this id, and where NCCL_COMM_ID makes it with the same secret";
                    let (seconds, astray) = (start.elapsed().as_secs(), astray(id));
                    if port.may_warn(every) {
                        warn!(
                            "GINRS-W011 still joining | {}, rank {rank} | {why}, for {seconds} s{astray} | fix: {fix}",
                            port.tag()
                        );
                    }
                }
                absent = Some(why);
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            Err(why) => {
                cancel.check()?;
                let why = match (why, absent) {
                    // It had no time; the try before had.
                    (NoLink::Late, Some(before)) if left < HANDSHAKE => before,
                    (why, _) => why,
                };
                let error = match why {
                    ref why if late_root(why) => nobody(id, port, n_ranks, why),
                    NoLink::Own(ref error) => error.clone(),
                    NoLink::Late if let Some(error) = accept::starved() => error,
                    ref why => unreachable(id, port, rank, why),
                };
                if let NoLink::System(_) | NoLink::Own(_) = why {
                    // Nobody hears of this rank otherwise. What it lacked a moment ago may be there again for a word to a root elsewhere.
                    let service = Service::get()?;
                    service.give_up(id.key(), n_ranks, &as_remote(rank, &error));
                    decline_at(service, id, rank, n_ranks, &error);
                }
                return Err(cancel.cause_of(error));
            }
            Ok(met) => break met,
        }
    };
    let mut words = Words { root: met.socket, seal: met.seal, said: 0, heard: 0, plain: Vec::new() };
    // Should that fail, what the root has to say tells why.
    words.say(&Frame::Here, start + patience);
    let mut wait =
        Wait { port, rank, start, patience, next_warn: None, headcount: Headcount { n_ranks, ..Headcount::default() } };
    let met = hear(id, &mut wait, &mut words, cancel);
    if let Err(error) = &met {
        // Before the socket closes, which would be this rank's death to the others. What it has seen is theirs, too.
        let cause = cancel.own().err().map_or_else(|| error.clone(), |own| as_remote(rank, &own));
        words.last(&Frame::Poison { from: rank, quiescent: false, cause }, Instant::now() + WORD);
    }
    met
}

/// What the root has to say, until all have met.
fn hear(id: &UniqueId, wait: &mut Wait, words: &mut Words, cancel: &Cancel) -> Result<()> {
    let (port, rank, patience) = (wait.port, wait.rank, wait.patience);
    loop {
        wait.for_more(&words.root, cancel)?;
        match words.frame(wait.start + patience + SLACK) {
            Ok(Frame::Table(table)) => {
                port.set_table(table);
                return Ok(());
            }
            Ok(Frame::Met { reader }) => return wait.for_table(reader, cancel),
            Ok(Frame::Refused(reason)) => return Err(cancel.cause_of(reason)),
            Ok(Frame::Headcount { joined, n_ranks, missing, unauthenticated }) => {
                wait.headcount = Headcount { joined, n_ranks, missing, unauthenticated }
            }
            Ok(_) => bail!(
                RemoteError,
                18,
                "the root broke the protocol | {}, rank {rank} | unexpected frame | fix: load the same libginrs on every rank",
                port.tag()
            ),
            Err(Stopped::Late) => return Err(late(&port.tag(), patience, &wait.headcount, "")),
            Err(why) => {
                let text = format!(
                    "the root has ended | {}, rank {rank} | {why} before all ranks had joined; it was in {} | fix: look at the output of that process, \
                     which must live until every rank is initialised",
                    port.tag(),
                    id.root_process()
                );
                return Err(cancel.cause_of(Error::new(Code::RemoteError, 19, text)));
            }
        }
    }
}

/// A rank that waits for the root, and says so now and then.
struct Wait<'a> {
    port: &'a Port,
    rank: u32,
    start: Instant,
    patience: Duration,
    next_warn: Option<Instant>,
    headcount: Headcount,
}

impl Wait<'_> {
    /// All have met, and rank `reader` of this process is about to know them.
    fn for_table(&self, reader: u32, cancel: &Cancel) -> Result<()> {
        let mailbox = &self.port.mailbox;
        loop {
            let mut inbox = mailbox.lock();
            if !self.port.table().is_empty() {
                return Ok(());
            }
            if let Some(cause) = self.port.failure() {
                return Err(cancel.cause_of(cause.clone()));
            }
            if let Some(fate) = self.port.fate(reader) {
                drop(inbox);
                return Err(cancel.cause_of(gone(self.port, reader, fate, "init")));
            }
            mailbox.wait_for_outcome(&mut inbox, Instant::now() + self.port.notice());
            drop(inbox);
            cancel.check()?;
        }
    }

    fn for_more(&mut self, root: &OwnedFd, cancel: &Cancel) -> Result<()> {
        let end = self.start + self.patience + SLACK;
        let every = config::seconds("GINRS_WAIT_WARN");
        loop {
            let next = (!every.is_zero()).then(|| *self.next_warn.get_or_insert(self.start + every));
            let until = next.map_or(end, |next| next.min(end));
            cancel.check()?;
            match wait_readable(root, until.min(Instant::now() + self.port.notice())) {
                Err(Stopped::Late) if Instant::now() >= end => {
                    return Err(late(&self.port.tag(), self.patience, &self.headcount, ""));
                }
                Err(Stopped::Late) if Instant::now() < until => {}
                Err(Stopped::Late) => {
                    let waited = self.start.elapsed().as_secs();
                    if self.port.may_warn(every) {
                        warn!(
                            "GINRS-W011 still joining | {}, rank {} | {} after {waited} s{} | fix: start every rank with this id",
                            self.port.tag(),
                            self.rank,
                            self.headcount,
                            deaths::lately()
                        );
                    }
                    self.next_warn = Some(Instant::now() + every);
                }
                _ => return Ok(()),
            }
        }
    }
}

/// What the root and a rank say to each other.
struct Words {
    root: OwnedFd,
    /// Where it is on another machine.
    seal: Option<Seal>,
    /// Numbers of the last sealed messages.
    said: u64,
    heard: u64,
    plain: Vec<u8>,
}

impl Words {
    fn say(&mut self, frame: &Frame, until: Instant) {
        let frame = frame.encode();
        let bytes = self.seal.as_ref().map_or_else(|| frame.clone(), |seal| sealed::seal(seal, &mut self.said, &frame));
        let _ = send_all(&self.root, &bytes, until);
    }

    /// Returns once the root has heard it and hung up: TCP drops what is under way where a socket closes before it has read all.
    fn last(&mut self, frame: &Frame, until: Instant) {
        self.say(frame, until);
        while self.frame(until).is_ok() {}
    }

    fn frame(&mut self, until: Instant) -> std::result::Result<Frame, Stopped> {
        let head = self.take(4, until)?;
        let length = u32::from_le_bytes(head.try_into().expect("4 bytes")) as usize;
        if length > MAX_FRAME {
            return Err(Stopped::Closed);
        }
        Frame::decode(&self.take(length, until)?).map_err(|_| Stopped::Closed)
    }

    fn take(&mut self, length: usize, until: Instant) -> std::result::Result<Vec<u8>, Stopped> {
        while self.plain.len() < length {
            let Some(seal) = &self.seal else {
                let have = self.plain.len();
                self.plain.resize(length, 0);
                receive_exact(&self.root, &mut self.plain[have..], until)?;
                break;
            };
            let mut head = [0; 2];
            receive_exact(&self.root, &mut head, until)?;
            let mut message = vec![0; u16::from_le_bytes(head).into()];
            receive_exact(&self.root, &mut message, until)?;
            self.heard += 1;
            if !seal.open(self.heard, &message, &mut self.plain) {
                return Err(Stopped::Closed);
            }
        }
        Ok(self.plain.drain(..length).collect())
    }
}
