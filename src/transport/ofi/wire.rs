//! What goes through a link, apart from writes. A message: its number on the link, then records, each a header and its payload.
//! Back come words: how much of what was sent has landed, or why no more will.
#![forbid(unsafe_code)]

use crate::transport::remote::Header;

/// Bytes of a message at most.
pub(super) const MESSAGE: usize = 16 << 10;
/// Bytes of a payload that goes in a message, not in a write of its own.
pub(super) const SMALL: u64 = 2 << 10;
/// The same where there are no writes.
pub(super) const ALL: u64 = 8 << 10;
/// Bytes of a header.
pub(super) const HEADER: usize = 48;
/// Where in a header the value stands.
pub(super) const VALUE: usize = 40;
/// Bytes of a message's number, of a word.
pub(super) const NUMBER: usize = 8;
/// In a message's number: its sender waits until all has landed, and wants to be told at once.
pub(super) const PROMPT: u64 = 1 << 63;
/// The same: it was sent behind the target's [`ASKED`].
pub(super) const ANSWER: u64 = 1 << 62;
/// In place of a number of landed messages: the target wants a message that says [`ANSWER`].
pub(super) const ASKED: u64 = u64::MAX - 2;
/// The same: the target has left, and whatever is sent counts as landed.
pub(super) const LEFT: u64 = u64::MAX;
/// The same: the target has aborted and lands nothing more.
pub(super) const ABORTED: u64 = u64::MAX - 1;

/// True if the message says `flag`.
pub(super) fn says(message: &[u8], flag: u64) -> bool {
    message.first_chunk().is_some_and(|number| u64::from_le_bytes(*number) & flag != 0)
}

/// Bytes of a record.
pub(super) fn room(payload: usize) -> usize {
    HEADER + payload.next_multiple_of(8)
}

/// Writes a record's header at the start of `into`.
pub(super) fn put_header(into: &mut [u8], header: &Header) {
    for (to, word) in into[..HEADER].chunks_exact_mut(8).zip(header.encode()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

/// The records of a message.
pub(super) struct Records<'a> {
    message: &'a [u8],
    at: usize,
    most: u64,
}

impl<'a> Records<'a> {
    /// Of message `number`, whose payloads have at most so many bytes; if it cannot be that, why not.
    pub fn of(message: &'a [u8], number: u64, most: u64) -> Result<Self, String> {
        match message.first_chunk::<NUMBER>() {
            Some(said) if u64::from_le_bytes(*said) & !(PROMPT | ANSWER) == number => Ok(Self::from(message, NUMBER, most)),
            Some(said) => Err(format!("it is number {}, expected was {number}", u64::from_le_bytes(*said))),
            None => Err(format!("it has {} bytes", message.len())),
        }
    }

    /// Those from byte `at` on.
    pub fn from(message: &'a [u8], at: usize, most: u64) -> Self {
        Self { message, at, most }
    }

    /// Where the next one begins, with its header.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(Header, &'a [u8]), String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.message.get(self.at..).filter(|rest| !rest.is_empty())?;
        let parsed = parse(rest, self.most);
        self.at = self.message.len() - parsed.as_ref().map_or(0, |(.., rest)| rest.len());
        Some(parsed.map(|(header, payload, _)| (header, payload)).ok_or_else(|| "its records make no sense".into()))
    }
}

fn parse(bytes: &[u8], most: u64) -> Option<(Header, &[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let (words, _) = header.as_chunks::<8>();
    let header = Header::decode(std::array::from_fn(|i| u64::from_le_bytes(words[i])), most)?;
    let payload = if header.value.is_some() { 0 } else { header.bytes as usize };
    let (record, rest) = rest.split_at_checked(payload.next_multiple_of(8))?;
    Some((header, &record[..payload], rest))
}

/// Reads a message of anybody: its records lie within it, whatever number it has.
pub(super) fn fuzz(message: &[u8]) {
    let number = message.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes) & !(PROMPT | ANSWER));
    let mut seen = 0;
    for (header, payload) in Records::of(message, number, SMALL).into_iter().flatten().map_while(Result::ok) {
        assert!(header.value.is_some() || header.bytes as usize == payload.len());
        seen += room(payload.len());
    }
    assert!(seen <= message.len());
}

/// A write's data: the signal that it raises by one, and under which number the target knows the link, where there is room.
pub(super) fn immediate(wide: bool, link: u32, signal: Option<u64>) -> u64 {
    let signal = signal.map_or(0, |offset| offset / 8 + 1);
    if wide { u64::from(link) << 32 | signal } else { signal }
}

/// True if the signal at `offset` can stand in a write's data.
pub(super) fn fits(offset: u64) -> bool {
    offset.is_multiple_of(8) && offset / 8 < u64::from(u32::MAX)
}

/// The signal's offset, out of a write's data.
pub(super) fn signal_of(data: u64) -> Option<u64> {
    (data as u32).checked_sub(1).map(|index| u64::from(index) * 8)
}

/// The link, out of a write's data.
pub(super) fn link_of(data: u64) -> u32 {
    (data >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_survive_the_way(payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..8), number in 0..ANSWER) {
            let mut message = number.to_le_bytes().to_vec();
            for (i, payload) in payloads.iter().enumerate() {
                let header = Header { bytes: payload.len() as u64, value: None, target: (7, i as u64), signal: Some((8, i as u64)) };
                let begin = message.len();
                message.resize(begin + room(payload.len()), 0);
                put_header(&mut message[begin..], &header);
                message[begin + HEADER..][..payload.len()].copy_from_slice(payload);
            }
            let read: Vec<_> = Records::of(&message, number, SMALL).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), payloads.len());
            for ((i, payload), (header, got)) in payloads.iter().enumerate().zip(read) {
                prop_assert_eq!(&payload[..], got);
                prop_assert_eq!(header.target, (7, i as u64));
            }
            prop_assert!(Records::of(&message, number.wrapping_add(1), SMALL).is_err());
        }

        #[test]
        fn garbage_is_records_within_it_or_an_error(message: Vec<u8>) {
            fuzz(&message);
        }

        #[test]
        fn data_of_a_write(link: u32, index in 0..u32::MAX - 1) {
            let offset = u64::from(index) * 8;
            prop_assert!(fits(offset));
            let data = immediate(true, link, Some(offset));
            prop_assert_eq!((link_of(data), signal_of(data)), (link, Some(offset)));
            prop_assert_eq!(signal_of(immediate(false, link, Some(offset))), Some(offset));
            prop_assert_eq!(signal_of(immediate(true, link, None)), None);
        }
    }
}
