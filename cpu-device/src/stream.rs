//! Streams: who waits for whom. Blocking streams and the legacy default stream order each other, non-blocking ones do not.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::capture::{Capture, Graph};
use crate::device::Device;
use crate::error::{Code, Result, refuse};
use crate::once::OnceLock;
use crate::task::{Task, Work};

/// `cudaStreamLegacy` and `cudaStreamPerThread` as handles; 0 is the legacy stream too.
pub const LEGACY: usize = 1;
/// See [`LEGACY`].
pub const PER_THREAD: usize = 2;
/// `cudaStreamNonBlocking`.
pub const NON_BLOCKING: u32 = 1;

/// A stream.
pub struct Stream {
    /// Its device.
    pub device: &'static Device,
    /// `cudaStreamDefault` or `cudaStreamNonBlocking`.
    pub flags: u32,
    /// As given: the CPU device accepts priorities and has none.
    pub priority: i32,
    /// What the program holds.
    pub handle: usize,
    legacy: bool,
    tail: Mutex<Option<Arc<Task>>>,
    /// Set while the stream is being captured.
    pub capture: Mutex<Option<Capture>>,
}

/// The streams of one device.
#[derive(Default)]
pub struct Streams {
    /// All of them, destroyed ones until their work is over. Held while work is given its place in the order.
    all: Mutex<Vec<Arc<Stream>>>,
    legacy: Mutex<Option<Arc<Stream>>>,
}

/// The streams of `device`.
pub fn of(device: &Device) -> &'static Streams {
    static STREAMS: OnceLock<Vec<Streams>> = OnceLock::new();
    &STREAMS.get_or_init(|| (0..crate::device::count()).map(|_| Streams::default()).collect())[device.id as usize]
}

/// Handles are numbers, never reused and never dereferenced: a stale one is an error, not a crash.
static HANDLES: Mutex<Option<HashMap<usize, Arc<Stream>>>> = Mutex::new(None);
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x1000);

/// A handle that no stream, event or graph of this process has had.
pub fn new_handle() -> usize {
    NEXT_HANDLE.fetch_add(16, Ordering::Relaxed)
}

/// A thread's own streams, by device.
type Own = HashMap<i32, Arc<Stream>>;

thread_local! {
    // Without a destructor: destructors of static objects and of other thread-local ones call the runtime, too.
    static PER_THREAD_STREAMS: Cell<Option<ManuallyDrop<Box<Own>>>> = const { Cell::new(None) };
    static ENDED: Ended = const { Ended };
}

/// Lets go of a thread's own streams at its end.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        drop(PER_THREAD_STREAMS.take().map(ManuallyDrop::into_inner));
    }
}

/// The calling thread's own stream of `device`.
fn own(device: &'static Device) -> Arc<Stream> {
    // Gone already at the end of the thread.
    let _ = ENDED.try_with(|_| ());
    let mut streams = PER_THREAD_STREAMS.take().map(ManuallyDrop::into_inner).unwrap_or_default();
    let stream = streams.entry(device.id).or_insert_with(|| add(Stream::new(device, 0, 0, PER_THREAD, false))).clone();
    PER_THREAD_STREAMS.set(Some(ManuallyDrop::new(streams)));
    stream
}

/// The stream that `handle` names, for a call on `device`.
///
/// # Errors
/// `InvalidResourceHandle` for a handle that is not, or no longer, a stream's.
pub fn find(handle: usize, device: &'static Device) -> Result<Arc<Stream>> {
    match handle {
        0 | LEGACY => Ok(legacy(device)),
        PER_THREAD => Ok(own(device)),
        _ => {
            let found = HANDLES.lock().as_ref().and_then(|streams| streams.get(&handle).cloned());
            found.map_or_else(|| refuse(Code::INVALID_RESOURCE_HANDLE, &format!("{handle:#x} is not a stream (destroyed?)")), Ok)
        }
    }
}

/// [`find`], for a launch: the stream must be of `device`.
///
/// # Errors
/// Also `InvalidResourceHandle` for a stream of another device.
pub fn find_on(handle: usize, device: &'static Device) -> Result<Arc<Stream>> {
    let stream = find(handle, device)?;
    if stream.device.id == device.id {
        return Ok(stream);
    }
    refuse(
        Code::INVALID_RESOURCE_HANDLE,
        &format!(
            "a launch on device {} names a stream of device {}\nfix: cudaSetDevice({}) before the launch",
            device.id, stream.device.id, stream.device.id
        ),
    )
}

/// The legacy default stream of `device`.
pub fn legacy(device: &'static Device) -> Arc<Stream> {
    let mut legacy = of(device).legacy.lock();
    legacy.get_or_insert_with(|| Arc::new(Stream::new(device, 0, 0, LEGACY, true))).clone()
}

/// Makes a stream.
pub fn create(device: &'static Device, flags: u32, priority: i32) -> Arc<Stream> {
    let stream = add(Stream::new(device, flags, priority, new_handle(), false));
    HANDLES.lock().get_or_insert_with(HashMap::new).insert(stream.handle, stream.clone());
    stream
}

/// `cudaStreamDestroy`: its work goes on.
///
/// # Errors
/// `InvalidResourceHandle`, also for the default streams.
pub fn destroy(handle: usize) -> Result {
    let removed = HANDLES.lock().as_mut().and_then(|streams| streams.remove(&handle));
    match removed {
        Some(_) => Ok(()),
        None => refuse(Code::INVALID_RESOURCE_HANDLE, &format!("{handle:#x} is not a stream that can be destroyed")),
    }
}

