//! How the two ends of a connection prove to each other that they know the communicator's secret, in the data that come with it; or in a
//! message, where there are no connections: then its sender's address and key are its origin.
//!
//! | bytes | from -> to | with |
//! |---|---|---|
//! | rank, stream, nonce, HMAC(secret, "dial", target's nonce, ranks, stream, nonce, origin) | sender -> target | the request |
//! | link, HMAC(secret, "answer", both nonces, ranks, stream, link) | target -> sender | the acceptance |
//!
//! The target's nonce stands in its words, which only ranks have heard. So what is overheard at one listener serves at no other, and
//! a listener lets each (rank, stream) in once.
#![forbid(unsafe_code)]

use super::random;
use crate::error::Result;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of the request's data, and of the answer's.
pub(super) const HELLO: usize = 40;
pub(super) const ANSWER: usize = 20;
/// Bytes of an HMAC that are sent: 128 bits, because verbs has room for few.
const MAC: usize = 16;

/// What both ends know beforehand.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub secret: [u8; 32],
    /// The target's, out of its words.
    pub target_nonce: [u8; 16],
    pub sender: u32,
    pub target: u32,
    pub stream: u32,
}

impl Ends {
    /// Of an answer that names `link`, or a request from `origin`.
    fn mac(&self, label: &[u8], nonce: &[u8; 16], link: u32, origin: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("any length is a key");
        mac.update(label);
        mac.update(&self.target_nonce);
        [self.sender, self.target, self.stream, link].iter().for_each(|word| mac.update(&word.to_le_bytes()));
        mac.update(nonce);
        mac.update(origin);
        mac
    }

    /// The sender's request, and its nonce. `origin`: what goes beside it, of a request without a connection.
    pub fn hello(&self, origin: &[u8]) -> Result<([u8; HELLO], [u8; 16])> {
        let nonce = random::<16>()?;
        let mut hello = [0; HELLO];
        hello[..4].copy_from_slice(&self.sender.to_le_bytes());
        hello[4..8].copy_from_slice(&self.stream.to_le_bytes());
        hello[8..24].copy_from_slice(&nonce);
        hello[24..].copy_from_slice(&self.mac(b"dial", &nonce, 0, origin).finalize().into_bytes()[..MAC]);
        Ok((hello, nonce))
    }

    /// The target's answer to the request with `nonce`: from now on the sender calls the link `link`.
    pub fn answer(&self, nonce: &[u8; 16], link: u32) -> [u8; ANSWER] {
        let mut answer = [0; ANSWER];
        answer[..4].copy_from_slice(&link.to_le_bytes());
        answer[4..].copy_from_slice(&self.mac(b"answer", nonce, link, &[]).finalize().into_bytes()[..MAC]);
        answer
    }

    /// What the target calls the link; None if it is not the target.
    pub fn answered(&self, nonce: &[u8; 16], said: &[u8]) -> Option<u32> {
        let (link, mac) = said.get(..ANSWER)?.split_first_chunk()?;
        let link = u32::from_le_bytes(*link);
        self.mac(b"answer", nonce, link, &[]).verify_truncated_left(mac).ok()?;
        Some(link)
    }
}

/// A request as it came: who it says it is.
pub(super) struct Hello<'a> {
    pub sender: u32,
    pub stream: u32,
    pub nonce: [u8; 16],
    mac: &'a [u8],
}

impl<'a> Hello<'a> {
    /// None for what no rank sends. Providers may pad.
    pub fn decode(said: &'a [u8]) -> Option<Self> {
        let (sender, rest) = said.get(..HELLO)?.split_first_chunk()?;
        let (stream, rest) = rest.split_first_chunk()?;
        let (nonce, mac) = rest.split_first_chunk()?;
        Some(Self { sender: u32::from_le_bytes(*sender), stream: u32::from_le_bytes(*stream), nonce: *nonce, mac })
    }

    /// True if it knows the secret of `ends`, and is for them and from `origin`.
    pub fn proves(&self, ends: &Ends, origin: &[u8]) -> bool {
        (self.sender, self.stream) == (ends.sender, ends.stream)
            && ends.mac(b"dial", &self.nonce, 0, origin).verify_truncated_left(self.mac).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENDS: Ends = Ends { secret: [7; 32], target_nonce: [9; 16], sender: 3, target: 5, stream: 2 };

    #[test]
    fn both_ends_prove_it() {
        let (hello, nonce) = ENDS.hello(&[]).unwrap();
        assert!(Hello::decode(&hello).unwrap().proves(&ENDS, &[]));
        assert!(!Hello::decode(&hello).unwrap().proves(&ENDS, b"elsewhere"));
        assert_eq!(ENDS.answered(&nonce, &ENDS.answer(&nonce, 77)), Some(77));
    }

    /// Neither another secret, listener, rank nor stream, nor a message sent back.
    #[test]
    fn it_serves_nowhere_else() {
        let (hello, nonce) = ENDS.hello(&[]).unwrap();
        let others = [
            Ends { secret: [8; 32], ..ENDS },
            Ends { target_nonce: [8; 16], ..ENDS },
            Ends { sender: 5, target: 3, ..ENDS },
            Ends { target: 4, ..ENDS },
            Ends { stream: 1, ..ENDS },
        ];
        for other in others {
            assert!(!Hello::decode(&hello).unwrap().proves(&other, &[]));
            assert_eq!(ENDS.answered(&nonce, &other.answer(&nonce, 1)), None);
        }
        assert_eq!(ENDS.answered(&nonce, &hello[20..]), None);
        assert_eq!(ENDS.answered(&[0; 16], &ENDS.answer(&nonce, 1)), None);
    }

    proptest! {
        #[test]
        fn garbage_proves_nothing(said: Vec<u8>, at in 0..HELLO, flip in 1..=255u8) {
            prop_assert!(Hello::decode(&said).is_none_or(|hello| !hello.proves(&ENDS, &[])));
            prop_assert_eq!(ENDS.answered(&[1; 16], &said), None);
            let (mut hello, _) = ENDS.hello(&[]).unwrap();
            hello[at] ^= flip;
            prop_assert!(!Hello::decode(&hello).unwrap().proves(&ENDS, &[]));
        }
    }
}
