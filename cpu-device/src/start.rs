//! Blocks of a small grid start together, as on a GPU.
//!
//! A block comes here when all its threads have had their first turn: each has run to its end, its first rendezvous or its
//! first poll. It goes on when all blocks of its grid have come. Programs count on that without saying so: each block reads
//! a signal's value, then all meet their peers' blocks of the same number in a barrier; a peer's signal must not arrive
//! before a block that began late has read. Grids that would not start together on a GPU either are let through.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Most blocks and threads of a grid that starts together: what communication kernels use, and stacks that fit into memory
/// beside those of the other ranks. (On two cores 64 blocks with barriers cost 1.5 times what they do without starting so.)
const MOST_BLOCKS: u64 = 64;
const MOST_THREADS: u64 = 1 << 15;
/// So long is the last block waited for: its worker may be taken by another grid that waits for this one.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at what keeps the others.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Default)]
struct State {
    come: u64,
    /// Somebody brings the others here.
    helped: bool,
    /// Waiting is of no use.
    open: bool,
}

/// How many blocks of a grid have come.
pub struct Start {
    state: Mutex<State>,
    wake: Condvar,
    patience: Duration,
}

impl Default for Start {
    fn default() -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), patience: PATIENCE }
    }
}

impl Start {
    /// A block has come; it waits until `total` have, if `waits`. One of those that wait calls `help` now and then, to bring
    /// the others here: false says that it cannot.
    pub fn come(&self, total: u64, threads_per_block: u64, waits: bool, mut help: impl FnMut() -> bool) {
        if !(2..=MOST_BLOCKS).contains(&total) || total * threads_per_block > MOST_THREADS {
            return;
        }
        let mut state = self.state.lock();
        state.come += 1;
        if state.come >= total {
            self.wake.notify_all();
        }
        let begin = Instant::now();
        let helps = waits && !state.helped;
        state.helped |= helps;
        while waits && state.come < total && !state.open && begin.elapsed() < self.patience {
            if helps {
                drop(state);
                let useful = help();
                state = self.state.lock();
                state.open |= !useful;
                if state.open {
                    self.wake.notify_all();
                }
            }
            if state.come < total && !state.open {
                self.wake.wait_for(&mut state, LOOK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A wait of this duration counts as a hang.
    const HANG_LIMIT: Duration = Duration::from_secs(120);

    fn patient() -> Start {
        Start { patience: HANG_LIMIT, ..Start::default() }
    }

    #[test]
    fn nobody_goes_on_before_all_have_come() {
        let (start, come) = (patient(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for block in 0..8 {
                let (start, come) = (&start, &come);
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(5 * block));
                    come.fetch_add(1, Ordering::Relaxed);
                    start.come(8, 32, true, || true);
                    assert_eq!(come.load(Ordering::Relaxed), 8);
                });
            }
        });
    }

    #[test]
    fn large_grids_useless_waits_and_lost_blocks_do_not_hold_anybody() {
        let begin = Instant::now();
        patient().come(MOST_BLOCKS + 1, 1, true, || true);
        patient().come(MOST_BLOCKS, 1024, true, || true);
        patient().come(2, 32, false, || true);
        patient().come(2, 32, true, || false);
        assert!(begin.elapsed() < HANG_LIMIT);
        let begin = Instant::now();
        Start::default().come(2, 32, true, || true);
        assert!(begin.elapsed() >= PATIENCE);
    }
}
