//! What is one per process, and must be another one after fork(): its token, its settings, its service threads.
//!
//! A child of fork() has its parent's memory but none of its threads. So nothing here is "once": it is once per process id, and
//! the child makes its own without touching a lock that a thread of the parent may have held.

use crate::bail;
use crate::error::{Code, Error, Result};
use crate::fault::{self, Fault};
use crate::sync::{Hear, Heard, Mutex, MutexGuard, answer};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

mod exit;

pub use exit::{AtWork, at_work, is_ending, watch_exit};

/// A value of this process. A forked child makes its own; the parent's copy is left alone, never dropped. Every static that holds a
/// lock is one (tests/statics.rs).
pub struct PerProcess<T: 'static> {
    slot: AtomicPtr<Made<T>>,
}

struct Made<T> {
    owner: u32,
    /// Who had made one before a fork.
    parent: Option<u32>,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Not made yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { slot: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process. Threads may race to `make` it: one result stays, the others are dropped.
    pub fn get(&'static self, make: impl FnOnce() -> T) -> &'static T {
        &self.made(make).value
    }

    fn made(&'static self, make: impl FnOnce() -> T) -> &'static Made<T> {
        let pid = std::process::id();
        let seen = self.slot.load(Ordering::Acquire);
        if let Some(made) = of_process(seen, pid) {
            return made;
        }
        // SAFETY: as in `of_process`.
        let parent = unsafe { seen.as_ref() }.map(|seen| seen.owner);
        let made = Box::into_raw(Box::new(Made { owner: pid, parent, value: make() }));
        match self.slot.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made comes from a Box and is never freed once it stands in the slot.
            Ok(_) => unsafe { &*made },
            Err(winner) => {
                // SAFETY: made never left this function.
                drop(unsafe { Box::from_raw(made) });
                of_process(winner, pid).expect("only threads of this process race")
            }
        }
    }
}

impl<T: Default + Send> PerProcess<Mutex<T>> {
    /// The lock of this process, taken.
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        self.get(Mutex::default).lock()
    }

    /// `Err(InvalidUsage, E060)` for `what`, which is not in it, in a forked child whose parent had one: it may be there.
    pub fn check_parent(&'static self, what: &str) -> Result<()> {
        match self.made(Mutex::default).parent {
            Some(parent) => bail!(
                InvalidUsage,
                60,
                "{what} is not of this process | it was forked from process {parent}, and what that had made stays there | pid {} | fix: \
                 make communicators and memory after fork(), or start processes with exec",
                std::process::id()
            ),
            None => Ok(()),
        }
    }
}

fn of_process<T>(slot: *mut Made<T>, pid: u32) -> Option<&'static Made<T>> {
    // SAFETY: what stands in a slot was published whole (Release) and is never freed or changed.
    unsafe { slot.as_ref() }.filter(|made| made.owner == pid)
}

/// Bytes that nobody can guess; E007 where the system has none, for without them no secret is one.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let planted = fault::set() == Some(Fault::Random);
    match getrandom::fill(&mut bytes) {
        Ok(()) if !planted => Ok(bytes),
        failed => {
            let why = failed.err().map_or("GINRS_FAULT asks for it".into(), |e| e.to_string());
            bail!(
                SystemError,
                7,
                "the system gives no random bytes | pid {} | getrandom and /dev/urandom: {why} | fix: let the sandbox allow one of them",
                std::process::id()
            )
        }
    }
}

/// Another one for every process, also for a forked child. Mostly random, but no secret.
pub fn token() -> [u8; 16] {
    static TOKEN: PerProcess<[u8; 16]> = PerProcess::new();
    *TOKEN.get(|| {
        random().unwrap_or_else(|_| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            (now.as_nanos() << 32 | u128::from(std::process::id())).to_le_bytes()
        })
    })
}

/// Equal for processes that can reach each other by abstract sockets and memfds: same boot, same network namespace.
pub fn machine() -> u64 {
    static MACHINE: PerProcess<u64> = PerProcess::new();
    *MACHINE.get(|| {
        use sha2::Digest;
        let mut hash = sha2::Sha256::new();
        hash.update(std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default());
        hash.update(
            std::fs::read_link("/proc/self/ns/net").map(|link| link.into_os_string().into_encoded_bytes()).unwrap_or_default(),
        );
        u64::from_le_bytes(hash.finalize()[..8].try_into().expect("8 bytes"))
    })
}

/// `Err(InvalidUsage, E060)` when the caller is a forked child of the process `owner` that made `what`.
pub fn check_owner(owner: u32, what: &str) -> Result<()> {
    let here = std::process::id();
    if here != owner {
        bail!(
            InvalidUsage,
            60,
            "{what} was made in process {owner} and is used in its forked child {here} | its threads did not survive fork() | pid {here} | \
             fix: create communicators after fork(), or start processes with exec"
        );
    }
    Ok(())
}

