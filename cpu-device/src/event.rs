//! Events: a point in a stream that others wait for and that has a time.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::capture::Mark;
use crate::error::{Code, Result, refuse};
use crate::stream::{Stream, new_handle};
use crate::task::{Task, Work};

/// `cudaEventDisableTiming`.
pub const NO_TIMING: u32 = 2;

#[derive(Default)]
enum Point {
    #[default]
    Never,
    InStream(Arc<Task>),
    InCapture(Mark),
}

/// An event.
pub struct Event {
    flags: u32,
    point: Mutex<Point>,
}

static EVENTS: Mutex<Option<HashMap<usize, Arc<Event>>>> = Mutex::new(None);

/// Makes an event; its handle.
pub fn create(flags: u32) -> usize {
    let handle = new_handle();
    let event = Arc::new(Event { flags, point: Mutex::default() });
    EVENTS.lock().get_or_insert_with(HashMap::new).insert(handle, event);
    handle
}

/// The event that `handle` names.
///
/// # Errors
/// `InvalidResourceHandle` if it is not, or no longer, an event's.
pub fn find(handle: usize) -> Result<Arc<Event>> {
    let found = EVENTS.lock().as_ref().and_then(|events| events.get(&handle).cloned());
    found.map_or_else(|| refuse(Code::INVALID_RESOURCE_HANDLE, &format!("{handle:#x} is not an event (destroyed?)")), Ok)
}

/// `cudaEventDestroy`: who waits for it goes on waiting.
///
/// # Errors
/// As [`find`].
pub fn destroy(handle: usize) -> Result {
    find(handle)?;
    EVENTS.lock().as_mut().and_then(|events| events.remove(&handle));
    Ok(())
}

impl Event {
    /// `cudaEventRecord`.
    ///
    /// # Errors
    /// As [`Stream::enqueue`].
    pub fn record(&self, stream: &Arc<Stream>) -> Result {
        if let Some(capture) = stream.capture.lock().as_ref() {
            *self.point.lock() = Point::InCapture(capture.mark());
            return Ok(());
        }
        let task = stream.enqueue(Work::Point, &[])?;
        *self.point.lock() = Point::InStream(task);
        Ok(())
    }

    /// `cudaStreamWaitEvent`: later work of the stream waits for the point; an event never recorded is no wait.
    ///
    /// # Errors
    /// `StreamCaptureMerge` between two captures; as [`Stream::enqueue`].
    pub fn make_wait(&self, stream: &Arc<Stream>) -> Result {
        let point = self.point.lock();
        let mut capture = stream.capture.lock();
        match (&*point, capture.as_mut()) {
            (Point::InCapture(mark), Some(capture)) => capture.join(mark),
            (Point::InCapture(mark), None) => {
                *capture = Some(mark.fork());
                Ok(())
            }
            // What ran before the capture began is over before the graph is launched, or the program orders that itself.
            (_, Some(_)) | (Point::Never, None) => Ok(()),
            (Point::InStream(task), None) => {
                drop(capture);
                if !task.is_done() {
                    stream.enqueue(Work::Point, std::slice::from_ref(task))?;
                }
                Ok(())
            }
        }
    }

    fn task(&self) -> Result<Option<Arc<Task>>> {
        match &*self.point.lock() {
            Point::Never => Ok(None),
            Point::InStream(task) => Ok(Some(task.clone())),
            Point::InCapture(_) => refuse(Code::CAPTURED_EVENT, "the event was recorded while its stream was captured"),
        }
    }

    /// `cudaEventQuery`.
    ///
    /// # Errors
    /// `NotReady`; `CapturedEvent`.
    pub fn query(&self) -> Result {
        match self.task()? {
            Some(task) if !task.is_done() => {
                crate::pace::host_polled();
                Err(Code::NOT_READY)
            }
            _ => Ok(()),
        }
    }

    /// `cudaEventSynchronize`.
    ///
    /// # Errors
    /// `CapturedEvent`.
    pub fn wait(&self) -> Result {
        if let Some(task) = self.task()? {
            task.wait();
        }
        Ok(())
    }

    /// Milliseconds from this event to `end`.
    ///
    /// # Errors
    /// `InvalidResourceHandle` without timing or never recorded, `NotReady` while one of them is to come.
    pub fn elapsed_ms(&self, end: &Event) -> Result<f32> {
        if (self.flags | end.flags) & NO_TIMING != 0 {
            return refuse(Code::INVALID_RESOURCE_HANDLE, "an event made with cudaEventDisableTiming has no time");
        }
        let (Some(first), Some(last)) = (self.task()?, end.task()?) else {
            return refuse(Code::INVALID_RESOURCE_HANDLE, "an event that was never recorded has no time");
        };
        let (Some(first), Some(last)) = (first.done_at(), last.done_at()) else { return Err(Code::NOT_READY) };
        let ms = |d: std::time::Duration| d.as_secs_f32() * 1e3;
        Ok(if last >= first { ms(last - first) } else { -ms(first - last) })
    }
}
