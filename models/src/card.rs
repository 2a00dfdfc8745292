// The model of a card against a kernel that posts to it: the library's own slot::Poison and completion::write over the checker's atomics;
// the kernel follows include/ginrs_device/gin/gdaki_queue.cuh, and what it rings orders nothing, as a fence of GPU scope does for a CPU.

use ginrs::nic::completion;
use ginrs::nic::slot::{Poison, Seen, WORDS};
use runtime::sync::Arc;
use runtime::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use runtime::thread;

/// Nothing planted.
pub const SOUND: u8 = 0;
/// Planted: what was taken is not acquired.
pub const NO_ACQUIRE: u8 = 1;
/// Planted: a completion is stored without release.
pub const COMPLETION_RELAXED: u8 = 2;
/// Planted: the doorbell is believed.
pub const BELL_BELIEVED: u8 = 3;
/// Planted: the entry is written before the slot is free.
pub const FREE_LATE: u8 = 4;

struct Shared<const FAULT: u8>(AtomicU64);

impl<const FAULT: u8> ginrs::nic::Word for Shared<FAULT> {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
    fn publish(&self, value: u64) {
        self.0.store(value, if FAULT == COMPLETION_RELAXED { Ordering::Relaxed } else { Ordering::Release });
    }
    fn acquire() {
        if FAULT != NO_ACQUIRE {
            fence(Ordering::Acquire);
        }
    }
}

/// One queue of `depth` slots; elements are NOPs of one segment, two words.
struct Card<const FAULT: u8> {
    depth: u32,
    ring: Vec<[Shared<FAULT>; WORDS]>,
    entries: Vec<[Shared<FAULT>; 8]>,
    bell: AtomicU32,
    payload: Vec<AtomicU64>,
    done: AtomicU64,
}

const POISON: u64 = 77;
const NUMBER: u32 = 5;

fn words(index: u32) -> [u64; 2] {
    let control = [0, (index >> 8) as u8, index as u8, 0, 0, 0, NUMBER as u8, 1];
    [u64::from_le_bytes(control), u64::from(index) + 1]
}

impl<const FAULT: u8> Card<FAULT> {
    fn new(depth: u32, start: u32, posts: u32) -> Self {
        let lines = || (0..depth).map(|_| std::array::from_fn(|_| Shared(AtomicU64::new(0)))).collect::<Vec<[_; 8]>>();
        let (ring, entries) = (lines(), lines());
        // A ring has been around before: what this round waits for stands nowhere.
        for index in start..start + depth {
            Poison::new(POISON).bury(&ring[(index & (depth - 1)) as usize], index);
            completion::write(&entries[(index & (depth - 1)) as usize], depth, NUMBER, index.wrapping_sub(depth), 0, Ok(()));
        }
        let payload = (0..posts).map(|_| AtomicU64::new(0)).collect();
        Self { depth, ring, entries, bell: AtomicU32::new(start), payload, done: AtomicU64::new(0) }
    }

    /// `poll` of the header.
    fn is_complete(&self, index: u32) -> bool {
        let last = self.entries[(index & (self.depth - 1)) as usize][7].0.load(Ordering::Relaxed).to_le_bytes();
        let is = last[7] & 1 == u8::from(index & self.depth != 0) && u16::from_be_bytes([last[4], last[5]]) == index as u16;
        if is {
            fence(Ordering::Acquire);
        }
        is
    }

    fn post(&self, start: u32, nth: u32) {
        let index = start + nth;
        self.payload[nth as usize].store(u64::from(nth) + 1, Ordering::Relaxed);
        // Step 2. The payload is released by the fence in front of the stores that a CPU can see.
        while nth >= self.depth && !self.is_complete(index - self.depth) {
            thread::yield_now();
        }
        if nth >= self.depth {
            assert!(self.done.load(Ordering::Relaxed) > u64::from(nth - self.depth), "entry before what it completes");
        }
        fence(Ordering::Release);
        // Step 5 before step 3: nothing orders them for a CPU.
        self.bell.store(index + 1, Ordering::Relaxed);
        for (at, word) in words(index).into_iter().enumerate().rev() {
            self.ring[(index & (self.depth - 1)) as usize][at].0.store(word, Ordering::Relaxed);
        }
    }

    /// Takes element `index` if it has come.
    fn take(&self, index: u32) -> bool {
        // The library acquires here, and nothing needs it.
        if self.bell.load(Ordering::Relaxed) == index {
            return false;
        }
        let slot = &self.ring[(index & (self.depth - 1)) as usize];
        let poison = Poison::new(POISON);
        let seen = match poison.look(slot, index) {
            Seen::Whole(words) => words,
            _ if FAULT == BELL_BELIEVED => std::array::from_fn(|at| slot[at].0.load(Ordering::Relaxed)),
            _ => return false,
        };
        assert_eq!(seen[..2], words(index), "half of element {index}");
        let next = index + self.depth;
        let bury = || poison.bury(slot, next);
        if FAULT != FREE_LATE {
            bury();
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        completion::write(&self.entries[(index & (self.depth - 1)) as usize], self.depth, NUMBER, index, 0, Ok(()));
        if FAULT == FREE_LATE {
            bury();
        }
        true
    }
}

/// One kernel posts `posts` elements from index `start` on: each is taken once, whole and with its payload, and who sees that it is complete
/// sees what it did and may write to its slot.
pub fn card<const FAULT: u8>(depth: u32, start: u32, posts: u32) {
    let card = Arc::new(Card::<FAULT>::new(depth, start, posts));
    let kernel = {
        let card = card.clone();
        thread::spawn(move || (0..posts).for_each(|nth| card.post(start, nth)))
    };
    for nth in 0..posts {
        while !card.take(start + nth) {
            thread::yield_now();
        }
        let payload = card.payload[nth as usize].load(Ordering::Relaxed);
        assert_eq!(payload, u64::from(nth) + 1, "payload of element {nth}");
    }
    kernel.join().unwrap();
}
