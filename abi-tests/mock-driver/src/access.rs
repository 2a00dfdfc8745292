//! Who may touch a mapping: cuMemSetAccess and cuMemGetAccess. The host's own mapping follows: readable and writable as soon as
//! one device may, for that is where its kernels and copies run.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::handle::{LOCATION_DEVICE, Location};
use crate::world::{Mapping, WORLD, around, private};
use crate::{device, space};
use std::os::fd::AsRawFd;

/// CUmemAccessDesc.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    pub location: Location,
    /// NONE 0, READ 1, READWRITE 3.
    pub flags: i32,
}

fn open(at: u64, mapping: &Mapping) -> Result {
    let most = mapping.access.iter().copied().max().unwrap_or(0);
    if most == 0 || private() {
        space::close(at, mapping.bytes);
        return Ok(());
    }
    let protection = if most == 3 { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: the range lies in a reservation of ours; the file is at least as long.
    let got = unsafe {
        let fd = mapping.block.fd.as_raw_fd();
        libc::mmap(at as *mut _, mapping.bytes as usize, protection, libc::MAP_SHARED | libc::MAP_FIXED, fd, 0)
    };
    if got == libc::MAP_FAILED { Err(Code::OUT_OF_MEMORY) } else { Ok(()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemSetAccess(at: u64, bytes: usize, list: *const Access, count: usize) -> i32 {
    enter("cuMemSetAccess", || {
        if list.is_null() || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: see the crate.
        let list = unsafe { std::slice::from_raw_parts(list, count) };
        let mut world = WORLD.write();
        let bases = world.whole_mappings(at, bytes as u64)?;
        for access in list {
            if access.location.kind != LOCATION_DEVICE {
                return Err(Code::NOT_SUPPORTED);
            }
            let device = device::check(access.location.id).map_err(|_| Code::INVALID_VALUE)?;
            if !matches!(access.flags, 0 | 1 | 3) {
                return Err(Code::INVALID_VALUE);
            }
            if bases.iter().any(|base| !device::reaches(device, world.mappings[base].block.device())) {
                return Err(Code::INVALID_DEVICE);
            }
        }
        for base in bases {
            let Some(mapping) = world.mappings.get_mut(&base) else { continue };
            let before = mapping.access;
            for access in list {
                mapping.access[access.location.id as usize] = access.flags as u8;
            }
            // A mapping made again would be the same one: nothing to do when the host's access stays.
            if before.iter().max() != mapping.access.iter().max() {
                open(base, mapping)?;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAccess(out: *mut u64, location: *const Location, at: u64) -> i32 {
    enter("cuMemGetAccess", || {
        // SAFETY: NULL or valid; see the crate.
        let location = unsafe { location.as_ref() }.ok_or(Code::INVALID_VALUE)?;
        if location.kind != LOCATION_DEVICE {
            return Err(Code::INVALID_VALUE);
        }
        let device = device::check(location.id)?;
        let world = WORLD.read();
        let (_, mapping) = around(&world.mappings, at, |mapping| mapping.bytes).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: see the crate.
        unsafe { give(out, mapping.access[device].into()) }
    })
}
