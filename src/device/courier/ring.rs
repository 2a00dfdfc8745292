//! What the host and the courier's kernel share: the Rust twin of the layout in cuda/courier.cuh.

use crate::device::{ControlMemory, DevPtr, Device, MemCopy, Word};
use crate::error::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::{Immutable, IntoBytes};

/// Commands that may be under way.
pub(super) const SLOTS: u64 = 512;
/// 8-byte words of a slot.
pub(super) const WORDS: usize = 4;

/// Words of the kernel's, a line of memory each, by their places.
pub(super) const BEGUN: usize = 0;
pub(super) const DONE: usize = 8;
pub(super) const ENDED: usize = 16;
const FIRST_SLOT: usize = 32;
/// Behind the slots: a word for each, out of which the copy engine takes a value.
const FIRST_VALUE: usize = FIRST_SLOT + SLOTS as usize * WORDS;
const ALL: usize = FIRST_VALUE + SLOTS as usize;

/// The kernel's parameter.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub(super) struct Work {
    pub words: DevPtr,
    pub slots: DevPtr,
    pub first: u64,
    pub launch: u64,
    pub idle_ns: u64,
    pub life_ns: u64,
}

/// What the kernel is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Copy(MemCopy),
    Value(Word),
    /// It ends, having done what stands before.
    Stop,
}

/// Bits of a word above the round.
const MOST: u32 = 48;
const COPY: u64 = 0;
const VALUE: u64 = 1;
const STOP: u64 = 2;

impl Command {
    /// Whether its addresses fit into its words; sizes do (see [`super::LARGEST`]).
    pub fn fits(self) -> bool {
        match self {
            Command::Copy(copy) => (copy.from | copy.to) >> MOST == 0,
            Command::Value(word) => word.at >> MOST == 0,
            Command::Stop => true,
        }
    }

    fn encode(self) -> [u64; WORDS] {
        match self {
            Command::Copy(copy) => [copy.from, copy.to, copy.bytes << 2 | COPY, 0],
            Command::Value(word) => {
                [word.value & u64::from(u32::MAX), word.at, u64::from(word.bytes) << 2 | VALUE, word.value >> 32]
            }
            Command::Stop => [0, 0, STOP, 0],
        }
    }

    fn decode([first, to, what, last]: [u64; WORDS]) -> Self {
        match (what & 3, what >> 2) {
            (COPY, bytes) => Command::Copy(MemCopy { from: first, to, bytes }),
            (VALUE, bytes) => Command::Value(Word { at: to, value: first | last << 32, bytes: bytes as u32 }),
            _ => Command::Stop,
        }
    }
}

/// The lowest 16 bits of each word of command `number`. No two rounds of a slot that follow each other have the same, nor has the
/// first round that of zeroed memory.
fn round(number: u64) -> u64 {
    (number / SLOTS + 1) & 0xffff
}

/// What the kernel has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub begun: u64,
    pub done: u64,
    pub ended: u64,
    /// Of the launch that has ended: for its age.
    pub aged: bool,
}

/// The ring, and the words beside it, in host memory.
pub(super) struct Ring(ControlMemory);

