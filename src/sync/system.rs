//! The calls of the system in which a thread waits, through libc's `syscall`: that is where the baton stands (`ginrs-run --seed`), which has to
//! know who waits for what. All it is given but descriptors and flags are whole words: half of one on the stack is
//! whatever was there. And it is no point at which a thread of the program can be cancelled, as libc's own functions for these are.

use libc::{SYS_epoll_pwait, SYS_futex, SYS_ppoll, c_long};
use rustix::event::{PollFlags, Timespec, epoll};
use rustix::io::Errno;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

fn result_of(result: c_long) -> Result<usize, Errno> {
    // SAFETY: errno is the calling thread's own.
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}

fn libc_time(time: Option<&Timespec>) -> Option<libc::timespec> {
    time.map(|time| libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec })
}

fn pointer(time: Option<&libc::timespec>) -> *const libc::timespec {
    time.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Sleeps while `word` is `value`, for so long at the most. It may return early.
pub(super) fn futex_wait(word: &AtomicU32, value: u32, patience: Option<&Timespec>) {
    let patience = libc_time(patience);
    // SAFETY: a word and a time (or NULL) that outlive the call.
    unsafe {
        libc::syscall(
            SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            pointer(patience.as_ref()),
            0usize,
            0usize,
        )
    };
}

/// Wakes up to `most` threads that sleep so.
pub(super) fn futex_wake(word: &AtomicU32, most: i32) {
    // SAFETY: only the address of a word counts.
    unsafe { libc::syscall(SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, most, 0usize, 0usize, 0usize) };
}

/// Waits until `fd` is `ready`, for so long at the most; whether it is, or has an error.
///
/// # Errors
/// The system's; INTR where a signal came.
pub fn poll(fd: BorrowedFd<'_>, ready: PollFlags, patience: Option<&Timespec>) -> Result<bool, Errno> {
    let patience = libc_time(patience);
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: ready.bits() as i16, revents: 0 };
    // SAFETY: one descriptor, a time (or NULL), and no mask of signals.
    let found = unsafe { libc::syscall(SYS_ppoll, &raw mut polled, 1usize, pointer(patience.as_ref()), 0usize, 0usize) };
    result_of(found).map(|found| found > 0)
}

/// Waits until something of `set` is ready, for so long at the most, in whole milliseconds; what is.
///
/// # Errors
/// The system's; INTR where a signal came.
pub fn epoll_wait(set: BorrowedFd<'_>, ready: &mut Vec<epoll::Event>, patience: Option<&Timespec>) -> Result<(), Errno> {
    const MOST: usize = 256;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    let milliseconds = patience.map_or(-1, |time| {
        let milliseconds = time.tv_sec.saturating_mul(1000).saturating_add((time.tv_nsec + 999_999) / 1_000_000);
        i32::try_from(milliseconds).unwrap_or(i32::MAX)
    });
    // SAFETY: so many events are there to be written, and there is no mask of signals.
    let found =
        unsafe { libc::syscall(SYS_epoll_pwait, set.as_raw_fd(), events.as_mut_ptr(), MOST, milliseconds, 0usize, 0usize) };
    let found = result_of(found)?;
    ready.extend(events[..found].iter().map(|event| epoll::Event {
        flags: epoll::EventFlags::from_bits_retain(event.events),
        data: epoll::EventData::new_u64(event.u64),
    }));
    Ok(())
}

/// Time that the calling thread has had a core.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the struct. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

type ParkedOf = unsafe extern "C" fn(i32, *mut usize) -> i64;
type AloneOf = extern "C" fn(i32) -> i32;

static PARKED: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static ALONE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// What the loader calls: the baton is there before us or never, and no thread of ours may look for a name while another is in dlclose.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    for (found, name) in [(&PARKED, c"ginrs_baton_parked"), (&ALONE, c"ginrs_baton_alone")] {
        // SAFETY: a name that ends with a zero.
        found.store(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }, Ordering::Relaxed);
    }
}

/// Loads a library by `load`. Where the baton is, others have no turn meanwhile, and time is the system's: who waits for the loader's lock is not seen
/// there, and libinfinipath's constructor, which Debian's libfabric brings along, compares the clock with the processor's counter. So no seed came back.
pub fn loading<T>(load: impl FnOnce() -> T) -> T {
    let found = ALONE.load(Ordering::Relaxed);
    // SAFETY: the function of this name has this type (baton/src/hooks.rs).
    let alone = (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, AloneOf>(found) });
    let alone = alone.filter(|alone| alone(1) != 0);
    let loaded = load();
    alone.inspect(|alone| _ = alone(0));
    loaded
}

/// A thread that waits for other threads alone and without a deadline, as the baton tells.
#[derive(Clone, Copy, Debug)]
pub struct Parked {
    /// It has had so many.
    pub turns: u64,
    /// Where in memory what it waits for lies; 0 where that is the end of a thread, or nothing.
    pub at: u64,
}

/// Where the baton is: what it tells of the thread of this number, and None in it of one that may go on by itself.
pub fn parked(tid: i32) -> Option<Option<Parked>> {
    let found = PARKED.load(Ordering::Relaxed);
    // SAFETY: the function of this name has this type (baton/src/hooks.rs).
    let parked = (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, ParkedOf>(found) })?;
    let mut at = 0usize;
    // SAFETY: an address that may be written.
    match unsafe { parked(tid, &raw mut at) } {
        -2 => None,
        turns => Some(u64::try_from(turns).ok().map(|turns| Parked { turns, at: at as u64 })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd;

    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 1000 };

    #[test]
    fn what_is_ready_is_told_with_its_token() {
        let (bell, set) = (eventfd(0, EventfdFlags::CLOEXEC).unwrap(), epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
        epoll::add(&set, &bell, epoll::EventData::new_u64(u64::MAX - 6), epoll::EventFlags::IN).unwrap();
        let mut ready = Vec::new();
        let mut look = || {
            ready.clear();
            epoll_wait(set.as_fd(), &mut ready, Some(&NOW)).unwrap();
            let tokens: Vec<u64> = ready.iter().map(|event| event.data.u64()).collect();
            (poll(bell.as_fd(), PollFlags::IN, Some(&NOW)).unwrap(), tokens)
        };
        assert_eq!(look(), (false, vec![]));
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        assert_eq!(look(), (true, vec![u64::MAX - 6]));
        let flags = ready[0].flags;
        assert!(flags == epoll::EventFlags::IN);
        assert!(poll(bell.as_fd(), PollFlags::IN, None).unwrap());
        assert_eq!(epoll_wait(bell.as_fd(), &mut ready, None), Err(Errno::INVAL), "no set");
    }

    #[test]
    fn a_word_that_has_changed_is_not_waited_for_and_a_wait_ends() {
        let word = AtomicU32::new(1);
        futex_wait(&word, 0, None);
        futex_wait(&word, 1, Some(&NOW));
        futex_wake(&word, 1);
    }
}
