//! Naps of a device's block threads, which end early when libginrs says that something has moved.
//!
//! A block that waits for another machine cannot know when to look again. With naps alone, the longer the longer it had waited, it was late
//! by half of its wait; and each look in between cost a step of the library.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// See the module.
#[derive(Default)]
pub struct Naps {
    /// Counts rings; written under the lock.
    rung: AtomicU32,
    asleep: AtomicU32,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Naps {
    /// Rings so far: to be read before one looks at what one waits for.
    pub fn rung(&self) -> u32 {
        self.rung.load(Ordering::SeqCst)
    }

    /// Sleeps, for `nap` at the longest; not at all if it has rung since `seen`.
    pub fn nap(&self, seen: u32, nap: Duration) {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        if self.rung() == seen {
            self.bell.wait_for(&mut guard, nap);
        }
        drop(guard);
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ends the naps of now, and those that begin with an older count. Without a call of the system where nobody sleeps.
    pub fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            // Whoever has seen the old count under the lock is asleep by the time that it can be had.
            drop(self.lock.lock());
            self.bell.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Naps of an hour end with the ring, also with one that came between the look and the nap.
    #[test]
    fn a_ring_ends_naps_and_is_not_missed() {
        let (naps, hour) = (Naps::default(), Duration::from_secs(3600));
        let seen = naps.rung();
        naps.ring();
        naps.nap(seen, hour);
        let seen = naps.rung();
        std::thread::scope(|scope| {
            let sleepers: Vec<_> = (0..3).map(|_| scope.spawn(|| naps.nap(seen, hour))).collect();
            std::thread::sleep(Duration::from_millis(20));
            naps.ring();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
        let begin = Instant::now();
        naps.nap(naps.rung(), Duration::from_millis(5));
        assert!(begin.elapsed() >= Duration::from_millis(5));
    }
}
