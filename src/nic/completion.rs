//! Entries of a completion queue: 64 bytes, of which kernels read the last eight, and tools those before them.
//!
//! | byte | what |
//! |---|---|
//! | 54, 55 | vendor's syndrome, syndrome, of an error |
//! | 56 to 59 | opcode of the element << 24, and the number of its queue |
//! | 60, 61 | the low 16 bits of the element's index |
//! | 63 | opcode of the entry << 4, and the owner bit: alike in one round of the ring, other in the next |

use super::Word;

/// A request is done.
const REQUEST: u8 = 0;
/// It was not.
const REQUEST_ERROR: u8 = 13;
/// None yet.
const INVALID: u8 = 15;

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Syndrome {
    /// The queue pair cannot do that.
    LocalOperation = 0x02,
    /// A local key, or the range behind it, is not valid.
    LocalProtection = 0x04,
    /// An earlier request has failed.
    Flushed = 0x05,
    /// A remote key, or the range behind it, is not valid, or what is there may not be accessed so.
    RemoteAccess = 0x13,
    /// The other side does not answer.
    Retries = 0x15,
}

impl Syndrome {
    /// That number's, if it is one of these.
    pub fn of(number: u8) -> Option<Self> {
        use Syndrome::{Flushed, LocalOperation, LocalProtection, RemoteAccess, Retries};
        [LocalOperation, LocalProtection, Flushed, RemoteAccess, Retries].into_iter().find(|one| *one as u8 == number)
    }

    /// As the mlx5 manual calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LocalOperation => "local QP operation error",
            Self::LocalProtection => "local protection error",
            Self::Flushed => "work request flushed",
            Self::RemoteAccess => "remote access error",
            Self::Retries => "transport retry counter exceeded",
        }
    }
}

/// What stands in an entry that was never written: of the owner that the first round does not wait for.
pub fn empty<W: Word>(entry: &[W; 8]) {
    entry[7].store(u64::from(INVALID << 4 | 1) << 56);
}

/// Completes element `index` of queue `number`, whose ring is `depth` deep, as done or failed. The body first, the owner last: who sees it
/// sees the body, and all that was stored before.
pub fn write<W: Word>(entry: &[W; 8], depth: u32, number: u32, index: u32, opcode: u8, result: Result<(), Syndrome>) {
    let (kind, syndrome) = match result {
        Ok(()) => (REQUEST, 0),
        Err(syndrome) => (REQUEST_ERROR, syndrome as u8),
    };
    let owner = u8::from(index & depth != 0);
    entry[6].store(u64::from(syndrome) << 56);
    let queue = (u32::from(opcode) << 24 | number & 0xff_ffff).to_be_bytes();
    let counter = (index as u16).to_be_bytes();
    let last = [queue[0], queue[1], queue[2], queue[3], counter[0], counter[1], 0, kind << 4 | owner];
    entry[7].publish(u64::from_le_bytes(last));
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Of the element.
    pub opcode: u8,
    /// Why it was not done, and the vendor's reason.
    pub syndrome: Option<(u8, u8)>,
}

/// What became of element `at` of a ring that is `depth` deep, or of a later one in its slot, which says that all before are complete: which,
/// and what. None: nothing yet. Later by at most 2^15, for an entry has 16 bits of the index; with a depth of 2^15 only the element itself.
pub fn read<W: Word>(entry: &[W; 8], depth: u32, at: u32) -> Option<(u32, Ended)> {
    let bytes = entry[7].load().to_le_bytes();
    let (kind, owner) = (bytes[7] >> 4, bytes[7] & 1);
    let ahead = u16::from_be_bytes([bytes[4], bytes[5]]).wrapping_sub(at as u16);
    let index = at.wrapping_add(ahead.into());
    let later = ahead < 1 << 15 && u32::from(ahead).is_multiple_of(depth);
    if kind == INVALID || !later || owner != u8::from(index & depth != 0) {
        return None;
    }
    W::acquire();
    let body = entry[6].load().to_le_bytes();
    Some((index, Ended { opcode: bytes[0], syndrome: (kind == REQUEST_ERROR).then_some((body[7], body[6])) }))
}

/// What an entry says of the element that failed, and the low 16 bits of its index; None where it says nothing, or that all is well.
pub fn failure<W: Word>(entry: &[W; 8]) -> Option<(u32, Ended)> {
    let bytes = entry[7].load().to_le_bytes();
    if bytes[7] >> 4 != REQUEST_ERROR {
        return None;
    }
    W::acquire();
    let body = entry[6].load().to_le_bytes();
    let counter = u16::from_be_bytes([bytes[4], bytes[5]]);
    Some((counter.into(), Ended { opcode: bytes[0], syndrome: Some((body[7], body[6])) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// How kernels read it (spec device 12.5).
    fn is_complete(entry: &[AtomicU64; 8], depth: u32, index: u32) -> (bool, u8) {
        let bytes = entry[7].load(Ordering::Acquire).to_le_bytes();
        let ready = bytes[7] & 1 == u8::from(index & depth != 0) && bytes[7] >> 4 != INVALID;
        (ready && u16::from_be_bytes([bytes[4], bytes[5]]) == index as u16, bytes[7] >> 4)
    }

    #[test]
    fn an_entry_completes_its_index_and_no_other() {
        let ring: [[AtomicU64; 8]; 4] = Default::default();
        ring.iter().for_each(empty);
        for index in (0..40).chain(65_530..65_550).chain(u32::MAX - 9..=u32::MAX) {
            let entry = &ring[index as usize & 3];
            if index < 4 {
                assert!(!is_complete(entry, 4, index).0, "{index} before");
            }
            write(entry, 4, 0x11_2233, index, 8, Ok(()));
            assert_eq!(is_complete(entry, 4, index), (true, REQUEST), "{index}");
            assert!(!is_complete(entry, 4, index.wrapping_add(4)).0, "{index}: the next round");
            for before in [0, 4, 8, 32_764] {
                let seen = read(entry, 4, index.wrapping_sub(before));
                assert_eq!(seen, Some((index, Ended { opcode: 8, syndrome: None })), "{index}, asked for {before} before it");
            }
            for other in [4, 1, 3, u32::MAX, 32_768] {
                assert_eq!(read(entry, 4, index.wrapping_add(other)), None, "{index} is not that of {other} behind it");
            }
        }
        write(&ring[1], 4, 0x11_2233, 5, 0x12, Err(Syndrome::RemoteAccess));
        assert_eq!(is_complete(&ring[1], 4, 5), (true, REQUEST_ERROR));
        assert_eq!(read(&ring[1], 4, 5), Some((5, Ended { opcode: 0x12, syndrome: Some((0x13, 0)) })));
        assert_eq!(ring[1][6].load(Ordering::Relaxed).to_le_bytes()[7], 0x13);
        assert_eq!(ring[1][7].load(Ordering::Relaxed).to_le_bytes()[..4], [0x12, 0x11, 0x22, 0x33]);
    }
}
