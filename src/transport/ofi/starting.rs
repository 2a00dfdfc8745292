//! With the first question libfabric starts its providers, under a lock that its destructor takes as well: a child of fork() that came into being
//! meanwhile would wait for it in exit() without end. One that came while the loader was at the library's constructors crashed there (1 of some 70). So a fork
//! waits until both are over. So does exit() in another thread: destructors that ran meanwhile spoiled the heap (twice in 290 rounds of `make chaos`).

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longer than providers take to start: behind it a fork, an end, and whoever asks behind an end, go on all the same.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

/// Somebody asks, or forks. A word alone: the child of who forks gives it back, whatever state other threads were in.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The process ends.
static ENDS: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    ToAsk,
    ToFork,
    ToEnd,
}

thread_local! {
    /// What this thread has taken it for.
    static TAKES: Cell<Takes> = const { Cell::new(Takes::Nothing) };
}

/// `ask` while nobody forks.
pub(super) fn ask<T>(ask: impl FnOnce() -> T) -> T {
    static HOOKED: AtomicBool = AtomicBool::new(false);
    if !HOOKED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers call nothing but sleep, and live as long as the library is loaded.
        unsafe {
            libc::pthread_atfork(Some(before), Some(behind), Some(behind));
            libc::atexit(ends);
        }
    }
    let asks = take(Takes::ToAsk, Duration::MAX).then_some(Asks);
    let answer = ask();
    drop(asks);
    answer
}

/// Gives it back, though `ask` panics.
struct Asks;

impl Drop for Asks {
    fn drop(&mut self) {
        give(Takes::ToAsk);
    }
}

/// False if that takes too long, or this thread has it already.
fn take(what: Takes, patience: Duration) -> bool {
    if TAKES.get() != Takes::Nothing {
        return false;
    }
    let start = Instant::now();
    while TAKEN.swap(true, Ordering::Acquire) {
        let patience = if ENDS.load(Ordering::Relaxed) { patience.min(PATIENCE) } else { patience };
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    TAKES.set(what);
    true
}

fn give(what: Takes) {
    if TAKES.get() == what {
        TAKES.set(Takes::Nothing);
        TAKEN.store(false, Ordering::Release);
    }
}

/// By the thread that forks; a provider that forks while it starts waits for nobody.
extern "C" fn before() {
    take(Takes::ToFork, PATIENCE);
}

/// By the same, and by the child's.
extern "C" fn behind() {
    give(Takes::ToFork);
}

/// By the thread that ends the process. Others ask no more behind it, unless a destructor waits for them until their patience is over.
extern "C" fn ends() {
    ENDS.store(true, Ordering::Relaxed);
    take(Takes::ToEnd, PATIENCE);
}

#[cfg(test)]
mod tests {
    use super::super::provider::choose;
    use super::super::tests::alone::is_alone;
    use std::io::{Read, Write};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    /// Alone in a process, whose first question it is.
    #[test]
    fn a_child_that_is_forked_while_providers_start_ends() {
        if !is_alone("transport::ofi::starting::tests::a_child_that_is_forked_while_providers_start_ends") {
            return;
        }
        let starts = std::thread::spawn(|| choose(IpAddr::V4(Ipv4Addr::LOCALHOST)).is_ok());
        let mut children = Vec::new();
        while !starts.is_finished() {
            // SAFETY: the child only ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: with its exit handlers, libfabric's destructor among them; an alarm ends one that hangs.
                unsafe {
                    libc::alarm(60);
                    libc::exit(0)
                }
            }
            children.push(child);
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(starts.join().unwrap(), "libfabric has no provider for this machine itself");
        let statuses: Vec<i32> = children
            .iter()
            .map(|&child| {
                let mut status = -1;
                // SAFETY: a child of this test.
                unsafe { libc::waitpid(child, &mut status, 0) };
                status
            })
            .collect();
        assert!(statuses.iter().all(|&status| status == 0), "{statuses:?}");
    }

    /// In a child, which exits while another thread of it searches. Alone in a process: another test's
    /// thread may hold a lock when this one forks.
    #[test]
    fn the_end_of_a_process_waits_until_providers_have_started() {
        if !is_alone("transport::ofi::starting::tests::the_end_of_a_process_waits_until_providers_have_started") {
            return;
        }
        let (mut hears, mut says) = std::io::pipe().unwrap();
        // SAFETY: the child has a thread of its own, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (tell, asks) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                super::ask(|| {
                    tell.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(300));
                    says.write_all(b"over").unwrap();
                });
            });
            asks.recv().unwrap();
            // SAFETY: with its exit handlers.
            unsafe { libc::exit(0) }
        }
        drop(says);
        let mut said = String::new();
        hears.read_to_string(&mut said).unwrap();
        assert_eq!(said, "over");
        // SAFETY: a child of this test.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    }

    /// Alone in a process, as above. A static object whose destructor joins its threads does the same: it
    /// was made before the first search, so its destructor runs after `ends`.
    #[test]
    fn a_destructor_may_wait_for_who_asks() {
        if !is_alone("transport::ofi::starting::tests::a_destructor_may_wait_for_who_asks") {
            return;
        }
        extern "C" fn join() {
            let (says, hears) = std::sync::mpsc::channel();
            std::thread::spawn(move || says.send(super::ask(|| 7)));
            assert_eq!(hears.recv(), Ok(7));
        }
        // SAFETY: the child has no other threads, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it lives as long as the child.
            unsafe { libc::atexit(join) };
            super::ask(|| ());
            // SAFETY: with its exit handlers, or by the alarm.
            unsafe {
                libc::alarm(60);
                libc::exit(0)
            }
        }
        let mut status = -1;
        // SAFETY: a child of this test.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    /// And a fork in the midst of it, by who asks.
    #[test]
    fn nobody_waits_for_himself() {
        let child = super::ask(|| {
            // SAFETY: the child only ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: nothing runs any more.
                unsafe { libc::_exit(7) }
            }
            child
        });
        let mut status = 0;
        // SAFETY: a child of this test.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert_eq!(super::ask(|| super::ask(|| 1)), 1);
    }
}
