// The event count between kernels that post and the proxy thread that sleeps. The poster follows `post` of
// include/ginrs_device/gin/queue.cuh and `Bell::ring` of cpu-device/src/bell.rs, the sleeper `Sleep::begin` and `Pump::is_hinted`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;

/// Which fence is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None.
    None,
    /// Between what is posted and the look whether somebody sleeps.
    OfPoster,
    /// Between the word that somebody sleeps and the look at what is posted.
    OfSleeper,
}

#[derive(Default)]
struct Memory {
    /// `ginrsGinExt::hintHead`.
    head: AtomicU32,
    slot: AtomicU32,
    asleep: AtomicU32,
    /// The eventfd.
    rung: AtomicU32,
}

impl Memory {
    fn post(&self, fault: Fault) {
        self.head.fetch_add(1, Ordering::Relaxed);
        self.slot.store(1, Ordering::Relaxed);
        if fault != Fault::OfPoster {
            fence(Ordering::SeqCst);
        }
        if self.asleep.load(Ordering::Relaxed) != 0 && self.asleep.swap(0, Ordering::AcqRel) != 0 {
            self.rung.fetch_add(1, Ordering::Release);
        }
    }

    /// What the proxy sees before it sleeps.
    fn lie_down(&self, fault: Fault) -> u32 {
        self.asleep.store(1, Ordering::Relaxed);
        if fault != Fault::OfSleeper {
            fence(Ordering::SeqCst);
        }
        self.head.load(Ordering::Relaxed)
    }
}

/// Whatever comes when: what a sleeper has not seen before it slept rings, and a sleep costs one ring.
pub fn sleep_and_post(posters: u32, fault: Fault) {
    let memory = Arc::new(Memory::default());
    let post = |memory: Arc<Memory>| thread::spawn(move || memory.post(fault));
    let threads: Vec<_> = (0..posters).map(|_| post(memory.clone())).collect();
    let seen = memory.lie_down(fault);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let rung = memory.rung.load(Ordering::Acquire);
    assert!(seen == posters || rung > 0, "asleep, and {} were posted", posters - seen);
    assert!(rung <= 1, "rung {rung} times");
}
