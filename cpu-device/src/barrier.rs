//! Barriers of a block: the counting, without the waiting.

/// How `__syncthreads_count`, `_and` and `_or` join predicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduce {
    /// How many were nonzero.
    Count,
    /// Whether all were.
    And,
    /// Whether any was.
    Or,
}

/// One of the sixteen barriers. A generation begins with the first arrival and ends when enough have arrived.
#[derive(Default, Debug)]
pub struct Barrier {
    /// Threads that this generation needs; 0 while nobody has arrived, or for the whole block.
    pub count: u32,
    /// Threads that have arrived, waiting or not.
    pub arrived: u32,
    /// Linear numbers of the threads that wait.
    pub waiters: Vec<u32>,
    nonzero: u32,
    /// Nonzero predicates and arrivals of the last complete generation; stays until its last thread has read it, for
    /// the next generation cannot end without that thread.
    result: (u32, u32),
}

impl Barrier {
    /// Whether a thread may arrive with this count: all threads of a generation give the same (0 is the whole block).
    pub fn takes(&self, count: u32) -> bool {
        self.arrived == 0 || self.count == count
    }

    /// Counts a thread.
    pub fn arrive(&mut self, count: u32, predicate: bool) {
        self.count = count;
        self.arrived += 1;
        self.nonzero += u32::from(predicate);
    }

    /// Whether the generation is complete in a block with `live` threads that have not exited.
    pub fn complete(&self, live: u32) -> bool {
        self.arrived > 0 && self.arrived >= if self.count == 0 { live } else { self.count }
    }

    /// Ends the generation; the threads to wake are moved to `woken`.
    pub fn end(&mut self, woken: &mut Vec<u32>) {
        self.result = (self.nonzero, self.arrived);
        woken.append(&mut self.waiters);
        (self.count, self.arrived, self.nonzero) = (0, 0, 0);
    }

    /// What the last generation's predicates come to.
    pub fn reduced(&self, op: Reduce) -> i32 {
        let (nonzero, arrived) = self.result;
        match op {
            Reduce::Count => nonzero as i32,
            Reduce::And => i32::from(nonzero == arrived),
            Reduce::Or => i32::from(nonzero > 0),
        }
    }

    /// Forgets everything: a new block begins.
    pub fn reset(&mut self) {
        self.waiters.clear();
        (self.count, self.arrived, self.nonzero) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_ends_when_the_live_threads_have_arrived() {
        let (mut barrier, mut woken) = (Barrier::default(), Vec::new());
        for thread in 0..3 {
            assert!(!barrier.complete(4));
            barrier.arrive(0, thread > 0);
            barrier.waiters.push(thread);
        }
        assert!(barrier.complete(3), "the fourth thread exited");
        barrier.end(&mut woken);
        assert_eq!(woken, [0, 1, 2]);
        assert_eq!([Reduce::Count, Reduce::And, Reduce::Or].map(|op| barrier.reduced(op)), [2, 0, 1]);
        assert!(!barrier.complete(0), "nobody has arrived yet");
    }

    #[test]
    fn counts_of_one_generation_must_agree() {
        let mut barrier = Barrier::default();
        assert!(barrier.takes(64) && barrier.takes(0));
        barrier.arrive(64, false);
        assert!(barrier.takes(64) && !barrier.takes(32) && !barrier.takes(0));
    }
}
