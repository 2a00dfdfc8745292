//! Stream capture and graphs.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{give, need};
use crate::api::stream::stream;
use crate::capture::{Capture, Graph};
use crate::entry::{entry, entry_on_device};
use crate::error::{Code, Result, refuse};
use crate::stream::{LEGACY, new_handle};

type Handle = *mut c_void;

/// Graphs and instances by handle; an instance is a copy of its graph.
static GRAPHS: Mutex<Option<HashMap<usize, Arc<Graph>>>> = Mutex::new(None);

fn keep(graph: Arc<Graph>) -> Handle {
    let handle = new_handle();
    GRAPHS.lock().get_or_insert_with(HashMap::new).insert(handle, graph);
    handle as Handle
}

fn graph(handle: Handle) -> Result<Arc<Graph>> {
    let found = GRAPHS.lock().as_ref().and_then(|graphs| graphs.get(&(handle as usize)).cloned());
    found.map_or_else(|| refuse(Code::INVALID_VALUE, &format!("{handle:p} is not a graph (destroyed?)")), Ok)
}

fn drop_graph(handle: Handle) -> Result {
    graph(handle)?;
    GRAPHS.lock().as_mut().and_then(|graphs| graphs.remove(&(handle as usize)));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamBeginCapture(handle: Handle, mode: i32) -> i32 {
    entry_on_device(|_| {
        if !(0..3).contains(&mode) {
            return Err(Code::INVALID_VALUE);
        }
        let stream = stream(handle)?;
        if stream.handle == LEGACY {
            return refuse(
                Code::STREAM_CAPTURE_UNSUPPORTED,
                "the legacy default stream cannot be captured\nfix: use a stream of your own",
            );
        }
        let mut capture = stream.capture.lock();
        if capture.is_some() {
            return refuse(Code::STREAM_CAPTURE_UNSUPPORTED, "the stream is being captured already");
        }
        *capture = Some(Capture::begin(stream.handle));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamEndCapture(handle: Handle, out: *mut Handle) -> i32 {
    entry_on_device(|_| {
        need(out)?;
        let stream = stream(handle)?;
        let captured = stream.end_capture();
        // SAFETY: see the module `api`, also below. CUDA gives NULL for a capture that came to nothing.
        unsafe {
            give(out, std::ptr::null_mut())?;
            give(out, keep(Arc::new(captured?)))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamIsCapturing(handle: Handle, out: *mut i32) -> i32 {
    entry_on_device(|_| {
        let stream = stream(handle)?;
        let status = stream.capture.lock().as_ref().map_or(0, |capture| if capture.is_valid() { 1 } else { 2 });
        // SAFETY: as above.
        unsafe { give(out, status) }
    })
}

/// Of a capture its number; its graph and nodes are not to be had here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo(
    handle: Handle,
    out: *mut i32,
    id: *mut u64,
    graph: *mut Handle,
    nodes: *mut *const Handle,
    edges: *mut *const c_void,
    count: *mut usize,
) -> i32 {
    entry_on_device(|_| {
        if !(graph.is_null() && nodes.is_null() && edges.is_null() && count.is_null()) {
            return refuse(
                Code::NOT_SUPPORTED,
                "cudaStreamGetCaptureInfo for a capture's graph or its nodes: the CPU device builds no graphs by hand\n\
                 fix: pass NULL for them",
            );
        }
        let stream = stream(handle)?;
        let capture = stream.capture.lock();
        let status = capture.as_ref().map_or(0, |capture| if capture.is_valid() { 1 } else { 2 });
        if let (Some(capture), false) = (capture.as_ref(), id.is_null()) {
            // SAFETY: as above.
            unsafe { give(id, capture.id())? };
        }
        // SAFETY: as above.
        unsafe { give(out, status) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaThreadExchangeStreamCaptureMode(mode: *mut i32) -> i32 {
    thread_local! {
        static MODE: std::cell::Cell<i32> = const { std::cell::Cell::new(0) };
    }
    entry(|| {
        need(mode)?;
        // SAFETY: as above. The mode says which calls are errors during a capture; here the same ones always are.
        unsafe { give(mode, MODE.replace(*mode)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphCreate(out: *mut Handle, flags: u32) -> i32 {
    entry(|| {
        need(out)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { give(out, keep(Arc::default())) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphDestroy(handle: Handle) -> i32 {
    entry(|| drop_graph(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphGetNodes(handle: Handle, nodes: *mut Handle, length: *mut usize) -> i32 {
    entry(|| {
        let have = graph(handle)?.len();
        need(length)?;
        // SAFETY: as above; nodes is NULL or takes *length handles. Nodes can be counted, and no call takes one.
        unsafe {
            if !nodes.is_null() {
                (0..(*length).min(have)).for_each(|i| *nodes.add(i) = (handle as usize + 1 + i) as Handle);
            }
            give(length, have)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphInstantiate(out: *mut Handle, handle: Handle, flags: u64) -> i32 {
    entry_on_device(|_| {
        need(out)?;
        if flags & 4 != 0 {
            return refuse(Code::NOT_SUPPORTED, "cudaGraphInstantiateFlagDeviceLaunch: kernels cannot launch graphs here");
        }
        // SAFETY: as above.
        unsafe { give(out, keep(graph(handle)?)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphInstantiateWithFlags(out: *mut Handle, handle: Handle, flags: u64) -> i32 {
    // SAFETY: as above.
    unsafe { cudaGraphInstantiate(out, handle, flags) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphUpload(handle: Handle, to: Handle) -> i32 {
    entry_on_device(|_| {
        graph(handle)?;
        stream(to).map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphLaunch(handle: Handle, to: Handle) -> i32 {
    entry_on_device(|_| {
        let stream = stream(to)?;
        if stream.capture.lock().is_some() {
            return refuse(Code::NOT_SUPPORTED, "a graph inside a graph: launch it outside the capture");
        }
        stream.launch(graph(handle)?.as_ref())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphExecDestroy(handle: Handle) -> i32 {
    entry(|| drop_graph(handle))
}
