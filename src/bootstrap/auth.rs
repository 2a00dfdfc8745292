//! How two ends prove to each other that they hold the id's secret, without sending it: Noise NNpsk0 (noiseprotocol.org, revision 34) with
//! the secret as pre-shared key.
//!
//! ```text
//! client: GREETING   wire, role, key; e, sealed: Hello
//! server: ANSWER     e, ee
//! client: PROOF      sealed, empty
//! server: WELCOME    sealed, empty: so that a client that was dropped under load knows to come again
//! ```
//! A recorded GREETING can be sent again, but without the key in it no PROOF follows, and nothing happens before that. What follows between
//! machines is sealed with keys of this connection, and numbered. Within a machine the kernel joins the two ends of a Unix socket: frames
//! are plain there, since descriptors pass beside them.
#![forbid(unsafe_code)]

use super::route::{ROUTE_BYTES, Route};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use snow::{Builder, HandshakeState, StatelessTransportState};

/// Version of the wire: handshake and frames. Both ends must have the same.
pub const WIRE: u16 = 6;
const MAGIC: u32 = u32::from_le_bytes(*b"GINB");
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Bytes that a seal adds.
pub const TAG: usize = 16;
const E: usize = 32;
/// Wire, role and key, in the clear.
const CLEAR: usize = 24;
const HELLO: usize = 20 + ROUTE_BYTES;
/// Size of the head of what a server says first, in bytes: its kind.
pub const HEAD_BYTES: usize = 8;
/// Size of the client's first message.
pub const GREETING_BYTES: usize = CLEAR + E + HELLO + TAG;
/// Size of the server's answer, behind its head.
pub const ANSWER_BYTES: usize = E + TAG;
/// Size of the client's second message, and of the server's second.
pub const PROOF_BYTES: usize = TAG;

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

/// What the client's first message says.
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
    /// How long a rank that joins will wait for the others, in seconds.
    pub patience: u32,
    /// The client's process id, as it knows it.
    pub pid: u32,
    /// 1: the root also serves the first ranks of several blocks (`scalable`).
    pub firsts: u32,
    /// The client's process, and the machine of the rank that joins.
    pub route: Route,
}

/// Why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not ours at all, or a wrong proof.
    Unproved,
    /// Another version of the wire.
    Wire(u16),
}

/// What a server says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An answer follows.
    Answer,
    /// It serves no such communicator, or not yet.
    Unknown,
    /// It is crowded: come again.
    Busy,
    /// Not in this version; the head has the server's.
    WrongWire,
}

fn head(kind: u16) -> [u8; HEAD_BYTES] {
    let mut out = [0; HEAD_BYTES];
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

impl Verdict {
    /// The bytes that travel.
    pub fn encode(self) -> [u8; HEAD_BYTES] {
        head(match self {
            Verdict::Answer => 4,
            Verdict::Unknown => 5,
            Verdict::Busy => 6,
            Verdict::WrongWire => 7,
        })
    }

    /// From bytes of anybody.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Self, Refused> {
        match kind(bytes)? {
            4 => Ok(Verdict::Answer),
            5 => Ok(Verdict::Unknown),
            6 => Ok(Verdict::Busy),
            _ => Err(Refused::Unproved),
        }
    }
}

impl Hello {
    fn clear(&self) -> [u8; CLEAR] {
        let mut out = [0; CLEAR];
        out[..8].copy_from_slice(&head(match self.role {
            Role::Join => 1,
            Role::Link => 2,
            Role::Decline => 3,
        }));
        out[8..].copy_from_slice(&self.key);
        out
    }

    fn encode(&self) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        for (at, word) in [self.rank, self.n_ranks, self.patience, self.pid, self.firsts].into_iter().enumerate() {
            out[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        out[20..].copy_from_slice(&self.route.encode());
        out
    }

    fn decode(role: Role, key: Key, bytes: &[u8; HELLO]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[4 * at..][..4].try_into().expect("4 bytes"));
        Some(Self {
            role,
            key,
            rank: word(0),
            n_ranks: word(1),
            patience: word(2),
            pid: word(3),
            firsts: word(4),
            route: Route::decode(bytes[20..].try_into().expect("72 bytes"))?,
        })
    }
}

