//! Memory that has a descriptor.

use std::ffi::CStr;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// So many bytes, closed on exec; `flags` are further ones of memfd_create. What counts as a file may be limited (`ulimit -f`), and the system's
/// answer to more would be a signal that ends the process without a word.
pub fn create(name: &CStr, bytes: u64, flags: u32) -> Result<OwnedFd> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain calls on a terminated name and a place that is filled in; the descriptor is checked, and ours alone.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) == 0 && limit.rlim_cur < bytes {
            return Err(Error::other(format!("{bytes} bytes are more than a file may have, {} (ulimit -f)", limit.rlim_cur)));
        }
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | flags);
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        match libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t) {
            0 => Ok(fd),
            _ => Err(Error::last_os_error()),
        }
    }
}
