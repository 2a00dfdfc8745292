//! The functions that this library stands in front of: the next ones of their names, the system's.

use libc::{c_int, c_long, c_uint, c_void, clockid_t, pthread_attr_t, pthread_t, sockaddr, socklen_t, timespec};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Finds `name` in the libraries behind this one; null where none has it.
fn look(cell: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = cell.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    // SAFETY: a name that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cell.store(found, Ordering::Relaxed);
    found
}

fn find(cell: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = look(cell, name);
    if found.is_null() {
        // SAFETY: nothing could be done for a process whose system lacks its functions.
        unsafe { libc::abort() };
    }
    found
}

macro_rules! next {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        struct Cells { $($name: AtomicPtr<c_void>,)* }
        static CELLS: Cells = Cells { $($name: AtomicPtr::new(std::ptr::null_mut()),)* };

        /// Finds all of them, before threads take turns: dlsym comes to the allocator, and who needs a function first would be a matter of
        /// time (the watchdog, who has no turn; a thread that meets another one at the lock). So addresses were others, and with them
        /// what hashes of addresses decide: one seed had two traces (abi-tests/tests/explore.rs).
        pub fn find_all() {
            $(look(&CELLS.$name, named(concat!(stringify!($name), "\0")));)*
        }

        $(
        /// The system's.
        ///
        /// # Safety
        /// As that function has it.
        pub unsafe fn $name($($argument: $kind),*) -> $result {
            const NAME: &CStr = named(concat!(stringify!($name), "\0"));
            // SAFETY: the function of this name has this type.
            let function: unsafe extern "C-unwind" fn($($kind),*) -> $result = unsafe { std::mem::transmute(find(&CELLS.$name, NAME)) };
            // SAFETY: the caller's.
            unsafe { function($($argument),*) }
        }
    )*};
}

const fn named(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("no name"),
    }
}

/// What a thread begins with.
pub type Begin = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

next! {
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    pthread_create(thread: *mut pthread_t, how: *const pthread_attr_t, begin: Begin, argument: *mut c_void) -> c_int;
    pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, until: *const timespec) -> c_int;
    pthread_cancel(thread: pthread_t) -> c_int;
    pthread_mutex_lock(mutex: *mut c_void) -> c_int;
    pthread_mutex_trylock(mutex: *mut c_void) -> c_int;
    pthread_mutex_timedlock(mutex: *mut c_void, until: *const timespec) -> c_int;
    pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
    pthread_cond_wait(cond: *mut c_void, mutex: *mut c_void) -> c_int;
    pthread_cond_timedwait(cond: *mut c_void, mutex: *mut c_void, until: *const timespec) -> c_int;
    pthread_cond_clockwait(cond: *mut c_void, mutex: *mut c_void, clock: clockid_t, until: *const timespec) -> c_int;
    pthread_cond_signal(cond: *mut c_void) -> c_int;
    pthread_cond_broadcast(cond: *mut c_void) -> c_int;
    pthread_rwlock_rdlock(lock: *mut c_void) -> c_int;
    pthread_rwlock_tryrdlock(lock: *mut c_void) -> c_int;
    pthread_rwlock_wrlock(lock: *mut c_void) -> c_int;
    pthread_rwlock_trywrlock(lock: *mut c_void) -> c_int;
    pthread_rwlock_unlock(lock: *mut c_void) -> c_int;
    pthread_spin_lock(lock: *mut c_void) -> c_int;
    pthread_spin_trylock(lock: *mut c_void) -> c_int;
    pthread_spin_unlock(lock: *mut c_void) -> c_int;
    pthread_barrier_wait(barrier: *mut c_void) -> c_int;
    pthread_once(once: *mut c_void, call: extern "C-unwind" fn()) -> c_int;
    sem_wait(semaphore: *mut c_void) -> c_int;
    sem_trywait(semaphore: *mut c_void) -> c_int;
    sem_timedwait(semaphore: *mut c_void, until: *const timespec) -> c_int;
    sem_post(semaphore: *mut c_void) -> c_int;
    sched_yield() -> c_int;
    clock_gettime(clock: clockid_t, now: *mut timespec) -> c_int;
    gettimeofday(now: *mut libc::timeval, zone: *mut c_void) -> c_int;
    time(now: *mut libc::time_t) -> libc::time_t;
    nanosleep(length: *const timespec, left: *mut timespec) -> c_int;
    clock_nanosleep(clock: clockid_t, flags: c_int, length: *const timespec, left: *mut timespec) -> c_int;
    usleep(length: c_uint) -> c_int;
    sleep(length: c_uint) -> c_uint;
    poll(files: *mut libc::pollfd, count: libc::nfds_t, patience: c_int) -> c_int;
    epoll_wait(set: c_int, events: *mut libc::epoll_event, most: c_int, patience: c_int) -> c_int;
    read(file: c_int, buffer: *mut c_void, bytes: usize) -> isize;
    readv(file: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    recv(file: c_int, buffer: *mut c_void, bytes: usize, flags: c_int) -> isize;
    recvfrom(file: c_int, buffer: *mut c_void, bytes: usize, flags: c_int, from: *mut sockaddr, length: *mut socklen_t) -> isize;
    recvmsg(file: c_int, message: *mut libc::msghdr, flags: c_int) -> isize;
    accept(file: c_int, from: *mut sockaddr, length: *mut socklen_t) -> c_int;
    accept4(file: c_int, from: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    write(file: c_int, buffer: *const c_void, bytes: usize) -> isize;
    writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    send(file: c_int, buffer: *const c_void, bytes: usize, flags: c_int) -> isize;
    sendto(file: c_int, buffer: *const c_void, bytes: usize, flags: c_int, to: *const sockaddr, length: socklen_t) -> isize;
    sendmsg(file: c_int, message: *const libc::msghdr, flags: c_int) -> isize;
    getrandom(buffer: *mut c_void, bytes: usize, flags: c_uint) -> isize;
    setitimer(which: c_int, new: *const c_void, old: *mut c_void) -> c_int;
    timer_create(clock: clockid_t, event: *mut c_void, timer: *mut c_void) -> c_int;
    alarm(length: c_uint) -> c_uint;
}
