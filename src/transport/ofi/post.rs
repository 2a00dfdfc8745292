//! What all links share: the domain, the buffers, and numbers for what is posted.

use super::buffers::Buffers;
use super::endpoint::{Endpoint, Range};
use super::net::Net;
use super::staging::{self, Copies};
use super::wire::NUMBER;
use crate::device::Device;
use crate::error::Result;
use std::sync::Arc;

/// What a completion is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// A peer's write, which took no receive.
    Theirs,
    SentMessage(u32),
    CameMessage(u32),
    SentWord(u32),
    /// See [`Post::send_last_word`].
    SentLastWord(u32),
    CameWord(u32),
    Wrote(u32),
}

impl Posted {
    fn number(self) -> u64 {
        let (kind, of) = match self {
            Self::Theirs => (0, 0),
            Self::SentMessage(of) => (1, of),
            Self::CameMessage(of) => (2, of),
            Self::SentWord(of) => (3, of),
            Self::CameWord(of) => (4, of),
            Self::Wrote(of) => (5, of),
            Self::SentLastWord(of) => (6, of),
        };
        kind << 32 | u64::from(of)
    }

    pub fn of(number: u64) -> Option<Self> {
        let of = number as u32;
        Some(match number >> 32 {
            0 => Self::Theirs,
            1 => Self::SentMessage(of),
            2 => Self::CameMessage(of),
            3 => Self::SentWord(of),
            4 => Self::CameWord(of),
            5 => Self::Wrote(of),
            6 => Self::SentLastWord(of),
            _ => return None,
        })
    }
}

/// Words that a link says at once, about.
const SAYS: usize = 2;

/// A write under way: its piece's tag, and its link.
pub(super) struct Write {
    pub tag: u64,
    pub link: u32,
}

/// The domain and what is posted in it. Links, whose endpoints use the buffers, go before it.
pub(super) struct Post {
    pub net: Arc<Net>,
    // Copies go before what they copy.
    /// On a GPU.
    pub copies: Option<Copies>,
    pub messages: Buffers,
    words: Buffers,
    writes: Vec<Option<Write>>,
    free: Vec<u32>,
}

impl Post {
    /// For messages of at most so many bytes.
    pub fn new(net: Arc<Net>, device: &Arc<dyn Device>, message: usize, copies: Option<Copies>) -> Self {
        let (messages, words) = (Buffers::new(device.clone(), message), Buffers::new(device.clone(), NUMBER));
        Self { net, copies, messages, words, writes: Vec::new(), free: Vec::new() }
    }

    /// Memory for so many links that hear so many words each, on a GPU: see [`staging::AHEAD`].
    pub fn reserve(&mut self, links: usize, words: usize) -> Result<()> {
        self.messages.reserve(&self.net, links * (2 * staging::WINDOW as usize + staging::WAITING + 1), staging::AHEAD)?;
        self.words.reserve(&self.net, links * (words + SAYS), staging::AHEAD)
    }

    /// Nobody sends the message in `place`, which may still wait for the copies `wait`.
    pub fn drop_message(&mut self, place: u32, wait: u64) {
        match &mut self.copies {
            Some(copies) if !copies.has_gathered(wait) => copies.orphan(wait, place),
            _ => self.messages.give(place),
        }
    }

    /// True if the copies that a message waits for have ended.
    pub fn has_gathered(&self, wait: u64) -> bool {
        self.copies.as_ref().is_none_or(|copies| copies.has_gathered(wait))
    }

    /// Receives a message into a new place.
    pub fn expect_message(&mut self, ep: &Endpoint, link: u32) -> Result<()> {
        let place = self.messages.take(&self.net, link)?;
        self.expect_message_in(ep, place)
    }

    /// The same into one that `ep` has had.
    pub fn expect_message_in(&mut self, ep: &Endpoint, place: u32) -> Result<()> {
        // SAFETY: the place is this link's until its completion has come, and outlives the endpoint.
        let posted =
            unsafe { ep.receive(self.messages.range(place, self.messages.size()), Posted::CameMessage(place).number())? };
        debug_assert!(posted, "fewer receives than the provider has room for");
        Ok(())
    }

    /// Receives a word into a new place.
    pub fn expect_word(&mut self, ep: &Endpoint, link: u32) -> Result<()> {
        let place = self.words.take(&self.net, link)?;
        self.expect_word_in(ep, place)
    }

