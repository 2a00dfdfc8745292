//! Locks, once-cells, channels and atomics of the whole library, from one place.
//!
//! Not std's: its locks are compiled without ThreadSanitizer, which then reports races that are none; parking_lot's and crossbeam's are
//! compiled with us. Under `cfg(loom)` the atomics are loom's: code that a model checker drives takes them from here and uses no locks.

pub use answer::{Give, Hear, Heard, answer};
pub use parking_lot::{Condvar, Mutex, MutexGuard};

mod answer;

/// Queues between threads. Only service threads wait at one: `answer` says why.
pub use crossbeam_channel as channel;

/// Atomics: std's, or loom's under the model checker.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::*;
    #[cfg(not(loom))]
    pub use std::sync::atomic::*;
}

/// What the locks keep for a thread is made now. A thread of ours calls it first: later the loader's lock, which that takes, may be
/// held by a dlclose whose destructors wait for us.
pub fn begin_thread() {
    let lock = Mutex::new(());
    Condvar::new().wait_for(&mut lock.lock(), std::time::Duration::ZERO);
}

/// A value made at its first use, once. `parking_lot::Once` orders it.
pub struct OnceCell<T> {
    once: parking_lot::Once,
    value: std::cell::UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once inside call_once_force and only read after it; readers on other threads need T: Sync, and the
// thread that drops the cell may not be the one that made the value, so T: Send.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}
// SAFETY: the cell owns its value.
unsafe impl<T: Send> Send for OnceCell<T> {}

impl<T> OnceCell<T> {
    /// Empty.
    pub const fn new() -> Self {
        Self { once: parking_lot::Once::new(), value: std::cell::UnsafeCell::new(None) }
    }

    /// The value, made by `make` if nobody did; others wait for it. If `make` panics the next caller tries again.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        // SAFETY: Once runs one closure at a time and none after it is done, so the write is exclusive.
        self.once.call_once_force(|_| unsafe { *self.value.get() = Some(make()) });
        self.get().expect("call_once_force returned")
    }

    /// Makes it `value`; gives it back if there is one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("the closure runs once"));
        value.map_or(Ok(()), Err)
    }

    /// The value, if made.
    pub fn get(&self) -> Option<&T> {
        if !self.once.state().done() {
            return None;
        }
        // SAFETY: done, so the value is written and never changes again; state() acquires.
        unsafe { (*self.value.get()).as_ref() }
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_for_all_threads_and_a_panic_leaves_it_open() {
        let cell = OnceCell::new();
        assert!(cell.get().is_none());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cell.get_or_init(|| panic!("first")))).is_err());
        let made = atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let value = cell.get_or_init(|| made.fetch_add(1, atomic::Ordering::Relaxed) + 7);
                    assert_eq!(*value, 7);
                });
            }
        });
        assert_eq!((cell.get(), cell.set(9)), (Some(&7), Err(9)));
    }
}
