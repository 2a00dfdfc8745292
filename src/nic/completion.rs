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
        }
        write(&ring[1], 4, 0x11_2233, 5, 0x12, Err(Syndrome::RemoteAccess));
        assert_eq!(is_complete(&ring[1], 4, 5), (true, REQUEST_ERROR));
        assert_eq!(ring[1][6].load(Ordering::Relaxed).to_le_bytes()[7], 0x13);
        assert_eq!(ring[1][7].load(Ordering::Relaxed).to_le_bytes()[..4], [0x12, 0x11, 0x22, 0x33]);
    }
}