/// Stack of a service thread, in bytes. Set here, so that `ulimit -s` decides nothing.
const SERVICE_STACK: usize = 512 << 10;

/// Starts a named thread with all signals blocked. A panic in it is caught, logged and handed to `on_panic`, so that waits can end.
pub fn service_thread(
    name: &str,
    body: impl FnOnce() + Send + 'static,
    on_panic: impl FnOnce(Error) + Send + 'static,
) -> Result<JoinHandle<()>> {
    thread(name, SERVICE_STACK, body, on_panic)
}

/// [`service_thread`] with a stack of `stack` bytes.
pub fn thread(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
    on_panic: impl FnOnce(Error) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let _blocked = BlockedSignals::new();
    let owned = name.to_owned();
    let guarded = move || {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
            let error = Error::new(
                Code::InternalError,
                2,
                format!("service thread panicked | {owned} | {} | fix: report this", panic_text(&*panic)),
            );
            crate::log::error(&error);
            on_panic(error);
        }
    };
    let start = || std::thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(guarded);
    match fault::step("thread").map_err(Into::into).and_then(|()| start()) {
        Ok(handle) => Ok(handle),
        Err(e) => bail!(SystemError, 27, "no thread for \"{name}\" | pid {} | {e} | fix: raise ulimit -u", std::process::id()),
    }
}

/// A service thread that somebody waits for, though not for ever.
pub struct Joinable {
    name: String,
    handle: JoinHandle<()>,
    ended: Hear<()>,
}

impl Joinable {
    /// As [`service_thread`].
    pub fn start(
        name: &str,
        body: impl FnOnce() + Send + 'static,
        on_panic: impl FnOnce(Error) + Send + 'static,
    ) -> Result<Self> {
        let (end, ended) = answer::<()>();
        let body = move || {
            let _end = end; // dropped when it ends, also by a panic
            body();
        };
        Ok(Self { name: name.into(), handle: service_thread(name, body, on_panic)?, ended })
    }

    /// Waits for its end. False, and a warning, if that has not come by `patience`: the thread goes on, and what it uses stays.
    pub fn join(self, patience: Duration) -> bool {
        if self.ended.wait(patience) == Heard::Late {
            crate::warn!(
                "GINRS-E005 a thread of the library does not end | \"{}\", pid {} | not after {} s | what it uses is kept | fix: it is \
                 inside a call of the driver: look at dmesg for Xid lines",
                self.name,
                std::process::id(),
                patience.as_secs()
            );
            return false;
        }
        // A panic in it has been told.
        let _ = self.handle.join();
        true
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// All signals blocked for this thread until drop; a thread started meanwhile inherits the mask.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> Self {
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

/// The error of a process whose descriptors of the library are gone.
pub fn descriptors_lost() -> Error {
    let text = format!(
        "descriptors of the library were closed or overwritten | pid {} | its communicators have lost their links | fix: close only \
         descriptors of your own (close_range, closefrom and dup2 take any), before ncclGetUniqueId or after ncclCommDestroy",
        std::process::id()
    );
    Error::new(Code::InvalidUsage, 47, text)
}

/// Raises the soft limit of descriptors towards the hard one, once: 1024 ranks in a process need thousands.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const WANTED: u64 = 1 << 16;
    let limit = getrlimit(Resource::Nofile);
    let target = limit.maximum.map_or(WANTED, |hard| hard.min(WANTED));
    if limit.current.is_some_and(|soft| soft < target) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(target), maximum: limit.maximum });
    }
}

/// Descriptors of service threads. fork() copies them into a child that has no such thread: a copied listener would keep a dead
/// name reachable, a copied link would hide a death. The child closes its copies at fork.
static SERVICE_FDS: [AtomicI32; 4096] = [const { AtomicI32::new(-1) }; 4096];

/// A descriptor that a forked child closes.
pub struct ServiceFd {
    fd: std::mem::ManuallyDrop<OwnedFd>,
    slot: Option<usize>,
    owner: u32,
    file: Option<(u64, u64, u32)>,
}

/// Which file is open under a number.
fn file_of(fd: BorrowedFd<'_>) -> Option<(u64, u64, u32)> {
    rustix::fs::fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino, stat.st_mode))
}

