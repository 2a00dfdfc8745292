//! Stream writes: cuStreamWriteValue32/64 and cuStreamBatchMemOp. Waits are refused as not supported.

use crate::entry::enter;
use crate::error::{Code, Result};
use crate::queue::{Operation, Stream};
use crate::stream;
use crate::world::WORLD;
use std::ffi::c_void;
use std::sync::Arc;

/// Most operations of one batch.
const MOST: u32 = 256;
const WRITE_32: i32 = 2;
const WRITE_64: i32 = 5;

fn check(stream: &Stream, at: u64, bytes: u8, flags: u32) -> Result {
    // Measured: even CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is refused on an H200.
    if flags != 0 || !at.is_multiple_of(bytes.into()) {
        return Err(Code::INVALID_VALUE);
    }
    if WORLD.read().writable(stream.device, at, bytes.into()) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

fn write(stream: *mut c_void, at: u64, value: u64, bytes: u8, flags: u32) -> Result {
    let stream = stream::find(stream)?;
    check(&stream, at, bytes, flags)?;
    stream.submit(Operation::Write { at, value, bytes });
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWriteValue32_v2(stream: *mut c_void, at: u64, value: u32, flags: u32) -> i32 {
    enter("cuStreamWriteValue32", || write(stream, at, value.into(), 4, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWriteValue64_v2(stream: *mut c_void, at: u64, value: u64, flags: u32) -> i32 {
    enter("cuStreamWriteValue64", || write(stream, at, value, 8, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitValue32_v2(_stream: *mut c_void, _at: u64, _value: u32, _flags: u32) -> i32 {
    enter("cuStreamWaitValue32", || Err(Code::NOT_SUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitValue64_v2(_stream: *mut c_void, _at: u64, _value: u64, _flags: u32) -> i32 {
    enter("cuStreamWaitValue64", || Err(Code::NOT_SUPPORTED))
}

/// CUstreamBatchMemOpParams, as far as writes go.
#[repr(C)]
pub struct MemOp {
    operation: i32,
    at: u64,
    value: u64,
    flags: u32,
    alias: u64,
    rest: u64,
}
const _: () = assert!(size_of::<MemOp>() == 48);

fn checked(stream: &Arc<Stream>, op: &MemOp) -> Result<Operation> {
    let bytes = match op.operation {
        WRITE_32 => 4,
        WRITE_64 => 8,
        1 | 3 | 4 | 6 => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_VALUE),
    };
    check(stream, op.at, bytes, op.flags)?;
    Ok(Operation::Write { at: op.at, value: op.value, bytes })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBatchMemOp_v2(stream: *mut c_void, count: u32, ops: *const MemOp, flags: u32) -> i32 {
    enter("cuStreamBatchMemOp", || {
        let stream = stream::find(stream)?;
        if count > MOST || flags != 0 || (count > 0 && ops.is_null()) {
            return Err(Code::INVALID_VALUE);
        }
        if count == 0 {
            return Ok(());
        }
        // SAFETY: an array of that length; see the crate.
        let ops = unsafe { std::slice::from_raw_parts(ops, count as usize) };
        let ops = ops.iter().map(|op| checked(&stream, op)).collect::<Result<Vec<_>>>()?;
        ops.into_iter().for_each(|op| stream.submit(op));
        Ok(())
    })
}