fn add(stream: Stream) -> Arc<Stream> {
    let stream = Arc::new(stream);
    let mut all = of(stream.device).all.lock();
    // Here rather than at destruction: nobody else looks at streams that are over and unknown.
    all.retain(|other| Arc::strong_count(other) > 1 || other.tail().is_some());
    all.push(stream.clone());
    drop(all);
    stream
}

impl Streams {
    /// Blocks until all work of the device is over.
    pub fn wait_for_all(&self) {
        let streams: Vec<_> = self.all.lock().iter().cloned().chain(self.legacy.lock().clone()).collect();
        for stream in streams {
            stream.wait();
        }
    }
}

impl Stream {
    fn new(device: &'static Device, flags: u32, priority: i32, handle: usize, legacy: bool) -> Stream {
        Stream { device, flags, priority, handle, legacy, tail: Mutex::default(), capture: Mutex::default() }
    }

    fn blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// The last work of the stream, unless it is over.
    pub fn tail(&self) -> Option<Arc<Task>> {
        self.tail.lock().clone().filter(|task| !task.is_done())
    }

    /// Puts work at the end of the stream; it also waits for `extra`.
    ///
    /// # Errors
    /// `StreamCaptureImplicit` on the legacy stream while a stream that it would wait for is captured.
    pub fn enqueue(self: &Arc<Self>, work: Work, extra: &[Arc<Task>]) -> Result<Arc<Task>> {
        let streams = of(self.device);
        let all = streams.all.lock();
        let mut before: Vec<Arc<Task>> = self.tail().into_iter().collect();
        if self.legacy {
            for other in all.iter().filter(|other| other.blocking()) {
                if other.capture.lock().is_some() {
                    return refuse(
                        Code::STREAM_CAPTURE_IMPLICIT,
                        "work on the legacy default stream while a blocking stream is captured\n\
                         fix: capture a stream made with cudaStreamNonBlocking, or use another stream for this work",
                    );
                }
                before.extend(other.tail());
            }
        } else if self.blocking() {
            before.extend(streams.legacy.lock().as_ref().and_then(|legacy| legacy.tail()));
        }
        let task = Task::new(self.device, work);
        before.iter().chain(extra).for_each(|other| task.after(other));
        *self.tail.lock() = Some(task.clone());
        drop(all);
        task.clone().submit();
        Ok(task)
    }

    /// Puts work on the stream, or into the graph that captures it.
    ///
    /// # Errors
    /// As [`Stream::enqueue`].
    pub fn push(self: &Arc<Self>, work: Work) -> Result {
        if let Some(capture) = self.capture.lock().as_mut() {
            return capture.add(work);
        }
        self.enqueue(work, &[]).map(drop)
    }

    /// Blocks until the work of the stream is over.
    pub fn wait(&self) {
        if let Some(task) = self.tail() {
            task.wait();
        }
    }

    /// `cudaStreamSynchronize`: the legacy stream also waits for the blocking ones.
    ///
    /// # Errors
    /// `StreamCaptureUnsupported` while it is captured (the capture is lost); the error of a kernel that failed.
    pub fn synchronize(self: &Arc<Self>) -> Result {
        self.refuse_capture("cudaStreamSynchronize")?;
        if self.legacy {
            self.enqueue(Work::Point, &[])?.wait();
        } else {
            self.wait();
        }
        self.device.healthy()
    }

    /// `cudaStreamQuery`.
    ///
    /// # Errors
    /// `NotReady` while work is left; else as [`Stream::synchronize`].
    pub fn query(self: &Arc<Self>) -> Result {
        self.refuse_capture("cudaStreamQuery")?;
        let busy = if self.legacy { !self.enqueue(Work::Point, &[])?.is_done() } else { self.tail().is_some() };
        if !busy {
            return self.device.healthy();
        }
        crate::pace::host_polled();
        Err(Code::NOT_READY)
    }

    /// Runs a graph as one piece of work of the stream.
    ///
    /// # Errors
    /// As [`Stream::enqueue`].
    pub fn launch(self: &Arc<Self>, graph: &Graph) -> Result {
        let tasks = graph.tasks(self.device, &self.enqueue(Work::Point, &[])?);
        let end = self.enqueue(Work::Point, &tasks);
        tasks.into_iter().for_each(Task::submit);
        end.map(drop)
    }

    /// `cudaStreamEndCapture`: what was captured. All streams that joined are free again.
    ///
    /// # Errors
    /// `StreamCaptureUnmatched` on a stream that did not begin it; else as [`Capture::finish`].
    pub fn end_capture(&self) -> Result<Graph> {
        let Some(capture) = self.capture.lock().take() else {
            return refuse(Code::STREAM_CAPTURE_UNMATCHED, "cudaStreamEndCapture on a stream that is not captured");
        };
        if capture.origin() != self.handle {
            *self.capture.lock() = Some(capture);
            return refuse(Code::STREAM_CAPTURE_UNMATCHED, "the capture began on another stream: end it there");
        }
        for other in every() {
            other.capture.lock().take_if(|part| part.is_shared_with(&capture));
        }
        capture.finish()
    }

    fn refuse_capture(&self, call: &str) -> Result {
        match self.capture.lock().as_mut() {
            Some(capture) => {
                capture.invalidate();
                refuse(Code::STREAM_CAPTURE_UNSUPPORTED, &format!("{call} on a stream that is being captured"))
            }
            None => Ok(()),
        }
    }
}

/// All streams of all devices.
fn every() -> Vec<Arc<Stream>> {
    crate::device::all().iter().flat_map(|device| of(device).all.lock().clone()).collect()
}
