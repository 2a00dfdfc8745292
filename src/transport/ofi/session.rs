//! Connections over an endpoint that has none (FI_EP_RDM: efa, cxi). Every message begins with an envelope: for which link it is, the
//! key that the other end of that link was given, and its number there. What does not know the key is dropped and nobody answers.
//!
//! | kind | payload | what it is |
//! |---|---|---|
//! | DIAL | origin, hello | a sender asks for a link; it bears no key, and its hello proves who it is (`proof`) |
//! | ANSWER | link, key, answer | the target has let it in |
//! | MESSAGE | the message | number n of the link |
//! | WROTE | data | number n of the link is a write, whose payload has landed if the provider keeps writes and messages in order, or |
//! | | | if the write's own data have come ([`marker`]) |
//! | BYE | | the other end has gone |
//! | PROBE, SENT | | everything below number n has been sent: what does not come by and by is lost; a PROBE wants the same back |
//!
//! DIAL and ANSWER may be lost as anything: a sender dials again while it is not answered, and a target that has let it in answers again.
//!
//! Numbers count messages and writes of one direction; what comes ahead of its turn is held. A write's own data say no more than that
//! it has come: anybody who reaches the endpoint can write nothing, with any data, to any key, so what counts is the message behind it.
#![forbid(unsafe_code)]

use super::random_key;
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Bytes of an envelope.
pub(super) const ENVELOPE: usize = 24;
/// Bytes of a DIAL's origin ahead of the address: link and key.
pub(super) const ORIGIN: usize = 12;
/// More than this ahead of its turn nothing can be: twice what a sender may have under way, and words.
const AHEAD: u64 = 1024;
/// Bits of a marker that number the write; as many above them name the link.
const NUMBER_BITS: u32 = 12;
const LINK_BITS: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Dial = 0x6772_6400,
    Answer,
    Message,
    Wrote,
    Bye,
    Probe,
    Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub key: u64,
    /// What the receiver calls the link.
    pub link: u32,
    pub kind: Kind,
    pub number: u64,
}

impl Envelope {
    pub fn encode(&self) -> [u8; ENVELOPE] {
        let mut bytes = [0; ENVELOPE];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.link.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[16..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// And what is behind it; None for what no rank sends.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (envelope, payload) = bytes.split_first_chunk::<ENVELOPE>()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| envelope[at + i]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let kinds = [Kind::Dial, Kind::Answer, Kind::Message, Kind::Wrote, Kind::Bye, Kind::Probe, Kind::Sent];
        let kind = kinds.into_iter().find(|kind| *kind as u32 == word(12))?;
        Some((Self { key: long(0), link: word(8), kind, number: long(16) }, payload))
    }
}

/// Link and key, as an origin or an answer begins with them; and the rest.
pub(super) fn origin(bytes: &[u8]) -> Option<(u32, u64, &[u8])> {
    let (link, rest) = bytes.split_first_chunk()?;
    let (key, rest) = rest.split_first_chunk()?;
    Some((u32::from_le_bytes(*link), u64::from_le_bytes(*key), rest))
}

pub(super) fn put_origin(link: u32, key: u64) -> [u8; ORIGIN] {
    let mut bytes = [0; ORIGIN];
    bytes[..4].copy_from_slice(&link.to_le_bytes());
    bytes[4..].copy_from_slice(&key.to_le_bytes());
    bytes
}

/// The data of write `number` of the link that the target calls `link`: with half of its key, where they have 8 bytes. None: too many
/// links for 4 bytes.
pub(super) fn marker(wide: bool, link: u32, key: u64, number: u64) -> Option<u64> {
    let low = u64::from(link) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1);
    (link < 1 << LINK_BITS).then_some(if wide { key << 32 | low } else { low })
}

/// The link that a marker names.
pub(super) fn marked_link(data: u64) -> u32 {
    data as u32 >> NUMBER_BITS
}

/// What comes over a link, in its turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Message(Vec<u8>),
    /// A write has landed, with these data.
    Wrote(u64),
    Bye,
}

