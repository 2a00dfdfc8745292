//! The client's half of the handshake, with a deadline on every step.
#![forbid(unsafe_code)]

use super::address::{Credentials, Peer, Stopped, receive_exact, send_all};
use super::auth::{self, ANSWER_BYTES, HEAD_BYTES, Hello, PROOF_BYTES, Refused, Role, Seal, Secret, Verdict};
use super::interfaces;
use super::route::Way;
use super::tcp;
use crate::error::Error;
use crate::process::random;
use crate::{config, fault};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long the first try may take. A busy server gets more tries, each of which may take twice as long: who gives up too early
/// loses its place in a long queue.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(2);

/// Why there is no connection.
#[derive(Debug)]
pub enum NoLink {
    /// Nothing listens there: the process has ended, or lives in another network namespace.
    Nobody,
    /// What listens belongs to another user.
    Foreign(Credentials),
    /// No machine answers there.
    Unreachable(SocketAddr, Errno),
    /// This machine has no port left to connect from.
    NoPort,
    /// It serves no such communicator: not yet, or not any more.
    Unknown,
    /// It dropped us, as one does who knows another secret for this communicator.
    Dropped,
    /// What listens does not know the secret.
    Impostor,
    /// It speaks another version of the wire.
    Wire(u16),
    /// It did not answer in time.
    Late,
    /// The system said no.
    System(Errno),
    /// This process cannot take part.
    Own(Error),
}

impl std::fmt::Display for NoLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoLink::Nobody => f.write_str("nothing listens there, or a firewall rejects"),
            NoLink::Foreign(who) => write!(f, "what listens there is pid {} of user {}", who.pid, who.uid),
            NoLink::Unreachable(at, e) => write!(f, "no connection to {at}: {e}"),
            NoLink::NoPort => write!(f, "no local port is free, {}", tcp::port_range()),
            NoLink::Unknown => f.write_str("the process is there, but serves no such communicator, or not any more"),
            NoLink::Dropped => f.write_str("it closed the connection during the handshake"),
            NoLink::Impostor => f.write_str("what listens there does not know the secret"),
            NoLink::Wire(version) => write!(f, "it speaks wire version {version}, this library {}", auth::WIRE),
            NoLink::Late => f.write_str("it did not answer in time"),
            NoLink::System(e) => write!(f, "{e}"),
            NoLink::Own(e) => write!(f, "{e}"),
        }
    }
}

impl From<Stopped> for NoLink {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Closed => NoLink::Dropped,
            Stopped::Late => NoLink::Late,
            Stopped::System(e) => NoLink::System(e),
        }
    }
}

/// A connection whose both ends have proved themselves.
pub struct Dialled {
    /// Its socket.
    pub socket: OwnedFd,
    /// Who is there.
    pub peer: Peer,
    /// Keys for what follows, between machines.
    pub seal: Option<Seal>,
}

