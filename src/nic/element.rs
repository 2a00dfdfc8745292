//! A work queue element: 64 bytes to what is to be done.
//!
//! ```text
//! bytes  0..15  control: opcode modifier << 24 | index << 8 | opcode; queue number << 8 | segments; flags; immediate
//! WRITE 16..31  remote address: address, key, 0
//!       32..47  data: bytes, key, address; or 2^31 | bytes, and the bytes themselves, up to byte 63
//! ADD   16..31  remote address
//!       32..47  operand, compare
//!       48..63  data: where the old value goes
//! WAIT  16..31  0; index of the element that is waited for, number of its completion queue
//! ```

use super::completion::Syndrome;
use super::slot::WORDS;

/// Bytes behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From the start of what was registered.
    pub address: u64,
    /// Names it.
    pub key: u32,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Nothing.
    Nop,
    /// `bytes` from here to there.
    Write {
        /// At the other side.
        to: Place,
        /// At this one.
        from: Place,
        /// How many: 31 bits.
        bytes: u32,
    },
    /// The element's own bytes.
    WriteInline {
        /// At the other side.
        to: Place,
        /// Those that count, and zeros.
        data: [u8; INLINE_MOST],
        /// How many.
        bytes: u32,
    },
    /// Adds to 8 bytes there; their old value goes to `answer`.
    FetchAdd {
        /// At the other side.
        to: Place,
        /// Addend.
        add: u64,
        /// At this one.
        answer: Place,
    },
    /// Nothing behind it before that element is complete.
    Wait {
        /// Number of a completion queue.
        queue: u32,
        /// The low 32 bits of an index.
        index: u32,
    },
}

impl std::fmt::Display for Element {
    /// In mlx5's terms.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Nop => write!(f, "NOP"),
            Self::Write { to, from, bytes } => {
                let (raddr, rkey, laddr, lkey) = (to.address, to.key, from.address, from.key);
                write!(f, "RDMA_WRITE raddr {raddr:#x} rkey {rkey:#x} laddr {laddr:#x} lkey {lkey:#x} bytes {bytes:#x}")
            }
            Self::WriteInline { to: Place { address, key }, data, bytes } => {
                write!(f, "RDMA_WRITE raddr {address:#x} rkey {key:#x} inline 0x")?;
                data[..*bytes as usize].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, " bytes {bytes:#x}")
            }
            Self::FetchAdd { to: Place { address, key }, add, answer } => {
                write!(f, "ATOMIC_FA raddr {address:#x} rkey {key:#x} add {add:#x} lkey {:#x}", answer.key)
            }
            Self::Wait { queue, index } => write!(f, "WAIT cqn {queue:#x} index {index:#x}"),
        }
    }
}

/// Why an element makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It says that it is another's.
    Index {
        /// What it says.
        says: u16,
        /// Which it is.
        is: u16,
    },
    /// It says that it is of another queue.
    Queue {
        /// What it says.
        says: u32,
        /// Which it is in.
        is: u32,
    },
    /// An opcode of the device, or with a modifier, that is not modelled.
    Opcode(u32),
    /// Segments that do not fit the opcode.
    Segments {
        /// Opcode.
        opcode: u8,
        /// How many.
        segments: u8,
    },
    /// So many bytes where they cannot be.
    Bytes(u32),
}

impl Misfit {
    /// What a card would say.
    pub fn syndrome(self) -> Syndrome {
        Syndrome::LocalOperation
    }
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Index { says, is } => write!(f, "the element says index {says:#x}, its place is that of {is:#x}"),
            Self::Queue { says, is } => write!(f, "the element says queue {says:#x}, it is in {is:#x}"),
            Self::Opcode(opcode) => write!(f, "opcode {opcode:#x} is not modelled (NOP, RDMA WRITE, FETCH ADD and WAIT are)"),
            Self::Segments { opcode, segments } => write!(f, "opcode {opcode:#x} with {segments} segments"),
            Self::Bytes(bytes) => write!(f, "{bytes:#x} bytes"),
        }
    }
}

const NOP: u8 = 0x00;
/// Opcode of a write.
pub const RDMA_WRITE: u8 = 0x08;
const WAIT: u8 = 0x0f;
const FETCH_ADD: u8 = 0x12;
/// In the byte count of a segment: the bytes follow.
pub const INLINE: u32 = 1 << 31;

/// Most bytes that follow.
pub const INLINE_MOST: usize = 28;

/// What follows in an element with inline data: as many bytes as there can be.
pub fn data(words: &[u64; WORDS]) -> [u8; INLINE_MOST] {
    let bytes = |at: usize| (words[at / 8] >> (8 * (at % 8))) as u8;
    std::array::from_fn(|at| bytes(8 * WORDS - INLINE_MOST + at))
}

/// Opcode of an element, whatever else it is.
pub fn opcode(words: &[u64; WORDS]) -> u8 {
    (words[0] >> 24) as u8
}