/// One end of a link.
pub(super) struct Session {
    /// The other end in the address vector.
    pub peer: u64,
    /// The link and the key that it wants in messages to it: None until it has answered.
    pub theirs: Option<(u32, u64)>,
    /// What messages from it have.
    pub key: u64,
    /// Its answer has been looked at: messages may be handed on.
    pub open: bool,
    /// The next number to send, and to hand on.
    sent: u64,
    next: u64,
    held: BTreeMap<u64, Arrival>,
    /// Writes whose data have come; None where the order says it.
    marks: Option<BTreeSet<u64>>,
    /// Numbers below this one have been sent, the other end says.
    told: u64,
    /// The other end has said that it is gone.
    pub parted: bool,
    /// Since when which number has been missing.
    missing: Option<(Instant, u64)>,
    /// When the other end was asked last.
    asked: Option<Instant>,
}

impl Session {
    pub fn new(peer: u64, marked: bool) -> Result<Self> {
        let key = random_key()?;
        let marks = marked.then(BTreeSet::new);
        Ok(Self {
            peer,
            theirs: None,
            key,
            open: false,
            sent: 0,
            next: 0,
            held: BTreeMap::new(),
            marks,
            told: 0,
            parted: false,
            missing: None,
            asked: None,
        })
    }

    /// The envelope of the next message to the other end; None before it has answered.
    pub fn envelope(&mut self, kind: Kind) -> Option<Envelope> {
        let (link, key) = self.theirs?;
        self.sent += 1;
        Some(Envelope { key, link, kind, number: self.sent - 1 })
    }

    /// The message was not sent.
    pub fn take_back(&mut self) {
        self.sent -= 1;
    }

    /// The number of the next message or write.
    pub fn number(&self) -> u64 {
        self.sent
    }

    /// Something with the right key has come; false if it cannot be.
    pub fn arrived(&mut self, number: u64, arrival: Arrival) -> bool {
        if number >= self.next && number - self.next < AHEAD {
            self.held.entry(number).or_insert(arrival);
            return true;
        }
        false
    }

    /// A write's own data have come.
    pub fn marked(&mut self, wide: bool, data: u64) {
        let Some(marks) = &mut self.marks else { return };
        if wide && (data >> 32) as u32 != self.key as u32 {
            return;
        }
        let behind = (data as u32 as u64).wrapping_sub(self.next) & ((1 << NUMBER_BITS) - 1);
        if behind < AHEAD {
            marks.insert(self.next + behind);
        }
    }

    /// What is next, if it has come; `room`: a message can be taken.
    pub fn next(&mut self, room: bool) -> Option<Arrival> {
        let entry = self.held.first_entry().filter(|_| self.open)?;
        let come = *entry.key() == self.next;
        let may = come
            && match entry.get() {
                Arrival::Message(_) => room,
                Arrival::Wrote(_) => self.marks.as_mut().is_none_or(|marks| marks.remove(&self.next)),
                Arrival::Bye => true,
            };
        if !may {
            return None;
        }
        self.next += 1;
        let arrival = entry.remove();
        self.parted |= arrival == Arrival::Bye;
        Some(arrival)
    }

    /// The other end has sent everything below `number`.
    pub fn probed(&mut self, number: u64) {
        self.told = self.told.max(number);
    }

    /// Something that was sent has not come for so long; `room`: a message could be taken.
    pub fn has_lost(&mut self, room: bool, patience: Duration) -> bool {
        let waits = !room && matches!(self.held.get(&self.next), Some(Arrival::Message(_)));
        if !self.open || waits || self.held.is_empty() && self.told <= self.next {
            self.missing = None;
            return false;
        }
        match self.missing {
            Some((since, number)) if number == self.next => since.elapsed() > patience,
            _ => {
                self.missing = Some((Instant::now(), self.next));
                false
            }
        }
    }

    /// Time to say how much was sent, and to ask the same, for what is lost at the end has nothing behind it that shows it; or to dial
    /// again. Called while something is waited for.
    pub fn is_due(&mut self, pause: Duration) -> bool {
        let now = Instant::now();
        let due = self.asked.is_some_and(|at| now - at > pause);
        if due || self.asked.is_none() {
            self.asked = Some(now);
        }
        due
    }

    /// How much was sent.
    pub fn sent(&self, kind: Kind) -> Option<Envelope> {
        self.theirs.map(|(link, key)| Envelope { key, link, kind, number: self.sent })
    }

