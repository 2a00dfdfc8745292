//! This process's id without a system call.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A page that the kernel zeroes in a forked child, however it was forked; null until there is one.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// As [`std::process::id`], which asks the kernel each time (some 100 to 300 ns where that is virtual).
pub fn pid() -> u32 {
    // SAFETY: what stands there is null or a page that stays, of which nobody sees anything but this atomic.
    let known = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
    let Some(known) = known else {
        make();
        return std::process::id();
    };
    match known.load(Ordering::Relaxed) {
        0 => {
            let own = std::process::id();
            known.store(own, Ordering::Relaxed);
            own
        }
        own => own,
    }
}

/// Without a page every call asks the kernel.
#[cold]
fn make() {
    const BYTES: usize = 4096;
    // SAFETY: a new mapping, of no address that is in use.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let Ok(page) = page else { return };
    // SAFETY: the mapping of above.
    let wiped = unsafe { madvise(page, BYTES, Advice::LinuxWipeOnFork) };
    let stays =
        wiped.is_ok() && PAGE.compare_exchange(std::ptr::null_mut(), page.cast(), Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if !stays {
        // SAFETY: the mapping of above, which nobody else has seen.
        let _ = unsafe { munmap(page, BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_another_process() {
        assert_eq!((pid(), pid(), pid()), (std::process::id(), std::process::id(), std::process::id()));
        // SAFETY: the child makes system calls only, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = pid() == std::process::id() && pid() == std::process::id();
            // SAFETY: ends the child without destructors.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: status is live.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((status, pid()), (0, std::process::id()));
    }
}
