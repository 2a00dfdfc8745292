//! cuStream*.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::queue::{HostFunction, Operation, Stream};
use crate::{capture, context};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Live streams by handle. The first 16 are the devices' legacy streams.
static STREAMS: Mutex<BTreeMap<u64, Arc<Stream>>> = Mutex::new(BTreeMap::new());
static NEXT: Mutex<u64> = Mutex::new(context::MOST as u64);
/// A handle is this plus 64 times a number; nobody dereferences it.
const FIRST: u64 = 0x7374_726d_0000;
/// CU_STREAM_NON_BLOCKING.
pub const NON_BLOCKING: u32 = 1;
const HIGHEST_PRIORITY: i32 = -5;

/// The legacy stream of a device, which waits for the device's blocking streams.
fn legacy(device: usize) -> Arc<Stream> {
    let number = FIRST + 64 * device as u64;
    Arc::clone(STREAMS.lock().entry(number).or_insert_with(|| Stream::new(number, device, 0, 0)))
}

/// The stream behind a handle: NULL, 1 and 2 are the default streams.
pub fn find(stream: *mut c_void) -> Result<Arc<Stream>> {
    if (stream as usize) <= 2 {
        return Ok(legacy(context::current()?));
    }
    let found = STREAMS.lock().get(&(stream as u64)).map(Arc::clone).ok_or(Code::INVALID_HANDLE)?;
    context::usable(found.device)?;
    Ok(found)
}

/// All streams of a device.
fn streams_of(device: usize) -> Vec<Arc<Stream>> {
    STREAMS.lock().values().filter(|stream| stream.device == device).map(Arc::clone).collect()
}

/// Waits for all work of a device.
pub fn drain(device: usize) {
    streams_of(device).iter().for_each(|stream| stream.drain());
}

/// Waits for the work that the legacy stream waits for.
pub fn drain_blocking(device: usize) {
    streams_of(device).iter().filter(|stream| stream.flags & NON_BLOCKING == 0).for_each(|stream| stream.drain());
}

/// The live streams that capture.
pub fn capturing() -> Vec<Arc<Stream>> {
    STREAMS.lock().values().filter(|stream| stream.capture.lock().is_some()).map(Arc::clone).collect()
}

fn create(out: *mut u64, flags: u32, priority: i32) -> Result {
    let device = context::current()?;
    if out.is_null() || flags & !NON_BLOCKING != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let number = {
        let mut next = NEXT.lock();
        *next += 1;
        FIRST + 64 * *next
    };
    STREAMS.lock().insert(number, Stream::new(number, device, flags, priority.clamp(HIGHEST_PRIORITY, 0)));
    // SAFETY: see the crate; also below.
    unsafe { give(out, number) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(out: *mut u64, flags: u32) -> i32 {
    enter("cuStreamCreate", || create(out, flags, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(out: *mut u64, flags: u32, priority: i32) -> i32 {
    enter("cuStreamCreateWithPriority", || create(out, flags, priority))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> i32 {
    enter("cuCtxGetStreamPriorityRange", || {
        context::current()?;
        // SAFETY: as above.
        unsafe { give(least, 0).and(give(greatest, HIGHEST_PRIORITY)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetPriority(stream: *mut c_void, out: *mut i32) -> i32 {
    // SAFETY: as above.
    enter("cuStreamGetPriority", || unsafe { give(out, find(stream)?.priority) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetFlags(stream: *mut c_void, out: *mut u32) -> i32 {
    // SAFETY: as above.
    enter("cuStreamGetFlags", || unsafe { give(out, find(stream)?.flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetId(stream: *mut c_void, out: *mut u64) -> i32 {
    enter("cuStreamGetId", || {
        let stream = find(stream)?;
        // As the real one (driver 580), whatever the thread's mode.
        if stream.capture.lock().is_some() {
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        // SAFETY: as above.
        unsafe { give(out, (stream.number - FIRST) / 64) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(stream: *mut c_void, out: *mut *mut c_void) -> i32 {
    // SAFETY: as above.
    enter("cuStreamGetCtx", || unsafe { give(out, context::handle(find(stream)?.device)) })
}

/// What was submitted still runs; its thread ends after it.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> i32 {
    enter("cuStreamDestroy", || {
        if (stream as usize) <= 2 {
            return Err(Code::INVALID_HANDLE);
        }
        STREAMS.lock().remove(&(stream as u64)).map(drop).ok_or(Code::INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: *mut c_void) -> i32 {
    enter("cuStreamQuery", || {
        let stream = find(stream)?;
        capture::refuse_wait(&stream)?;
        let idle = stream.idle();
        context::usable(stream.device)?;
        if idle { Ok(()) } else { Err(Code::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> i32 {
    enter("cuStreamSynchronize", || {
        let stream = find(stream)?;
        capture::refuse_wait(&stream)?;
        stream.drain();
        context::usable(stream.device).map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchHostFunc(stream: *mut c_void, function: Option<HostFunction>, data: *mut c_void) -> i32 {
    enter("cuLaunchHostFunc", || {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        find(stream)?.submit(Operation::Host(function, data as usize));
        Ok(())
    })
}
