//! cuIpc*MemHandle: cuMemAlloc memory for other processes. What is exported becomes a memfd with the same bytes, at the same addresses; others
//! open it by way of /proc. It stays for them when its owner has freed it, as on a GPU.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::world::{GRANULE, Linear, WORLD, next_id, private};
use crate::{context, device, space};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// CUipcMemHandle, as this driver fills it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Handle {
    mark: u64,
    process: u32,
    fd: i32,
    bytes: u64,
    device: i32,
    rest: [u32; 9],
}
const _: () = assert!(size_of::<Handle>() == 64);
const MARK: u64 = 0x6370_696b_636f_6d00;

fn map(at: u64, bytes: u64, fd: &OwnedFd) -> Result {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: the caller's own addresses of that length.
    let got = unsafe { libc::mmap(at as *mut _, bytes as usize, protection, flags, fd.as_raw_fd(), 0) };
    if got == libc::MAP_FAILED { Err(Code::OUT_OF_MEMORY) } else { Ok(()) }
}

fn export(base: u64, linear: &mut Linear) -> Result<i32> {
    if let Some(fd) = &linear.shared {
        return Ok(fd.as_raw_fd());
    }
    let all = linear.bytes.next_multiple_of(4096) as usize;
    // SAFETY: a new file, filled from memory of ours, of which nobody writes a word while it moves: its owner is in this call, and kernels
    // that run beside it are not of a program that tests this.
    let fd = unsafe {
        let fd = libc::memfd_create(c"ginrs-mock-ipc".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 || libc::pwrite(fd, base as *const _, all, 0) != all as isize {
            return Err(Code::OUT_OF_MEMORY);
        }
        OwnedFd::from_raw_fd(fd)
    };
    map(base, all as u64, &fd)?;
    Ok(linear.shared.insert(fd).as_raw_fd())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcGetMemHandle(out: *mut Handle, at: u64) -> i32 {
    enter("cuIpcGetMemHandle", || {
        context::current()?;
        let mut world = WORLD.write();
        let linear = world.linear.get_mut(&at).filter(|linear| !linear.foreign && !private()).ok_or(Code::INVALID_VALUE)?;
        let fd = export(at, linear)?;
        let device = device::physical(linear.device);
        let handle = Handle { mark: MARK, process: std::process::id(), fd, bytes: linear.bytes, device, rest: [0; 9] };
        // SAFETY: see the crate.
        unsafe { give(out, handle) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcOpenMemHandle_v2(out: *mut u64, handle: Handle, flags: u32) -> i32 {
    enter("cuIpcOpenMemHandle", || {
        let own = context::current()?;
        // Of the same process: the driver refuses it.
        if out.is_null() || flags != 1 || handle.mark != MARK || handle.process == std::process::id() {
            return Err(Code::INVALID_VALUE);
        }
        let path = format!("/proc/{}/fd/{}", handle.process, handle.fd);
        let file = std::fs::File::options().read(true).write(true).open(path).map_err(|_| Code::INVALID_HANDLE)?;
        let all = handle.bytes.next_multiple_of(4096);
        let base = space::reserve(all, GRANULE, 0)?;
        map(base, all, &file.into())?;
        let device = device::ordinal_of(handle.device).unwrap_or(own);
        let linear = Linear { bytes: handle.bytes, device, view: base, id: next_id(), shared: None, foreign: true };
        WORLD.write().linear.insert(base, linear);
        // SAFETY: as above.
        unsafe { give(out, base) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcCloseMemHandle(at: u64) -> i32 {
    enter("cuIpcCloseMemHandle", || {
        context::current()?;
        let mut world = WORLD.write();
        let linear = world.linear.get(&at).filter(|linear| linear.foreign).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: mapped by `cuIpcOpenMemHandle_v2`, and out of the table below, under one lock.
        unsafe { libc::munmap(at as *mut _, linear.bytes.next_multiple_of(4096) as usize) };
        world.linear.remove(&at);
        Ok(())
    })
}
