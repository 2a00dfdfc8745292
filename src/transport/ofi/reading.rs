//! The target's end of a link on a GPU: messages that have come, read record by record as the copy engine has room.
#![forbid(unsafe_code)]

use super::memory::Memories;
use super::post::Post;
use super::staging::{Copies, Follow, Landed};
use super::wire::{HEADER, Records, VALUE};
use crate::device::{DevPtr, MemCopy};
use crate::transport::remote::Header;
use std::collections::VecDeque;

/// A message, and where its next record begins.
struct Held {
    place: u32,
    bytes: usize,
    at: usize,
}

/// What has come over one link.
#[derive(Default)]
pub(super) struct Reading {
    held: VecDeque<Held>,
    /// Messages read to their end.
    read: u64,
    /// The copies that whatever comes next has to follow.
    newest: u64,
}

impl Reading {
    /// A message has come.
    pub fn add(&mut self, place: u32, bytes: usize) {
        self.held.push_back(Held { place, bytes, at: 0 });
    }

    /// Nothing waits for room.
    pub fn is_done(&self) -> bool {
        self.held.is_empty()
    }

    /// Checks records, of at most `most` bytes, and starts their copies; what has nothing to wait for goes into `now`. True if any was
    /// read. An error says why one is refused: of its bytes nothing has moved.
    pub fn read(
        &mut self,
        link: u32,
        post: &mut Post,
        memories: &Memories,
        most: u64,
        now: &mut Vec<Landed>,
    ) -> Result<bool, String> {
        let mut moved = false;
        while let (Some(held), Some(copies)) = (self.held.front_mut(), &mut post.copies) {
            let device = post.messages.device(held.place);
            let message = post.messages.part(held.place, 0, held.bytes.min(post.messages.size()));
            let mut records = match held.at {
                0 => Records::of(message, self.read, most)?,
                at => Records::from(message, at, most),
            };
            let at = records.at();
            let taken = match records.next() {
                None => {
                    let end = Landed { link, signal: None, ends: Some(held.place) };
                    follow(copies, self.newest, end, now).then(|| (self.held.pop_front(), self.read += 1)).is_some()
                }
                Some(record) => {
                    let (header, payload) = record?;
                    let from = device + (at + if header.value.is_some() { VALUE } else { HEADER }) as u64;
                    let newest = land(link, copies, memories, (&header, payload, from), self.newest, now)?;
                    self.newest = newest.unwrap_or(self.newest);
                    held.at = if newest.is_some() { records.at() } else { at };
                    newest.is_some()
                }
            };
            if !taken {
                return Ok(moved);
            }
            moved = true;
        }
        Ok(moved)
    }
}

/// One record: the copies that the next has to follow, or None where there is no room.
fn land(
    link: u32,
    copies: &mut Copies,
    memories: &Memories,
    (header, payload, from): (&Header, &[u8], DevPtr),
    newest: u64,
    now: &mut Vec<Landed>,
) -> Result<Option<u64>, String> {
    let (to, signal) = memories.bounds.incoming(header.bytes, header.target, header.signal)?;
    let landed = Landed { link, signal, ends: None };
    if header.bytes > 0 && memories.is_on_device(header.target.0) {
        let copy = MemCopy { from, to: to.expose_provenance() as DevPtr, bytes: header.bytes };
        return Ok(copies.land(copy, header.value, landed));
    }
    // The payload may come before what is under way; its signal may not.
    memories.bounds.land(&Header { signal: None, ..*header }, payload)?;
    Ok((signal.is_none() || follow(copies, newest, landed, now)).then_some(newest))
}

/// True if `landed` is done, or will be behind the copies `after`.
fn follow(copies: &mut Copies, after: u64, landed: Landed, now: &mut Vec<Landed>) -> bool {
    match copies.follow(after, landed) {
        Follow::Now(landed) => now.push(landed),
        Follow::Later => {}
        Follow::Full => return false,
    }
    true
}
