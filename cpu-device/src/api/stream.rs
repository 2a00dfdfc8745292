//! Streams.

use std::ffi::c_void;

use super::{give, need};
use crate::device;
use crate::entry::{entry, entry_on_device};
use crate::error::{Code, Result, refuse};
use crate::stream::{NON_BLOCKING, Stream, create, destroy, find};
use crate::task::Work;

type Handle = *mut c_void;

/// The stream for a call on the current device.
pub(crate) fn stream(handle: Handle) -> Result<std::sync::Arc<Stream>> {
    find(handle as usize, device::current()?)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreate(out: *mut Handle) -> i32 {
    // SAFETY: see the module `api`, also below.
    unsafe { cudaStreamCreateWithPriority(out, 0, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreateWithFlags(out: *mut Handle, flags: u32) -> i32 {
    // SAFETY: as above.
    unsafe { cudaStreamCreateWithPriority(out, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreateWithPriority(out: *mut Handle, flags: u32, priority: i32) -> i32 {
    entry_on_device(|device| {
        need(out)?;
        if flags & !NON_BLOCKING != 0 {
            return refuse(Code::INVALID_VALUE, &format!("stream flags {flags:#x}: 0 and cudaStreamNonBlocking exist"));
        }
        // CUDA clamps priorities to its range.
        let stream = create(device, flags, priority.clamp(-5, 0));
        // SAFETY: as above.
        unsafe { give(out, stream.handle as Handle) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamDestroy(handle: Handle) -> i32 {
    entry(|| destroy(handle as usize))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamSynchronize(handle: Handle) -> i32 {
    entry(|| stream(handle)?.synchronize())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamQuery(handle: Handle) -> i32 {
    entry(|| stream(handle)?.query())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamWaitEvent(handle: Handle, event: Handle, flags: u32) -> i32 {
    entry_on_device(|_| {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let stream = stream(handle)?;
        crate::event::find(event as usize)?.make_wait(&stream)
    })
}

/// `cudaStreamCallback_t`
type Callback = unsafe extern "C" fn(*mut c_void, i32, *mut c_void);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamAddCallback(handle: Handle, call: Option<Callback>, data: *mut c_void, flags: u32) -> i32 {
    entry_on_device(|_| {
        let call = call.filter(|_| flags == 0).ok_or(Code::INVALID_VALUE)?;
        stream(handle)?.push(Work::Callback { call, stream: handle as usize, data: data as usize })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchHostFunc(
    handle: Handle,
    call: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> i32 {
    entry_on_device(|_| {
        let call = call.ok_or(Code::INVALID_VALUE)?;
        stream(handle)?.push(Work::Host { call, data: data as usize })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetPriority(handle: Handle, out: *mut i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, stream(handle)?.priority) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetFlags(handle: Handle, out: *mut u32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, stream(handle)?.flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetId(handle: Handle, out: *mut u64) -> i32 {
    entry(|| {
        let stream = stream(handle)?;
        // The default streams have one handle on every device.
        let id = if stream.handle < 16 { (stream.device.id as u64) << 32 | stream.handle as u64 } else { stream.handle as u64 };
        // SAFETY: as above.
        unsafe { give(out, id) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetDevice(handle: Handle, out: *mut i32) -> i32 {
    // SAFETY: as above.
    entry(|| unsafe { give(out, stream(handle)?.device.id) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamAttachMemAsync(handle: Handle, _memory: *mut c_void, _length: usize, _flags: u32) -> i32 {
    // Managed memory is host memory: it is attached to everything.
    entry_on_device(|_| stream(handle).map(drop))
}
