//! How two ends prove to each other that they hold the id's secret, without sending it.
//!
//! ```text
//! client: HELLO      wire, role, key, rank, nRanks, own address, nonce, patience
//! server: CHALLENGE  nonce, HMAC(secret, "server", HELLO, nonce)
//! client: PROOF      HMAC(secret, "client", HELLO, nonce)
//! server: WELCOME    so that a client that was dropped under load knows to come again
//! ```
//! Each proof covers the whole HELLO and both nonces, so a recorded handshake is worth nothing against a fresh nonce, and
//! the two labels differ, so no end can be made to answer its own challenge. What follows on the connection is trusted
//! because the kernel joins the two ends of a Unix socket; a transport over wires must sign its frames with a key of the session.
#![forbid(unsafe_code)]

use super::address::Address;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Version of the wire: handshake and frames. Both ends must have the same.
pub const WIRE: u16 = 2;
const MAGIC: u32 = u32::from_le_bytes(*b"GINB");

/// Size of the client's first message, in bytes.
pub const HELLO_BYTES: usize = 100;
/// Size of the server's answer.
pub const CHALLENGE_BYTES: usize = 72;
/// Size of the client's second message.
pub const PROOF_BYTES: usize = 40;

/// Size of the server's last message.
pub const WELCOME_BYTES: usize = 8;

/// What ranks of one id share.
pub type Secret = [u8; 32];

/// Names a communicator to a process that may serve many. Derived from the secret, from which nobody can go back.
pub type Key = [u8; 16];

/// Why the client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A rank joins at the root.
    Join,
    /// A process of the communicator talks to another.
    Link,
    /// A rank cannot join, and tells the root why.
    Decline,
}

/// The client's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Why it connects.
    pub role: Role,
    /// Which communicator.
    pub key: Key,
    /// The rank that joins; for a link any rank of the process.
    pub rank: u32,
    /// How many ranks it believes there are.
    pub n_ranks: u32,
    /// Where the client's process listens.
    pub address: Address,
    /// Fresh random bytes.
    pub nonce: [u8; 32],
    /// How long a rank that joins will wait for the others, in seconds.
    pub patience: u32,
}

/// Why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not ours at all, or a wrong proof.
    Unproved,
    /// Another version of the wire.
    Wire(u16),
}

fn head(kind: u16) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[4..6].copy_from_slice(&WIRE.to_le_bytes());
    out[6..].copy_from_slice(&kind.to_le_bytes());
    out
}

/// The kind, if the head is ours.
fn kind(message: &[u8]) -> Result<u16, Refused> {
    let word = |at: usize| u16::from_le_bytes(message[at..at + 2].try_into().expect("2 bytes"));
    match message {
        m if m[..4] != MAGIC.to_le_bytes() => Err(Refused::Unproved),
        _ if word(4) != WIRE => Err(Refused::Wire(word(4))),
        _ => Ok(word(6)),
    }
}

impl Hello {
    /// The bytes that travel.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut out = [0; HELLO_BYTES];
        out[..8].copy_from_slice(&head(match self.role {
            Role::Join => 1,
            Role::Link => 2,
            Role::Decline => 3,
        }));
        out[8..24].copy_from_slice(&self.key);
        out[24..28].copy_from_slice(&self.rank.to_le_bytes());
        out[28..32].copy_from_slice(&self.n_ranks.to_le_bytes());
        out[32..64].copy_from_slice(&self.address.to_bytes());
        out[64..96].copy_from_slice(&self.nonce);
        out[96..].copy_from_slice(&self.patience.to_le_bytes());
        out
    }

    /// From bytes of anybody.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, Refused> {
        let role = match kind(bytes)? {
            1 => Role::Join,
            2 => Role::Link,
            3 => Role::Decline,
            _ => return Err(Refused::Unproved),
        };
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let address: &[u8; 32] = bytes[32..64].try_into().expect("32 bytes");
        Ok(Self {
            role,
            key: bytes[8..24].try_into().expect("16 bytes"),
            rank: word(24),
            n_ranks: word(28),
            address: Address::from_bytes(address).map_err(|_| Refused::Unproved)?,
            nonce: bytes[64..96].try_into().expect("32 bytes"),
            patience: word(96),
        })
    }
}

fn mac(secret: &Secret, label: &[u8], hello: &[u8; HELLO_BYTES], nonce: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key");
    mac.update(label);
    mac.update(hello);
    mac.update(nonce);
    mac
}

const SERVER: &[u8] = b"ginrs bootstrap server\0";
const CLIENT: &[u8] = b"ginrs bootstrap client\0";

/// The server's answer to `hello`.
pub fn challenge(secret: &Secret, hello: &[u8; HELLO_BYTES], nonce: &[u8; 32]) -> [u8; CHALLENGE_BYTES] {
    let mut out = [0; CHALLENGE_BYTES];
    out[..8].copy_from_slice(&head(3));
    out[8..40].copy_from_slice(nonce);
    out[40..].copy_from_slice(&mac(secret, SERVER, hello, nonce).finalize().into_bytes());
    out
}