/// Element `index` of queue `number`.
pub fn decode(words: &[u64; WORDS], number: u32, index: u32) -> Result<Element, Misfit> {
    // The two big-endian halves of a word.
    let halves = |at: usize| ((words[at] as u32).swap_bytes(), ((words[at] >> 32) as u32).swap_bytes());
    let place = |at: usize| Place { address: words[at].swap_bytes(), key: halves(at + 1).0 };
    let segment = |at: usize| (halves(at).0, Place { address: words[at + 1].swap_bytes(), key: halves(at).1 });
    let written = |bytes: u32| {
        let mut data = data(words);
        // What lies behind was there before.
        data[bytes as usize..].fill(0);
        Ok(Element::WriteInline { to: place(2), data, bytes })
    };
    let (control, queue) = halves(0);
    let (says, is) = ((control >> 8) as u16, index as u16);
    if says != is {
        return Err(Misfit::Index { says, is });
    }
    if queue >> 8 != number & 0xff_ffff {
        return Err(Misfit::Queue { says: queue >> 8, is: number & 0xff_ffff });
    }
    let (opcode, segments) = (control as u8, queue as u8);
    match (opcode, segments) {
        _ if control >> 24 != 0 => Err(Misfit::Opcode(control & 0xff00_00ff)),
        (NOP, 1..=4) => Ok(Element::Nop),
        (RDMA_WRITE, 3 | 4) => match segment(4) {
            (inline, _) if inline & INLINE != 0 => match inline & !INLINE {
                bytes @ 1..=12 if segments == 3 => written(bytes),
                bytes @ 13..=28 if segments == 4 => written(bytes),
                bytes => Err(Misfit::Bytes(bytes)),
            },
            _ if segments != 3 => Err(Misfit::Segments { opcode, segments }),
            (bytes, from) => Ok(Element::Write { to: place(2), from, bytes }),
        },
        (FETCH_ADD, 4) => match segment(6) {
            (8, answer) => Ok(Element::FetchAdd { to: place(2), add: words[4].swap_bytes(), answer }),
            (bytes, _) => Err(Misfit::Bytes(bytes)),
        },
        (WAIT, 2) => {
            let (index, queue) = halves(3);
            Ok(Element::Wait { queue, index })
        }
        (NOP | RDMA_WRITE | FETCH_ADD | WAIT, segments) => Err(Misfit::Segments { opcode, segments }),
        _ => Err(Misfit::Opcode(opcode.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte, as spec device 12.3 has them.
    fn words(bytes: [u8; 64]) -> [u64; WORDS] {
        std::array::from_fn(|at| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap()))
    }

    fn control(opcode: u8, segments: u8) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..12].copy_from_slice(&[0, 0x12, 0x34, opcode, 0xaa, 0xbb, 0xcc, segments, 0, 0, 0, 8]);
        bytes
    }

    fn remote(bytes: &mut [u8; 64]) {
        bytes[16..28].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0xde, 0xad, 0xbe, 0xef]);
    }

    const TO: Place = Place { address: 0x0102_0304_0506_0708, key: 0xdead_beef };
    const NUMBER: u32 = 0xaa_bbcc;

    #[test]
    fn every_field_is_read_where_it_stands() {
        let read = |bytes| decode(&words(bytes), NUMBER, 0x7_1234);
        assert_eq!(read(control(0, 1)), Ok(Element::Nop));
        let mut write = control(8, 3);
        remote(&mut write);
        write[32..48].copy_from_slice(&[0x40, 0, 0, 1, 0xca, 0xfe, 0, 1, 0, 0, 0, 9, 8, 7, 6, 5]);
        let from = Place { address: 0x9_0807_0605, key: 0xcafe_0001 };
        assert_eq!(read(write), Ok(Element::Write { to: TO, from, bytes: 0x4000_0001 }));
        for bytes in [1u8, 4, 8, 9, 12, 13, 28] {
            let mut inline = control(8, if bytes > 12 { 4 } else { 3 });
            remote(&mut inline);
            inline[32..36].copy_from_slice(&[0x80, 0, 0, bytes]);
            (36..64).for_each(|at| inline[at] = at as u8);
            let mut data = [0; INLINE_MOST];
            (0..bytes).for_each(|at| data[at as usize] = 36 + at);
            assert_eq!(read(inline), Ok(Element::WriteInline { to: TO, data, bytes: bytes.into() }));
        }
        let mut add = control(0x12, 4);
        remote(&mut add);
        add[39] = 7;
        add[48..64].copy_from_slice(&[0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(add), Ok(Element::FetchAdd { to: TO, add: 7, answer: Place { address: 0, key: 5 } }));
        let mut wait = control(0x0f, 2);
        wait[24..32].copy_from_slice(&[0, 1, 2, 3, 0, 0, 0, 9]);
        assert_eq!(read(wait), Ok(Element::Wait { queue: 9, index: 0x1_0203 }));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let read = |bytes, index| decode(&words(bytes), NUMBER, index);
        assert_eq!(read(control(0, 1), 0x1235), Err(Misfit::Index { says: 0x1234, is: 0x1235 }));
        assert_eq!(decode(&words(control(0, 1)), 7, 0x1234), Err(Misfit::Queue { says: NUMBER, is: 7 }));
        for opcode in [0x01, 0x09, 0x10, 0x11, 0x14, 0x23, 0x25, 0xff] {
            assert_eq!(read(control(opcode, 4), 0x1234), Err(Misfit::Opcode(opcode.into())));
        }
        for (opcode, segments) in [(0, 0), (0, 5), (8, 2), (8, 4), (0x12, 3), (0x0f, 1), (0x0f, 3)] {
            assert_eq!(read(control(opcode, segments), 0x1234), Err(Misfit::Segments { opcode, segments }));
        }
        let mut modifier = control(8, 3);
        modifier[0] = 1;
        assert_eq!(read(modifier, 0x1234), Err(Misfit::Opcode(0x0100_0008)));
        for (bytes, segments) in [(0, 3), (13, 3), (28, 3), (0, 4), (1, 4), (12, 4), (29, 4)] {
            let mut inline = control(8, segments);
            inline[32..36].copy_from_slice(&(INLINE | bytes).to_be_bytes());
            assert_eq!(read(inline, 0x1234), Err(Misfit::Bytes(bytes)));
        }
        let mut add = control(0x12, 4);
        add[51] = 4;
        assert_eq!(read(add, 0x1234), Err(Misfit::Bytes(4)));
    }
}
