//! How long the proxy thread naps between two looks, while kernels may post that tell nobody: a GPU's, and on the CPU device those that
//! were compiled with other headers.
//!
//! What a look and a nap cost differs between machines by more than ten times (18 us of a core on a virtual machine with emulated
//! timers, docs/results/ofi.md), so a thread measures its own, and naps for as long as keeps all proxy threads of the process within
//! a share of a core.
#![forbid(unsafe_code)]

use crate::sync::system::processor_time;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// One in so many: 4 % of a core.
const SHARE: u32 = 25;
/// Naps that are measured together.
const ENOUGH: u32 = 16;
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(100);

/// Proxy threads of this process.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// Of one thread.
pub(super) struct Naps {
    length: Duration,
    /// Since something has moved: naps, and the thread's processor time behind the first of them. One that is woken sooner pays no clock.
    now: (u32, Option<Duration>),
    /// Naps that were measured, and what they and their looks took.
    measured: (u32, Duration),
}

impl Naps {
    /// `first`: until enough have been measured.
    pub fn new(first: Duration) -> Self {
        THREADS.fetch_add(1, Ordering::Relaxed);
        Self { length: first, now: (0, None), measured: (0, Duration::ZERO) }
    }

    /// How long the next nap is.
    pub fn next(&mut self) -> Duration {
        self.next_at(processor_time)
    }

    fn next_at(&mut self, time: impl Fn() -> Duration) -> Duration {
        self.now.0 += 1;
        if self.now.0 == 2 {
            self.now.1 = Some(time());
        }
        self.length
    }

    /// Something has ended them.
    pub fn end(&mut self) {
        self.end_at(processor_time);
    }

    fn end_at(&mut self, time: impl Fn() -> Duration) {
        let (naps, Some(begin)) = std::mem::take(&mut self.now) else { return };
        self.measured.0 += naps - 1;
        self.measured.1 += time().saturating_sub(begin);
        if self.measured.0 >= ENOUGH {
            let (naps, spent) = std::mem::take(&mut self.measured);
            let all = spent / naps * THREADS.load(Ordering::Relaxed);
            self.length = (all * SHARE).clamp(SHORTEST, LONGEST);
        }
    }
}

impl Drop for Naps {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Naps as a look costs; what was spent on something else counts for nothing.
    #[test]
    fn a_share_of_a_core() {
        let us = Duration::from_micros;
        let mut naps = Naps::new(us(100));
        let mut doze = |times: u32, spent: Duration| {
            (0..times).for_each(|_| _ = naps.next_at(|| us(7000)));
            naps.end_at(|| us(7000) + spent);
            naps.length
        };
        assert_eq!(doze(1, us(1_000_000)), us(100), "woken out of its first nap");
        assert_eq!(doze(9, us(160)), us(100), "too few");
        // Other tests may have threads of their own.
        let measured = doze(9, us(160));
        assert!(measured >= us(20) * SHARE, "{measured:?}");
        assert_eq!(doze(17, us(0)), SHORTEST);
        assert_eq!(doze(17, us(10_000_000)), LONGEST);
    }
}
