//! Multicast objects, where GINRS_MOCK_MULTICAST says that the devices have them. Nothing is carried to several devices: this checks
//! the calls, and in what order they come.
//!
//! An object is a memfd, like memory, of a device that nobody has. Its first words are shared by all processes: members wanted, and
//! a bit for each that has joined.

use crate::device;
use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::handle::NAME;
use crate::world::{Block, GRANULE, WORLD, World};
use parking_lot::Mutex;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};

/// Instead of a device's number on this machine.
const OBJECT: i32 = 9999;

/// GINRS_MOCK_MULTICAST: the devices have multicast objects.
pub fn has() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| device::number("GINRS_MOCK_MULTICAST", 0) != 0);
    *HAS
}

/// CUmulticastObjectProp.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Prop {
    members: u32,
    bytes: usize,
    handle_types: u64,
    flags: u64,
}
const _: () = assert!(size_of::<Prop>() == 32);

fn check(prop: *const Prop) -> Result<Prop> {
    if !has() {
        return Err(Code::NOT_SUPPORTED);
    }
    // SAFETY: NULL or valid; see the crate.
    let prop = *unsafe { prop.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    let sized = prop.bytes > 0 && (prop.bytes as u64).is_multiple_of(GRANULE);
    if prop.members == 0 || prop.members > 32 || !sized || prop.handle_types > 1 || prop.flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(prop)
}

/// Members wanted and joined.
fn words<T>(block: &Block, use_them: impl FnOnce(&AtomicU32, &AtomicU32) -> T) -> Result<T> {
    if block.physical != OBJECT {
        return Err(Code::INVALID_VALUE);
    }
    let (both, fd) = (libc::PROT_READ | libc::PROT_WRITE, block.fd.as_raw_fd());
    // SAFETY: a new mapping of the first page of a file that is longer.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, both, libc::MAP_SHARED, fd, 0) };
    if page == libc::MAP_FAILED {
        return Err(Code::OUT_OF_MEMORY);
    }
    // SAFETY: the page lives until the end of this function, and everybody accesses the words as atomics.
    let result = unsafe { use_them(AtomicU32::from_ptr(page.cast()), AtomicU32::from_ptr(page.cast::<u32>().add(1))) };
    // SAFETY: mapped above, and the references have ended.
    unsafe { libc::munmap(page, 4096) };
    Ok(result)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMulticastCreate(out: *mut u64, prop: *const Prop) -> i32 {
    enter("cuMulticastCreate", || {
        let prop = check(prop)?;
        let name = std::ffi::CString::new(format!("{NAME}{OBJECT}")).expect("no NUL");
        // SAFETY: a terminated name; the descriptor is checked and ours alone.
        let fd = unsafe {
            let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 || libc::ftruncate(fd, prop.bytes as i64) != 0 {
                return Err(Code::OUT_OF_MEMORY);
            }
            OwnedFd::from_raw_fd(fd)
        };
        let shareable = prop.handle_types == 1;
        let block = Block { fd, bytes: prop.bytes as u64, physical: OBJECT, shareable, own: false, view: OnceLock::new() };
        words(&block, |wanted, _| wanted.store(prop.members, Ordering::Release))?;
        // SAFETY: as above.
        unsafe { give(out, crate::handle::enlist(&mut WORLD.write(), block)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastAddDevice(handle: u64, device: i32) -> i32 {
    enter("cuMulticastAddDevice", || {
        let bit = 1 << device::physical(device::check(device)?);
        let joined = words(&WORLD.write().held(handle)?.block, |wanted, joined| {
            let before = joined.fetch_or(bit, Ordering::AcqRel);
            before & bit == 0 && before.count_ones() < wanted.load(Ordering::Acquire)
        })?;
        if joined { Ok(()) } else { Err(Code::INVALID_VALUE) }
    })
}

/// What is bound by this process: object, device, where, and how much.
static BOUND: Mutex<Vec<(u64, i32, u64, u64)>> = Mutex::new(Vec::new());

/// The device whose memory `memory` is, once everybody has joined; the real one waits for them.
fn member(world: &mut World, object: u64, memory: u64) -> Result<i32> {
    let block = &world.held(memory)?.block;
    let owner = block.device().ok_or(Code::INVALID_DEVICE)? as i32;
    let bit = 1 << block.physical;
    words(&world.held(object)?.block, |wanted, joined| {
        let joined = joined.load(Ordering::Acquire);
        let complete = joined.count_ones() == wanted.load(Ordering::Acquire);
        if complete && joined & bit != 0 { Ok(owner) } else { Err(Code::INVALID_VALUE) }
    })?
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastBindMem(object: u64, at: usize, memory: u64, offset: usize, bytes: usize, flags: u64) -> i32 {
    enter("cuMulticastBindMem", || {
        let (at, bytes) = (at as u64, bytes as u64);
        let mut world = WORLD.write();
        let owner = member(&mut world, object, memory)?;
        let (all, whole) = (world.held(object)?.block.bytes, world.held(memory)?.block.bytes);
        let mut bound = BOUND.lock();
        let taken = |&(o, d, from, n): &(u64, i32, u64, u64)| o == object && d == owner && from < at + bytes && at < from + n;
        if flags != 0 || offset != 0 || bytes == 0 || ![at, bytes].iter().all(|n| n.is_multiple_of(GRANULE)) {
            return Err(Code::INVALID_VALUE);
        }
        if bytes > whole || at + bytes > all || bound.iter().any(taken) {
            return Err(Code::INVALID_VALUE);
        }
        bound.push((object, owner, at, bytes));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastUnbind(object: u64, device: i32, at: usize, bytes: usize) -> i32 {
    enter("cuMulticastUnbind", || {
        let gone = (object, device::check(device)? as i32, at as u64, bytes as u64);
        WORLD.write().held(object)?;
        let mut bound = BOUND.lock();
        let place = bound.iter().position(|entry| *entry == gone).ok_or(Code::INVALID_VALUE)?;
        bound.remove(place);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMulticastGetGranularity(out: *mut usize, prop: *const Prop, option: i32) -> i32 {
    enter("cuMulticastGetGranularity", || {
        check(prop)?;
        if !(0..=1).contains(&option) {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { give(out, GRANULE as usize) }
    })
}
