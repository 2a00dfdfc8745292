//! A value made at its first use, once: std's `OnceLock`, compiled with us, so that ThreadSanitizer sees its order.

use std::cell::UnsafeCell;

use parking_lot::Once;

/// See [`std::sync::OnceLock`].
pub struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once inside call_once_force and only read after it; readers on other threads need T: Sync, and
// the thread that drops it may not be the one that made it, so T: Send.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// Empty.
    pub const fn new() -> Self {
        Self { once: Once::new(), value: UnsafeCell::new(None) }
    }

    /// The value, made by `make` if nobody did; others wait for it. If `make` panics the next caller tries again.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        // SAFETY: Once runs one closure at a time and none after it is done, so the write is exclusive.
        self.once.call_once_force(|_| unsafe { *self.value.get() = Some(make()) });
        self.get().expect("call_once_force returned")
    }

    /// The value, if made.
    pub fn get(&self) -> Option<&T> {
        if !self.once.state().done() {
            return None;
        }
        // SAFETY: done, so the value is written and never changes again; state() acquires.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// Makes it `value`; gives it back if there is one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("the closure runs once"));
        value.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays() {
        let cell = OnceLock::new();
        assert!(cell.get().is_none());
        assert_eq!(cell.set(7), Ok(()));
        assert_eq!(cell.set(8), Err(8));
        assert_eq!((cell.get(), *cell.get_or_init(|| 9)), (Some(&7), 7));
    }
}
