//! How two ranks get a socket between them: the target listens at a name of its own, the sender knocks when it has something to
//! send, and says who it is. Names and secrets travel in the ranks' words, which nobody else reads.

use super::{DOOR, failed, watch};
use crate::error::Result;
use crate::process::abstract_socket;
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recv, send,
    socket_with,
};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// Strangers, or ranks that have not said who they are, at one time; more are turned away.
const ASKING: usize = 16;
/// How long one may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a hello: the target's secret and the sender's rank.
const HELLO: usize = 20;

/// Where a rank listens, and what it must be told.
#[derive(Clone, Copy, Default)]
pub(super) struct Address {
    name: [u8; 16],
    secret: [u8; 16],
}

impl Address {
    pub fn encode(&self) -> Vec<u8> {
        [self.name, self.secret].concat()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (name, rest) = bytes.split_first_chunk()?;
        Some(Self { name: *name, secret: rest.try_into().ok()? })
    }

    fn socket(&self) -> std::result::Result<SocketAddrUnix, Errno> {
        abstract_socket("ginrs-messages", &self.name)
    }

    /// A socket to that rank, which has been told nothing.
    pub(super) fn knock(&self) -> std::result::Result<OwnedFd, Errno> {
        let socket = new_socket()?;
        connect(&socket, &self.socket()?)?;
        Ok(socket)
    }

    /// A socket to that rank, which has been told that `rank` knocks; None while it is busy.
    pub fn dial(&self, rank: u32) -> std::result::Result<Option<OwnedFd>, Errno> {
        let socket = match self.knock() {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            other => other?,
        };
        let hello = [&self.secret[..], &rank.to_le_bytes()].concat();
        send(&socket, &hello, SendFlags::NOSIGNAL)?;
        Ok(Some(socket))
    }
}

fn new_socket() -> std::result::Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// So many bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => crate::bail!(SystemError, 88, "no random bytes | messages | {error} | fix: look at /dev/urandom"),
    }
}

/// Where this rank listens.
pub(super) struct Door {
    socket: OwnedFd,
    secret: [u8; 16],
    /// Ranks that are let in, once each.
    expected: Vec<u32>,
    asking: Vec<(OwnedFd, Instant)>,
}

impl Door {
    pub fn open(expected: Vec<u32>) -> Result<(Self, Address)> {
        let (address, socket) = loop {
            let address = Address { name: random()?, secret: random()? };
            let socket = (|| {
                let socket = new_socket()?;
                bind(&socket, &address.socket()?)?;
                listen(&socket, 128)?;
                Ok(socket)
            })();
            match socket {
                // Somebody draws names as this process does.
                Err(Errno::ADDRINUSE) => {}
                socket => break (address, socket.map_err(|error| failed("listening", error))?),
            }
        };
        Ok((Self { socket, secret: address.secret, expected, asking: Vec::new() }, address))
    }

    /// Those who have said who they are since the last call. Their sockets, and those of who has not, are in `poll` as the door is.
    pub fn admit(&mut self, poll: &OwnedFd) -> Result<Vec<(u32, OwnedFd)>> {
        while self.asking.len() < ASKING {
            let Ok(socket) = accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) else { break };
            let own = rustix::process::geteuid();
            if rustix::net::sockopt::socket_peercred(&socket).is_ok_and(|who| who.uid == own) {
                watch(poll, &socket, DOOR, EventFlags::IN)?;
                self.asking.push((socket, Instant::now()));
            }
        }
        let mut admitted = Vec::new();
        let (secret, expected) = (self.secret, &mut self.expected);
        let mut waiting = Vec::new();
        for (socket, since) in self.asking.drain(..) {
            match hello(&socket, &secret) {
                Ok(None) if since.elapsed() < PATIENCE => waiting.push((socket, since)),
                Ok(Some(rank)) => {
                    if let Some(at) = expected.iter().position(|&expected| expected == rank) {
                        expected.swap_remove(at);
                        admitted.push((rank, socket));
                    }
                }
                // A stranger: it hears nothing and is gone.
                Ok(None) | Err(_) => {}
            }
        }
        self.asking = waiting;
        Ok(admitted)
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Which rank it says it is; None while it has said nothing.
fn hello(socket: &OwnedFd, secret: &[u8; 16]) -> std::result::Result<Option<u32>, Errno> {
    let mut bytes = [0; HELLO];
    match recv(socket, &mut bytes[..], RecvFlags::empty()) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Ok((HELLO, HELLO)) => {
            let (said, rank) = bytes.split_at(16);
            let known = bool::from(said.ct_eq(secret));
            known.then(|| Some(u32::from_le_bytes(rank.try_into().expect("4 bytes")))).ok_or(Errno::ACCESS)
        }
        Ok(_) => Err(Errno::ACCESS),
        Err(error) => Err(error),
    }
}
