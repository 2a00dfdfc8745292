//! Events.

use std::ffi::c_void;

use super::{give, need};
use crate::api::stream::stream;
use crate::entry::{entry, entry_on_device};
use crate::error::{Code, refuse};
use crate::event::{create, destroy, find};

type Handle = *mut c_void;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventCreate(out: *mut Handle) -> i32 {
    // SAFETY: see the module `api`, also below.
    unsafe { cudaEventCreateWithFlags(out, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventCreateWithFlags(out: *mut Handle, flags: u32) -> i32 {
    entry_on_device(|_| {
        need(out)?;
        match flags {
            // SAFETY: as above.
            0..4 => unsafe { give(out, create(flags) as Handle) },
            4.. => refuse(Code::NOT_SUPPORTED, &format!("event flags {flags:#x}: events of other processes do not exist here")),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventDestroy(event: Handle) -> i32 {
    entry(|| destroy(event as usize))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecord(event: Handle, handle: Handle) -> i32 {
    entry_on_device(|_| find(event as usize)?.record(&stream(handle)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecordWithFlags(event: Handle, handle: Handle, flags: u32) -> i32 {
    if flags > 1 {
        return entry(|| Err(Code::INVALID_VALUE));
    }
    cudaEventRecord(event, handle)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventQuery(event: Handle) -> i32 {
    entry_on_device(|_| find(event as usize)?.query())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventSynchronize(event: Handle) -> i32 {
    entry(|| {
        find(event as usize)?.wait()?;
        crate::device::current()?.healthy()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventElapsedTime(out: *mut f32, start: Handle, end: Handle) -> i32 {
    // SAFETY: as above.
    entry_on_device(|_| unsafe { give(out, find(start as usize)?.elapsed_ms(&*find(end as usize)?)?) })
}
