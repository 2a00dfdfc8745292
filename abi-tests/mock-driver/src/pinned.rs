//! Pinned host memory. The device sees it at the host's address.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::world::{Pinned, WORLD, around};
use crate::{capture, context, standin, stream};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// PORTABLE 1, DEVICEMAP 2, WRITECOMBINED 4.
const ALLOC_FLAGS: u32 = 7;
/// PORTABLE 1, DEVICEMAP 2, IOMEMORY 4, READ_ONLY 8.
const REGISTER_FLAGS: u32 = 15;

/// Bytes of a page that lie ahead of an allocation, but for the first one: as driver 580 puts what follows a small one.
const AHEAD: usize = 512;
/// The same of the next allocation.
static NEXT_AHEAD: AtomicUsize = AtomicUsize::new(0);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, flags: u32) -> i32 {
    enter("cuMemHostAlloc", || {
        let device = context::current()?;
        capture::refuse()?;
        if out.is_null() || flags & !ALLOC_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if bytes == 0 {
            // SAFETY: see the crate; also below.
            return unsafe { give(out, std::ptr::null_mut()) };
        }
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, not zeroed by promise: filled with junk below.
        let got = unsafe { libc::mmap(std::ptr::null_mut(), bytes.saturating_add(AHEAD), protection, kind, -1, 0) };
        if got == libc::MAP_FAILED {
            return Err(Code::OUT_OF_MEMORY);
        }
        // SAFETY: inside the mapping that was made above; also below.
        let got = unsafe { got.byte_add(NEXT_AHEAD.swap(AHEAD, Relaxed)) };
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(got.cast::<u8>(), 0xa5, bytes.min(1 << 20)) };
        let pinned = Pinned { bytes: bytes as u64, registered: false, flags: flags | 2, device };
        WORLD.write().pinned.insert(got as u64, pinned);
        // SAFETY: as above.
        unsafe { give(out, got) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(out: *mut *mut c_void, bytes: usize) -> i32 {
    // SAFETY: as above.
    unsafe { cuMemHostAlloc(out, bytes, 2) }
}

/// Takes `at` out of the table, if it is of that kind.
fn take(at: u64, registered: bool, wrong: Code, what: &str) -> Result<Pinned> {
    let known = WORLD.read().pinned.get(&at).filter(|pinned| pinned.registered == registered).map(|pinned| pinned.device);
    let device = known.ok_or(wrong)?;
    let _alone = standin::FREEING.write();
    standin::wait_for_kernels(device, what);
    stream::drain(device);
    WORLD.write().pinned.remove(&at).ok_or(wrong)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(at: *mut c_void) -> i32 {
    enter("cuMemFreeHost", || {
        context::current()?;
        if at.is_null() {
            return Ok(());
        }
        capture::refuse()?;
        let pinned = take(at as u64, false, Code::INVALID_VALUE, "cuMemFreeHost")?;
        // SAFETY: cuMemHostAlloc mapped it, and it is out of the table: nobody unmaps it again.
        unsafe { libc::munmap(at.map_addr(|at| at & !4095), pinned.bytes as usize + AHEAD) };
        Ok(())
    })
}

/// Whether all pages of the range are mapped.
fn mapped(at: u64, bytes: u64) -> bool {
    let first = at & !4095;
    let all = (at + bytes).next_multiple_of(4096) - first;
    // SAFETY: only asks; a hole is ENOMEM.
    unsafe { libc::msync(first as *mut _, all as usize, libc::MS_ASYNC) == 0 }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(at: *mut c_void, bytes: usize, flags: u32) -> i32 {
    enter("cuMemHostRegister", || {
        let device = context::current()?;
        capture::refuse()?;
        let (at, bytes) = (at as u64, bytes as u64);
        if at == 0 || bytes == 0 || flags & !REGISTER_FLAGS != 0 || at.checked_add(bytes + 4096).is_none() {
            return Err(Code::INVALID_VALUE);
        }
        let mut world = WORLD.write();
        let before = world.pinned.range(..at + bytes).next_back();
        if let Some((_, other)) = before.filter(|(base, other)| *base + other.bytes > at) {
            return Err(if other.registered { Code::ALREADY_REGISTERED } else { Code::INVALID_VALUE });
        }
        if !mapped(at, bytes) {
            return Err(Code::INVALID_VALUE);
        }
        world.pinned.insert(at, Pinned { bytes, registered: true, flags, device });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(at: *mut c_void) -> i32 {
    enter("cuMemHostUnregister", || {
        context::current()?;
        let inside = around(&WORLD.read().pinned, at as u64, |pinned| pinned.bytes).is_some();
        let wrong = if inside { Code::INVALID_VALUE } else { Code::NOT_REGISTERED };
        take(at as u64, true, wrong, "cuMemHostUnregister").map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(out: *mut u64, at: *mut c_void, flags: u32) -> i32 {
    enter("cuMemHostGetDevicePointer", || {
        context::current()?;
        let world = WORLD.read();
        let found = around(&world.pinned, at as u64, |pinned| pinned.bytes);
        if flags != 0 || found.is_none() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { give(out, at as u64) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetFlags(out: *mut u32, at: *mut c_void) -> i32 {
    enter("cuMemHostGetFlags", || {
        context::current()?;
        let world = WORLD.read();
        let (_, pinned) = around(&world.pinned, at as u64, |pinned| pinned.bytes).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: as above.
        unsafe { give(out, pinned.flags) }
    })
}