/// Connects by `way` and proves `secret`. Tries again after a drop or a silence, which a server under attack may cause, until
/// `until` or until `go_on` says no. A link's way may be away for as long as a machine may be silent: of a network that loses a tenth of all
/// packets one connection in thirty was not made at the first try (`meet` has its own patience with the root).
pub fn dial(
    way: Way,
    hello: &Hello,
    secret: &Secret,
    until: Instant,
    mut go_on: impl FnMut() -> bool,
) -> Result<Dialled, NoLink> {
    let welcome = match hello.role {
        Role::Link => Some("welcome"),
        Role::Join => Some("welcome at the root"),
        Role::Decline => None,
    };
    let (mut first, mut drops, mut pause, mut patience) = (true, 0, Duration::from_millis(2), HANDSHAKE);
    let (begun, gap) = (Instant::now(), config::seconds("GINRS_HOST_DEADLINE"));
    loop {
        let why = match at_any(way, hello, secret, until, patience) {
            // As where the welcome comes too late: the other end takes the link for made (tests/advice.rs).
            Ok(_unwelcome) if first && welcome.is_some_and(|step| fault::step(step).is_err()) => {
                std::thread::sleep(Duration::from_millis(300));
                NoLink::Late
            }
            Ok(link) => return Ok(link),
            Err(why) => why,
        };
        first = false;
        match why {
            // One who really does not know us drops us every time; one who is crowded does not.
            NoLink::Dropped if drops < 5 => drops += 1,
            // Others may give theirs back.
            NoLink::NoPort if drops < 40 => drops += 1,
            NoLink::Late => patience = (patience * 2).min(64 * HANDSHAKE),
            NoLink::System(Errno::AGAIN) => {}
            NoLink::Unreachable(..) if hello.role == Role::Link && begun.elapsed() < gap => {}
            _ => return Err(why),
        }
        if Instant::now() + pause >= until || !go_on() {
            return Err(why);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// A machine may have several addresses, and not all are for us: a private one may be somebody else's here.
fn at_any(way: Way, hello: &Hello, secret: &Secret, until: Instant, patience: Duration) -> Result<Dialled, NoLink> {
    let end = || until.min(Instant::now() + patience);
    match way {
        Way::Near(address) => {
            let socket = address.connect(end()).map_err(|e| match e {
                Errno::CONNREFUSED | Errno::NOENT => NoLink::Nobody,
                e => NoLink::System(e),
            })?;
            let peer = near(&socket)?;
            match (prove(&socket, hello, secret, end()), rustix::io::fcntl_dupfd_cloexec(&socket, 3)) {
                // Perhaps it is this process that should let us in, and its own ranks have taken all descriptors.
                (Err(NoLink::Late), Err(e @ (Errno::MFILE | Errno::NFILE))) => Err(NoLink::System(e)),
                (proved, _) => proved.map(|_| Dialled { socket, peer, seal: None }),
            }
        }
        Way::Far(doors) => {
            let mut why = None;
            for door in doors.iter().map(interfaces::scoped) {
                let made = tcp::connect(door, end()).map_err(|e| match e {
                    Errno::CONNREFUSED => NoLink::Nobody,
                    // It had no time.
                    Errno::TIMEDOUT if until <= Instant::now() => NoLink::Late,
                    Errno::ADDRNOTAVAIL if !tcp::has_port(&door) => NoLink::NoPort,
                    Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => NoLink::System(e),
                    e => NoLink::Unreachable(door, e),
                });
                // A process id from elsewhere is for messages, and the table has it.
                let peer = Peer { pid: 0, from: Some(door.ip()) };
                let proved = made.and_then(|socket| Ok((prove(&socket, hello, secret, end())?, socket)));
                match proved {
                    Ok((seal, socket)) => return Ok(Dialled { socket, peer, seal: Some(seal) }),
                    // An address that this machine has no way to says nothing of those it has.
                    Err(NoLink::Unreachable(..)) if why.is_some() => {}
                    Err(failed) => why = Some(failed),
                }
            }
            Err(why.unwrap_or(NoLink::Nobody))
        }
    }
}

fn near(socket: &OwnedFd) -> Result<Peer, NoLink> {
    let who = Credentials::of(socket).map_err(|e| NoLink::System(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
    if who.is_mine() { Ok(Peer { pid: who.pid, from: None }) } else { Err(NoLink::Foreign(who)) }
}

fn prove(socket: &OwnedFd, hello: &Hello, secret: &Secret, until: Instant) -> Result<Seal, NoLink> {
    let Some((greeted, greeting)) = auth::greet(secret, hello) else {
        return Err(random::<1>().err().map_or(NoLink::System(Errno::IO), NoLink::Own));
    };
    send_all(socket, &greeting, until)?;
    let mut head = [0; HEAD_BYTES];
    receive_exact(socket, &mut head, until)?;
    match Verdict::decode(&head) {
        Ok(Verdict::Answer) => {}
        Ok(Verdict::Unknown) => return Err(NoLink::Unknown),
        // On a busy machine an honest client may be mute for so long that a crowded server sends it away.
        Ok(Verdict::Busy) => return Err(NoLink::Late),
        Ok(Verdict::WrongWire) | Err(Refused::Unproved) => return Err(NoLink::Impostor),
        Err(Refused::Wire(version)) => return Err(NoLink::Wire(version)),
    }
    let mut answer = [0; ANSWER_BYTES];
    receive_exact(socket, &mut answer, until)?;
    let seal = greeted.answered(&answer).map_err(|_| NoLink::Impostor)?;
    // Who got this far knows the secret: a drop from here on is for want of room, and worth another try.
    let crowded = |stopped| if matches!(stopped, Stopped::Closed) { NoLink::Late } else { stopped.into() };
    send_all(socket, &seal.proof(), until).map_err(crowded)?;
    let mut welcome = [0; PROOF_BYTES];
    receive_exact(socket, &mut welcome, until).map_err(crowded)?;
    if seal.proved(&welcome) { Ok(seal) } else { Err(NoLink::Impostor) }
}
