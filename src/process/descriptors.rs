//! Descriptors of the library: a forked child closes its copies, and one that the program closed or overwrote is noticed.

use crate::error::{Code, Error};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

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
}