/// Why a client connects and to which communicator, as its GREETING says in the clear.
pub fn asked(greeting: &[u8; GREETING_BYTES]) -> Result<(Role, Key), Refused> {
    let role = match kind(greeting)? {
        1 => Role::Join,
        2 => Role::Link,
        3 => Role::Decline,
        _ => return Err(Refused::Unproved),
    };
    Ok((role, greeting[8..CLEAR].try_into().expect("16 bytes")))
}

fn noise<'a>(secret: &'a Secret, clear: &'a [u8]) -> Builder<'a> {
    let builder = Builder::new(NOISE.parse().expect("a pattern of Noise"));
    builder.psk(0, secret).and_then(|builder| builder.prologue(clear)).expect("set once")
}

/// A client that has greeted.
pub struct Greeted(HandshakeState);

/// The client's first message. None without random bytes.
pub fn greet(secret: &Secret, hello: &Hello) -> Option<(Greeted, [u8; GREETING_BYTES])> {
    let mut out = [0; GREETING_BYTES];
    let (clear, sealed) = out.split_at_mut(CLEAR);
    clear.copy_from_slice(&hello.clear());
    let mut state = noise(secret, clear).build_initiator().ok()?;
    state.write_message(&hello.encode(), sealed).ok()?;
    Some((Greeted(state), out))
}

impl Greeted {
    /// The server's answer proves it.
    pub fn answered(self, answer: &[u8; ANSWER_BYTES]) -> Result<Seal, Refused> {
        let mut state = self.0;
        state.read_message(answer, &mut []).map_err(|_| Refused::Unproved)?;
        state.into_stateless_transport_mode().map(Seal).map_err(|_| Refused::Unproved)
    }
}

/// The server's answer to who named a communicator of this secret. Nothing of the Hello counts before the PROOF.
pub fn answer(secret: &Secret, greeting: &[u8; GREETING_BYTES]) -> Result<(Hello, [u8; ANSWER_BYTES], Seal), Refused> {
    let (role, key) = asked(greeting)?;
    let (clear, sealed) = greeting.split_at(CLEAR);
    let mut state = noise(secret, clear).build_responder().map_err(|_| Refused::Unproved)?;
    let mut hello = [0; HELLO];
    state.read_message(sealed, &mut hello).map_err(|_| Refused::Unproved)?;
    let hello = Hello::decode(role, key, &hello).ok_or(Refused::Unproved)?;
    let mut out = [0; ANSWER_BYTES];
    state.write_message(&[], &mut out).map_err(|_| Refused::Unproved)?;
    let seal = state.into_stateless_transport_mode().map_err(|_| Refused::Unproved)?;
    Ok((hello, out, Seal(seal)))
}

/// The keys of one connection, one for each direction.
pub struct Seal(StatelessTransportState);

impl Seal {
    /// Appends `plain`, at most 65519 bytes of it, as message `number` of this end.
    pub fn seal(&self, number: u64, plain: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + plain.len() + TAG, 0);
        self.0.write_message(number, plain, &mut out[start..]).expect("it fits into a message of Noise");
    }

    /// Appends what message `number` of the other end says. False if it is not that.
    #[must_use]
    pub fn open(&self, number: u64, sealed: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(length) = sealed.len().checked_sub(TAG) else { return false };
        let start = out.len();
        out.resize(start + length, 0);
        self.0.read_message(number, sealed, &mut out[start..]).is_ok()
    }

    /// This end's proof that it has the keys: its message 0.
    pub fn proof(&self) -> [u8; PROOF_BYTES] {
        let mut out = Vec::with_capacity(TAG);
        self.seal(0, &[], &mut out);
        out.try_into().expect("a tag")
    }

    /// True for the other end's proof.
    pub fn proved(&self, proof: &[u8; PROOF_BYTES]) -> bool {
        self.open(0, proof, &mut Vec::new())
    }
}

/// `N` bytes that follow from the secret; different labels give independent ones.
pub fn derive<const N: usize>(secret: &Secret, label: &str) -> [u8; N] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key");
    mac.update(label.as_bytes());
    let all: [u8; 32] = mac.finalize().into_bytes().into();
    all[..N].try_into().expect("N is at most 32")
}