    /// Nothing is missing.
    pub fn is_still(&self) -> bool {
        self.held.is_empty() && self.told <= self.next
    }
}

/// A message of a stranger.
pub(super) fn fuzz(bytes: &[u8]) {
    if let Some((envelope, payload)) = Envelope::decode(bytes) {
        assert_eq!(envelope.encode(), bytes[..ENVELOPE]);
        let _ = origin(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: u64 = 0x0123_4567_89ab_cdef;

    fn session(marked: bool) -> Session {
        Session { theirs: Some((3, 4)), open: true, key: KEY, ..Session::new(0, marked).unwrap() }
    }

    fn drain(session: &mut Session) -> Vec<u64> {
        std::iter::from_fn(|| session.next(true))
            .map(|arrival| match arrival {
                Arrival::Message(bytes) => u64::from(bytes[0]),
                Arrival::Wrote(data) => data,
                Arrival::Bye => 0,
            })
            .collect()
    }

    proptest! {
        /// Messages, writes' words and writes' data come in any order, twice, and mixed with what was made up: all is handed on once, in
        /// its order, no write before its data.
        #[test]
        fn any_order_becomes_the_order(seed: u64, writes: [bool; 40], wide: bool, noise: Vec<u64>) {
            let mut session = session(true);
            let mut coming: Vec<(u64, bool)> = (0..40).map(|n| (n, false)).collect();
            coming.extend((0..40).filter(|n| writes[*n as usize]).map(|n| (n, true)));
            coming.extend_from_within(..20);
            let mut state = seed;
            for i in (1..coming.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                coming.swap(i, (state >> 33) as usize % (i + 1));
            }
            let (mut heard, mut marks) = (Vec::new(), BTreeSet::new());
            for (number, is_mark) in coming {
                if is_mark {
                    session.marked(wide, marker(wide, 7, KEY, number).unwrap());
                    marks.insert(number);
                } else {
                    let is_write = writes[number as usize];
                    session.arrived(number, if is_write { Arrival::Wrote(number) } else { Arrival::Message(vec![number as u8]) });
                }
                if wide {
                    noise.iter().for_each(|data| session.marked(true, *data & u64::from(u32::MAX)));
                }
                heard.extend(drain(&mut session));
                prop_assert!(heard.iter().all(|n| !writes[*n as usize] || marks.contains(n)), "{:?} before its data", heard.last());
            }
            prop_assert_eq!(heard, (0..40).collect::<Vec<u64>>());
            prop_assert!(session.held.is_empty());
        }

        #[test]
        fn an_envelope_survives_the_way(key: u64, link: u32, number: u64, payload: Vec<u8>) {
            let envelope = Envelope { key, link, kind: Kind::Wrote, number };
            let bytes = [&envelope.encode()[..], &payload].concat();
            prop_assert_eq!(Envelope::decode(&bytes), Some((envelope, &payload[..])));
        }

        #[test]
        fn garbage_is_within_bounds(bytes: Vec<u8>) {
            fuzz(&bytes);
        }

        #[test]
        fn a_marker_names_its_link(wide: bool, link in 0..1u32 << LINK_BITS, number: u64) {
            prop_assert_eq!(marked_link(marker(wide, link, KEY, number).unwrap()), link);
        }
    }

    /// However much somebody sends who has a key: what is held is bounded.
    #[test]
    fn what_is_ahead_is_bounded() {
        let mut session = session(true);
        for number in 1..100_000 {
            assert_eq!(session.arrived(number, Arrival::Bye), number < AHEAD);
            session.marked(false, number);
        }
        assert!(session.held.len() < AHEAD as usize && session.marks.unwrap().len() <= AHEAD as usize);
        assert_eq!(marker(false, 1 << LINK_BITS, KEY, 0), None);
    }

    #[test]
    fn a_message_waits_for_room_and_for_the_answer() {
        let mut session = session(false);
        session.open = false;
        session.arrived(0, Arrival::Message(vec![1]));
        assert_eq!(session.next(true), None);
        session.open = true;
        assert_eq!(session.next(false), None);
        assert_eq!(session.next(true), Some(Arrival::Message(vec![1])));
    }
}
