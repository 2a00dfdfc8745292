//! SIGQUIT asks what the process waits for: it is printed, and then the signal does what it would have done. Sent with a value of ours
//! (`ginrs-run` does, tools/src/run/ask.rs), it asks and nothing else. Only where the program leaves SIGQUIT alone.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The lower half of the value, with sigqueue; the upper one is the question's number, of those of all who ask the later one the larger.
const ASK: u32 = 0x6769_6e72;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Somebody who asks all processes of the job, with a question of this number: each tells of its own ranks.
    Job(u32),
    /// A signal to this process, which ends with it.
    Quit,
}

static BELL: AtomicI32 = AtomicI32::new(-1);
static OWNER: AtomicU32 = AtomicU32::new(0);
static ASKED: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// From now on SIGQUIT writes to `bell`, an eventfd, and [`asked_of_waits`] tells of it; unless the program handles or ignores it.
pub fn watch_quit(bell: c_int) {
    BELL.store(bell, Ordering::Relaxed);
    OWNER.store(std::process::id(), Ordering::Release);
    // SAFETY: plain structs that the calls read or fill; the handler is async-signal-safe.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGQUIT, std::ptr::null(), &mut now) != 0 || now.sa_sigaction != libc::SIG_DFL {
            return;
        }
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = heard as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGQUIT, &ours, std::ptr::null_mut());
    }
}

/// Who has asked since the last call.
pub fn asked_of_waits() -> Option<Asked> {
    match ASKED.swap(0, Ordering::AcqRel) {
        0 => None,
        1 => Some(Asked::Job(NUMBER.load(Ordering::Relaxed))),
        _ => Some(Asked::Quit),
    }
}

/// What SIGQUIT does by itself.
pub fn quit() {
    // SAFETY: plain calls; the handler goes only if it is ours.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGQUIT, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == heard as *const () as usize {
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            libc::kill(libc::getpid(), libc::SIGQUIT);
        }
    }
}

unsafe extern "C" fn heard(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: only async-signal-safe calls; info is the kernel's; errno is put back.
    unsafe {
        let errno = *libc::__errno_location();
        if OWNER.load(Ordering::Acquire) != libc::getpid() as u32 {
            // A child of fork: nobody there would print.
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
            return;
        }
        let value = (*info).si_value().sival_ptr as u64;
        let asks = (*info).si_code == libc::SI_QUEUE && value as u32 == ASK;
        if asks {
            NUMBER.fetch_max((value >> 32) as u32, Ordering::Relaxed);
        }
        ASKED.fetch_or(if asks { 1 } else { 2 }, Ordering::AcqRel);
        let one = 1u64;
        libc::write(BELL.load(Ordering::Relaxed), (&raw const one).cast(), 8);
        *libc::__errno_location() = errno;
    }
}
