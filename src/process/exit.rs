//! The end of the process through exit(): who says goodbye, and how service threads leave the driver before it is shut down.

use crate::error::Error;
use crate::sync::{OnceBox, PerProcess};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Service threads that may be in the driver.
#[derive(Default)]
struct Workers {
    ending: AtomicBool,
    working: AtomicU32,
}

fn workers() -> &'static Workers {
    static WORKERS: PerProcess<Workers> = PerProcess::new();
    WORKERS.get(Workers::default)
}

/// How long the end of the process waits for service threads to leave the driver.
const LAST_WORK: Duration = Duration::from_millis(300);

/// Held by a service thread while it may call the driver.
pub struct AtWork;

/// None once the process ends: the driver is shut down by exit handlers, and a thread inside it may crash then. A service thread
/// that gets None returns.
pub fn at_work() -> Option<AtWork> {
    let workers = workers();
    workers.working.fetch_add(1, Ordering::SeqCst);
    let guard = AtWork;
    // After the count, as `at_exit` counts after its store: one of the two sees the other.
    (!workers.ending.load(Ordering::SeqCst)).then_some(guard)
}

/// True once the process ends; for loops of threads that keep an [`AtWork`].
pub fn is_ending() -> bool {
    workers().ending.load(Ordering::Relaxed)
}

impl Drop for AtWork {
    fn drop(&mut self) {
        workers().working.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `goodbye` with the exit status when the process ends through exit() or quick_exit(), and then puts an end to service threads, before what they
/// stand on is shut down. The first call counts, once a device is open: exit handlers run in reverse order, so ours comes before the
/// driver's.
pub fn watch_exit(goodbye: fn(i32)) {
    static OWNER: AtomicU32 = AtomicU32::new(0);
    static GOODBYE: OnceBox<fn(i32)> = OnceBox::new();
    extern "C" fn at_exit(status: c_int, _: *mut c_void) {
        if OWNER.load(Ordering::Relaxed) != std::process::id() {
            return; // a forked child has no such threads, and its parent's communicators are not its own
        }
        let said = crate::panic::catch("an exit handler", || {
            GOODBYE.get().into_iter().for_each(|goodbye| goodbye(status));
            let workers = workers();
            workers.ending.store(true, Ordering::SeqCst);
            let deadline = Instant::now() + LAST_WORK;
            while workers.working.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok::<_, Error>(())
        });
        if let Err(error) = said {
            crate::log::error(&error);
        }
    }
    extern "C" fn at_quick_exit(_: *mut c_void, status: c_int) {
        at_exit(status, std::ptr::null_mut());
    }
    GOODBYE.get_or_init(|| Box::new(goodbye));
    if OWNER.swap(std::process::id(), Ordering::Relaxed) == 0 {
        stay_loaded(at_exit as *const c_void);
        // SAFETY: of the C library: the handlers get the status and the pointer. They touch statics only, and their code stays.
        unsafe {
            on_exit(at_exit, std::ptr::null_mut());
            __cxa_at_quick_exit(at_quick_exit, std::ptr::null_mut());
        }
    }
}

unsafe extern "C" {
    /// As atexit, but the handler learns the status. It does not run at dlclose.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    /// at_quick_exit itself gives no status; glibc hands it to these handlers as a second argument (abi-tests/tests/exits.rs).
    fn __cxa_at_quick_exit(handler: extern "C" fn(*mut c_void, c_int), library: *mut c_void) -> c_int;
}

/// The library that `code` is of is never unloaded: its threads and exit handlers run until the process ends.
fn stay_loaded(code: *const c_void) {
    // SAFETY: an all-zero Dl_info is valid; dladdr fills it and keeps nothing. The name is a C string of the loader's; to open what is
    // loaded already runs no code.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(code, &mut info) != 0 && !info.dli_fname.is_null() {
            libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_NODELETE | libc::RTLD_LAZY);
        }
    }
}
