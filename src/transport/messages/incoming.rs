//! The target's end: messages of one sender, checked and landed.

use super::{HEADER, NAME, PIECE};
use crate::error::{Code, Error, Result};
use crate::transport::remote::{Header, Remote};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Messages landed at one look: other senders get their turn.
const AT_ONCE: u32 = 64;

/// What comes from one sender.
pub(super) struct Incoming {
    from: u32,
    socket: OwnedFd,
    landed: u64,
    /// Up to where the sender was told.
    told: u64,
}

impl Incoming {
    pub fn new(from: u32, socket: OwnedFd) -> Self {
        Self { from, socket, landed: 0, told: 0 }
    }

    /// Lands what has come; whether anything moved, and whether more can come.
    pub fn receive(&mut self, regions: &Remote, buffer: &mut Vec<u8>) -> Result<(bool, bool)> {
        let (before, mut open, mut reset) = (self.landed, true, false);
        for _ in 0..AT_ONCE {
            // One more than the longest: what is longer shows.
            buffer.resize(HEADER + PIECE as usize + 1, 0);
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::AGAIN | Errno::INTR) => break,
                // A sender that went with words of ours unread: what it sent before is still here.
                Err(Errno::CONNRESET) if !reset => reset = true,
                Ok((0, _)) | Err(_) => {
                    open = false;
                    break;
                }
                Ok((bytes, _)) => self.land(regions, &buffer[..bytes])?,
            }
        }
        let told = self.told;
        self.tell();
        Ok((self.landed != before || self.told != told || !open, open))
    }

    fn land(&mut self, regions: &Remote, message: &[u8]) -> Result<()> {
        let header = message.split_first_chunk::<HEADER>().and_then(|(header, payload)| {
            let (words, _) = header.as_chunks::<8>();
            let words = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
            Some((Header::decode(words, PIECE)?, payload))
        });
        let landed = match header {
            Some((header, payload)) => regions.land(&header, payload),
            None => Err("its header makes no sense".into()),
        };
        if let Err(why) = landed {
            let text = format!(
                "a message is refused | {NAME}, message {} of rank {} | {why} | fix: keep windows registered on every rank until the \
                 kernels that put into them have ended",
                self.landed, self.from
            );
            return Err(Error::new(Code::RemoteError, 78, text).by(self.from));
        }
        self.landed += 1;
        Ok(())
    }

    /// Says how many have landed; true if the socket is full and it has to be said again.
    pub fn tell(&mut self) -> bool {
        if self.landed != self.told {
            match send(&self.socket, &self.landed.to_le_bytes(), SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
                _ => self.told = self.landed,
            }
        }
        self.is_owing()
    }

    pub fn is_owing(&self) -> bool {
        self.landed != self.told
    }

    /// Tells the sender why nothing more is landed.
    pub fn end(self, word: u64) {
        // A sender that does not read has other ways to learn of it.
        let _ = send(&self.socket, &word.to_le_bytes(), SendFlags::NOSIGNAL);
    }
}
