//! Stream capture, as far as it shows to others: which calls it forbids, and which invalidate it. Nothing is recorded.
//!
//! Measured (facts.txt): with a thread's own mode at GLOBAL, allocating and freeing memory, pinning it, and asking or waiting for
//! streams and events are refused and end the capture; virtual memory calls, copies and creating things are not.
//! cuCtxSynchronize is refused in every mode.

use crate::entry::{enter, give, give_if};
use crate::error::{Code, Result};
use crate::queue::Stream;
use crate::stream;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::ThreadId;

const GLOBAL: i32 = 0;
const RELAXED: i32 = 2;
const ACTIVE: i32 = 1;
const INVALIDATED: i32 = 2;

/// A capture that is under way.
pub struct Capture {
    mode: i32,
    thread: ThreadId,
    id: u64,
    valid: bool,
}

/// Captures under way, so that nobody looks for one where there is none.
static ANY: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static MODE: Cell<i32> = const { Cell::new(GLOBAL) };
}

/// Ends what captures `which` chooses.
fn end(which: impl Fn(&Capture) -> bool) -> Result {
    let mut refused = false;
    for stream in stream::capturing() {
        if let Some(capture) = stream.capture.lock().as_mut().filter(|capture| which(capture)) {
            capture.valid = false;
            refused = true;
        }
    }
    if refused { Err(Code::CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// For a call that the thread's mode may forbid while somebody captures.
pub fn refuse() -> Result {
    let mode = MODE.get();
    if ANY.load(Ordering::Acquire) == 0 || mode == RELAXED {
        return Ok(());
    }
    let thread = std::thread::current().id();
    end(|capture| (capture.thread == thread && capture.mode != RELAXED) || (mode == GLOBAL && capture.mode == GLOBAL))
}

/// For a call that would wait for captured work.
pub fn refuse_implicit() -> Result {
    if ANY.load(Ordering::Acquire) == 0 { Ok(()) } else { end(|_| true) }
}

/// For a question to, or a wait for, a stream.
pub fn refuse_wait(stream: &Stream) -> Result {
    if let Some(capture) = stream.capture.lock().as_mut() {
        capture.valid = false;
        return Err(Code::CAPTURE_UNSUPPORTED);
    }
    refuse()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut i32) -> i32 {
    enter("cuThreadExchangeStreamCaptureMode", || {
        // SAFETY: NULL or valid; see the crate.
        let mode = unsafe { mode.as_mut() }.ok_or(Code::INVALID_VALUE)?;
        *mode = MODE.replace(*mode);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: i32) -> i32 {
    enter("cuStreamBeginCapture", || {
        if (stream as usize) <= 1 {
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        let stream = stream::find(stream)?;
        if !(GLOBAL..=RELAXED).contains(&mode) {
            return Err(Code::INVALID_VALUE);
        }
        let mut capture = stream.capture.lock();
        if capture.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        *capture = Some(Capture { mode, thread: std::thread::current().id(), id, valid: true });
        ANY.fetch_add(1, Ordering::AcqRel);
        Ok(())
    })
}

/// The graph is always NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> i32 {
    enter("cuStreamEndCapture", || {
        let capture = stream::find(stream)?.capture.lock().take().ok_or(Code::ILLEGAL_STATE)?;
        ANY.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: see the crate; also below.
        unsafe { give_if(graph, std::ptr::null_mut()) };
        if capture.valid { Ok(()) } else { Err(Code::CAPTURE_INVALIDATED) }
    })
}

fn status(handle: *mut c_void) -> Result<(i32, u64)> {
    let stream = stream::find(handle)?;
    let blocks = |other: &Arc<Stream>| other.device == stream.device && other.flags & stream::NON_BLOCKING == 0;
    if (handle as usize) <= 1 && ANY.load(Ordering::Acquire) > 0 && stream::capturing().iter().any(blocks) {
        return Err(Code::CAPTURE_IMPLICIT);
    }
    let capture = stream.capture.lock();
    Ok(capture.as_ref().map_or((0, 0), |capture| (if capture.valid { ACTIVE } else { INVALIDATED }, capture.id)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: *mut c_void, out: *mut i32) -> i32 {
    // SAFETY: as above.
    enter("cuStreamIsCapturing", || unsafe { give(out, status(stream)?.0) })
}

/// Without a graph and its nodes.
fn info(stream: *mut c_void, out: *mut i32, id: *mut u64, nodes: *mut usize) -> Result {
    let (status, number) = status(stream)?;
    // SAFETY: as above.
    unsafe {
        give(out, status)?;
        if status == ACTIVE {
            give_if(id, number);
            give_if(nodes, 0);
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: *mut c_void,
    out: *mut i32,
    id: *mut u64,
    _graph: *mut *mut c_void,
    _nodes: *mut *const c_void,
    count: *mut usize,
) -> i32 {
    enter("cuStreamGetCaptureInfo", || info(stream, out, id, count))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: *mut c_void,
    out: *mut i32,
    id: *mut u64,
    _graph: *mut *mut c_void,
    _nodes: *mut *const c_void,
    _edges: *mut *const c_void,
    count: *mut usize,
) -> i32 {
    enter("cuStreamGetCaptureInfo", || info(stream, out, id, count))
}
