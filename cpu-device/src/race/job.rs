//! The processes of a job, whose ranks are watched as one: they share an [`arena`], which libginrs hands around when a communicator with ranks in
//! several processes of one machine makes a device communicator.
//!
//! Here a process knows its own grids, groups and places by small numbers, and those of others by theirs with the number of the process above
//! them; in the arena all have one. So nothing changes for what has begun when a process joins.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::device::is_forked;
use crate::memfd;

use super::{arena, names, places, refuse, windows};

/// This process's number; 0: it has not joined.
static OWN: AtomicU32 = AtomicU32::new(0);
/// What this process offers, or has joined.
static MEMORY: Mutex<Option<OwnedFd>> = Mutex::new(None);
/// There is a communicator whose processes have not joined one job.
static APART: AtomicBool = AtomicBool::new(false);

/// Of groups and grids: below the number of the process.
const BITS: u32 = 24;
/// Of places: the number of the process stands from here on.
const PLACE: u32 = 48;
/// Says which library wrote the arena.
const MARK: u64 = 0x0002_6361_7272_6e67 ^ (size_of::<super::shadow::Access>() as u64) << 56;

const TWO: &str = "processes that are checked meet for the first time, each with others already\n\
                   fix: let one communicator of all ranks make a device communicator first";
const NO_MEMORY: &str = "the memory that the processes of the job share cannot be mapped\nfix: raise ulimit -v";
const ENDED: &str = "another process of the job has said why";
const BEFORE: &str = "a communicator with ranks in other processes was made before this program's kernels were loaded, or with ranks that are \
                      not checked\nfix: load them first, compile all ranks' programs with ginrs-cc --check=race";

/// Whether there are other processes.
#[inline]
pub fn is_joined() -> bool {
    OWN.load(Ordering::Relaxed) != 0
}

/// The process of a group or grid, where it is another one.
pub fn process_of(number: u32) -> Option<u32> {
    Some(number >> BITS).filter(|process| *process != 0)
}

/// A group or grid as all processes know it.
pub fn global(number: u32) -> u32 {
    if number >> BITS == 0 { number | OWN.load(Ordering::Relaxed) << BITS } else { number }
}

/// And as this one does.
pub fn local(number: u32) -> u32 {
    if number >> BITS == OWN.load(Ordering::Relaxed) { number & ((1 << BITS) - 1) } else { number }
}

/// A number without its process.
pub fn rest(number: u32) -> u32 {
    number & ((1 << BITS) - 1)
}

/// A place as all processes know it.
pub fn global_place(place: u64) -> u64 {
    if place >> PLACE & 0xff == 0 { place | u64::from(OWN.load(Ordering::Relaxed)) << PLACE } else { place }
}

/// And as this one does.
pub fn local_place(place: u64) -> u64 {
    if place >> PLACE & 0xff == u64::from(OWN.load(Ordering::Relaxed)) { place & !(0xff << PLACE) } else { place }
}

/// Whether a place is of another process.
pub fn is_foreign(place: u64) -> bool {
    place >> PLACE & 0xff != 0
}

/// Nothing is checked any more, in no process of the job.
pub fn give_up() {
    if is_joined() {
        arena::head().off.store(1, Ordering::Relaxed);
    }
}

/// Another process has given up.
pub fn look() {
    if is_joined() && arena::head().off.load(Ordering::Relaxed) != 0 {
        refuse(ENDED);
    }
}

/// A grid begins: are those whose accesses count watched?
pub fn begins() {
    if APART.load(Ordering::Relaxed) && !is_joined() {
        refuse(BEFORE);
    }
}

/// There is a communicator whose processes do not join one job: no kernel may use it.
pub fn stay_apart() {
    APART.store(true, Ordering::Relaxed);
}

fn create() -> std::io::Result<OwnedFd> {
    let fd = memfd::create(c"ginrs-race", arena::BYTES, libc::MFD_ALLOW_SEALING)?;
    // SAFETY: a plain call on a descriptor of ours.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) } {
        0 => Ok(fd),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn inode(fd: i32) -> Option<u64> {
    // SAFETY: all zero is a value of it, which fstat fills in.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut stat) == 0).then_some(stat.st_ino)
    }
}

/// See race.h.
///
/// # Safety
/// `joined` is valid, `bytes` too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_offer(joined: *mut i32, bytes: *mut u64) -> i32 {
    if !super::on() {
        return -1;
    }
    let mut memory = MEMORY.lock();
    if memory.is_none() {
        *memory = create().ok();
    }
    let Some(memory) = &*memory else {
        refuse("no memory for the processes of the job to share\nfix: raise ulimit -n and ulimit -f");
        return -1;
    };
    // SAFETY: the caller's; our own descriptor.
    unsafe {
        (*joined, *bytes) = (is_joined().into(), arena::BYTES);
        libc::fcntl(memory.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3)
    }
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_join(fd: i32) {
    if !super::on() {
        return;
    }
    let mut memory = MEMORY.lock();
    if is_joined() {
        if memory.as_ref().and_then(|memory| inode(memory.as_raw_fd())) != inode(fd) {
            drop(memory);
            refuse(TWO);
        }
        return;
    }
    // SAFETY: a new mapping at an address of the kernel's choice; the file is as large as that, sealed so (libginrs has looked).
    let (copy, base) = unsafe {
        let (bytes, access) = (arena::BYTES as usize, libc::PROT_READ | libc::PROT_WRITE);
        let base = libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED | libc::MAP_NORESERVE, fd, 0);
        (libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3), base)
    };
    if copy < 0 || base == libc::MAP_FAILED {
        return refuse(NO_MEMORY);
    }
    // SAFETY: just made.
    *memory = Some(unsafe { OwnedFd::from_raw_fd(copy) });
    // SAFETY: just mapped, and never unmapped; by libginrs' word it comes from a process like this one.
    unsafe { arena::begin(base.cast()) };
    let head = arena::head();
    if head.mark.compare_exchange(0, MARK, Ordering::AcqRel, Ordering::Acquire).is_err_and(|mark| mark != MARK) {
        return refuse("the processes of the job have loaded different versions of libginrs_cpu");
    }
    let own = head.processes.fetch_add(1, Ordering::AcqRel) + 1;
    if own >= arena::PROCESSES {
        return refuse("the job has more than 255 processes on this machine");
    }
    names::join(head);
    OWN.store(own, Ordering::Release);
    super::known::join();
    windows::join();
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_mapped(at: usize, bytes: usize, fd: i32) {
    // A thread of the parent may have held the list's lock.
    if let Some(file) = inode(fd).filter(|_| !is_forked()) {
        places::map(at, bytes, file);
    }
}
