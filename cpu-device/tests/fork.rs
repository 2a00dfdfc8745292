//! Forking before and after the first use of a device. One test, so that no other thread of the harness is in a call.

mod common;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::*};

use common::*;

unsafe extern "C" fn kernel(p: *mut c_void) {
    // SAFETY: what the launch gives.
    let count: &AtomicU32 = unsafe { state(p) };
    count.fetch_add(1, Relaxed);
}

/// Runs `body` in a child; its exit status.
fn child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs only `body` and leaves without returning to the test harness.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(body()),
            pid => {
                let mut status = -1;
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                assert!(libc::WIFEXITED(status), "{status:#x}");
                libc::WEXITSTATUS(status)
            }
        }
    }
}

#[test]
fn a_process_may_fork_before_its_first_call() {
    let launch = || {
        let count = AtomicU32::new(0);
        let error = Launcher::new(10, 10, kernel, &count).run();
        if count.load(Relaxed) == 100 { error } else { 100 + error }
    };
    assert_eq!(child(launch), 0);
    assert_eq!(child(launch), 0);
    assert_eq!(launch(), 0);
    assert_eq!(child(launch), 103, "cudaErrorInitializationError, at once");
    assert_eq!(launch(), 0);
}
