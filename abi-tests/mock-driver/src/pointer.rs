//! cuPointerGetAttribute: what an address is.

use crate::context;
use crate::entry::enter;
use crate::error::{Code, Result};
use crate::world::{GRANULE, WORLD, World, around};
use std::ffi::c_void;

/// What is said of an address; by CU_POINTER_ATTRIBUTE_*.
struct About {
    context: Option<*mut c_void>,
    /// HOST 1, DEVICE 2.
    kind: u32,
    device: usize,
    device_pointer: Option<u64>,
    host_pointer: Option<u64>,
    /// Of the allocation; of the reservation for mapped memory.
    range: (u64, u64),
    mapping: (u64, u64),
    handle_types: u64,
    ipc: bool,
    id: u64,
}

fn about(world: &World, at: u64) -> Option<About> {
    if let Some((base, linear)) = around(&world.linear, at, |linear| linear.bytes) {
        return Some(About {
            context: Some(context::handle(linear.device)),
            kind: 2,
            device: linear.device,
            device_pointer: Some(at),
            host_pointer: None,
            range: (base, linear.bytes),
            mapping: (base, linear.bytes.next_multiple_of(GRANULE)),
            handle_types: 0,
            ipc: !linear.foreign,
            id: linear.id,
        });
    }
    if let Some((base, pinned)) = around(&world.pinned, at, |pinned| pinned.bytes) {
        return Some(About {
            context: Some(context::handle(pinned.device)),
            kind: 1,
            device: pinned.device,
            device_pointer: Some(at),
            host_pointer: Some(at),
            range: (base, pinned.bytes),
            mapping: (base, pinned.bytes.next_multiple_of(GRANULE)),
            handle_types: 0,
            ipc: false,
            id: base,
        });
    }
    let (base, mapping) = around(&world.mappings, at, |mapping| mapping.bytes)?;
    let (start, &length) = around(&world.reservations, at, |&bytes| bytes)?;
    let seen = mapping.access.iter().any(|&access| access != 0);
    Some(About {
        context: None,
        kind: 2,
        device: mapping.block.device().unwrap_or(0),
        device_pointer: seen.then_some(at),
        host_pointer: None,
        range: (start, length),
        mapping: (base, mapping.bytes),
        handle_types: mapping.block.shareable.into(),
        ipc: false,
        id: mapping.id,
    })
}

/// Writes attribute `which` to `out` with its own width.
///
/// # Safety
/// `out` is valid for a write of the attribute's type.
unsafe fn give(about: &About, which: i32, out: *mut c_void) -> Result {
    let refused = Code::INVALID_VALUE;
    // SAFETY: the caller's, in each arm; cuda.h gives the types.
    unsafe {
        match which {
            1 => out.cast::<*mut c_void>().write(about.context.unwrap_or(std::ptr::null_mut())),
            2 => out.cast::<u32>().write(about.kind),
            3 => out.cast::<u64>().write(about.device_pointer.ok_or(refused)?),
            4 => out.cast::<u64>().write(about.host_pointer.ok_or(refused)?),
            6 | 13 => out.cast::<u8>().write(u8::from(which == 13)),
            7 => out.cast::<u64>().write(about.id),
            8 => out.cast::<u8>().write(0),
            9 => out.cast::<i32>().write(about.device as i32),
            10 => out.cast::<u8>().write(about.ipc.into()),
            11 => out.cast::<u64>().write(about.range.0),
            12 => out.cast::<usize>().write(about.range.1 as usize),
            14 => out.cast::<u64>().write(about.handle_types),
            17 => out.cast::<u64>().write(0),
            18 => out.cast::<usize>().write(about.mapping.1 as usize),
            19 => out.cast::<u64>().write(about.mapping.0),
            _ => return Err(refused),
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(out: *mut c_void, which: i32, at: u64) -> i32 {
    enter("cuPointerGetAttribute", || {
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let about = about(&WORLD.read(), at).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: see the crate.
        unsafe { give(&about, which, out) }
    })
}

/// Unlike the single question, what has no answer is 0 (device ordinal: -2) and no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttributes(count: u32, which: *const i32, out: *const *mut c_void, at: u64) -> i32 {
    enter("cuPointerGetAttributes", || {
        if count == 0 || which.is_null() || out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let nothing = About {
            context: None,
            kind: 0,
            device: -2isize as usize,
            device_pointer: Some(0),
            host_pointer: Some(0),
            range: (0, 0),
            mapping: (0, 0),
            handle_types: 0,
            ipc: false,
            id: 0,
        };
        let about = about(&WORLD.read(), at).unwrap_or(nothing);
        for i in 0..count as usize {
            // SAFETY: arrays of that length; see the crate.
            let (which, out) = unsafe { (*which.add(i), *out.add(i)) };
            if out.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: as above.
            if unsafe { give(&about, which, out) }.is_err() && matches!(which, 3 | 4) {
                // SAFETY: as above.
                unsafe { out.cast::<u64>().write(0) };
            }
        }
        Ok(())
    })
}
