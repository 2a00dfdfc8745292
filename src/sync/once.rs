//! A value made at its first use, once.
//!
//! Not once_cell's own waiting cell: ThreadSanitizer takes the end of a thread that has waited there for a race with who woke it, for its
//! handle is std's.

#![forbid(unsafe_code)]

use super::Mutex;
use once_cell::race::OnceBox;

/// See the module.
pub struct OnceCell<T> {
    value: OnceBox<T>,
    making: Mutex<()>,
}

impl<T> OnceCell<T> {
    /// Empty.
    pub const fn new() -> Self {
        Self { value: OnceBox::new(), making: Mutex::new(()) }
    }

    /// The value, made by `make` if nobody did; others wait for it. If `make` panics the next caller tries again.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.get().unwrap_or_else(|| {
            let _making = self.making.lock();
            self.value.get_or_init(|| Box::new(make()))
        })
    }

    /// Makes it `value`; gives it back if there is one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _making = self.making.lock();
        self.value.set(Box::new(value)).map_err(|value| *value)
    }

    /// The value, if made.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
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
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_value_for_all_threads_and_a_panic_leaves_it_open() {
        let cell = OnceCell::new();
        assert!(cell.get().is_none());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cell.get_or_init(|| panic!("first")))).is_err());
        let made = AtomicU32::new(0);
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