impl ServiceFd {
    /// Takes over `fd`.
    pub fn new(fd: OwnedFd) -> Self {
        static HOOKED: AtomicBool = AtomicBool::new(false);
        if !HOOKED.swap(true, Ordering::AcqRel) {
            // SAFETY: the handler is async-signal-safe (loads, stores and close) and lives as long as the library is loaded.
            unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
        }
        let raw = fd.as_raw_fd();
        let free = |slot: &AtomicI32| slot.compare_exchange(-1, raw, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // A full table only means that a child keeps a copy.
        let slot = SERVICE_FDS.iter().position(free);
        let file = file_of(std::os::fd::AsFd::as_fd(&fd));
        Self { fd: std::mem::ManuallyDrop::new(fd), slot, owner: std::process::id(), file }
    }

    /// False once somebody else has closed it, or put another file in its place: programs that close what they do not know, from 3 on.
    pub fn is_intact(&self) -> bool {
        self.file.is_some() && self.file == file_of(self.as_fd())
    }

    /// To use it.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&*self.fd)
    }

    /// Its number.
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for ServiceFd {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            return; // closed at fork; the number may be another file's by now
        }
        if let Some(slot) = self.slot {
            SERVICE_FDS[slot].store(-1, Ordering::Release);
        }
        if !self.is_intact() {
            return; // the number is another file's by now, or nobody's
        }
        // SAFETY: dropped once, here.
        unsafe { std::mem::ManuallyDrop::drop(&mut self.fd) };
    }
}

unsafe extern "C" fn close_in_child() {
    for slot in &SERVICE_FDS {
        let fd = slot.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: the child's copy of a descriptor whose owner objects the child never uses again (ServiceFd::drop checks the pid).
            unsafe { libc::close(fd) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_service_thread_is_told_and_signals_stay_blocked() {
        let (told, hears) = crate::sync::channel::bounded(2);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let thread = service_thread("ginrs test", || panic!("planted {}", 7), move |error| told.send(error).unwrap()).unwrap();
        let error = hears.recv().unwrap();
        thread.join().unwrap();
        std::panic::set_hook(hook);
        assert!(error.text.contains("ginrs test") && error.text.contains("planted 7"), "{error}");

        let (told, hears) = crate::sync::channel::bounded(1);
        let blocked = move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            told.send(status.lines().find_map(|l| l.strip_prefix("SigBlk:\t")).unwrap().to_owned()).unwrap();
        };
        service_thread("ginrs test", blocked, |_| {}).unwrap().join().unwrap();
        let mask = u64::from_str_radix(&hears.recv().unwrap(), 16).unwrap();
        // All but KILL, STOP and the two that the C library keeps for itself.
        assert_eq!(mask | (1 << 8) | (1 << 18) | (1 << 31) | (1 << 32), u64::MAX);
    }

    #[test]
    fn a_descriptor_that_was_overwritten_is_not_closed_again() {
        let (ours, theirs) =
            (ServiceFd::new(std::fs::File::open("/dev/null").unwrap().into()), std::fs::File::open("/").unwrap());
        assert!(ours.is_intact());
        let number = ours.raw();
        // SAFETY: a number that this test owns, and that it takes over again below.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        assert!(!ours.is_intact());
        drop(ours);
        // SAFETY: the copy of `theirs` that nobody else closes any more.
        let copy = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) };
        assert_eq!(file_of(std::os::fd::AsFd::as_fd(&copy)), file_of(std::os::fd::AsFd::as_fd(&theirs)));
    }

    #[test]
    fn a_thread_that_does_not_end_is_waited_for_so_long_and_told() {
        let (end, hears) = crate::sync::channel::bounded::<()>(1);
        let wait = hears.clone();
        let stuck = Joinable::start("ginrs stuck", move || _ = wait.recv(), |_| {}).unwrap();
        assert!(!stuck.join(Duration::from_millis(20)));
        drop(end);
        let over = Joinable::start("ginrs over", move || _ = hears.recv(), |_| {}).unwrap();
        assert!(over.join(Duration::from_secs(60)));
    }

    #[test]
    fn one_token_per_process_and_another_after_fork() {
        let mine = token();
        assert_eq!(mine, token());
        let listener = ServiceFd::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let owner = std::process::id();
        // SAFETY: the child calls only what is safe after fork: getrandom, allocation (glibc repairs it), fcntl, _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: asks about a descriptor number, open or not.
            let closed = unsafe { libc::fcntl(listener.raw(), libc::F_GETFD) } == -1;
            let told = check_owner(owner, "communicator 0x1").unwrap_err();
            let both =
                told.text.contains(&format!("process {owner}")) && told.text.contains(&format!("child {}", std::process::id()));
            let right = token() != mine && closed && told.id == 60 && both;
            // SAFETY: ends this forked child without the parent's exit handlers.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(check_owner(owner, "communicator").is_ok());
    }
}
