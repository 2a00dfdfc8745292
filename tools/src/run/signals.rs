//! Signals that ginrs-run hands on, and the limit that it raises for itself: both are put back in what it starts.

use std::time::Duration;

/// What the main thread waits for, blocked in all threads.
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks them; threads that start later inherit that.
    pub fn block() -> Signals {
        // SAFETY: the set is a plain C struct that sigemptyset initialises; the calls read and write only it.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [
                libc::SIGCHLD,
                libc::SIGINT,
                libc::SIGTERM,
                libc::SIGHUP,
                libc::SIGQUIT,
                libc::SIGTSTP,
                libc::SIGCONT,
                libc::SIGUSR1,
                libc::SIGUSR2,
            ] {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Signals(set)
        }
    }

    /// The next signal; None when the time is over. Without a limit, looks around every second all the same.
    pub fn wait(&self, limit: Option<Duration>) -> Option<i32> {
        let limit = limit.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
        let limit = libc::timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        // SAFETY: reads the set and the time, both alive; no siginfo is asked for.
        let signal = unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &limit) };
        (signal > 0).then_some(signal)
    }
}

/// In a child between fork and exec: no signal is blocked, and those that a shell ignores for its background jobs, lest the terminal's
/// reach them, are not ignored: in a process group of its own, the child gets them from us alone, and libginrs hears by SIGQUIT.
pub fn unblock() {
    // SAFETY: a plain C struct that sigemptyset initialises; all calls are async-signal-safe and touch only it.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// A signal for this process itself, which [`Signals::wait`] gives.
pub fn raise(signal: i32) {
    // SAFETY: takes numbers only.
    unsafe {
        libc::kill(libc::getpid(), signal);
    }
}

/// Stops this process as Ctrl-Z would have.
pub fn stop() {
    // SAFETY: takes a number only.
    unsafe {
        libc::raise(libc::SIGSTOP);
    }
}

/// The limit on open files as it was: two pipes for each rank would not fit into the usual 1024.
#[derive(Clone, Copy)]
pub struct OpenFiles(Option<libc::rlimit>);

impl OpenFiles {
    /// Raises it as far as it may go.
    pub fn raise() -> OpenFiles {
        let mut was = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls read or write only the struct that they get.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut was) != 0 {
                return OpenFiles(None);
            }
            let most = libc::rlimit { rlim_cur: was.rlim_max, ..was };
            OpenFiles((libc::setrlimit(libc::RLIMIT_NOFILE, &most) == 0).then_some(was))
        }
    }

    /// Puts it back; for a child between fork and exec: setrlimit is a system call and nothing else.
    pub fn put_back(self) {
        if let Some(was) = self.0 {
            // SAFETY: reads the struct only.
            unsafe {
                libc::setrlimit(libc::RLIMIT_NOFILE, &was);
            }
        }
    }
}
