//! Descriptors. Who waits for one may be chosen as any other thread may, and goes on if it is ready then: so what threads of this process send each
//! other, by whatever kind of socket or pipe, comes when the seed has it.

use crate::baton::{Turn, turn};
use crate::choose::At;
use crate::next;
use crate::state::NEVER;
use crate::system::result_of;
use crate::time;
use libc::{c_int, c_long, c_short, c_void, epoll_event, iovec, msghdr, nfds_t, pollfd, sockaddr, socklen_t, timespec};

/// Whether one of them is ready, or no descriptor.
pub fn are_ready(files: &mut [pollfd]) -> bool {
    // SAFETY: so many are there to be written.
    unsafe { next::poll(files.as_mut_ptr(), files.len() as nfds_t, 0) != 0 }
}

fn file(fd: c_int, events: c_short) -> Vec<pollfd> {
    vec![pollfd { fd, events, revents: 0 }]
}

/// What a call says, with the errno of that call.
fn kept(turn: Turn, call: impl FnOnce(&Turn) -> c_long) -> c_long {
    let result = call(&turn);
    // SAFETY: the calling thread's own.
    let error = unsafe { *libc::__errno_location() };
    drop(turn);
    if result < 0 { result_of(-c_long::from(error)) } else { result }
}

/// As long as `call`, which does not wait, finds nothing.
fn await_files(turn: &Turn, files: impl Fn() -> Vec<pollfd>, deadline: u64, call: impl Fn() -> c_long) -> c_long {
    loop {
        let found = call();
        if found != 0 {
            // SAFETY: the calling thread's own, here and below.
            let error = unsafe { *libc::__errno_location() };
            turn.point(At::Step);
            // SAFETY: see there.
            unsafe { *libc::__errno_location() = error };
            return found;
        }
        if turn.now() >= deadline {
            turn.point(At::Poll);
            return 0;
        }
        turn.wait_for_files(files(), deadline);
    }
}

/// For so many milliseconds; below zero: for ever.
fn patience(turn: &Turn, milliseconds: c_int) -> u64 {
    u64::try_from(milliseconds).map_or(NEVER, |length| turn.now() + length * 1_000_000)
}

/// # Safety
/// So many are there.
unsafe fn copied(files: *const pollfd, count: usize) -> Vec<pollfd> {
    // SAFETY: the caller's.
    (0..count).map(|at| unsafe { *files.add(at) }).collect()
}

/// ppoll by its number.
///
/// # Safety
/// As the system's.
pub unsafe fn ppoll_of(turn: Turn, [files, count, length, mask, bytes]: [c_long; 5]) -> c_long {
    let none = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the caller's.
    let length = unsafe { time::length(length as *const timespec) };
    let deadline = if length == NEVER { NEVER } else { turn.now().saturating_add(length) };
    // SAFETY: the caller's, but for the time, which is none.
    let look = || unsafe { next::syscall(libc::SYS_ppoll, files, count, (&raw const none) as c_long, mask, bytes, 0) };
    // SAFETY: the caller's.
    kept(turn, |turn| await_files(turn, || unsafe { copied(files as *const pollfd, count as usize) }, deadline, look))
}

/// epoll_pwait by its number.
///
/// # Safety
/// As the system's.
pub unsafe fn epoll_of(turn: Turn, [set, events, most, patience_ms, mask, bytes]: [c_long; 6]) -> c_long {
    let deadline = patience(&turn, patience_ms as c_int);
    // SAFETY: the caller's, but for the time, which is none.
    let look = || unsafe { next::syscall(libc::SYS_epoll_pwait, set, events, most, 0, mask, bytes) };
    kept(turn, |turn| await_files(turn, || file(set as c_int, libc::POLLIN), deadline, look))
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(files: *mut pollfd, count: nfds_t, patience_ms: c_int) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::poll(files, count, patience_ms) };
    };
    let deadline = patience(&turn, patience_ms);
    // SAFETY: the caller's, here and below.
    let look = || unsafe { next::poll(files, count, 0) }.into();
    // SAFETY: see there.
    kept(turn, |turn| await_files(turn, || unsafe { copied(files, count as usize) }, deadline, look)) as c_int
}

