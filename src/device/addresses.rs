//! Reserved addresses of this process: PROT_NONE memory.

use crate::bail;
use crate::error::{Code, Error, Result};
use crate::fault;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::NonNull;

/// Flags of memory that holds nothing.
pub const NOTHING: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

/// `bytes` of addresses without access, at a multiple of `align` (a power of two).
pub fn reserve_aligned(bytes: usize, align: usize) -> Result<NonNull<u8>> {
    let refused = |why: &dyn std::fmt::Display| {
        Error::new(
            Code::SystemError,
            25,
            format!(
                "address space could not be reserved | {bytes} bytes: {why} | fix: lower NCCL_WIN_STRIDE or raise the address \
                 space limit (ulimit -v)"
            ),
        )
    };
    let Some(padded) = bytes.checked_add(align).filter(|_| bytes > 0 && align.is_power_of_two()) else {
        return Err(refused(&"too large"));
    };
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
    let reserve = || unsafe { mmap_anonymous(std::ptr::null_mut(), padded, ProtFlags::empty(), NOTHING) };
    let got = fault::step("addresses").and_then(|()| reserve()).map_err(|e| refused(&e))?;
    let start = got as usize;
    let base = start.next_multiple_of(align);
    let tail = start + padded - (base + bytes);
    // SAFETY: both ranges lie inside the mapping made above and outside the part that is kept; nobody has their addresses.
    unsafe {
        if base > start {
            let _ = munmap(got, base - start);
        }
        if tail > 0 {
            let _ = munmap((base + bytes) as *mut _, tail);
        }
    }
    NonNull::new(base as *mut u8).ok_or_else(|| refused(&"no address"))
}

/// An error unless a mapping lies in whole units inside a reservation of `reserved` bytes.
pub fn check_inside(offset: usize, bytes: usize, reserved: usize, unit: usize) -> Result<()> {
    if !offset.is_multiple_of(unit) || offset.checked_add(bytes).is_none_or(|end| end > reserved) {
        bail!(
            InternalError,
            25,
            "mapping outside its reservation | offset {offset:#x}, {bytes} bytes, reserved {reserved:#x} | fix: report this"
        );
    }
    Ok(())
}