#[cfg(test)]
pub mod tests {
    use super::super::address::Address;
    use super::super::route::Doors;
    use super::*;
    use crate::process::random;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            role: Role::Join,
            key: [1; 16],
            rank: 3,
            n_ranks: 8,
            patience: 120,
            pid: 77,
            firsts: 0,
            route: Route {
                address: Address::Abstract([2; 16]),
                machine: 5,
                doors: Doors::of(["10.0.0.7:4000".parse().unwrap()]),
            },
        }
    }

    /// Both ends of one connection.
    pub fn seals() -> (Seal, Seal) {
        let (greeted, greeting) = greet(&[9; 32], &hello()).unwrap();
        let (_, words, server) = answer(&[9; 32], &greeting).unwrap();
        (greeted.answered(&words).unwrap(), server)
    }

    #[test]
    fn both_ends_prove_the_secret_and_neither_another_one() {
        let secret = random().unwrap();
        let (greeted, greeting) = greet(&secret, &hello()).unwrap();
        assert_eq!(asked(&greeting), Ok((Role::Join, [1; 16])));
        let (heard, words, server) = answer(&secret, &greeting).unwrap();
        assert_eq!(heard, hello());
        let client = greeted.answered(&words).unwrap();
        assert!(server.proved(&client.proof()) && client.proved(&server.proof()));
        // Neither end takes its own words back.
        assert!(!server.proved(&server.proof()) && !client.proved(&client.proof()));

        assert!(answer(&random().unwrap(), &greeting).is_err());
        let (greeted, greeting) = greet(&secret, &hello()).unwrap();
        let other = random().unwrap();
        assert!(
            greeted.answered(&answer(&secret, &greet(&secret, &hello()).unwrap().1).unwrap().1).is_err(),
            "another one's answer"
        );
        assert!(greet(&other, &hello()).is_some_and(|(_, theirs)| theirs != greeting && answer(&secret, &theirs).is_err()));
    }

    #[test]
    fn a_recorded_connection_is_worth_nothing_the_second_time() {
        let secret = random().unwrap();
        let (greeted, greeting) = greet(&secret, &hello()).unwrap();
        let (_, words, server) = answer(&secret, &greeting).unwrap();
        let client = greeted.answered(&words).unwrap();
        let (mut sealed, mut plain) = (Vec::new(), Vec::new());
        client.seal(1, b"a frame", &mut sealed);
        assert!(server.open(1, &sealed, &mut plain) && plain == b"a frame");
        let (_, _, again) = answer(&secret, &greeting).unwrap();
        assert!(!again.proved(&client.proof()) && !again.open(1, &sealed, &mut Vec::new()));
        // Nor out of its place.
        assert!(!server.open(2, &sealed, &mut Vec::new()) && !server.open(1, &sealed[..15], &mut Vec::new()));
    }

    #[test]
    fn another_wire_is_told_as_such() {
        let (_, mut bytes) = greet(&[0; 32], &hello()).unwrap();
        bytes[4] = 9;
        assert_eq!(asked(&bytes), Err(Refused::Wire(9)));
        for verdict in [Verdict::Answer, Verdict::Unknown, Verdict::Busy] {
            assert_eq!(Verdict::decode(&verdict.encode()), Ok(verdict));
        }
        assert_eq!(Verdict::decode(&[0; 8]), Err(Refused::Unproved));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_flipped_bit_is_refused(bit in 0..8 * GREETING_BYTES) {
            let secret = [7; 32];
            let (_, mut greeting) = greet(&secret, &hello()).unwrap();
            greeting[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(answer(&secret, &greeting).is_err());
        }

        #[test]
        fn no_bytes_break_the_server(bytes in proptest::array::uniform32(any::<u8>()), ours in any::<bool>()) {
            let mut message = [0; GREETING_BYTES];
            for (to, from) in message.iter_mut().zip(bytes.iter().cycle()) { *to = *from }
            if ours { message[..8].copy_from_slice(&head(1)) }
            prop_assert!(answer(&[7; 32], &message).is_err());
        }
    }
}
