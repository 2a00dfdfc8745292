//! Locks, once-cells, values of a process, channels and atomics of the whole library, from one place.
//!
//! Not std's: its locks are compiled without ThreadSanitizer, which then reports races that are none; ours and crossbeam's are compiled
//! with us. Under `cfg(loom)` the atomics are loom's: code that a model checker drives takes them from here and uses no locks.
//!
//! Imports from error.

// Of statics and cells that no model checker drives: loom's cannot be made in a static.
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub use answer::{Give, Hear, Heard, answer};
pub use lock::{Condvar, Mutex, MutexGuard};
pub use per_process::PerProcess;

mod answer;
mod lock;
mod per_process;

/// Queues between threads. Only service threads wait at one: `answer` says why.
pub use crossbeam_channel as channel;

/// Atomics: std's, or loom's under the model checker.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::*;
    #[cfg(not(loom))]
    pub use std::sync::atomic::*;
}

/// What is found once and never changes (functions of a library that stays), for statics: a forked child uses it as it is, and nobody
/// ever holds a lock on it.
pub struct Found<T: 'static>(AtomicPtr<T>);

impl<T: Send + Sync> Found<T> {
    /// Not looked for yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// What was found, if it was.
    pub fn get(&'static self) -> Option<&'static T> {
        // SAFETY: what stands in it was published whole (Release) and is never freed or changed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// What is found; threads may race to `find` it, and all get what one of them found.
    pub fn get_or(&'static self, find: impl FnOnce() -> T) -> &'static T {
        if let Some(found) = self.get() {
            return found;
        }
        let found = Box::into_raw(Box::new(find()));
        match self.0.compare_exchange(std::ptr::null_mut(), found, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: from a Box, never freed once it stands there.
            Ok(_) => unsafe { &*found },
            Err(other) => {
                // SAFETY: `found` never left this function; `other` as in `get`.
                unsafe {
                    drop(Box::from_raw(found));
                    &*other
                }
            }
        }
    }
}

/// A value made at its first use, once.
pub struct OnceCell<T> {
    done: AtomicBool,
    making: Mutex<()>,
    value: std::cell::UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once, under the lock and before `done`, and only read after it; readers on other threads need T: Sync,
// and the thread that drops the cell may not be the one that made the value, so T: Send.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}
// SAFETY: the cell owns its value.
unsafe impl<T: Send> Send for OnceCell<T> {}

impl<T> OnceCell<T> {
    /// Empty.
    pub const fn new() -> Self {
        Self { done: AtomicBool::new(false), making: Mutex::new(()), value: std::cell::UnsafeCell::new(None) }
    }

    /// The value, made by `make` if nobody did; others wait for it. If `make` panics the next caller tries again.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let making = self.making.lock();
        if self.get().is_none() {
            let value = make();
            // SAFETY: one thread at a time holds the lock, and nobody reads before `done`: the write is exclusive.
            unsafe { *self.value.get() = Some(value) };
            self.done.store(true, Ordering::Release);
        }
        drop(making);
        self.get().expect("made above")
    }

    /// Makes it `value`; gives it back if there is one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("the closure runs once"));
        value.map_or(Ok(()), Err)
    }

    /// The value, if made.
    pub fn get(&self) -> Option<&T> {
        if !self.done.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: done, so the value is written and never changes again.
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
                    let value = cell.get_or_init(|| made.fetch_add(1, Ordering::Relaxed) + 7);
                    assert_eq!(*value, 7);
                });
            }
        });
        assert_eq!((cell.get(), cell.set(9)), (Some(&7), Err(9)));
    }
}
