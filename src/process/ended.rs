//! How a process has ended, of which somebody has a pidfd.

use rustix::fd::{AsFd, AsRawFd};

/// `struct pidfd_info`, as the first kernels have it that know it (6.13).
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const EXIT: u64 = 1 << 3;
/// `_IOWR(0xff, 11, struct pidfd_info)`.
const GET_INFO: libc::c_ulong = 3 << 30 | (size_of::<Info>() as libc::c_ulong) << 16 | 0xff << 8 | 11;
const _: () = assert!(size_of::<Info>() == 64);

/// As wait gives it, once its parent has collected it: Linux 6.15 and later.
pub fn exit_code(pidfd: impl AsFd) -> Option<i32> {
    let mut info = Info { mask: EXIT, ..Info::default() };
    // SAFETY: the request has the size of what it reads and writes, which is there. Where it is unknown, or the descriptor is something
    // else's, it fails.
    let result = unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), GET_INFO, &raw mut info) };
    (result == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}
