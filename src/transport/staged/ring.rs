//! The ring through which one rank's messages reach another: host memory of the target that the sender has mapped.
//!
//! | word | writer -> reader |
//! |---|---|
//! | `sent` | sender, once header and payload of a message are there -> target |
//! | `taken` | target, once payload and signal have landed -> sender: credit and completion in one |
//! | `closed` | target, when it takes nothing more -> sender, for which everything has then landed |
//! | headers, payloads | sender -> target, between `sent` and `taken` |
//!
//! Neither end believes the other: an index that cannot be is an error, a header is copied out once and then checked.

use crate::bail;
use crate::device::{DevPtr, Physical};
use crate::error::Result;
use crate::transport::remote::Header;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages in a ring.
pub(super) const SLOTS: u64 = 64;
/// Most payload bytes of a message.
pub(super) const PIECE: u64 = 64 << 10;
const SENT: u64 = 0;
const TAKEN: u64 = 128;
const CLOSED: u64 = 192;
const HEADERS: u64 = 256;
const PAYLOADS: u64 = 8192;
/// Bytes of a ring.
pub(super) const RING: u64 = PAYLOADS + SLOTS * PIECE;
const _: () = assert!(HEADERS + SLOTS * 64 <= PAYLOADS);

/// Which word of a header holds the value.
const VALUE_WORD: u64 = 5;

/// One ring, as either end has it mapped.
pub(super) struct Ring {
    memory: Arc<dyn Physical>,
    /// Where it starts in the memory.
    base: u64,
}

impl Ring {
    /// Ring number `index` of `memory`, `whose` rank's.
    pub fn new(memory: &Arc<dyn Physical>, index: usize, whose: u32) -> Result<Self> {
        let base = index as u64 * RING;
        if memory.host().is_none() || base + RING > memory.bytes() as u64 {
            bail!(
                SystemError,
                79,
                "staging memory cannot be used | rank {whose}'s, ring {index} in {:#x} bytes | it is too small, or the host does not \
                 reach it | fix: load the same libginrs on every rank",
                memory.bytes()
            );
        }
        Ok(Self { memory: memory.clone(), base })
    }

    #[cfg(test)]
    pub fn memory(&self) -> Arc<dyn Physical> {
        self.memory.clone()
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset + 8 <= RING && offset.is_multiple_of(8));
        let host = self.memory.host().expect("checked in new");
        // SAFETY: within the memory (`new` checked the ring, the assertion the word), aligned because memory is page-aligned
        // and rings are a multiple of 8 long, mapped as long as self. Both processes access it atomically.
        unsafe { AtomicU64::from_ptr(host.as_ptr().add((self.base + offset) as usize).cast()) }
    }

    pub fn sent(&self) -> u64 {
        self.word(SENT).load(Ordering::Acquire)
    }

    /// Messages before `index` are there. Release: header and payload come first.
    pub fn send(&self, index: u64) {
        self.word(SENT).store(index, Ordering::Release);
    }

    pub fn taken(&self) -> u64 {
        self.word(TAKEN).load(Ordering::Acquire)
    }

    /// Messages before `index` have landed.
    pub fn take(&self, index: u64) {
        self.word(TAKEN).store(index, Ordering::Release);
    }

    /// The target has left: nobody waits for what is still on its way.
    pub fn close(&self) {
        self.word(CLOSED).store(1, Ordering::Release);
    }

    pub fn is_closed(&self) -> bool {
        self.word(CLOSED).load(Ordering::Acquire) != 0
    }

    pub fn write_header(&self, index: u64, header: &Header) {
        for (i, word) in header.encode().into_iter().enumerate() {
            self.word(header_at(index) + i as u64 * 8).store(word, Ordering::Relaxed);
        }
    }

    /// The header of message `index`, read once; None if it makes no sense.
    pub fn read_header(&self, index: u64) -> Option<Header> {
        let words = std::array::from_fn(|i| self.word(header_at(index) + i as u64 * 8).load(Ordering::Relaxed));
        Header::decode(words, PIECE)
    }

    /// Host address of the payload of message `index`: [`PIECE`] bytes.
    pub fn payload(&self, index: u64) -> *mut u8 {
        let host = self.memory.host().expect("checked in new").as_ptr();
        // SAFETY: within the ring, hence within the memory.
        unsafe { host.add((self.base + payload_at(index)) as usize) }
    }

    /// Where this rank's device sees the payload, if it does.
    pub fn device_payload(&self, index: u64) -> Option<DevPtr> {
        Some(self.memory.device_address()? + self.base + payload_at(index))
    }

    /// Where this rank's device sees the value in the header.
    pub fn device_value(&self, index: u64) -> Option<DevPtr> {
        Some(self.memory.device_address()? + self.base + header_at(index) + VALUE_WORD * 8)
    }
}

fn header_at(index: u64) -> u64 {
    HEADERS + index % SLOTS * 64
}

fn payload_at(index: u64) -> u64 {
    PAYLOADS + index % SLOTS * PIECE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Memory;
    use crate::device::cpu::CpuDevice;

    #[test]
    fn rings_lie_beside_each_other() {
        let memory = CpuDevice::new(0).create_shared(2 * RING as usize).unwrap();
        let rings = [Ring::new(&memory, 0, 0).unwrap(), Ring::new(&memory, 1, 0).unwrap()];
        let header = Header { bytes: 5, value: None, target: (9, 8), signal: Some((16, 3)) };
        for index in 0..SLOTS {
            rings[1].write_header(index, &header);
        }
        rings[1].send(7);
        assert_eq!((rings[0].sent(), rings[0].taken(), rings[1].sent(), rings[1].taken()), (0, 0, 7, 0));
        assert_eq!(rings[0].read_header(3), Some(Header { bytes: 0, value: None, target: (0, 0), signal: None }));
        assert_eq!(rings[1].read_header(SLOTS + 3), Some(header));
        let last = rings[0].payload(SLOTS - 1) as u64 + PIECE;
        assert_eq!(last, rings[1].word(SENT).as_ptr() as u64);
        assert!(Ring::new(&memory, memory.bytes() / RING as usize, 4).err().unwrap().text.contains("rank 4"));
    }
}
