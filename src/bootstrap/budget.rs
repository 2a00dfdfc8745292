//! How much work strangers may make. A connection that leads nowhere costs some microseconds, so whoever can connect could keep
//! the service thread, and with it the job, from its work: what they may have is counted, and beyond that nothing is accepted
//! for a while. Their connections wait in the kernel's queue meanwhile, or fail there, at their own cost.

use std::time::{Duration, Instant};

/// Connections accepted in one turn of the event loop: the ranks' links have their turn in between.
pub const PER_TURN: usize = 32;
/// Connections turned away in a second, while nobody joins here (some percent of a core) and while ranks do: a rank waits behind
/// at most a queue of strangers.
const QUIET: u32 = 10_000;
const JOINING: u32 = 100_000;
/// How long nothing is accepted once they are used up; and this much may come at once.
pub const REST: Duration = Duration::from_millis(10);

/// Connections that may yet be turned away.
pub struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    /// Full.
    pub fn new(now: Instant) -> Self {
        Self { left: f64::from(JOINING), at: now }
    }

    /// Another one was turned away. False: it was the last one for now.
    pub fn spend(&mut self, now: Instant, joining: bool) -> bool {
        let rate = f64::from(if joining { JOINING } else { QUIET });
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        self.at = now;
        // What was not used up is not kept for long.
        self.left = (self.left + earned).min(rate * REST.as_secs_f64()) - 1.0;
        self.left > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_flood_makes_a_second_of_bounded_work() {
        for (joining, rate) in [(false, QUIET), (true, JOINING)] {
            let start = Instant::now();
            let (mut budget, mut now, mut spent) = (Budget::new(start), start, 0);
            while now < start + Duration::from_secs(1) {
                // A turn that takes no time, and a rest where it asks for one.
                for _ in 0..PER_TURN {
                    spent += 1;
                    if !budget.spend(now, joining) {
                        now += REST;
                        break;
                    }
                }
            }
            assert!((rate * 9 / 10..=rate * 11 / 10).contains(&spent), "{spent} of {rate}");
        }
    }

    #[test]
    fn few_strangers_never_make_it_rest() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert!((0..5000).all(|i| budget.spend(start + Duration::from_millis(i), false)));
    }
}
