//! Signals belong to the program: no thread of ours takes one.

/// Whether one of the process's interval timers (setitimer, alarm) runs.
pub fn interval_timers() -> bool {
    let runs = |which| {
        // SAFETY: a plain struct, which the call fills.
        unsafe {
            let mut timer: libc::itimerval = std::mem::zeroed();
            libc::getitimer(which, &mut timer) != 0 || timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0
        }
    };
    runs(libc::ITIMER_REAL) || runs(libc::ITIMER_VIRTUAL) || runs(libc::ITIMER_PROF)
}

/// All signals blocked for this thread until drop; a thread started meanwhile inherits the mask.
pub(super) struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    pub(super) fn new() -> Self {
        // SAFETY: both sets are plain memory that the calls fill; a valid `how` cannot fail.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: restores the mask read in `new`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
