//! A buffer that a call of the program's names.

use crate::bail;
use crate::device::{DevPtr, Device};
use crate::error::Result;

/// Refuses `name` of `function`, of which a kernel is to read or write `bytes` from `at` on, where it cannot: NULL, no address, or less than that.
pub fn check_buffer(device: &dyn Device, function: &str, name: &str, rank: u32, at: DevPtr, bytes: u64) -> Result<()> {
    if at == 0 && bytes > 0 {
        bail!(InvalidArgument, 94, "{name} is NULL | {function}, rank {rank} | {bytes} bytes | fix: pass device memory");
    }
    if at.checked_add(bytes).is_none() {
        bail!(InvalidArgument, 94, "{name} is no address | {function}, rank {rank} | {at:#x} | fix: pass device memory");
    }
    if let Some(found) = device.overrun(at, bytes) {
        bail!(
            InvalidArgument,
            99,
            "{name} ends behind its allocation | {function}, rank {rank} | {bytes} bytes from {at:#x} on, {} bytes into an allocation of \
             {} bytes | fix: allocate more, or pass a smaller count (of elements, not of bytes)",
            at - found.base,
            found.bytes
        );
    }
    Ok(())
}
