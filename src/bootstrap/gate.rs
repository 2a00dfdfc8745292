//! How many ranks of a process do one thing at a time.
#![forbid(unsafe_code)]

use crate::sync::channel::{Receiver, SendTimeoutError, Sender, bounded};
use std::time::{Duration, Instant};

/// See the module.
pub struct Gate {
    /// A message for each that is in: where it is full, the next one waits, and each that leaves wakes one.
    places: Sender<()>,
    taken: Receiver<()>,
}

/// A place, until it is dropped.
pub struct Inside<'a>(Option<&'a Gate>);

impl Gate {
    /// With room for so many.
    pub fn new(places: usize) -> Self {
        let (places, taken) = bounded(places);
        Self { places, taken }
    }

    /// Waits for a place; whoever has waited until `until`, or is told by `go_on` not to, which is asked `every` so often, goes in without one.
    pub fn enter(&self, until: Instant, every: Duration, mut go_on: impl FnMut() -> bool) -> Inside<'_> {
        loop {
            match self.places.send_deadline((), until.min(Instant::now() + every)) {
                Ok(()) => return Inside(Some(self)),
                Err(SendTimeoutError::Timeout(())) if Instant::now() < until && go_on() => {}
                Err(_) => return Inside(None),
            }
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            let _ = gate.taken.try_recv();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hang_limit::hang_deadline;
    use std::sync::atomic::{AtomicU32, Ordering};

    const EVERY: Duration = Duration::from_millis(5);

    #[test]
    fn so_many_are_in_and_all_come_in() {
        let (gate, inside, most) = (Gate::new(3), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    let end = hang_deadline();
                    let _place = gate.enter(end, EVERY, || true);
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // The first three meet inside. The others stay for 1 ms, so that one too many is seen.
                    while most.load(Ordering::SeqCst) < 3 {
                        assert!(Instant::now() < end, "fewer than three are let in");
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((most.load(Ordering::SeqCst), gate.taken.len()), (3, 0));
    }

    #[test]
    fn nobody_waits_for_longer_than_it_may() {
        let gate = Gate::new(1);
        let _first = gate.enter(Instant::now(), EVERY, || true);
        let far = hang_deadline();
        for (until, go_on) in [(Instant::now(), true), (far, false)] {
            assert!(gate.enter(until, EVERY, || go_on).0.is_none());
        }
        assert_eq!(gate.taken.len(), 1);
    }
}
