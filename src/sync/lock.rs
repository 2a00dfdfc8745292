//! A lock and a condition variable on futexes, with nothing behind them.
//!
//! Not parking_lot's: its waiting threads stand in one table of the process, with locks of its own. A thread of the parent may hold one
//! of them at fork(), and then any wait in the child is for ever (abi-tests/exits/forks.c: 1 child in 500). Here a lock is its own
//! words: one that the child has made nobody else can hold.

use super::system::{futex_wait, futex_wake};
use lock_api::{GuardNoSend, RawMutex};
use rustix::event::Timespec;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// As `std::sync::Mutex`, but never poisoned.
pub type Mutex<T> = lock_api::Mutex<RawLock, T>;
/// The lock, taken.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// And somebody sleeps.
const AWAITED: u32 = 2;

/// How often a lock is looked at before the thread sleeps: about a microsecond.
const SPINS: u32 = 100;

/// See the module.
pub struct RawLock {
    state: AtomicU32,
    /// Threads that want it and have not got it: `try_lock` gives way to them, or a loop that tries again and again (the proxy's) would
    /// always be there first.
    waiting: AtomicU32,
}

// SAFETY: `lock` and a true `try_lock` return only after a change of the state from FREE by this thread, which only `unlock` reverts;
// Acquire and Release order what is done under it.
unsafe impl RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self { state: AtomicU32::new(FREE), waiting: AtomicU32::new(0) };
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.take() {
            self.lock_slowly();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0 && self.take()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            futex_wake(&self.state, 1);
        }
    }
}

impl RawLock {
    #[inline]
    fn take(&self) -> bool {
        self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_slowly(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let spun = (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.state.load(Ordering::Relaxed) == FREE && self.take()
        });
        // Who wakes does not know whether others sleep: it leaves the state as if.
        while !spun && self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            futex_wait(&self.state, AWAITED, None);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// As `std::sync::Condvar`. Waits may end early.
pub struct Condvar {
    /// Changed by every notice: a waiter that has yet to sleep sees that it is late.
    notices: AtomicU32,
}

/// Whether a wait ended by its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the deadline has passed.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self { notices: AtomicU32::new(0) }
    }

    /// Wakes all.
    pub fn notify_all(&self) {
        self.notices.fetch_add(1, Ordering::Relaxed);
        futex_wake(&self.notices, i32::MAX);
    }

    /// Lets go of the lock until a notice comes.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.sleep(guard, None);
    }

    /// The same, for as long as `patience`.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, patience: Duration) -> WaitTimeoutResult {
        // Longer than a thread lives: no deadline.
        self.sleep(guard, Instant::now().checked_add(patience))
    }

    /// The same, until `end`.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> WaitTimeoutResult {
        self.sleep(guard, Some(end))
    }

    fn sleep<T>(&self, guard: &mut MutexGuard<'_, T>, end: Option<Instant>) -> WaitTimeoutResult {
        // Read under the lock: a notice from here on changes it, and the futex does not sleep then.
        let notices = self.notices.load(Ordering::Relaxed);
        lock_api::MutexGuard::unlocked(guard, || {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            futex_wait(&self.notices, notices, left.as_ref());
        });
        WaitTimeoutResult(end.is_some_and(|end| Instant::now() >= end))
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn one_at_a_time_and_nobody_is_forgotten() {
        const THREADS: u64 = 8;
        const ROUNDS: u64 = 20_000;
        let count = Mutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let seen = *count.lock();
                        let mut count = count.lock();
                        assert!(*count >= seen);
                        *count += 1;
                    }
                });
            }
        });
        assert_eq!(*count.lock(), THREADS * ROUNDS);
    }

    /// As the proxy does: it tries again at once.
    #[test]
    fn a_thread_that_waits_comes_before_one_that_tries() {
        let (lock, over) = (Mutex::new(()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _held = lock.try_lock().inspect(|_| (0..1000).for_each(|_| std::hint::spin_loop()));
                }
            });
            for _ in 0..1000 {
                drop(lock.lock());
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn notices_reach_those_who_wait_and_deadlines_end() {
        let (turn, changed) = (Mutex::new(0u32), Condvar::new());
        let begin = Instant::now();
        assert!(changed.wait_for(&mut turn.lock(), Duration::from_millis(20)).timed_out());
        assert!(begin.elapsed() >= Duration::from_millis(20));
        assert!(changed.wait_until(&mut turn.lock(), begin).timed_out());
        std::thread::scope(|scope| {
            for me in 0..4 {
                let (turn, changed) = (&turn, &changed);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let mut turn = turn.lock();
                        while *turn % 4 != me {
                            changed.wait(&mut turn);
                        }
                        *turn += 1;
                        changed.notify_all();
                    }
                });
            }
        });
        assert_eq!(*turn.lock(), 2000);
    }
}
