//! A value of this process, and another one after fork().
//!
//! A child of fork() has its parent's memory but none of its threads. So such a value is not made once: it is made once per process id,
//! and the child makes its own without touching a lock that a thread of the parent may have held.

use super::{Mutex, MutexGuard, pid};
use crate::bail;
use crate::error::Result;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value of this process. A forked child makes its own; the parent's copy is left alone, never dropped. Every static that holds a
/// lock is one (tests/statics.rs).
pub struct PerProcess<T: 'static> {
    slot: AtomicPtr<Made<T>>,
}

struct Made<T> {
    owner: u32,
    /// Who had made one before a fork.
    parent: Option<u32>,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Not made yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { slot: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process. Threads may race to `make` it: one result stays, the others are dropped.
    pub fn get(&'static self, make: impl FnOnce() -> T) -> &'static T {
        &self.made(make).value
    }

    fn made(&'static self, make: impl FnOnce() -> T) -> &'static Made<T> {
        let pid = pid();
        let seen = self.slot.load(Ordering::Acquire);
        if let Some(made) = of_process(seen, pid) {
            return made;
        }
        // SAFETY: as in `of_process`.
        let parent = unsafe { seen.as_ref() }.map(|seen| seen.owner);
        let made = Box::into_raw(Box::new(Made { owner: pid, parent, value: make() }));
        match self.slot.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made comes from a Box and is never freed once it stands in the slot.
            Ok(_) => unsafe { &*made },
            Err(winner) => {
                // SAFETY: made never left this function.
                drop(unsafe { Box::from_raw(made) });
                of_process(winner, pid).expect("only threads of this process race")
            }
        }
    }
}

impl<T: Default + Send> PerProcess<Mutex<T>> {
    /// The lock of this process, taken.
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        self.get(Mutex::default).lock()
    }

    /// `Err(InvalidUsage, E060)` for `what`, which is not in it, in a forked child whose parent had one: it may be there.
    pub fn check_parent(&'static self, what: &str) -> Result<()> {
        match self.made(Mutex::default).parent {
            Some(parent) => bail!(
                InvalidUsage,
                60,
                "{what} is not of this process | it was forked from process {parent}, and what that had made stays there | pid {} | fix: \
                 make communicators and memory after fork(), or start processes with exec",
                std::process::id()
            ),
            None => Ok(()),
        }
    }
}

fn of_process<T>(slot: *mut Made<T>, pid: u32) -> Option<&'static Made<T>> {
    // SAFETY: what stands in a slot was published whole (Release) and is never freed or changed.
    unsafe { slot.as_ref() }.filter(|made| made.owner == pid)
}
