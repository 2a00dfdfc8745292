//! The writing end. Off, which is how it begins, it is one relaxed load.

use crate::{CHUNK, HEAD_BYTES, Head, Kind, MAGIC, Record, hash};
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The file grows by so many bytes at once: memory that is mapped and not backed would end the process where the disk is full.
const STEP: u64 = 4 << 20;
const RECORD: u64 = size_of::<Record>() as u64;

/// An open file.
pub struct Writer {
    base: *mut u8,
    capacity: u64,
    /// Records whose memory is backed.
    backed: AtomicU64,
    grown: Mutex<Growth>,
    texts: Mutex<HashSet<u64>>,
}

struct Growth {
    file: File,
    failed: bool,
}

// SAFETY: the mapping is never unmapped; its head is touched atomically, and each record by the thread alone that has taken it.
unsafe impl Send for Writer {}
// SAFETY: as above.
unsafe impl Sync for Writer {}

static WRITER: AtomicPtr<Writer> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// Records that this thread has taken and not filled.
    static TAKEN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Whether anybody wants to know.
#[inline]
pub fn is_on() -> bool {
    !WRITER.load(Ordering::Relaxed).is_null()
}

/// CLOCK_MONOTONIC, ns.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the struct.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn writer() -> Option<&'static Writer> {
    // SAFETY: null, or a writer that is never freed.
    unsafe { WRITER.load(Ordering::Acquire).as_ref() }
}

/// From now on this process writes to `prefix.HOST.PID.timeline`, at most `capacity` records, if it does not already. A child of fork()
/// writes nothing; a program that takes its place by exec has a file of its own.
///
/// # Errors
/// The file's name, and why it cannot be made.
pub fn open(prefix: &OsStr, capacity: u64) -> Result<(), (PathBuf, io::Error)> {
    static OPENING: AtomicU32 = AtomicU32::new(0);
    if OPENING.swap(1, Ordering::AcqRel) != 0 {
        return Ok(());
    }
    let writer = Box::leak(Box::new(create(prefix, capacity)?));
    // SAFETY: the handler stores to an atomic, which a child of fork() may.
    unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
    WRITER.store(writer, Ordering::Release);
    Ok(())
}

extern "C" fn close_in_child() {
    WRITER.store(std::ptr::null_mut(), Ordering::Relaxed);
}

fn create(prefix: &OsStr, capacity: u64) -> Result<Writer, (PathBuf, io::Error)> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut path = PathBuf::new();
    for number in 0..1000 {
        let mut name = prefix.to_owned();
        name.push(format!(".{}.{}-{number}.timeline", host.trim(), std::process::id()));
        path = name.into();
        let flags = libc::O_CLOEXEC | libc::O_NOFOLLOW;
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(&path) {
            Ok(file) => return map(file, capacity).map_err(|error| (path, error)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err((path, error)),
        }
    }
    Err((path, io::ErrorKind::AlreadyExists.into()))
}

fn map(file: File, capacity: u64) -> io::Result<Writer> {
    let bytes = HEAD_BYTES as u64 + capacity * RECORD;
    // SAFETY: a new mapping, of nobody else's memory.
    let base = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), bytes as usize, protection, libc::MAP_SHARED | libc::MAP_NORESERVE, file.as_raw_fd(), 0)
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let grown = Mutex::new(Growth { file, failed: false });
    let (backed, texts) = (AtomicU64::new(0), Mutex::default());
    let writer = Writer { base: base.cast(), capacity, backed, grown, texts };
    writer.grow(1)?;
    let machine = std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| hash(&id));
    let rank = std::env::var("RANK").ok().and_then(|rank| rank.parse().ok()).unwrap_or(-1);
    let wall = clock(libc::CLOCK_REALTIME) as i64 - now() as i64;
    let pid = std::process::id().into();
    let head = Head { magic: MAGIC, capacity, taken: 0, dropped: 0, pid, wall, machine, rank };
    // SAFETY: the page is backed, and nobody else knows of it.
    unsafe { writer.base.cast::<Head>().write(head) };
    Ok(writer)
}

