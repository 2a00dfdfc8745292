//! cuMemAlloc memory, and how much each device has left.

use crate::context::{self, MOST};
use crate::entry::{enter, give, give_if};
use crate::error::{Code, Result};
use crate::world::{GRANULE, Linear, WORLD, around, next_id, private};
use crate::{capture, device, space, standin, stream};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

static USED: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// Where memory was freed last: the next is there, if it fits, for a driver uses addresses again.
static FREED: AtomicU64 = AtomicU64::new(0);

/// Counts `bytes` of `device`'s memory as used.
pub fn take(device: usize, bytes: u64) -> Result {
    let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= device::memory());
    USED[device].fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map(drop).map_err(|_| Code::OUT_OF_MEMORY)
}

/// The reverse.
pub fn give_back(device: usize, bytes: u64) {
    USED[device].fetch_sub(bytes, Ordering::Relaxed);
}

/// New memory at an address of its own, and not zero.
fn allocate(device: usize, bytes: u64) -> Result<u64> {
    let all = bytes.checked_next_multiple_of(4096).ok_or(Code::OUT_OF_MEMORY)?;
    take(device, all)?;
    let base = space::reserve(all, GRANULE, FREED.load(Ordering::Relaxed)).inspect_err(|_| give_back(device, all))?;
    let view = if private() { space::reserve(all, 4096, 0)? } else { base };
    let linear = Linear { bytes, device, view, id: next_id(), shared: None, foreign: false };
    // SAFETY: the whole of a reservation made just now, which nobody else knows.
    unsafe {
        if libc::mprotect(view as *mut _, all as usize, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            unmap(base, &linear);
            return Err(Code::OUT_OF_MEMORY);
        }
        std::ptr::write_bytes(view as *mut u8, 0xa5, all.min(1 << 20) as usize);
    }
    WORLD.write().linear.insert(base, linear);
    Ok(base)
}

fn unmap(base: u64, linear: &Linear) {
    let all = linear.bytes.next_multiple_of(4096);
    // SAFETY: `allocate` made it so, and it is out of the table: nobody unmaps it again.
    unsafe {
        libc::munmap(base as *mut _, all as usize);
        if linear.view != base {
            libc::munmap(linear.view as *mut _, all as usize);
        }
    }
    if !linear.foreign {
        FREED.store(base, Ordering::Relaxed);
        give_back(linear.device, all);
    }
}

/// Frees what a context that goes still has.
pub fn forget(device: usize) {
    let mut world = WORLD.write();
    for (base, linear) in world.linear.extract_if(.., |_, linear| linear.device == device) {
        unmap(base, &linear);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(out: *mut u64, bytes: usize) -> i32 {
    enter("cuMemAlloc", || {
        let device = context::current()?;
        capture::refuse()?;
        if out.is_null() || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: see the crate; also below.
        unsafe { give(out, allocate(device, bytes as u64)?) }
    })
}

/// In stream order there; here at once, which no program can tell from an allocation that was quick.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(out: *mut u64, bytes: usize, stream: *mut c_void) -> i32 {
    enter("cuMemAllocAsync", || {
        let device = stream::find(stream)?.device;
        if out.is_null() || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { give(out, allocate(device, bytes as u64)?) }
    })
}

fn free(at: u64) -> Result {
    let mut world = WORLD.write();
    let linear = world.linear.remove(&at).ok_or(Code::INVALID_VALUE)?;
    if linear.foreign {
        world.linear.insert(at, linear);
        return Err(Code::INVALID_VALUE);
    }
    unmap(at, &linear);
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(at: u64) -> i32 {
    enter("cuMemFree", || {
        capture::refuse()?;
        if at == 0 {
            return Ok(());
        }
        context::current()?;
        let owner = WORLD.read().linear.get(&at).map(|linear| linear.device).ok_or(Code::INVALID_VALUE)?;
        let _alone = standin::FREEING.write();
        standin::wait_for_kernels(owner, "cuMemFree");
        stream::drain(owner);
        free(at)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(at: u64, stream: *mut c_void) -> i32 {
    enter("cuMemFreeAsync", || {
        stream::find(stream)?.drain();
        free(at)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(left: *mut usize, all: *mut usize) -> i32 {
    enter("cuMemGetInfo", || {
        let device = context::current()?;
        let used = USED[device].load(Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { give(left, device::memory().saturating_sub(used) as usize).and(give(all, device::memory() as usize)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, at: u64) -> i32 {
    enter("cuMemGetAddressRange", || {
        let device = context::current()?;
        let world = WORLD.read();
        let linear = around(&world.linear, at, |linear| linear.bytes).map(|(base, linear)| (base, linear.bytes));
        let mapped = || {
            let (base, mapping) = around(&world.mappings, at, |mapping| mapping.bytes)?;
            (mapping.access[device] != 0).then_some((base, mapping.bytes))
        };
        let found = linear.or_else(mapped).ok_or(Code::NOT_FOUND)?;
        // SAFETY: as above.
        unsafe {
            give_if(base, found.0);
            give_if(bytes, found.1 as usize);
        }
        Ok(())
    })
}
