// The consumer is the library's own queue::take and Ledger over the checker's atomics; the producer follows
// include/ginrs_device/gin/queue.cuh line by line, and names the steps of the table at that file's head
// (tests/header.rs fails when those lines change). Included once for each checker, as `runtime`.

use ginrs::gin::ledger::Ledger;
use ginrs::gin::queue::{self, Index, Word};
use runtime::sync::Arc;
use runtime::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use runtime::thread;

/// Nothing planted.
pub const SOUND: u8 = 0;
/// Planted: the first word is loaded without acquire.
pub const TAKE_RELAXED: u8 = 1;
/// Planted: the index is published without release.
pub const CREDIT_RELAXED: u8 = 2;

/// A word of a slot.
struct Checked<const FAULT: u8>(AtomicU64);

impl<const FAULT: u8> Word for Checked<FAULT> {
    fn load_acquire(&self) -> u64 {
        self.0.load(if FAULT == TAKE_RELAXED { Ordering::Relaxed } else { Ordering::Acquire })
    }
    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

struct Consumed<const FAULT: u8>(AtomicU32);

impl<const FAULT: u8> Index for Consumed<FAULT> {
    fn publish(&self, index: u32) {
        self.0.store(index, if FAULT == CREDIT_RELAXED { Ordering::Relaxed } else { Ordering::Release });
    }
}

/// What the two sides share: one queue, and a payload for each put.
struct Memory<const WORDS: usize, const FAULT: u8> {
    slots: Vec<[Checked<FAULT>; WORDS]>,
    pi: AtomicU32,
    ci: Consumed<FAULT>,
    /// What producers have seen of `ci`.
    cached: AtomicU32,
    payload: Vec<AtomicU64>,
    counter: AtomicU64,
    abort: AtomicBool,
}

/// How large a case is.
#[derive(Clone, Copy)]
pub struct Case {
    /// Threads that post.
    pub producers: u32,
    /// Puts of each.
    pub puts: u32,
    /// Slots of the queue.
    pub slots: usize,
    /// First index; near the wrap if slots is a power of two.
    pub start: u32,
    /// One more thread raises the abort word, at any point.
    pub abort: bool,
}

impl<const WORDS: usize, const FAULT: u8> Memory<WORDS, FAULT> {
    fn new(case: &Case) -> Self {
        let slot = || std::array::from_fn(|_| Checked(AtomicU64::new(0)));
        Self {
            slots: (0..case.slots).map(|_| slot()).collect(),
            pi: AtomicU32::new(case.start),
            ci: Consumed(AtomicU32::new(case.start)),
            cached: AtomicU32::new(case.start),
            payload: (0..case.producers * case.puts).map(|_| AtomicU64::new(0)).collect(),
            counter: AtomicU64::new(0),
            abort: AtomicBool::new(false),
        }
    }

    fn slot(&self, index: u32) -> &[Checked<FAULT>; WORDS] {
        &self.slots[index as usize % self.slots.len()]
    }

    /// queue.cuh `submit` and `post`. False if the wait for credit was given up.
    fn post(&self, put: u32) -> bool {
        self.payload[put as usize].store(u64::from(put) + 1, Ordering::Relaxed);
        let index = self.pi.fetch_add(1, Ordering::Relaxed); // step 1
        let known = self.cached.load(Ordering::Relaxed);
        fence(Ordering::Release); // step 2, releasePayload
        // Step 3, the hint, orders nothing and is left out.
        // Step 4, with the cached index first. A thread that it lets through has only the control dependency to order its
        // words behind the zeroing: the header says why that is enough.
        if index.wrapping_sub(known) >= self.slots.len() as u32 && !self.wait_for_consumer(index) {
            return false;
        }
        // Step 5, as GPUs store: nothing orders the words. (Descending, the unkind order for a reader that ascends.)
        for word in self.slot(index).iter().rev() {
            word.0.store(u64::from(put) << 1 | queue_flag(), Ordering::Relaxed);
        }
        true
    }

    /// `waitForConsumer` and `waitForSlotAfterAbort`, which looks once more here. False: given up.
    fn wait_for_consumer(&self, index: u32) -> bool {
        loop {
            let aborted = self.abort.load(Ordering::Acquire);
            let seen = self.ci.0.load(Ordering::Acquire);
            if index.wrapping_sub(seen) < self.slots.len() as u32 {
                fence(Ordering::Release);
                self.cached.store(seen, Ordering::Relaxed);
                return true;
            }
            if aborted {
                return false;
            }
            thread::yield_now();
        }
    }

    /// flush.cuh `flushPeer`: the credit is seen only with everything that precedes it.
    fn flush(&self) {
        let claimed = self.pi.load(Ordering::Relaxed);
        while self.ci.0.load(Ordering::Acquire).wrapping_sub(claimed) > u32::MAX >> 1 {
            thread::yield_now();
        }
    }
}

fn queue_flag() -> u64 {
    ginrs::gin::descriptor::WRITTEN
}

/// Producers against the consumer; asserts that every put is consumed once, whole and with its payload, that credit comes
/// back once and in order, and that who sees the credit sees the counter.
pub fn hand_over<const WORDS: usize, const FAULT: u8>(case: Case) {
    let memory = Arc::new(Memory::<WORDS, FAULT>::new(&case));
    let done = Arc::new(AtomicU32::new(0));
    let mut threads: Vec<_> = (0..case.producers)
        .map(|producer| {
            let (memory, done) = (memory.clone(), done.clone());
            thread::spawn(move || {
                for put in 0..case.puts {
                    if !memory.post(producer * case.puts + put) {
                        break;
                    }
                }
                if case.producers == 1 && !case.abort {
                    memory.flush();
                    assert_eq!(memory.counter.load(Ordering::Relaxed), u64::from(case.puts), "counter before index");
                    // The sources are reusable now.
                    memory.payload.iter().for_each(|payload| payload.store(u64::MAX, Ordering::Relaxed));
                }
                done.fetch_add(1, Ordering::Release);
            })
        })
        .collect();
    if case.abort {
        let memory = memory.clone();
        threads.push(thread::spawn(move || memory.abort.store(true, Ordering::Release)));
    }
    consume(&case, &memory, &done);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The proxy: until all puts are there or, after an abort, all producers have left.
fn consume<const WORDS: usize, const FAULT: u8>(case: &Case, memory: &Memory<WORDS, FAULT>, done: &AtomicU32) {
    let mut ledger = Ledger::starting_at(ginrs::seq::Seq(case.start));
    let mut seen = vec![false; memory.payload.len()];
    let mut left = seen.len();
    while left > 0 {
        // Read before the look: who has left has written.
        let all_left = case.abort && done.load(Ordering::Acquire) == case.producers;
        match queue::take(memory.slot(ledger.next().0)) {
            Some(words) => {
                let put = (words[0] >> 1) as usize;
                assert!(words.iter().all(|word| *word == words[0]), "words of two descriptors: {words:?}");
                assert!(!std::mem::replace(&mut seen[put], true), "put {put} came twice");
                assert_eq!(memory.payload[put].load(Ordering::Relaxed), put as u64 + 1, "payload of put {put}");
                ledger.take();
                memory.counter.fetch_add(1, Ordering::Release);
                assert!(ledger.credit(&[], &memory.ci), "credit comes back once");
                left -= 1;
            }
            None if all_left => return,
            None => thread::yield_now(),
        }
    }
    let end = case.start.wrapping_add(seen.len() as u32);
    assert_eq!(ledger.next().0, end);
    assert!(memory.slots.iter().flatten().all(|word| Word::load(word) == 0), "all slots are zeroed");
}
