//! Reserved addresses, and what is mapped there. A mapping stays without access (a load faults) until cuMemSetAccess.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::world::{GRANULE, Mapping, WORLD, around, next_id};
use std::sync::Arc;

/// Reserves `bytes` of host addresses, `align`ed, without access; at `hint` if that is free.
pub fn reserve(bytes: u64, align: u64, hint: u64) -> Result<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let map = |at: u64, bytes: u64, more: i32| {
        // SAFETY: a new mapping; never over another one (no MAP_FIXED).
        let got = unsafe { libc::mmap(at as *mut _, bytes as usize, libc::PROT_NONE, flags | more, -1, 0) };
        if got == libc::MAP_FAILED { None } else { Some(got as u64) }
    };
    if hint != 0
        && hint.is_multiple_of(align)
        && let Some(got) = map(hint, bytes, libc::MAP_FIXED_NOREPLACE)
    {
        return Ok(got);
    }
    let all = bytes.checked_add(align).ok_or(Code::OUT_OF_MEMORY)?;
    let got = map(0, all, 0).ok_or(Code::OUT_OF_MEMORY)?;
    let base = got.next_multiple_of(align);
    for (from, to) in [(got, base), (base + bytes, got + all)] {
        if to > from {
            // SAFETY: the ends of the mapping that was made above.
            unsafe { libc::munmap(from as *mut _, (to - from) as usize) };
        }
    }
    Ok(base)
}

/// Takes access away but keeps the addresses.
pub fn close(at: u64, bytes: u64) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the range lies in a reservation of ours.
    unsafe { libc::mmap(at as *mut _, bytes as usize, libc::PROT_NONE, flags, -1, 0) };
}

fn aligned(numbers: &[u64]) -> Result {
    if numbers.iter().all(|number| number.is_multiple_of(GRANULE)) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(out: *mut u64, bytes: usize, align: usize, hint: u64, flags: u64) -> i32 {
    enter("cuMemAddressReserve", || {
        let (bytes, align) = (bytes as u64, align as u64);
        if out.is_null() || bytes == 0 || flags != 0 || (align != 0 && !align.is_power_of_two()) {
            return Err(Code::INVALID_VALUE);
        }
        aligned(&[bytes])?;
        let base = reserve(bytes, align.max(GRANULE), hint)?;
        WORLD.write().reservations.insert(base, bytes);
        // SAFETY: see the crate.
        unsafe { give(out, base) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressFree(at: u64, bytes: usize) -> i32 {
    enter("cuMemAddressFree", || {
        let mut world = WORLD.write();
        let known = world.reservations.get(&at).is_some_and(|&all| all == bytes as u64);
        if !known || world.mappings.range(at..at + bytes as u64).next().is_some() {
            return Err(Code::INVALID_VALUE);
        }
        world.reservations.remove(&at);
        // SAFETY: the whole of a reservation of ours.
        unsafe { libc::munmap(at as *mut _, bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(at: u64, bytes: usize, offset: usize, handle: u64, flags: u64) -> i32 {
    enter("cuMemMap", || {
        let bytes = bytes as u64;
        aligned(&[at])?;
        if flags != 0 || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut world = WORLD.write();
        let (base, &all) = around(&world.reservations, at, |&bytes| bytes).ok_or(Code::INVALID_VALUE)?;
        let outside = at + bytes > base + all;
        let taken = world.mappings.range(..at + bytes).next_back().is_some_and(|(base, other)| base + other.bytes > at);
        let found = world.held(handle)?;
        if outside || taken {
            return Err(Code::INVALID_VALUE);
        }
        // Only whole blocks can be mapped.
        if offset != 0 || bytes != found.block.bytes {
            return Err(Code::NOT_SUPPORTED);
        }
        found.mappings += 1;
        let block = Arc::clone(&found.block);
        world.mappings.insert(at, Mapping { bytes, handle, block, access: [0; crate::context::MOST], id: next_id() });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(at: u64, bytes: usize) -> i32 {
    enter("cuMemUnmap", || {
        let (bytes, mut world) = (bytes as u64, WORLD.write());
        aligned(&[at, bytes])?;
        let (base, &all) = around(&world.reservations, at, |&bytes| bytes).ok_or(Code::INVALID_VALUE)?;
        // Holes are no error, a part of a mapping is.
        let cut = |end: u64| around(&world.mappings, end, |mapping| mapping.bytes).is_some_and(|(base, _)| base != end);
        if bytes == 0 || at + bytes > base + all || cut(at) || cut(at + bytes) {
            return Err(Code::INVALID_VALUE);
        }
        close(at, bytes);
        let bases: Vec<u64> = world.mappings.range(at..at + bytes).map(|(&base, _)| base).collect();
        for base in bases {
            let Some(gone) = world.mappings.remove(&base) else { continue };
            if let Some(handle) = world.handles.get_mut(&gone.handle) {
                handle.mappings -= 1;
            }
            world.sweep(gone.handle);
        }
        Ok(())
    })
}

impl crate::world::World {
    /// The bases of the mappings that fill `bytes` at `at` without a gap and without a rest.
    pub fn whole_mappings(&self, at: u64, bytes: u64) -> Result<Vec<u64>> {
        let (mut next, mut bases) = (at, Vec::new());
        while next < at + bytes {
            let mapping = self.mappings.get(&next).ok_or(Code::INVALID_VALUE)?;
            bases.push(next);
            next += mapping.bytes;
        }
        if next == at + bytes && bytes > 0 { Ok(bases) } else { Err(Code::INVALID_VALUE) }
    }
}
