//! GPU memory, which no provider is asked to touch: the copy engine gathers payloads into messages, whose places are pinned, and at the
//! target out of messages into the window. So all puts of a GPU job go as messages, large ones as messages that hold one payload; no key
//! opens any window, and a target checks each record before its copy starts.
//!
//! | | sender | target |
//! |---|---|---|
//! | order | a message goes once its copies have ended, behind all earlier of its link | records are read in order; a signal follows the newest copy of its link |
//! | reusable, landed | a piece is done when its copy has ended | a message counts as landed, and its place receives again, behind its last copy and signal |
//! | bounds | places of a link: those that wait for copies and those under way | receives of a link: the provider makes the sender wait |
//!
//! A put to a window in host memory is one record like the others, which the CPU lands.
#![forbid(unsafe_code)]

use super::hub::{Link, Ofi};
use crate::device::{CopyQueue, MemCopy, Word};
use crate::error::{Error, Result};
use crate::transport::Completion;
use crate::transport::mapped::Signal;
use crate::transport::pipeline::Pipeline;
use std::time::Instant;

/// Messages under way on a link, and receives posted for it.
pub(super) const WINDOW: u64 = 16;
/// Messages of a link that wait for their copies, apart from the one that still gathers.
pub(super) const WAITING: usize = 4;
/// Pinned memory made with the communicator, at most, in bytes: enough for all links of four ranks, or for rails of many. The driver makes
/// none while a thread of the program is in a copy from or to pageable memory, and such a copy may wait for a kernel, which waits for the
/// message that the memory is for: PyTorch's `all_reduce(x); x.cpu()` hung in that circle when links made their memory as they came.
pub(super) const AHEAD: usize = 64 << 20;
/// Bytes of payload in a message, and for all receives of a rank with links from everywhere, about.
const PIECE: (u64, u64) = (16 << 10, 128 << 10);
const ALL: u64 = 64 << 20;

/// Most bytes of a piece, on every rank of `ranks`: less where there may be many links.
pub(super) fn piece(ranks: usize) -> u64 {
    let links = u64::from(super::STREAMS) * (ranks as u64).saturating_sub(1).max(1);
    let share = (ALL / WINDOW / links).clamp(PIECE.0, PIECE.1);
    1 << share.ilog2()
}

/// What a record, or the end of a message, waits for its copies to do.
pub(super) struct Landed {
    pub link: u32,
    pub signal: Option<Signal>,
    /// The place of a message that has nothing more.
    pub ends: Option<u32>,
}

/// The copies of a rank, in both directions.
pub(super) struct Copies {
    out: Pipeline<u64>,
    into: Pipeline<Landed>,
    /// Places whose message does not go any more, with the copies that may still write them.
    orphans: Vec<(u64, u32)>,
}

impl Copies {
    /// `queue` makes a queue for each direction.
    pub fn new(queue: &dyn Fn() -> Result<Box<dyn CopyQueue>>) -> Result<Self> {
        Ok(Self { out: Pipeline::new(queue()?), into: Pipeline::new(queue()?), orphans: Vec::new() })
    }

    /// Room for another copy out of a window.
    pub fn has_room(&mut self) -> bool {
        self.out.place().is_some()
    }

    /// Copies out of a window, for which there is room; the piece `tag` is done behind it. What the message has to wait for.
    pub fn gather(&mut self, copy: MemCopy, tag: u64) -> u64 {
        self.out.push(copy, tag)
    }

    /// True if what [`Self::gather`] named has ended; 0 always has.
    pub fn has_gathered(&self, wait: u64) -> bool {
        self.out.has_ended(wait)
    }

    /// The message in `place` never goes, and waits for `wait`.
    pub fn orphan(&mut self, wait: u64, place: u32) {
        self.orphans.push((wait, place));
    }

    /// Places that nothing writes any more.
    pub fn orphans(&mut self) -> impl Iterator<Item = u32> {
        let Self { out, orphans, .. } = self;
        orphans.extract_if(.., |(wait, _)| out.has_ended(*wait)).map(|(_, place)| place)
    }

    /// Copies into a window, then `landed`: what comes later on that link follows what is returned. None: no room.
    pub fn land(&mut self, copy: MemCopy, value: Option<u64>, landed: Landed) -> Option<u64> {
        self.into.place()?;
        let MemCopy { to: at, bytes, .. } = copy;
        Some(match value {
            Some(value) if matches!(bytes, 4 | 8) && at.is_multiple_of(bytes) => {
                self.into.push_word(Word { at, value, bytes: bytes as u32 }, copy, landed)
            }
            _ => self.into.push(copy, landed),
        })
    }

