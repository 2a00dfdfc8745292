//! Bytes between machines: sealed messages, `u16 length, sealed bytes` each, numbered from 1 in each direction. One that was changed,
//! left out, repeated or sent twice ends the connection.
#![forbid(unsafe_code)]

use super::auth::{Seal, TAG};
use std::sync::Arc;

/// Most plain bytes of a message: what Noise allows.
const MOST: usize = u16::MAX as usize - TAG;

/// `bytes` as messages behind message `number`.
pub fn seal(seal: &Seal, number: &mut u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + (2 + TAG) * bytes.len().div_ceil(MOST));
    for part in bytes.chunks(MOST) {
        *number += 1;
        out.extend(((part.len() + TAG) as u16).to_le_bytes());
        seal.seal(*number, part, &mut out);
    }
    out
}

/// The other direction.
pub struct Opener {
    seal: Arc<Seal>,
    number: u64,
    /// The beginning of a message whose end has not arrived.
    bytes: Vec<u8>,
}

impl Opener {
    pub fn new(seal: Arc<Seal>) -> Self {
        Self { seal, number: 0, bytes: Vec::new() }
    }

    /// Appends what the messages that are whole now say. False: they are not the other end's, and no more will be.
    #[must_use]
    pub fn open(&mut self, arrived: &[u8], out: &mut Vec<u8>) -> bool {
        self.bytes.extend_from_slice(arrived);
        let mut at = 0;
        while let Some(head) = self.bytes[at..].first_chunk() {
            let end = at + 2 + usize::from(u16::from_le_bytes(*head));
            let Some(message) = self.bytes.get(at + 2..end) else { break };
            self.number += 1;
            if !self.seal.open(self.number, message, out) {
                return false;
            }
            at = end;
        }
        self.bytes.drain(..at);
        self.bytes.shrink_to(4096);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::auth::tests::seals;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn bytes_come_back_however_they_are_cut(length in 0usize..200_000, cut in 1usize..70_000) {
            let (client, server) = seals();
            let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let (mut number, mut out) = (0, Vec::new());
            let sealed = seal(&client, &mut number, &bytes);
            let mut opener = Opener::new(Arc::new(server));
            prop_assert!(sealed.chunks(cut).all(|part| opener.open(part, &mut out)));
            prop_assert_eq!(out, bytes);
            prop_assert!(opener.bytes.is_empty());
        }

        #[test]
        fn any_changed_bit_ends_it(bit in 0usize..8 * 300) {
            let (client, server) = seals();
            let mut number = 0;
            let mut sealed = seal(&client, &mut number, &[7; 100]);
            sealed.extend(seal(&client, &mut number, &[8; 200]));
            sealed[bit / 8] ^= 1 << (bit % 8);
            let mut opener = Opener::new(Arc::new(server));
            let mut out = Vec::new();
            // A larger length waits for more, which then does not open either.
            sealed.resize(sealed.len() + 70_000, 0);
            prop_assert!(!opener.open(&sealed, &mut out));
        }
    }

    #[test]
    fn a_message_that_is_repeated_or_left_out_ends_it() {
        let (client, server) = seals();
        let server = Arc::new(server);
        let mut number = 0;
        let [first, second] = [b"one", b"two"].map(|bytes| seal(&client, &mut number, bytes));
        let mut out = Vec::new();
        assert!(!Opener::new(server.clone()).open(&[first.clone(), first].concat(), &mut out));
        assert!(!Opener::new(server).open(&second, &mut out));
    }
}
