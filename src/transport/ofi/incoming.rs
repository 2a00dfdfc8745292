//! The target's end of a link: messages and the data of writes, checked and landed; and word of it to the sender.
#![forbid(unsafe_code)]

use super::NAME;
use super::endpoint::Endpoint;
use super::memory::Memories;
use super::post::Post;
use super::wire::{self, Records};
use crate::error::{Code, Error, Result};

/// What comes from one sender on one stream.
pub(super) struct Incoming {
    pub from: u32,
    pub link: u32,
    pub endpoint: Endpoint,
    /// Messages and writes.
    landed: u64,
    /// Up to where the sender was told.
    told: u64,
    /// It waits for word.
    pub prompted: bool,
}

impl Incoming {
    pub fn new(from: u32, link: u32, endpoint: Endpoint) -> Self {
        Self { from, link, endpoint, landed: 0, told: 0, prompted: false }
    }

    /// Lands a message.
    pub fn land(&mut self, memories: &Memories, message: &[u8]) -> Result<()> {
        let records = Records::of(message, self.landed);
        let landed = records.and_then(|mut records| {
            records.try_for_each(|record| {
                let (header, payload) = record?;
                memories.bounds.land(&header, payload)
            })
        });
        landed.map_err(|why| self.refused(&why))?;
        self.landed += 1;
        self.prompted |= wire::prompts(message);
        Ok(())
    }

    /// A write's payload has landed: raises the signal in its data.
    pub fn written(&mut self, memories: &Memories, data: u64) -> Result<()> {
        let signal = wire::signal_of(data).map(|offset| (offset, 1));
        let (_, signal) = memories.bounds.incoming(0, (0, 0), signal).map_err(|why| self.refused(&why))?;
        signal.into_iter().for_each(|signal| signal.raise());
        self.landed += 1;
        Ok(())
    }

    #[cold]
    fn refused(&self, why: &str) -> Error {
        let text = format!(
            "a message is refused | {NAME}, message {} of rank {} | {why} | fix: keep windows registered on every rank until the kernels \
             that put into them have ended",
            self.landed, self.from
        );
        Error::new(Code::RemoteError, 124, text).by(self.from)
    }

    /// Pieces of which the sender has not been told.
    pub fn owed(&self) -> u64 {
        self.landed - self.told
    }

    /// Says how many have landed. A queue that is full has to be tried again; a sender that has gone need not be told.
    pub fn tell(&mut self, post: &mut Post) {
        if self.owed() > 0 && post.send_word(&self.endpoint, self.link, self.landed).unwrap_or(true) {
            self.told = self.landed;
            self.prompted = false;
        }
    }

    /// Tells the sender why nothing more is landed.
    pub fn end(&self, post: &mut Post, word: u64) {
        // A sender that cannot be told has other ways to learn of it.
        let _ = post.send_word(&self.endpoint, self.link, word);
    }
}