    /// The same into one that `ep` has had.
    pub fn expect_word_in(&mut self, ep: &Endpoint, place: u32) -> Result<()> {
        // SAFETY: as a message's.
        let posted = unsafe { ep.receive(self.words.range(place, NUMBER), Posted::CameWord(place).number())? };
        debug_assert!(posted, "fewer receives than the provider has room for");
        Ok(())
    }

    /// Sends the first `bytes` of a message's place, which goes back when that is done.
    pub fn send_message(&mut self, ep: &Endpoint, place: u32, bytes: usize) -> Result<bool> {
        if bytes <= self.net.traits.inject {
            let sent = ep.inject(self.messages.part(place, 0, bytes))?;
            if sent {
                self.messages.give(place);
            }
            return Ok(sent);
        }
        // SAFETY: the place is the link's until its completion has come.
        unsafe { ep.send(self.messages.range(place, bytes), Posted::SentMessage(place).number()) }
    }

    /// Sends a word.
    pub fn send_word(&mut self, ep: &Endpoint, link: u32, word: u64) -> Result<bool> {
        if NUMBER <= self.net.traits.inject {
            return ep.inject(&word.to_le_bytes());
        }
        self.send_word_as(ep, link, word, Posted::SentWord)
    }

    /// Sends the last word before an endpoint goes: a card drops what has not been acknowledged by then. None: the queue is full; else
    /// whether a completion will say that it has gone. Nothing does on an endpoint that outlives its links.
    pub fn send_last_word(&mut self, ep: &Endpoint, link: u32, word: u64) -> Result<Option<bool>> {
        let completes = !self.net.traits.rdm;
        let sent =
            if completes { self.send_word_as(ep, link, word, Posted::SentLastWord)? } else { ep.inject(&word.to_le_bytes())? };
        Ok(sent.then_some(completes))
    }

    fn send_word_as(&mut self, ep: &Endpoint, link: u32, word: u64, posted: fn(u32) -> Posted) -> Result<bool> {
        let place = self.words.take(&self.net, link)?;
        self.words.bytes(place).copy_from_slice(&word.to_le_bytes());
        // SAFETY: as a message's.
        let sent = unsafe { ep.send(self.words.range(place, NUMBER), posted(place).number())? };
        if !sent {
            self.words.give(place);
        }
        Ok(sent)
    }

    /// Writes `from` to `to` at the peer.
    ///
    /// # Safety
    /// `from` stays readable until the completion has come or the endpoint is dropped.
    pub unsafe fn write(&mut self, ep: &Endpoint, write: Write, from: Range, data: u64, to: (u64, u64)) -> Result<bool> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.writes.push(None);
            self.writes.len() as u32 - 1
        });
        // SAFETY: the caller's.
        let taken = unsafe { ep.write(from, data, to, Posted::Wrote(at).number())? };
        if taken {
            self.writes[at as usize] = Some(write);
        } else {
            self.free.push(at);
        }
        Ok(taken)
    }

    /// Which write that was; None for one that nobody waits for.
    pub fn wrote(&mut self, at: u32) -> Option<Write> {
        let write = self.writes.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(write)
    }

    /// Whose write it is.
    pub fn writer(&self, at: u32) -> Option<u32> {
        self.writes.get(at as usize)?.as_ref().map(|write| write.link)
    }

    /// Takes the writes of `link`, whose endpoint has gone, out of the list. Their places stay empty: completions may still come.
    pub fn forget(&mut self, link: u32) -> Vec<Write> {
        self.writes.iter_mut().filter_map(|slot| slot.take_if(|write| write.link == link)).collect()
    }

    pub fn word_link(&self, place: u32) -> Option<u32> {
        self.words.link(place)
    }

    /// The words that `link` was to hear are nobody's: its endpoint has gone, and another takes its place. Theirs stay empty: completions may still come.
    pub fn disown_words(&mut self, link: u32) {
        self.words.disown(link);
    }

    pub fn word(&mut self, place: u32) -> u64 {
        u64::from_le_bytes(self.words.bytes(place).try_into().expect("a word's place"))
    }

    pub fn word_sent(&mut self, place: u32) {
        self.words.give(place);
    }
}