/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(set: c_int, events: *mut epoll_event, most: c_int, patience_ms: c_int) -> c_int {
    let Some(turn) = turn() else {
        // SAFETY: the caller's.
        return unsafe { next::epoll_wait(set, events, most, patience_ms) };
    };
    let deadline = patience(&turn, patience_ms);
    // SAFETY: the caller's.
    let look = || unsafe { next::epoll_wait(set, events, most, 0) }.into();
    kept(turn, |turn| await_files(turn, || file(set, libc::POLLIN), deadline, look)) as c_int
}

/// Before a call that waits until `fd` is ready: here it is waited for, unless the call would not wait at all. A deadline of the socket's own
/// (SO_RCVTIMEO) is not known here: with one the call is the system's.
fn await_file(fd: c_int, events: c_short) {
    const DEADLINES: [(c_short, c_int); 2] = [(libc::POLLIN, libc::SO_RCVTIMEO), (libc::POLLOUT, libc::SO_SNDTIMEO)];
    let Some(turn) = turn() else { return };
    if are_ready(&mut file(fd, events)) {
        return turn.point(At::Step);
    }
    // SAFETY: asks about a number, whatever it is.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    let has_deadline = DEADLINES.iter().any(|(of, option)| {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let mut bytes = size_of::<libc::timeval>() as socklen_t;
        // SAFETY: a struct of so many bytes to be written.
        let told = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, *option, (&raw mut time).cast(), &mut bytes) };
        *of == events && told == 0 && (time.tv_sec, time.tv_usec) != (0, 0)
    });
    if flags >= 0 && flags & libc::O_NONBLOCK == 0 && !has_deadline {
        await_files(&turn, || file(fd, events), NEVER, || are_ready(&mut file(fd, events)).into());
    }
}

macro_rules! waits {
    ($($events:ident before $name:ident($fd:ident $(, $argument:ident: $kind:ty)*) -> $result:ty $(, unless $flags:ident)?;)*) => {$(
        /// # Safety
        /// As the system's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($fd: c_int $(, $argument: $kind)*) -> $result {
            if true $(&& $flags & libc::MSG_DONTWAIT == 0)? {
                await_file($fd, libc::$events);
            }
            // SAFETY: the caller's.
            unsafe { next::$name($fd $(, $argument)*) }
        }
    )*};
}

waits! {
    POLLIN before read(fd, buffer: *mut c_void, bytes: usize) -> isize;
    POLLIN before readv(fd, parts: *const iovec, count: c_int) -> isize;
    POLLIN before recv(fd, buffer: *mut c_void, bytes: usize, flags: c_int) -> isize, unless flags;
    POLLIN before recvfrom(fd, buffer: *mut c_void, bytes: usize, flags: c_int, from: *mut sockaddr, length: *mut socklen_t) -> isize, unless flags;
    POLLIN before recvmsg(fd, message: *mut msghdr, flags: c_int) -> isize, unless flags;
    POLLIN before accept(fd, from: *mut sockaddr, length: *mut socklen_t) -> c_int;
    POLLIN before accept4(fd, from: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    POLLOUT before write(fd, buffer: *const c_void, bytes: usize) -> isize;
    POLLOUT before writev(fd, parts: *const iovec, count: c_int) -> isize;
    POLLOUT before send(fd, buffer: *const c_void, bytes: usize, flags: c_int) -> isize, unless flags;
    POLLOUT before sendto(fd, buffer: *const c_void, bytes: usize, flags: c_int, to: *const sockaddr, length: socklen_t) -> isize, unless flags;
    POLLOUT before sendmsg(fd, message: *const msghdr, flags: c_int) -> isize, unless flags;
}
