//! The client's half of the handshake, with a deadline on every step.
#![forbid(unsafe_code)]

use super::address::{Address, Credentials, Stopped, receive_exact, send_all};
use super::auth::{self, CHALLENGE_BYTES, Hello, Refused, Secret, WELCOME_BYTES};
use crate::error::Error;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long the first try may take. A busy server gets more tries, each of which may take twice as long: who gives up too early
/// loses its place in a long queue.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// Why there is no connection.
#[derive(Debug)]
pub enum NoLink {
    /// Nothing listens there: the process has ended, or lives in another network namespace.
    Nobody,
    /// What listens belongs to another user.
    Foreign(Credentials),
    /// It dropped us: it does not know this communicator (any more).
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
            NoLink::Nobody => f.write_str("nothing listens there"),
            NoLink::Foreign(who) => write!(f, "what listens there is pid {} of user {}", who.pid, who.uid),
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

/// Connects to `to` and proves `secret`. Tries again after a drop or a silence, which a server under attack may cause, until
/// `until` or until `go_on` says no.
pub fn dial(
    to: Address,
    hello: &Hello,
    secret: &Secret,
    until: Instant,
    mut go_on: impl FnMut() -> bool,
) -> Result<(OwnedFd, Credentials), NoLink> {
    let (mut drops, mut pause, mut patience) = (0, Duration::from_millis(2), HANDSHAKE);
    loop {
        let end = until.min(Instant::now() + patience);
        let why = match once(to, hello, secret, end) {
            Ok(link) => return Ok(link),
            Err(why) => why,
        };
        match why {
            // One who really does not know us drops us every time; one who is crowded does not.
            NoLink::Dropped if drops < 5 => drops += 1,
            NoLink::Late => patience = (patience * 2).min(64 * HANDSHAKE),
            NoLink::System(Errno::AGAIN) => {}
            _ => return Err(why),
        }
        if Instant::now() + pause >= until || !go_on() {
            return Err(why);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

fn once(to: Address, hello: &Hello, secret: &Secret, until: Instant) -> Result<(OwnedFd, Credentials), NoLink> {
    let hello = Hello { nonce: crate::process::random().map_err(NoLink::Own)?, ..*hello }.encode();
    let socket = to.connect(until).map_err(|e| match e {
        Errno::CONNREFUSED | Errno::NOENT => NoLink::Nobody,
        e => NoLink::System(e),
    })?;
    let peer = Credentials::of(&socket).map_err(|e| NoLink::System(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
    if !peer.is_mine() {
        return Err(NoLink::Foreign(peer));
    }
    send_all(&socket, &hello, until)?;
    let mut challenge = [0; CHALLENGE_BYTES];
    receive_exact(&socket, &mut challenge, until)?;
    // On a busy machine an honest client may be mute for so long that a crowded server sends it away.
    if challenge == auth::busy() {
        return Err(NoLink::Late);
    }
    let proof = auth::prove(secret, &hello, &challenge).map_err(|refused| match refused {
        Refused::Unproved => NoLink::Impostor,
        Refused::Wire(version) => NoLink::Wire(version),
    })?;
    // Who got this far knows the secret: a drop from here on is for want of room, and worth another try.
    let crowded = |stopped| if matches!(stopped, Stopped::Closed) { NoLink::Late } else { stopped.into() };
    send_all(&socket, &proof, until).map_err(crowded)?;
    let mut welcome = [0; WELCOME_BYTES];
    receive_exact(&socket, &mut welcome, until).map_err(crowded)?;
    if welcome != auth::welcome() {
        return Err(NoLink::Impostor);
    }
    Ok((socket, peer))
}
