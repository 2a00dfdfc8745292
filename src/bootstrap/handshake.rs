//! The server's half of the handshake: a connection that has proved nothing yet. It may hold a few hundred bytes and two
//! seconds of ours, no more.
#![forbid(unsafe_code)]

use super::address::Peer;
use super::auth::{self, GREETING_BYTES, Hello, Key, PROOF_BYTES, Refused, Role, Seal, Secret, Verdict};
use crate::process::ServiceFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::time::{Duration, Instant};

/// Most connections that may be unproved at once, over all listeners of the process.
pub const MAX_HANDSHAKES: usize = 64;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// How long one may stay when others wait for its place. An honest client's first message is there when its connection is
/// accepted; one that has named a key of ours is most likely honest, and slow because the machine is busy.
const MUTE_GRACE: Duration = Duration::from_millis(20);
const KNOWN_GRACE: Duration = Duration::from_millis(1000);

/// What a connection has come to.
pub enum Step {
    /// More bytes are needed.
    Wait,
    /// It holds the secret.
    Proved(Box<(Hello, Seal)>),
    /// It goes; the text says why, for the log.
    Refused(&'static str),
}

/// One unproved connection.
pub struct Handshake {
    /// Its socket.
    pub socket: ServiceFd,
    /// Who the kernel says it is; from another machine nothing but where it comes from.
    pub peer: Peer,
    since: Instant,
    got: Vec<u8>,
    asked: Option<Box<(Hello, Seal)>>,
}

impl Handshake {
    /// Just accepted.
    pub fn new(socket: ServiceFd, peer: Peer) -> Self {
        Self { socket, peer, since: Instant::now(), got: Vec::new(), asked: None }
    }

    /// When it must be done.
    pub fn deadline(&self) -> Instant {
        self.since + HANDSHAKE
    }

    /// When it may be sent away for another one's sake.
    pub fn yields_at(&self) -> Instant {
        self.since + if self.asked.is_none() { MUTE_GRACE } else { KNOWN_GRACE }
    }

    /// It goes for another one's sake.
    pub fn send_away(&self) {
        if self.asked.is_none() {
            self.send(&Verdict::Busy.encode());
        }
    }

    /// Reads what is there. `secret_of` finds the secret of the communicator that a GREETING names.
    pub fn step(&mut self, secret_of: impl Fn(Role, &Key) -> Option<Secret>) -> Step {
        loop {
            let whole = if self.asked.is_none() { GREETING_BYTES } else { PROOF_BYTES };
            // Never a byte more than the message: what follows a PROOF belongs to the frames.
            let mut buffer = [0; GREETING_BYTES];
            match recv(self.socket.as_fd(), &mut buffer[..whole - self.got.len()], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Step::Refused("it closed"),
                Ok((n, _)) => self.got.extend_from_slice(&buffer[..n]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Step::Wait,
                Err(_) => return Step::Refused("its connection failed"),
            }
            if self.got.len() < whole {
                continue;
            }
            let message = std::mem::take(&mut self.got);
            match self.asked.take() {
                None => match self.answer(message.as_slice().try_into().expect("GREETING_BYTES"), &secret_of) {
                    Ok(asked) => self.asked = Some(asked),
                    Err(why) => return Step::Refused(why),
                },
                Some(asked) => {
                    let proof = message.as_slice().try_into().expect("PROOF_BYTES");
                    return match asked.1.proved(proof) {
                        false => Step::Refused("it does not know the secret"),
                        true if self.send(&asked.1.proof()) => Step::Proved(asked),
                        true => Step::Refused("its connection failed"),
                    };
                }
            }
        }
    }

    fn answer(
        &self,
        greeting: &[u8; GREETING_BYTES],
        secret_of: impl Fn(Role, &Key) -> Option<Secret>,
    ) -> Result<Box<(Hello, Seal)>, &'static str> {
        let (role, key) = auth::asked(greeting).map_err(|refused| match refused {
            Refused::Unproved => "it does not speak our protocol",
            Refused::Wire(_) => {
                self.send(&Verdict::WrongWire.encode());
                "it speaks another wire version"
            }
        })?;
        let Some(secret) = secret_of(role, &key) else {
            self.send(&Verdict::Unknown.encode());
            return Err("it names no communicator of ours");
        };
        let (hello, answer, seal) = auth::answer(&secret, greeting).map_err(|_| "it does not know the secret")?;
        match self.send(&[&Verdict::Answer.encode()[..], &answer].concat()) {
            true => Ok(Box::new((hello, seal))),
            false => Err("its connection failed"),
        }
    }

    /// A fresh socket takes a few bytes at once or not at all.
    fn send(&self, bytes: &[u8]) -> bool {
        send(self.socket.as_fd(), bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) == Ok(bytes.len())
    }
}
