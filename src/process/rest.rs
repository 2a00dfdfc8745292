//! When no kernel that may wait for another rank is on its way in this process: what the driver does only once all kernels are over, holding up
//! everybody's launches and copies meanwhile, waits for the program's own then, and not for what needs those launches and copies.
//!
//! cudaFree is the same for a program: who frees memory has all of its kernels end.
#![forbid(unsafe_code)]

use crate::sync::{Mutex, PerProcess};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Busy = Box<dyn Fn() -> bool + Send + Sync>;

#[derive(Default)]
struct Process {
    /// Launches that are being made, and device communicators.
    launching: AtomicUsize,
    /// Somebody asks whether all is at rest, or acts upon it: launches wait for this lock.
    stopped: AtomicBool,
    turn: Mutex<()>,
    members: Mutex<(u64, BTreeMap<u64, Busy>)>,
}

fn process() -> &'static Process {
    static PROCESS: PerProcess<Process> = PerProcess::new();
    PROCESS.get(Process::default)
}

/// One of the communicators that count.
pub struct Member(u64);

/// Counts a communicator until it is dropped. `busy`: whether kernels of it may wait for other ranks, as far as launches are known; it is asked
/// while no launch can be made.
pub fn join(busy: impl Fn() -> bool + Send + Sync + 'static) -> Member {
    let mut members = process().members.lock();
    members.0 += 1;
    let number = members.0;
    members.1.insert(number, Box::new(busy));
    Member(number)
}

impl Drop for Member {
    fn drop(&mut self) {
        process().members.lock().1.remove(&self.0);
    }
}

/// While it lives a launch is being made, or what kernels of the program's wait by.
pub struct Launching(());

/// Waits for who acts at rest.
pub fn launching() -> Launching {
    let process = process();
    loop {
        process.launching.fetch_add(1, Ordering::SeqCst);
        // Behind the count, as `at_rest` counts behind its store: one of the two sees the other.
        if !process.stopped.load(Ordering::SeqCst) {
            return Launching(());
        }
        process.launching.fetch_sub(1, Ordering::SeqCst);
        drop(process.turn.lock());
    }
}

impl Drop for Launching {
    fn drop(&mut self) {
        process().launching.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Acts if all is at rest, and has launches wait meanwhile. False if it is not: nothing was done.
pub fn at_rest(act: impl FnOnce()) -> bool {
    let process = process();
    let _turn = process.turn.lock();
    process.stopped.store(true, Ordering::SeqCst);
    let rests = process.launching.load(Ordering::SeqCst) == 0 && !process.members.lock().1.values().any(|busy| busy());
    if rests {
        act();
    }
    process.stopped.store(false, Ordering::SeqCst);
    rests
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    /// Both in one, for they are about the process.
    #[test]
    fn who_acts_has_no_launch_beside_it_and_nobody_who_may_wait() {
        let busy = Arc::new(AtomicBool::new(true));
        let asked = busy.clone();
        let member = join(move || asked.load(Ordering::Relaxed));
        assert!(!at_rest(|| unreachable!()));
        busy.store(false, Ordering::Relaxed);
        let launch = launching();
        assert!(!at_rest(|| unreachable!()), "a launch is being made");
        drop(launch);

        let (inside, outside) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut acted = 0;
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let _launch = launching();
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                    outside.fetch_add(1, Ordering::SeqCst);
                });
            }
            while outside.load(Ordering::SeqCst) < 2 {
                acted += u32::from(at_rest(|| assert_eq!(inside.load(Ordering::SeqCst), 0)));
            }
        });
        assert!(at_rest(|| acted += 1) && acted > 0);
        busy.store(true, Ordering::Relaxed);
        assert!(!at_rest(|| unreachable!()));
        drop(member);
        assert!(at_rest(|| ()));
    }
}
