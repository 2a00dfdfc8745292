//! What the threads of the CPU device do about signals before anything else.

use crate::error::report;

/// Of the handler's stack: a thread whose own has overflowed has nothing left on it.
const STACK: usize = 64 << 10;

/// Gives the calling thread a stack for handlers of signals.
pub fn take_signal_stack() {
    // SAFETY: plain calls on local structs; the stack is leaked, so it lives as long as the thread.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return;
        }
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: STACK };
        libc::sigaltstack(&stack, std::ptr::null_mut());
    }
}

/// Signals are the host program's: none is to run on a thread of ours.
pub fn block_signals() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
            libc::sigdelset(&mut all, fault);
        }
        if libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut()) != 0 {
            report("signals could not be blocked on a thread of the CPU device");
        }
    }
}
