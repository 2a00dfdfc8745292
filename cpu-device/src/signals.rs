//! Signals that kernels raise are taken first by the device, whoever took them before, and handed on if no kernel raised them.
//!
//! Libraries install error handlers when they like (UCX does when MPI starts, before or after the first kernel), so each run of
//! a kernel looks again. What it finds is remembered as the one to hand on to. A handler of the program's may itself hand on
//! to whom it replaced, to ours: so each of ours in the chain is a function of its own, with its own successor, and no
//! signal goes round in a circle.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::error::report;
use crate::fault::Raised;
use crate::once::OnceLock;

/// True: the signal has been dealt with, and the thread goes on.
type Deal = fn(&Raised) -> bool;

/// Handlers of others that one signal may have had, and still be passed on to.
const GENERATIONS: usize = 8;

/// Whom one of our handlers hands on to; written before that handler is installed, and never again.
struct Successor(std::cell::UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written under the signal's lock before `used` counts it; read only by handlers that were installed later.
unsafe impl Sync for Successor {}

/// One signal that the device takes.
struct Taken {
    signal: c_int,
    deal: Deal,
    handlers: [Handler; GENERATIONS],
    successors: [Successor; GENERATIONS],
    /// A successor with SA_RESETHAND has had its turn.
    spent: [AtomicBool; GENERATIONS],
    used: AtomicUsize,
    lock: Mutex<()>,
    told: AtomicBool,
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn handler<const SIGNAL: usize, const GENERATION: usize>(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: plain access to this thread's errno, which what was interrupted may still look at.
    let errno = unsafe { *libc::__errno_location() };
    let taken = &TAKEN[SIGNAL];
    let raised = Raised { signal, info, context };
    if !(taken.deal)(&raised) {
        taken.hand_on(GENERATION, &raised);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

macro_rules! taken {
    ($number:literal, $signal:expr, $deal:expr) => {
        Taken {
            signal: $signal,
            deal: $deal,
            handlers: [
                handler::<$number, 0>,
                handler::<$number, 1>,
                handler::<$number, 2>,
                handler::<$number, 3>,
                handler::<$number, 4>,
                handler::<$number, 5>,
                handler::<$number, 6>,
                handler::<$number, 7>,
            ],
            successors: [const { Successor(std::cell::UnsafeCell::new(MaybeUninit::uninit())) }; GENERATIONS],
            spent: [const { AtomicBool::new(false) }; GENERATIONS],
            used: AtomicUsize::new(0),
            lock: Mutex::new(()),
            told: AtomicBool::new(false),
        }
    };
}

static TAKEN: [Taken; 3] = [
    taken!(0, libc::SIGFPE, on_division),
    taken!(1, libc::SIGSEGV, crate::fault::on_fault),
    taken!(2, libc::SIGBUS, crate::fault::on_fault),
];

#[cfg(target_arch = "x86_64")]
use crate::division::on_trap as on_division;

/// Integer divisions by zero do not trap here.
#[cfg(not(target_arch = "x86_64"))]
fn on_division(_raised: &Raised) -> bool {
    false
}

/// Takes the signals again that somebody else has taken since. Called before each run of a kernel.
pub fn take() {
    TAKEN.iter().for_each(Taken::take);
}

impl Taken {
    fn take(&self) {
        let now = current(self.signal);
        if self.is_ours(&now) {
            return;
        }
        let _lock = self.lock.lock();
        let now = current(self.signal);
        let used = self.used.load(Ordering::Relaxed);
        if self.is_ours(&now) {
            return;
        }
        let known = (0..used).find(|&generation| same(self.successor(generation), &now));
        let generation = known.unwrap_or(used);
        if generation == GENERATIONS {
            if !self.told.swap(true, Ordering::Relaxed) {
                report(&format!(
                    "warning: signal {} has had more than {GENERATIONS} handlers, and keeps the last one: integer divisions by \
                     zero and illegal addresses in kernels go to it\nfix: install handlers once",
                    self.signal
                ));
            }
            return;
        }
        self.spent[generation].store(false, Ordering::Relaxed);
        if known.is_none() {
            // SAFETY: under the lock, and no handler of this generation has been installed yet.
            unsafe { (*self.successors[generation].0.get()).write(now) };
            self.used.store(used + 1, Ordering::Release);
        }
        let mut ours = now;
        ours.sa_sigaction = self.handlers[generation] as *const () as usize;
        // Its mask holds while it runs, as it does for its caller. On the stack apart: a thread's own may have overflowed.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | now.sa_flags & (libc::SA_RESTART | libc::SA_NODEFER);
        install(self.signal, &ours);
    }

    fn is_ours(&self, action: &libc::sigaction) -> bool {
        self.handlers.iter().any(|&handler| action.sa_sigaction == handler as *const () as usize)
    }

    fn successor(&self, generation: usize) -> &libc::sigaction {
        // SAFETY: initialised before `used` counted it or its handler was installed, and not written since.
        unsafe { (*self.successors[generation].0.get()).assume_init_ref() }
    }

    /// As the kernel would have delivered it, had we not been there. In a signal handler.
    fn hand_on(&self, generation: usize, raised: &Raised) {
        let next = self.successor(generation);
        // SAFETY: the kernel hands over a siginfo. Above 0: by an instruction, not by another process or thread.
        let trapped = unsafe { (*raised.info).si_code } > 0;
        let spent = next.sa_flags & libc::SA_RESETHAND != 0 && self.spent[generation].swap(true, Ordering::Relaxed);
        match next.sa_sigaction {
            libc::SIG_IGN if !trapped => {}
            handler if handler != libc::SIG_DFL && handler != libc::SIG_IGN && !spent => {
                // SAFETY: whoever installed it gave a function of the kind that SA_SIGINFO tells.
                unsafe {
                    if next.sa_flags & libc::SA_SIGINFO != 0 {
                        let call: Handler = std::mem::transmute::<usize, Handler>(handler);
                        call(raised.signal, raised.info, raised.context);
                    } else {
                        let call = std::mem::transmute::<usize, extern "C" fn(c_int)>(handler);
                        call(raised.signal);
                    }
                }
            }
            // The default, which also ends a process that ignores a trap: the instruction runs again, and a signal that no
            // instruction raised comes again once this handler is over.
            _ => {
                // SAFETY: all zeros is a default action without flags; raising is a plain call.
                unsafe {
                    install(raised.signal, &std::mem::zeroed());
                    if !trapped {
                        libc::raise(raised.signal);
                    }
                }
            }
        }
    }
}

fn same(a: &libc::sigaction, b: &libc::sigaction) -> bool {
    let blocked = |action: &libc::sigaction, signal| {
        // SAFETY: plain call on a set.
        unsafe { libc::sigismember(&action.sa_mask, signal) == 1 }
    };
    a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags && (1..32).all(|signal| blocked(a, signal) == blocked(b, signal))
}

fn current(signal: c_int) -> libc::sigaction {
    // SAFETY: plain call on a local struct, for which zeros are a value.
    unsafe {
        let mut now = std::mem::zeroed();
        (library_call())(signal, std::ptr::null(), &mut now);
        now
    }
}

fn install(signal: c_int, action: &libc::sigaction) {
    // SAFETY: plain call; the action is whole.
    unsafe { (library_call())(signal, action, std::ptr::null_mut()) };
}

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

/// libc's own `sigaction`: libraries that want to keep their handlers (UCX, sanitizers) put one of that name before it, which
/// refuses without a word. First called by `take`, so that handlers find it at hand.
fn library_call() -> Sigaction {
    static CALL: OnceLock<Sigaction> = OnceLock::new();
    *CALL.get_or_init(|| {
        // SAFETY: names are strings; the library is in the process already (else NULL), and its function has this type.
        unsafe {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            let found = if library.is_null() { library } else { libc::dlsym(library, c"sigaction".as_ptr()) };
            if found.is_null() { libc::sigaction } else { std::mem::transmute::<*mut c_void, Sigaction>(found) }
        }
    })
}