impl Ring {
    pub fn new(device: &dyn Device) -> Result<Self> {
        Ok(Self(device.control(ALL * 8)?))
    }

    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < ALL);
        // SAFETY: within the memory, as just checked; aligned, and only ever accessed by atomics.
        unsafe { AtomicU64::from_ptr(self.0.host().cast::<u64>().add(at).as_ptr()) }
    }

    fn slot(number: u64) -> usize {
        FIRST_SLOT + (number % SLOTS) as usize * WORDS
    }

    pub fn work(&self, first: u64, launch: u64, (idle_ns, life_ns): (u64, u64)) -> Work {
        let words = self.0.device();
        Work { words, slots: words + FIRST_SLOT as u64 * 8, first, launch, idle_ns, life_ns }
    }

    /// Release: the kernel sees what was to be seen here when the command was given (a source that its writer has made known).
    pub fn put(&self, number: u64, command: Command) {
        for (i, word) in command.encode().into_iter().enumerate() {
            self.word(Self::slot(number) + i).store(word << 16 | round(number), Ordering::Release);
        }
    }

    /// Command `number`, if it stands there.
    pub fn get(&self, number: u64) -> Option<Command> {
        let words: [u64; WORDS] = std::array::from_fn(|i| self.word(Self::slot(number) + i).load(Ordering::Acquire));
        words.iter().all(|word| word & 0xffff == round(number)).then(|| Command::decode(words.map(|word| word >> 16)))
    }

    /// Acquire: who sees a command done sees its bytes. The end is read before what is done, so that an end comes with all that was.
    pub fn seen(&self) -> Seen {
        let ended = self.word(ENDED).load(Ordering::Acquire);
        let done = self.word(DONE).load(Ordering::Acquire);
        let begun = self.word(BEGUN).load(Ordering::Acquire);
        Seen { begun, done, ended: ended / 2, aged: ended % 2 == 1 }
    }

    /// Command `number` for a copy engine; None for one that moves nothing.
    pub fn as_copy(&self, number: u64) -> Option<MemCopy> {
        match self.get(number)? {
            Command::Copy(copy) => Some(copy),
            Command::Value(word) => {
                let place = FIRST_VALUE + (number % SLOTS) as usize;
                self.word(place).store(word.value.to_le(), Ordering::Release);
                Some(MemCopy { from: self.0.device() + place as u64 * 8, to: word.at, bytes: word.bytes.into() })
            }
            Command::Stop => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;

    #[test]
    fn commands_come_back_and_one_that_is_not_there_does_not() {
        let ring = Ring::new(&*CpuDevice::new(0)).unwrap();
        let most = (1 << MOST) - 1;
        for number in [0, 1, SLOTS - 1, SLOTS, 65535 * SLOTS - 1, 65535 * SLOTS, 65536 * SLOTS + 3] {
            assert_eq!(ring.get(number), None, "{number}");
            for command in [
                Command::Copy(MemCopy { from: most, to: most - 1, bytes: super::super::LARGEST }),
                Command::Copy(MemCopy { from: 1, to: 2, bytes: 0 }),
                Command::Value(Word { at: most - 7, value: u64::MAX - 5, bytes: 8 }),
                Command::Value(Word { at: 4, value: 0x1234_5678, bytes: 4 }),
                Command::Stop,
            ] {
                assert!(command.fits());
                ring.put(number, command);
                assert_eq!(ring.get(number), Some(command), "{number}");
                assert_eq!(ring.get(number + SLOTS), None, "of the round before");
            }
        }
        assert!(!Command::Copy(MemCopy { from: 0, to: most + 1, bytes: 1 }).fits());
        assert!(!Command::Copy(MemCopy { from: most + 1, to: 0, bytes: 1 }).fits());
        assert!(!Command::Value(Word { at: most + 1, value: 0, bytes: 8 }).fits());
    }

    #[test]
    fn a_value_is_a_copy_of_its_bytes() {
        let ring = Ring::new(&*CpuDevice::new(0)).unwrap();
        ring.put(7, Command::Value(Word { at: 0x1000, value: 0x0123_4567_89ab_cdef, bytes: 8 }));
        let copy = ring.as_copy(7).unwrap();
        assert_eq!((copy.to, copy.bytes), (0x1000, 8));
        // SAFETY: on the CPU device this is the ring's own memory.
        let value = unsafe { AtomicU64::from_ptr(copy.from as *mut u64) }.load(Ordering::Relaxed);
        assert_eq!(u64::from_le(value), 0x0123_4567_89ab_cdef);
        ring.put(8, Command::Stop);
        assert_eq!(ring.as_copy(8), None);
    }
}