/// The server's word that it took the proof.
pub fn welcome() -> [u8; WELCOME_BYTES] {
    head(6)
}

/// What a server of another wire version gets told: only our version.
pub fn wrong_wire() -> [u8; CHALLENGE_BYTES] {
    let mut out = [0; CHALLENGE_BYTES];
    out[..8].copy_from_slice(&head(5));
    out
}

/// What a crowded server tells whom it sends away unheard: come again.
pub fn busy() -> [u8; CHALLENGE_BYTES] {
    let mut out = [0; CHALLENGE_BYTES];
    out[..8].copy_from_slice(&head(7));
    out
}

/// The client's proof, once the server has proved itself.
pub fn prove(
    secret: &Secret,
    hello: &[u8; HELLO_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
) -> Result<[u8; PROOF_BYTES], Refused> {
    let nonce = &challenge[8..40];
    // verify_slice compares in constant time.
    if kind(challenge)? != 3 || mac(secret, SERVER, hello, nonce).verify_slice(&challenge[40..]).is_err() {
        return Err(Refused::Unproved);
    }
    let mut out = [0; PROOF_BYTES];
    out[..8].copy_from_slice(&head(4));
    out[8..].copy_from_slice(&mac(secret, CLIENT, hello, nonce).finalize().into_bytes());
    Ok(out)
}

/// True if `proof` answers the challenge that `nonce` was in.
pub fn proved(secret: &Secret, hello: &[u8; HELLO_BYTES], nonce: &[u8; 32], proof: &[u8; PROOF_BYTES]) -> bool {
    kind(proof) == Ok(4) && mac(secret, CLIENT, hello, nonce).verify_slice(&proof[8..]).is_ok()
}

/// `N` bytes that follow from the secret; different labels give independent ones.
pub fn derive<const N: usize>(secret: &Secret, label: &str) -> [u8; N] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key");
    mac.update(label.as_bytes());
    let all: [u8; 32] = mac.finalize().into_bytes().into();
    all[..N].try_into().expect("N is at most 32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::random;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            role: Role::Join,
            key: [1; 16],
            rank: 3,
            n_ranks: 8,
            address: Address::Abstract([2; 16]),
            nonce: random().unwrap(),
            patience: 120,
        }
    }

    #[test]
    fn both_ends_prove_the_secret_and_neither_another_one() {
        let (secret, nonce, hello) = (random().unwrap(), random().unwrap(), hello().encode());
        assert_eq!(Hello::decode(&hello).unwrap().encode(), hello);
        let challenge = challenge(&secret, &hello, &nonce);
        let proof = prove(&secret, &hello, &challenge).unwrap();
        assert!(proved(&secret, &hello, &nonce, &proof));
        assert_eq!(prove(&random().unwrap(), &hello, &challenge), Err(Refused::Unproved));
        assert!(!proved(&random().unwrap(), &hello, &nonce, &proof));
    }

    #[test]
    fn a_recorded_proof_fails_against_a_fresh_nonce_and_a_challenge_is_no_proof() {
        let (secret, nonce, hello) = (random().unwrap(), random().unwrap(), hello().encode());
        let asked = challenge(&secret, &hello, &nonce);
        let proof = prove(&secret, &hello, &asked).unwrap();
        assert!(!proved(&secret, &hello, &random().unwrap(), &proof));
        let mut reflected = proof;
        reflected[8..].copy_from_slice(&asked[40..]);
        assert!(!proved(&secret, &hello, &nonce, &reflected));
    }

    #[test]
    fn another_wire_is_told_as_such() {
        let mut bytes = hello().encode();
        bytes[4] = 9;
        assert_eq!(Hello::decode(&bytes), Err(Refused::Wire(9)));
        assert_eq!(prove(&[0; 32], &bytes, &wrong_wire()), Err(Refused::Unproved));
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_refused(bit in 0..8 * (HELLO_BYTES + PROOF_BYTES)) {
            let (secret, nonce, mut hello) = ([7; 32], [8; 32], hello().encode());
            let mut proof = prove(&secret, &hello, &challenge(&secret, &hello, &nonce)).unwrap();
            let (byte, mask) = (bit / 8, 1 << (bit % 8));
            if byte < HELLO_BYTES { hello[byte] ^= mask } else { proof[byte - HELLO_BYTES] ^= mask }
            prop_assert!(!proved(&secret, &hello, &nonce, &proof));
        }

        #[test]
        fn no_bytes_break_the_decoder(bytes in proptest::array::uniform32(any::<u8>()), ours in any::<bool>()) {
            let mut message = [0; HELLO_BYTES];
            for (to, from) in message.iter_mut().zip(bytes.iter().cycle()) { *to = *from }
            if ours { message[..8].copy_from_slice(&head(1)) }
            let _ = Hello::decode(&message);
        }
    }
}
