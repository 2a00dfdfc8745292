//! The target's end of a link: messages and the data of writes, checked and landed; and word of it to the sender.
#![forbid(unsafe_code)]

use super::NAME;
use super::endpoint::Endpoint;
use super::memory::Memories;
use super::post::Post;
use super::reading::Reading;
use super::staging::Landed;
use super::wire::{self, NUMBER, Records};
use crate::error::{Code, Error, Result};

/// How far the last word to a sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastWord {
    Unsaid,
    /// It may still be in the card's queue.
    UnderWay,
    Said,
}

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
    /// Questions that there are, that were asked and that were answered: see `retired`.
    questions: u64,
    asked: u64,
    answered: u64,
    last_word: LastWord,
    /// On a GPU.
    pub reading: Reading,
}

impl Incoming {
    pub fn new(from: u32, link: u32, endpoint: Endpoint) -> Self {
        let (landed, told, prompted, questions, asked, answered) = (0, 0, false, 0, 0, 0);
        let (last_word, reading) = (LastWord::Unsaid, Reading::default());
        Self { from, link, endpoint, landed, told, prompted, questions, asked, answered, last_word, reading }
    }

    /// Lands a message.
    pub fn land(&mut self, memories: &Memories, message: &[u8]) -> Result<()> {
        let records = Records::of(message, self.landed, wire::ALL);
        let landed = records.and_then(|mut records| {
            records.try_for_each(|record| {
                let (header, payload) = record?;
                memories.bounds.land(&header, payload)
            })
        });
        landed.map_err(|why| self.refused(&why))?;
        self.count(message);
        Ok(())
    }

    /// All of a message has landed.
    fn count(&mut self, message: &[u8]) {
        self.landed += 1;
        self.prompted |= wire::says(message, wire::PROMPT);
        if wire::says(message, wire::ANSWER) {
            self.answered = self.asked;
        }
    }

    /// [`Reading::read`] of this link's messages.
    pub fn read(&mut self, post: &mut Post, memories: &Memories, most: u64, now: &mut Vec<Landed>) -> Result<bool> {
        self.reading.read(self.link, post, memories, most, now).map_err(|why| self.refused(&why))
    }

    /// The copies of the message in `place`, and of all before it, have ended.
    pub fn landed_in(&mut self, post: &mut Post, place: u32) -> Result<()> {
        self.count(post.messages.part(place, 0, NUMBER));
        post.expect_message_in(&self.endpoint, place)
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

    /// Grows with each word to the sender.
    pub fn said(&self) -> u64 {
        self.told + self.asked
    }

    /// The number of a new question, which [`Self::question`] asks.
    pub fn ask(&mut self) -> u64 {
        self.questions += 1;
        self.questions
    }

    /// Asks all that there are at once, and the next ones behind their answer: that has no number.
    pub fn question(&mut self, post: &mut Post) {
        let may = self.asked == self.answered && self.questions > self.asked;
        if may && post.send_word(&self.endpoint, self.link, wire::ASKED).unwrap_or(true) {
            self.asked = self.questions;
        }
    }

    pub fn has_answered(&self, question: u64) -> bool {
        self.answered >= question
    }

    /// Tells the sender why nothing more is landed, if it was not told; true once the endpoint may go, else it has to be tried again.
    pub fn end(&mut self, post: &mut Post, word: u64) -> bool {
        if self.last_word == LastWord::Unsaid {
            // A sender that cannot be told has other ways to learn of it.
            self.last_word = match post.send_last_word(&self.endpoint, self.link, word) {
                Ok(None) => LastWord::Unsaid,
                Ok(Some(true)) => LastWord::UnderWay,
                Ok(Some(false)) | Err(_) => LastWord::Said,
            };
        }
        self.last_word == LastWord::Said
    }

    pub fn last_word_sent(&mut self) {
        self.last_word = LastWord::Said;
    }
}