    /// `landed` behind the copies `after`, which may have ended.
    pub fn follow(&mut self, after: u64, landed: Landed) -> Follow {
        if self.into.has_ended(after) {
            Follow::Now(landed)
        } else if self.into.follow(after, landed) {
            Follow::Later
        } else {
            Follow::Full
        }
    }

    /// Goes on: pieces whose source is reusable, and what has landed. True if anything moved.
    pub fn progress(&mut self, done: &mut Vec<Completion>, landed: &mut Vec<Landed>) -> Result<bool> {
        let out = self.out.progress(|tag| done.push((tag, Ok(())))).map_err(failed)?;
        let into = self.into.progress(|one| landed.push(one)).map_err(failed)?;
        Ok(out | into)
    }

    pub fn is_idle(&mut self) -> bool {
        self.out.is_idle() && self.into.is_idle()
    }

    /// Until no window is touched any more; within a second, or an error.
    pub fn drain(&mut self, done: &mut Vec<Completion>, landed: &mut Vec<Landed>) -> Result<()> {
        let out = self.out.drain(|tag| done.push((tag, Ok(()))));
        self.into.drain(|one| landed.push(one)).and(out).map_err(failed)
    }

    /// Forgets all of it; what has been started is waited for until `deadline`.
    pub fn abandon(&mut self, deadline: Instant) {
        self.out.abandon(deadline);
        self.into.abandon(deadline);
    }
}

/// What became of something that is to follow copies.
pub(super) enum Follow {
    /// They have ended: it is to be done now.
    Now(Landed),
    Later,
    Full,
}

impl Ofi {
    /// Windows may lie in GPU memory.
    pub(super) fn is_staged(&self) -> bool {
        self.post.copies.is_some()
    }

    /// A message has come into `place`.
    pub(super) fn came(&mut self, place: u32, bytes: usize) {
        let Some(link) = self.post.messages.link(place) else { return };
        let Some(Link::From(from)) = self.links.get_mut(link as usize) else { return };
        if from.reading.is_done() {
            self.reading.push(link);
        }
        from.reading.add(place, bytes);
    }

    /// Goes on with copies in both directions; true if anything moved.
    pub(super) fn stage(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let Self { links, post, memories, reading, landed, piece, .. } = self;
        let mut moved = false;
        let mut links_left = std::mem::take(reading);
        let mut refused = None;
        links_left.retain(|&link| match &mut links[link as usize] {
            Link::From(from) if refused.is_none() => match from.read(post, memories, *piece, landed) {
                Ok(read) => {
                    moved |= read;
                    !from.reading.is_done()
                }
                Err(error) => {
                    refused = Some(error);
                    false
                }
            },
            _ => false,
        });
        self.reading = links_left;
        let Some(copies) = &mut self.post.copies else { return Ok(false) };
        moved |= copies.progress(done, &mut self.landed)?;
        while let Some(place) = copies.orphans().next() {
            self.post.messages.give(place);
        }
        self.raise()?;
        refused.map_or(Ok(moved), Err)
    }

    /// Raises the signals of what has landed, and gives messages that are empty back to their links.
    fn raise(&mut self) -> Result<()> {
        let mut landed = std::mem::take(&mut self.landed);
        let raised = landed.drain(..).try_for_each(|Landed { link, signal, ends }| {
            if let Some(signal) = signal {
                signal.raise();
            }
            match ends {
                Some(place) => self.landed(link, |from, post, _| from.landed_in(post, place)),
                None => Ok(()),
            }
        });
        self.landed = landed;
        raised
    }

    /// Until no copy touches a window.
    pub(super) fn drain(&mut self) -> Result<()> {
        let Some(copies) = &mut self.post.copies else { return Ok(()) };
        let drained = copies.drain(&mut self.late, &mut self.landed);
        self.raise().and(drained)
    }
}

#[cold]
fn failed(error: Error) -> Error {
    let text = format!("copies between GPU memory and the network failed | ofi | {error} | fix: see the cause");
    Error { text, id: 125, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_shrink_as_links_grow() {
        let all: Vec<u64> = [1, 2, 9, 10, 33, 65, 4096].into_iter().map(piece).collect();
        assert_eq!(all, [128 << 10, 128 << 10, 128 << 10, 64 << 10, 32 << 10, 16 << 10, 16 << 10]);
    }
}
