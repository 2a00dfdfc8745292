//! Descriptors from process to process (SCM_RIGHTS over the links): how device memory is shared with nothing in /dev/shm.
#![forbid(unsafe_code)]

use super::Bootstrap;
use super::address::{FdAddress, system};
use super::dial::NoLink;
use super::gone::{Fate, gone};
use super::link::Link;
use super::port::Handed;
use super::route::Way;
use super::wire::Frame;
use crate::error::{Code, Error, Result};
use crate::sync::{Heard, answer};
use crate::{bail, config};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What mends a lack of ports.
pub(super) const PORTS: &str =
    "widen net.ipv4.ip_local_port_range on that machine, or run fewer processes with connections there";

/// What mends a network that does not carry us.
pub(super) const NETWORK: &str = "let TCP pass between these machines (firewall, routes), or name an interface that reaches the others in \
                                  NCCL_SOCKET_IFNAME on every machine";

impl Bootstrap {
    /// Where this process serves descriptors.
    pub fn fd_address(&self) -> FdAddress {
        self.port.own_address()
    }

    /// Ranks of this communicator may fetch a copy of `fd` from now on, as (this rank, `key`). Replaces an earlier one.
    pub fn publish(&self, key: u64, fd: OwnedFd) {
        self.port.publish(self.rank, key, fd);
    }

    /// Ends that.
    pub fn withdraw(&self, key: u64) {
        self.port.withdraw(self.rank, key);
    }

    /// A copy of what `owner_rank`, whose process serves at `from`, published as `key`. E043 when it has no such thing; ends like an
    /// exchange when the owner dies, the communicator fails or GINRS_TIMEOUT passes.
    pub fn fetch(&self, from: &FdAddress, owner_rank: u32, key: u64) -> Result<OwnedFd> {
        self.own_process()?;
        let what = "descriptor fetch";
        if *from == self.port.own_address() {
            let fd = self.port.published(owner_rank, key).ok_or_else(|| self.not_published(owner_rank, key))?;
            return rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3).map_err(|e| self.no_room(owner_rank, e));
        }
        if !self.port.is_near(owner_rank) {
            bail!(
                RemoteError,
                101,
                "a descriptor of another machine was asked for | {}, {} | descriptors pass within a machine only | fix: report this",
                self.port.tag(),
                self.port.name(owner_rank)
            );
        }
        let patience = config::seconds("GINRS_TIMEOUT");
        let end = Instant::now() + patience;
        let link = self.link_to(owner_rank, what, end)?;
        let (give, hear) = answer();
        let ticket = self.port.ticket(*from, give);
        let asked = link.send(&Frame::Fetch { ticket, owner: owner_rank, key });
        loop {
            // Ringing every waiter of a channel is more than a deadline of 50 ms is worth.
            match hear.wait(Duration::from_millis(50)) {
                Heard::Answer(Handed::Here(fd)) => return Ok(fd),
                Heard::Answer(Handed::Nothing) => {
                    // Who fails takes back what it has published; that it failed may come a moment later, over another link.
                    let until = Instant::now() + Duration::from_secs(1);
                    while self.alive().is_ok() && Instant::now() < until {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    self.alive()?;
                    return Err(self.not_published(owner_rank, key));
                }
                Heard::Answer(Handed::NoRoom) => return Err(self.no_room(owner_rank, Errno::MFILE)),
                Heard::Late if asked => {}
                Heard::Late | Heard::Never => {
                    self.port.drop_ticket(ticket);
                    let fate = self.port.fate(owner_rank);
                    self.alive()?;
                    return Err(gone(&self.port, owner_rank, fate.unwrap_or(Fate::Lost), what));
                }
            }
            let state = self.alive().and_then(|()| match Instant::now() < end {
                true => Ok(()),
                false => Err(self.silent(owner_rank, patience)),
            });
            state.inspect_err(|_| self.port.drop_ticket(ticket))?;
        }
    }

    /// The link to a rank's process.
    pub(super) fn link_to(&self, rank: u32, what: &str, until: Instant) -> Result<Arc<Link>> {
        let to = self.port.table()[rank as usize].address;
        match self.port.link(to, until, || self.alive().is_ok()) {
            Ok(link) => Ok(link),
            Err(NoLink::System(e)) => {
                self.alive()?;
                // Told to the others, too, so it says whose fault it is.
                let (own, other) = (self.port.name(self.rank), self.port.name(rank));
                Err(system(&format!("{own} cannot connect to {other}, in \"{what}\""), e))
            }
            Err(why) => {
                let fate = self.port.fate(rank);
                self.alive()?;
                if let Some(fate) = fate {
                    return Err(gone(&self.port, rank, fate, what));
                }
                if !self.port.service.is_intact() {
                    return Err(crate::process::descriptors_lost());
                }
                let (name, tag) = (self.port.name(rank), self.port.tag());
                let text = |fix: &str| {
                    format!(
                        "{name} cannot be reached | {tag}, in \"{what}\" | {why}{} | fix: {fix}",
                        self.port.process_state(rank)
                    )
                };
                let families = if matches!(why, NoLink::Unreachable(..)) { self.families_apart(to) } else { None };
                if let Some([here, there]) = families {
                    let own = self.port.name(self.rank);
                    let text = format!(
                        "two machines have no address of one family | {tag}, in \"{what}\", {own} has {here}, {name} {there} | no family is on the \
                         chosen interfaces of both | fix: give all machines an address of one family there, or set NCCL_SOCKET_IFNAME and \
                         NCCL_SOCKET_FAMILY to what all have; `ginrs-info --why` shows each machine's"
                    );
                    return Err(Error::new(Code::InvalidUsage, 126, text));
                }
                let error = match why {
                    NoLink::Unreachable(..) => Error::new(Code::RemoteError, 102, text(NETWORK)),
                    NoLink::NoPort => return Err(Error::new(Code::SystemError, 105, text(PORTS))),
                    _ => Error::new(Code::RemoteError, 40, text(&format!("look at the output of rank {rank}"))),
                };
                Err(error.by(rank))
            }
        }
    }

    /// The family of this machine's addresses and of those at `to`, where each has one alone and they differ.
    fn families_apart(&self, to: FdAddress) -> Option<[&'static str; 2]> {
        let Way::Far(there) = self.port.way(to).0 else { return None };
        let (here, there) = (self.port.service.route(0).ok()?.doors.family()?, there.family()?);
        (here != there).then_some([here, there])
    }

    fn no_room(&self, owner: u32, e: Errno) -> Error {
        let (own, other) = (self.port.name(self.rank), self.port.name(owner));
        system(&format!("{own} cannot take a descriptor of {other}"), e)
    }

    fn not_published(&self, owner: u32, key: u64) -> Error {
        let text =
            format!("{} has no such descriptor | {} | key {key} | fix: report this", self.port.name(owner), self.port.tag());
        Error::new(Code::RemoteError, 43, text).by(owner)
    }

    fn silent(&self, owner: u32, patience: Duration) -> Error {
        let text = format!(
            "{} does not answer | {}, descriptor fetch | {} s{} | fix: look at the output of rank {owner}, or raise GINRS_TIMEOUT",
            self.port.name(owner),
            self.port.tag(),
            patience.as_secs(),
            self.port.process_state(owner)
        );
        Error::new(Code::RemoteError, 17, text).by(owner)
    }
}
