//! What the tests have for a GPU: a kernel on a thread, that does as cuda/courier.cuh and comes and goes as it likes, and a copy engine that is late.
//! The kernel's own source runs in abi-tests (programs.rs).

use super::ring::{BEGUN, DONE, ENDED, SLOTS, WORDS, Work};
use super::{Courier, Start};
use crate::device::cpu::CpuDevice;
use crate::device::{CopyQueue, MemCopy, Word};
use crate::error::Result;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone)]
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

pub(super) fn word(at: u64) -> &'static AtomicU64 {
    // SAFETY: addresses of these tests' own live memory, aligned, and only accessed by atomics.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }
}

/// Copies whole words, once: targets of these tests are zero until then, if `once`.
fn carry(copy: MemCopy, once: bool) {
    if !(copy.from | copy.to | copy.bytes).is_multiple_of(8) {
        // SAFETY: as above; nobody polls such bytes.
        return unsafe { std::ptr::copy(copy.from as *const u8, copy.to as *mut u8, copy.bytes as usize) };
    }
    for at in (0..copy.bytes).step_by(8) {
        let before = word(copy.to + at).swap(word(copy.from + at).load(Ordering::Relaxed), Ordering::Relaxed);
        assert!(!once || before == 0, "carried twice");
    }
}

/// A launch as the kernel's source does it. True if it ended by itself; `random` says when.
fn deliver(work: &Work, random: &mut Random, once: bool) {
    let say = |at: usize, value: u64| word(work.words + 8 * at as u64).store(value, Ordering::Release);
    say(BEGUN, work.launch);
    let mut next = work.first;
    let lives = random.below(40);
    for turn in 0.. {
        let mut group = Vec::new();
        while group.len() < 8 {
            let (at, round) = (next + group.len() as u64, (next + group.len() as u64) / SLOTS + 1);
            let slot = work.slots + at % SLOTS * WORDS as u64 * 8;
            let words: [u64; WORDS] = std::array::from_fn(|i| word(slot + 8 * i as u64).load(Ordering::Acquire));
            if words.iter().any(|word| word & 0xffff != round & 0xffff) {
                break;
            }
            group.push(words.map(|word| word >> 16));
        }
        let found = group.len() as u64;
        // Its age ends it whatever it finds, idleness when it finds nothing.
        let aged = turn > 2 * lives;
        if aged && random.below(2) == 0 || found == 0 && turn > lives {
            return say(ENDED, 2 * work.launch + u64::from(aged));
        }
        let mut stop = false;
        for [first, to, what, last] in group {
            match what & 3 {
                0 => carry(MemCopy { from: first, to, bytes: what >> 2 }, once),
                1 if what >> 2 == 8 => {
                    assert!(word(to).swap(first | last << 32, Ordering::Relaxed) == 0 || !once, "stored twice")
                }
                // SAFETY: a word of these tests' own.
                1 => unsafe { AtomicU32::from_ptr(to as *mut u32) }.store(first as u32, Ordering::Relaxed),
                _ => stop = true,
            }
        }
        next += found;
        if found > 0 {
            if random.below(4) == 0 {
                std::thread::yield_now();
            }
            say(DONE, next);
        }
        if stop {
            return say(ENDED, 2 * work.launch);
        }
        std::thread::yield_now();
    }
}

/// Runs launches one after the other on a thread of its own.
pub(super) struct OnThread {
    launches: std::sync::mpsc::Sender<Work>,
    under_way: Arc<AtomicU64>,
}

impl OnThread {
    pub fn new(seed: u64, once: bool) -> Self {
        let (launches, coming) = std::sync::mpsc::channel::<Work>();
        let under_way = Arc::new(AtomicU64::new(0));
        let left = under_way.clone();
        std::thread::spawn(move || {
            let mut random = Random(seed | 1);
            for work in coming {
                if random.below(3) == 0 {
                    std::thread::sleep(Duration::from_micros(random.below(200)));
                }
                deliver(&work, &mut random, once);
                left.fetch_sub(1, Ordering::Release);
            }
        });
        Self { launches, under_way }
    }
}

impl Start for OnThread {
    fn start(&mut self, work: &Work) -> Result<()> {
        let ended = word(work.words + 8 * ENDED as u64).load(Ordering::Acquire) / 2;
        assert_eq!(ended, work.launch - 1, "a second launch behind one that has not said that it ended");
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.launches.send(*work).unwrap();
        Ok(())
    }

    fn is_over(&mut self) -> Result<bool> {
        Ok(self.under_way.load(Ordering::Acquire) == 0)
    }
}

/// A copy engine that comes late.
pub(super) struct Late {
    waiting: VecDeque<(MemCopy, u64)>,
    words: VecDeque<(Word, u64)>,
    stores: bool,
    marked: u64,
    reached: u64,
    random: Random,
    carried: Arc<AtomicU64>,
}

impl Late {
    pub fn new(seed: u64, carried: &Arc<AtomicU64>) -> Box<Self> {
        let (waiting, words) = Default::default();
        let random = Random(seed | 1);
        Box::new(Self { waiting, words, stores: seed.is_multiple_of(2), marked: 0, reached: 0, random, carried: carried.clone() })
    }
}

impl CopyQueue for Late {
    fn copy(&mut self, copies: &[MemCopy]) -> Result<()> {
        self.waiting.extend(copies.iter().map(|&copy| (copy, self.marked + 1)));
        Ok(())
    }

    fn mark(&mut self) -> Result<u64> {
        self.marked += 1;
        Ok(self.marked)
    }

    fn store(&mut self, words: &[Word]) -> Result<Option<u64>> {
        if !self.stores {
            return Ok(None);
        }
        self.words.extend(words.iter().map(|&word| (word, self.marked + 1)));
        self.mark().map(Some)
    }

    fn finished(&mut self) -> Result<u64> {
        for _ in 0..self.random.below(30) {
            if let Some((copy, _)) = self.waiting.pop_front() {
                carry(copy, true);
                self.carried.fetch_add(1, Ordering::Relaxed);
            } else if let Some((one, _)) = self.words.pop_front() {
                assert_eq!(word(one.at).swap(one.value, Ordering::Relaxed), 0, "stored twice");
                self.carried.fetch_add(1, Ordering::Relaxed);
            }
        }
        let first =
            self.waiting.front().map(|(_, ticket)| *ticket).into_iter().chain(self.words.front().map(|(_, ticket)| *ticket));
        self.reached = first.min().map_or(self.marked, |ticket| ticket - 1);
        Ok(self.reached)
    }
}

/// As the real one: no copy outlives it.
impl Drop for Late {
    fn drop(&mut self) {
        while self.reached < self.marked {
            self.finished().unwrap();
        }
    }
}

pub(super) fn courier(start: Box<dyn Start>, rescue: Box<dyn CopyQueue>) -> Arc<Mutex<Courier>> {
    Arc::new(Mutex::new(Courier::new(&*CpuDevice::new(0), start, rescue, 1).unwrap()))
}

/// For tests of others: over copy engines of theirs.
pub fn beside(seed: u64, rescue: Box<dyn CopyQueue>) -> Arc<Mutex<Courier>> {
    courier(Box::new(OnThread::new(seed, false)), rescue)
}
