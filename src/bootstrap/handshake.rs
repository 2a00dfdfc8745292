//! The server's half of the handshake: a connection that has proved nothing yet. It may hold a few hundred bytes and two
//! seconds of ours, no more.
#![forbid(unsafe_code)]

use super::address::Credentials;
use super::auth::{self, HELLO_BYTES, Hello, PROOF_BYTES, Secret};
use crate::process::{ServiceFd, random};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::time::{Duration, Instant};

/// Most connections that may be unproved at once, over all listeners of the process.
pub const MAX_HANDSHAKES: usize = 256;
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
    Proved(Hello),
    /// It goes; the text says why, for the log.
    Refused(&'static str),
}

/// One unproved connection.
pub struct Handshake {
    /// Its socket.
    pub socket: ServiceFd,
    /// Who the kernel says it is.
    pub peer: Credentials,
    /// The root whose listener it came to; None for the process's own.
    pub root: Option<u64>,
    since: Instant,
    got: Vec<u8>,
    asked: Option<Asked>,
}

struct Asked {
    bytes: [u8; HELLO_BYTES],
    hello: Hello,
    secret: Secret,
    nonce: [u8; 32],
}

impl Handshake {
    /// Just accepted.
    pub fn new(socket: ServiceFd, peer: Credentials, root: Option<u64>) -> Self {
        Self { socket, peer, root, since: Instant::now(), got: Vec::new(), asked: None }
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
            self.send(&auth::busy());
        }
    }

    /// Reads what is there. `secret_of` finds the secret of the communicator that a HELLO names.
    pub fn step(&mut self, secret_of: impl FnOnce(&Hello) -> Option<Secret>) -> Step {
        let mut secret_of = Some(secret_of);
        loop {
            let whole = if self.asked.is_none() { HELLO_BYTES } else { PROOF_BYTES };
            // Never a byte more than the message: what follows a PROOF belongs to the frames.
            let mut buffer = [0; HELLO_BYTES];
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
            match &self.asked {
                None => {
                    let Some(secret_of) = secret_of.take() else { return Step::Refused("it spoke twice") };
                    if let Err(why) = self.ask(&message, secret_of) {
                        return Step::Refused(why);
                    }
                }
                Some(asked) => {
                    let proof = message.as_slice().try_into().expect("PROOF_BYTES");
                    if !auth::proved(&asked.secret, &asked.bytes, &asked.nonce, proof) {
                        return Step::Refused("it does not know the secret");
                    }
                    return match self.send(&auth::welcome()) {
                        true => Step::Proved(asked.hello),
                        false => Step::Refused("its connection failed"),
                    };
                }
            }
        }
    }

    fn ask(&mut self, message: &[u8], secret_of: impl FnOnce(&Hello) -> Option<Secret>) -> Result<(), &'static str> {
        let bytes: [u8; HELLO_BYTES] = message.try_into().expect("HELLO_BYTES");
        let hello = match Hello::decode(&bytes) {
            Ok(hello) => hello,
            Err(auth::Refused::Unproved) => return Err("it does not speak our protocol"),
            Err(auth::Refused::Wire(_)) => {
                self.send(&auth::wrong_wire());
                return Err("it speaks another wire version");
            }
        };
        let secret = secret_of(&hello).ok_or("it names no communicator of ours")?;
        let nonce = random().map_err(|_| "there are no random bytes")?;
        if !self.send(&auth::challenge(&secret, &bytes, &nonce)) {
            return Err("its connection failed");
        }
        self.asked = Some(Asked { bytes, hello, secret, nonce });
        Ok(())
    }

    /// A fresh socket takes a few bytes at once or not at all.
    fn send(&self, bytes: &[u8]) -> bool {
        send(self.socket.as_fd(), bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) == Ok(bytes.len())
    }
}
