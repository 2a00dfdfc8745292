//! cuMemcpyBatchAsync, in its 12.8 and its 13.0 form.

use crate::copy::{self, Place};
use crate::entry::{enter, give_if};
use crate::error::{Code, Result};
use crate::handle::Location;
use crate::world::Seen;
use crate::{context, stream};
use std::ffi::c_void;

/// CUmemcpyAttributes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Attributes {
    /// STREAM 1, DURING_API_CALL 2, ANY 3: when the source may be read. STREAM is right for all.
    order: i32,
    from: Location,
    to: Location,
    flags: u32,
}
const _: () = assert!(size_of::<Attributes>() == 24);

/// CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE.
const FLAGS: u32 = 1;

struct Arrays {
    to: *const u64,
    from: *const u64,
    bytes: *const usize,
    count: usize,
    attributes: *const Attributes,
    indices: *const usize,
    kinds: usize,
}

fn batch(arrays: Arrays, stream: *mut c_void) -> Result {
    let Arrays { to, from, bytes, count, attributes, indices, kinds } = arrays;
    let null = to.is_null() || from.is_null() || bytes.is_null() || attributes.is_null() || indices.is_null();
    if null || count == 0 || kinds == 0 || kinds > count || (stream as usize) <= 1 {
        return Err(Code::INVALID_VALUE);
    }
    let stream = stream::find(stream)?;
    // Measured: refused with no context current, unlike the single copies.
    context::current_if_any().ok_or(Code::INVALID_VALUE)?;
    // SAFETY: arrays of these lengths; see the crate.
    let (to, from, bytes, attributes, indices) = unsafe {
        let slice = |list: *const u64| std::slice::from_raw_parts(list, count);
        let bytes = std::slice::from_raw_parts(bytes, count);
        (slice(to), slice(from), bytes, std::slice::from_raw_parts(attributes, kinds), std::slice::from_raw_parts(indices, kinds))
    };
    let rising = indices[0] == 0 && indices.is_sorted_by(|a, b| a < b) && indices[kinds - 1] < count;
    if !rising || attributes.iter().any(|one| !(1..=3).contains(&one.order) || one.flags & !FLAGS != 0) {
        return Err(Code::INVALID_VALUE);
    }
    let mut copies = Vec::with_capacity(count);
    let mut pageable = false;
    for i in 0..count {
        if bytes[i] == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (one, target) = copy::plan(&stream, stream.device, to[i], from[i], bytes[i] as u64, (Place::Any, Place::Any))?;
        pageable |= target == Seen::Unknown;
        copies.push(one);
    }
    copy::submit(&stream, copies, pageable);
    Ok(())
}

/// Of CUDA 13.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyBatchAsync_v2(
    to: *const u64,
    from: *const u64,
    bytes: *const usize,
    count: usize,
    attributes: *const Attributes,
    indices: *const usize,
    kinds: usize,
    stream: *mut c_void,
) -> i32 {
    enter("cuMemcpyBatchAsync", || batch(Arrays { to, from, bytes, count, attributes, indices, kinds }, stream))
}

/// Of CUDA 12.8: with the index of the copy that was refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyBatchAsync(
    to: *const u64,
    from: *const u64,
    bytes: *const usize,
    count: usize,
    attributes: *const Attributes,
    indices: *const usize,
    kinds: usize,
    failed: *mut usize,
    stream: *mut c_void,
) -> i32 {
    enter("cuMemcpyBatchAsync", || {
        // SAFETY: see the crate. No index in particular.
        unsafe { give_if(failed, usize::MAX) };
        batch(Arrays { to, from, bytes, count, attributes, indices, kinds }, stream)
    })
}
