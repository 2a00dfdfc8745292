//! Locks, cells, values of a process and channels of the whole library, from one place.
//!
//! Not std's: its locks are compiled without ThreadSanitizer, which then reports races that are none; ours and crossbeam's are compiled
//! with us.
//!
//! Imports from error.

pub use answer::{Give, Hear, Heard, answer};
pub use lock::{Condvar, Mutex, MutexGuard};
pub use once::OnceCell;
pub use per_process::PerProcess;
pub use pid::pid;

mod answer;
mod lock;
mod once;
mod per_process;
mod pid;
pub mod system;

/// What is found once and never changes (functions of a library that stays), for statics: threads may race to find it, and all get what
/// one of them found. A forked child uses it as it is, and nobody ever holds a lock on it.
pub use once_cell::race::OnceBox;

/// Queues between threads. Only service threads wait at one: `answer` says why.
pub use crossbeam_channel as channel;