impl Writer {
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: a word of the head, which is backed, aligned and only touched atomically once others know of it.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).cast()) }
    }

    /// Backs the records before `end`.
    fn grow(&self, end: u64) -> io::Result<()> {
        if end <= self.backed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut growth = self.grown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let whole = HEAD_BYTES as u64 + self.capacity * RECORD;
        let from = if self.backed.load(Ordering::Acquire) == 0 { 0 } else { growth.file.metadata()?.len() };
        let to = (HEAD_BYTES as u64 + end * RECORD).next_multiple_of(STEP).min(whole);
        // First: what has failed may have made the file longer all the same.
        if growth.failed {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if to <= from {
            return Ok(());
        }
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes the struct. Beyond the limit a signal would end the process.
        let limited = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0 && to > limit.rlim_cur;
        let error = if limited {
            libc::EFBIG
        } else {
            // SAFETY: no memory.
            unsafe { libc::posix_fallocate(growth.file.as_raw_fd(), from as i64, (to - from) as i64) }
        };
        if error != 0 {
            growth.failed = true;
            return Err(io::Error::from_raw_os_error(error));
        }
        self.backed.store((to - HEAD_BYTES as u64) / RECORD, Ordering::Release);
        Ok(())
    }

    /// Where the next record of this thread goes.
    fn take(&self) -> Option<*mut Record> {
        let (mut next, mut end) = TAKEN.get();
        if next == end {
            next = self.word(std::mem::offset_of!(Head, taken)).fetch_add(CHUNK, Ordering::Relaxed);
            end = (next + CHUNK).min(self.capacity);
            if next >= end || self.grow(end).is_err() {
                self.word(std::mem::offset_of!(Head, dropped)).fetch_add(1, Ordering::Relaxed);
                return None;
            }
        }
        TAKEN.set((next + 1, end));
        // SAFETY: below the capacity, so inside of the mapping.
        Some(unsafe { self.base.add(HEAD_BYTES + (next * RECORD) as usize).cast() })
    }

    fn put(&self, time: u64, kind: Kind, words: [u64; 10]) {
        let Some(at) = self.take() else { return };
        if THREAD.get() == 0 {
            // SAFETY: takes nothing.
            THREAD.set(unsafe { libc::gettid() } as u32);
        }
        // SAFETY: this thread alone has taken the record, and it is backed. The kind comes last: a reader believes no other.
        unsafe {
            (&raw mut (*at).time).write(time);
            (&raw mut (*at).thread).write(THREAD.get());
            (&raw mut (*at).words).write(words);
            AtomicU32::from_ptr(&raw mut (*at).kind).store(kind as u32, Ordering::Release);
        }
    }
}

/// Writes down what happened at `time`.
#[cold]
pub fn put<const N: usize>(time: u64, kind: Kind, words: [u64; N]) {
    let Some(writer) = writer() else { return };
    let mut all = [0; 10];
    all[..N].copy_from_slice(&words);
    writer.put(time, kind, all);
}

/// What stands for these bytes in records.
#[cold]
pub fn text(bytes: &[u8]) -> u64 {
    let name = hash(bytes);
    let Some(writer) = writer() else { return name };
    let is_new = writer.texts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(name);
    if is_new {
        for (number, part) in bytes.chunks(56).enumerate() {
            let mut words = [name, bytes.len() as u64, number as u64 * 56, 0, 0, 0, 0, 0, 0, 0];
            for (word, eight) in words[3..].iter_mut().zip(part.chunks(8)) {
                let mut whole = [0; 8];
                whole[..eight.len()].copy_from_slice(eight);
                *word = u64::from_le_bytes(whole);
            }
            writer.put(now(), Kind::Text, words);
        }
    }
    name
}

/// The user was told of something: a warning, an error.
pub fn told(message: &str) {
    if is_on() {
        put(now(), Kind::Told, [text(message.as_bytes())]);
    }
}
