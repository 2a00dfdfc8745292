//! Physical memory and its handles: cuMemCreate, cuMemRelease, export and import.
//!
//! A block is a sealed memfd whose name says which device of the machine it belongs to; that is what an import reads.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::world::{Block, GRANULE, Handle, WORLD, World, around};
use crate::{device, linear};
use std::ffi::{CString, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

/// CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    pub kind: i32,
    pub id: i32,
}

/// CUmemAllocationProp.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Prop {
    pub kind: i32,
    pub handle_types: i32,
    pub location: Location,
    pub meta: *mut c_void,
    pub compression: u8,
    pub rdma: u8,
    pub usage: u16,
    pub reserved: [u8; 4],
}
const _: () = assert!(size_of::<Prop>() == 32);

pub const LOCATION_DEVICE: i32 = 1;
const PINNED: i32 = 1;
const POSIX_FD: i32 = 1;
pub const NAME: &str = "ginrs-mock-gpu-";

/// What a Prop must be here.
fn check(prop: *const Prop) -> Result<Prop> {
    // SAFETY: NULL or valid; see the crate.
    let prop = *unsafe { prop.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    if prop.kind != PINNED || prop.location.kind != LOCATION_DEVICE {
        return Err(Code::INVALID_VALUE);
    }
    device::check(prop.location.id)?;
    match prop.handle_types {
        0 | POSIX_FD => Ok(prop),
        8 => Err(Code::NOT_PERMITTED),
        _ => Err(Code::INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(out: *mut usize, prop: *const Prop, option: i32) -> i32 {
    enter("cuMemGetAllocationGranularity", || {
        check(prop)?;
        if !(0..=1).contains(&option) {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: see the crate; also below.
        unsafe { give(out, GRANULE as usize) }
    })
}

/// A sealed memfd that begins with junk, as memory does that was somebody's before.
fn make(bytes: u64, device: usize) -> Result<OwnedFd> {
    let name = CString::new(format!("{NAME}{}", device::physical(device))).expect("no NUL");
    // SAFETY: a terminated name; the result is checked and owned by nobody else.
    let fd = unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        if fd < 0 {
            return Err(Code::OPERATING_SYSTEM);
        }
        OwnedFd::from_raw_fd(fd)
    };
    let junk = [0xa5u8; 1 << 16];
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: a descriptor of ours and a buffer of that length.
    unsafe {
        if libc::ftruncate(fd.as_raw_fd(), bytes as i64) != 0 {
            return Err(Code::OUT_OF_MEMORY);
        }
        for at in [0, bytes - junk.len() as u64] {
            if libc::pwrite(fd.as_raw_fd(), junk.as_ptr().cast(), junk.len(), at as i64) < junk.len() as isize {
                return Err(Code::OUT_OF_MEMORY);
            }
        }
        if libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0 {
            return Err(Code::OPERATING_SYSTEM);
        }
    }
    Ok(fd)
}

pub fn enlist(world: &mut World, block: Block) -> u64 {
    world.next_handle += 1;
    let number = 0x4d00_0000 + world.next_handle * 16;
    world.handles.insert(number, Handle { block: Arc::new(block), held: 1, mappings: 0 });
    number
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(out: *mut u64, bytes: usize, prop: *const Prop, flags: u64) -> i32 {
    enter("cuMemCreate", || {
        let prop = check(prop)?;
        if out.is_null() || flags != 0 || bytes == 0 || !(bytes as u64).is_multiple_of(GRANULE) {
            return Err(Code::INVALID_VALUE);
        }
        let (bytes, device) = (bytes as u64, prop.location.id as usize);
        linear::take(device, bytes)?;
        let fd = make(bytes, device).inspect_err(|_| linear::give_back(device, bytes))?;
        let (physical, shareable) = (device::physical(device), prop.handle_types == POSIX_FD);
        let block = Block { fd, bytes, physical, shareable, own: true, view: OnceLock::new() };
        // SAFETY: as above.
        unsafe { give(out, enlist(&mut WORLD.write(), block)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(handle: u64) -> i32 {
    enter("cuMemRelease", || {
        let mut world = WORLD.write();
        world.held(handle)?.held -= 1;
        world.sweep(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRetainAllocationHandle(out: *mut u64, at: *mut c_void) -> i32 {
    enter("cuMemRetainAllocationHandle", || {
        let mut world = WORLD.write();
        let (_, mapping) = around(&world.mappings, at as u64, |mapping| mapping.bytes).ok_or(Code::INVALID_VALUE)?;
        let number = mapping.handle;
        world.handles.get_mut(&number).ok_or(Code::INVALID_VALUE)?.held += 1;
        // SAFETY: as above.
        unsafe { give(out, number) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationPropertiesFromHandle(out: *mut Prop, handle: u64) -> i32 {
    enter("cuMemGetAllocationPropertiesFromHandle", || {
        let mut world = WORLD.write();
        let block = &world.held(handle)?.block;
        // Measured: -2 for a device that is not visible.
        let location = Location { kind: LOCATION_DEVICE, id: block.device().map_or(-2, |device| device as i32) };
        let handle_types = if block.shareable { POSIX_FD } else { 0 };
        let (kind, meta) = (PINNED, std::ptr::null_mut());
        // SAFETY: as above.
        unsafe { give(out, Prop { kind, handle_types, location, meta, compression: 0, rdma: 0, usage: 0, reserved: [0; 4] }) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemExportToShareableHandle(out: *mut c_void, handle: u64, kind: i32, flags: u64) -> i32 {
    enter("cuMemExportToShareableHandle", || {
        if kind != POSIX_FD || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let world = WORLD.read();
        // A mapping keeps a handle exportable after its release.
        let block = &world.handles.get(&handle).ok_or(Code::INVALID_VALUE)?.block;
        if !block.shareable {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: a descriptor of ours.
        let fd = unsafe { libc::fcntl(block.fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Code::OPERATING_SYSTEM);
        }
        // SAFETY: as above; POSIX descriptors come out as int.
        unsafe { give(out.cast::<i32>(), fd) }
    })
}

/// CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD.
const DMA_BUF: i32 = 1;

/// With GINRS_MOCK_DMABUF=1: the block's memfd, opened again, whose position is where the range begins. Whole blocks' mappings alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetHandleForAddressRange(out: *mut c_void, at: u64, bytes: usize, kind: i32, flags: u64) -> i32 {
    enter("cuMemGetHandleForAddressRange", || {
        if out.is_null() || kind != DMA_BUF || flags != 0 || !at.is_multiple_of(4096) || !bytes.is_multiple_of(4096) {
            return Err(Code::INVALID_VALUE);
        }
        if device::number("GINRS_MOCK_DMABUF", 0) == 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let world = WORLD.read();
        let (base, mapping) = around(&world.mappings, at, |mapping| mapping.bytes).ok_or(Code::INVALID_VALUE)?;
        if at + bytes as u64 > base + mapping.bytes {
            return Err(Code::INVALID_VALUE);
        }
        let path = format!("/proc/self/fd/{}", mapping.block.fd.as_raw_fd());
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).map_err(|_| Code::OPERATING_SYSTEM)?;
        std::io::Seek::seek(&mut &file, std::io::SeekFrom::Start(at - base)).map_err(|_| Code::OPERATING_SYSTEM)?;
        // SAFETY: as above; the descriptor is the caller's from here on.
        unsafe { give(out.cast::<i32>(), std::os::fd::IntoRawFd::into_raw_fd(file)) }
    })
}

/// The machine's device that made the memfd, and its size.
fn read(fd: i32) -> Result<(i32, u64)> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).map_err(|_| Code::UNKNOWN)?;
    let link = link.to_string_lossy();
    let name = link.strip_prefix("/memfd:").and_then(|name| name.strip_prefix(NAME)).ok_or(Code::UNKNOWN)?;
    let physical = name.split(' ').next().and_then(|number| number.parse().ok()).ok_or(Code::UNKNOWN)?;
    // SAFETY: plain data, zero is fine.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place to write to.
    if unsafe { libc::fstat(fd, &mut stat) } != 0 {
        return Err(Code::UNKNOWN);
    }
    Ok((physical, stat.st_size as u64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemImportFromShareableHandle(out: *mut u64, os_handle: *mut c_void, kind: i32) -> i32 {
    enter("cuMemImportFromShareableHandle", || {
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        if kind != POSIX_FD {
            return Err(Code::NOT_SUPPORTED);
        }
        let fd = os_handle as usize as i32;
        let (physical, bytes) = read(fd)?;
        // SAFETY: `read` has just used it, so it is open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(|_| Code::OPERATING_SYSTEM)?;
        // An import cannot be exported again.
        let block = Block { fd, bytes, physical, shareable: false, own: false, view: OnceLock::new() };
        // SAFETY: as above.
        unsafe { give(out, enlist(&mut WORLD.write(), block)) }
    })
}
