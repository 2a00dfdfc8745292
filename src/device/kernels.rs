//! Kernels of the library's own on streams of the caller, and the order among them.
#![forbid(unsafe_code)]

use super::{DevPtr, MemCopy};
use crate::bail;
use crate::error::Result;
use std::any::Any;
use std::ffi::CStr;

/// The caller's `cudaStream_t`: NULL, 1 (legacy) and 2 (per thread) are streams too.
pub type Stream = usize;

/// One launch.
pub struct Launch<'a> {
    /// The kernel's name; it takes one parameter by value.
    pub kernel: &'static CStr,
    /// That parameter, at most 4096 bytes.
    pub parameter: &'a [u8],
    /// Blocks in x and y.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Where it is put.
    pub stream: Stream,
    /// The program's call.
    pub call: &'a str,
    /// Of the communicator's launches; 0: not counted.
    pub number: u64,
    /// What it reads and writes of the program's on its device.
    pub touches: &'a [Span],
}

/// Bytes of the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub at: DevPtr,
    /// How many.
    pub bytes: u64,
    /// Else they are read.
    pub writes: bool,
}

/// The kernels of the collectives, as one device runs them (`cuda/collectives`).
pub trait Kernels: Send + Sync {
    /// Puts a kernel on a stream, also on one that is captured. Waits for nothing.
    fn launch(&self, launch: &Launch) -> Result<()>;
    /// What puts copies on streams without a kernel. None on the CPU device, where all that is done by kernels is held against what else
    /// touches the memory.
    fn copies(&self) -> Option<&dyn StreamCopies> {
        None
    }
    /// A new order among launches.
    fn order(&self) -> Result<Order>;
    /// Blocks that surely run at the same time, on a device that does nothing else.
    fn blocks(&self) -> u32;
    /// A stream for a kernel that nothing else is ordered with, and that takes the first room there is. Refused where such a launch
    /// might wait for others.
    fn urgent_stream(&self) -> Result<Box<dyn OwnStream>>;
}

/// Copies that the driver makes.
pub trait StreamCopies {
    /// Puts one on a stream, also on one that is captured. Waits for nothing.
    fn copy(&self, copy: &MemCopy, stream: Stream) -> Result<()>;
}

/// A stream of the library's own; what it was given is done though it is dropped.
pub trait OwnStream: Send {
    /// For [`Launch::stream`].
    fn handle(&self) -> Stream;
    /// Whether all that it was given has ended. Waits for nothing; an error once a kernel has failed.
    fn is_idle(&self) -> Result<bool>;
}

/// Held while the calls of one launch are made.
pub type Inside = Box<dyn Any>;

/// What an [`Order`] needs of a device: a few events, and what a stream is.
pub trait Events: Send {
    /// Makes the calls below, and [`Kernels::launch`], cost no more than themselves on this thread.
    fn enter(&self) -> Result<Inside> {
        Ok(Box::new(()))
    }
    /// A number that no other stream of the process ever has: handles are used again. Not asked of a stream in a capture.
    fn identity(&self, stream: Stream) -> Result<u64>;
    /// The capture that the stream is part of.
    fn capture(&self, stream: Stream) -> Result<Option<u64>>;
    /// Marks the stream's end in one of [`EVENTS`] events.
    fn record(&self, event: usize, stream: Stream) -> Result<()>;
    /// What the stream gets from now on waits for the mark.
    fn wait(&self, event: usize, stream: Stream) -> Result<()>;
    /// True if what was before the mark is over, or nothing was ever marked.
    fn passed(&self, event: usize) -> Result<bool>;
}

/// What [`Events::capture`] answers, of a stream's cudaStreamCaptureStatus and its capture's number.
pub(super) fn captured(status: i32, id: u64) -> Result<Option<u64>> {
    match status {
        0 => Ok(None),
        1 => Ok(Some(id)),
        _ => bail!(
            InvalidUsage,
            91,
            "the stream's capture is invalid | cudaStreamCaptureStatusInvalidated | fix: look for the call that failed during the \
             capture; end it before anything else"
        ),
    }
}

/// Launches one after the other, whatever streams they are on: they share memory.
///
/// Captured launches have an event of their own: an event of a capture means nothing outside it, and a capture must not wait
/// for what is outside. So a graph is ordered within itself, and its launches are ordered by who launches it.
pub struct Order {
    events: Box<dyn Events>,
    /// The stream of the newest launch outside captures.
    plain: Option<u64>,
    /// The newest captured launch: its capture, and its stream.
    captured: Option<(u64, u64)>,
}

const PLAIN: usize = 0;
const CAPTURED: usize = 1;
/// Of another stream of a launch that belongs to several.
const JOIN: usize = 2;
/// How many there are.
pub const EVENTS: usize = 3;

impl Order {
    /// Nothing launched yet.
    pub fn new(events: Box<dyn Events>) -> Self {
        Self { events, plain: None, captured: None }
    }

    /// Puts a launch on `stream` behind the earlier ones. `put` makes it, and is told whether it is captured.
    pub fn next(&mut self, stream: Stream, put: impl FnOnce(bool) -> Result<()>) -> Result<()> {
        let _inside = self.events.enter()?;
        let capture = self.events.capture(stream)?;
        // The driver does not tell a captured stream's number (900); a handle stays the same stream's for as long as it captures.
        let own = if capture.is_some() { stream as u64 } else { self.events.identity(stream)? };
        match (capture, self.plain, self.captured) {
            (None, Some(last), _) if last != own => self.events.wait(PLAIN, stream)?,
            (Some(capture), _, Some((before, last))) if before == capture && last != own => self.events.wait(CAPTURED, stream)?,
            _ => {}
        }
        put(capture.is_some())?;
        // Now, not when another stream comes: by then this one may have been destroyed.
        match capture {
            None => {
                self.events.record(PLAIN, stream)?;
                self.plain = Some(own);
            }
            Some(capture) => {
                self.events.record(CAPTURED, stream)?;
                self.captured = Some((capture, own));
            }
        }
        Ok(())
    }

    /// As [`Order::next`], for a launch that belongs to several streams: it is put on the first, behind what all of them have got,
    /// and all of them wait for it. `put` is told whether it is captured.
    pub fn together(&mut self, streams: &[Stream], put: impl FnOnce(Stream, bool) -> Result<()>) -> Result<()> {
        let Some((&first, others)) = streams.split_first() else { return Ok(()) };
        let _inside = self.events.enter()?;
        let capture = self.events.capture(first)?;
        for &other in others {
            if self.events.capture(other)? != capture {
                bail!(
                    InvalidUsage,
                    91,
                    "sends and receives of one group are on streams that are not captured together | streams {first:#x} and {other:#x} \
                     | fix: end the group before another capture, or let the streams join the capture first"
                );
            }
            self.events.record(JOIN, other)?;
            self.events.wait(JOIN, first)?;
        }
        self.next(first, |captured| put(first, captured))?;
        let done = if capture.is_some() { CAPTURED } else { PLAIN };
        others.iter().try_for_each(|&other| self.events.wait(done, other))
    }

    /// True if no launch is on its way, nor will be without another call: a captured one may be replayed at any time.
    pub fn is_over(&self) -> bool {
        self.captured.is_none() && self.idle()
    }

    /// True if no launch outside captures is on its way any more, as far as that can be told.
    pub fn idle(&self) -> bool {
        self.plain.is_none() || self.events.passed(PLAIN).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Error};
    use std::sync::{Arc, Mutex};

    /// Streams from 100 up are in capture (stream / 100).
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<Vec<String>>>);

    impl Events for Fake {
        fn identity(&self, stream: Stream) -> Result<u64> {
            assert!(stream < 100, "captured");
            Ok(stream as u64)
        }
        fn capture(&self, stream: Stream) -> Result<Option<u64>> {
            Ok(Some(stream as u64 / 100).filter(|&capture| capture > 0))
        }
        fn record(&self, event: usize, stream: Stream) -> Result<()> {
            self.0.lock().unwrap().push(format!("record {event} {stream}"));
            Ok(())
        }
        fn passed(&self, event: usize) -> Result<bool> {
            Ok(event != PLAIN)
        }
        fn wait(&self, event: usize, stream: Stream) -> Result<()> {
            self.0.lock().unwrap().push(format!("wait {event} {stream}"));
            Ok(())
        }
    }

    #[test]
    fn another_stream_waits_and_the_same_does_not() {
        let fake = Fake::default();
        let mut order = Order::new(Box::new(fake.clone()));
        for stream in [1, 1, 2, 100, 101, 3, 200, 201, 3] {
            order.next(stream, |_| Ok(())).unwrap();
        }
        let waits: Vec<String> = fake.0.lock().unwrap().iter().filter(|line| line.starts_with("wait")).cloned().collect();
        assert_eq!(waits, ["wait 0 2", "wait 1 101", "wait 0 3", "wait 1 201"]);
    }

    #[test]
    fn streams_of_one_launch_all_wait_for_each_other() {
        let fake = Fake::default();
        let mut order = Order::new(Box::new(fake.clone()));
        order.next(9, |_| Ok(())).unwrap();
        fake.0.lock().unwrap().clear();
        order
            .together(&[1, 2, 3], |stream, _| (stream == 1).then_some(()).ok_or(Error::new(Code::InternalError, 1, "")))
            .unwrap();
        let lines = std::mem::take(&mut *fake.0.lock().unwrap());
        let expected = ["record 2 2", "wait 2 1", "record 2 3", "wait 2 1", "wait 0 1", "record 0 1", "wait 0 2", "wait 0 3"];
        assert_eq!(lines, expected);
        assert_eq!(order.together(&[1, 100], |_, _| Ok(())).unwrap_err().id, 91);
        order.together(&[], |_, _| Ok(())).unwrap();
    }

    #[test]
    fn it_is_idle_until_something_is_launched() {
        let mut order = Order::new(Box::new(Fake::default()));
        order.next(100, |_| Ok(())).unwrap();
        assert!(order.idle());
        order.next(1, |_| Ok(())).unwrap();
        assert!(!order.idle());
    }

    #[test]
    fn a_failed_launch_is_not_waited_for() {
        let fake = Fake::default();
        let mut order = Order::new(Box::new(fake.clone()));
        let failed = order.next(1, |_| Err(Error::new(Code::UnhandledCudaError, 73, "planted")));
        assert!(failed.is_err());
        order.next(2, |_| Ok(())).unwrap();
        assert_eq!(*fake.0.lock().unwrap(), ["record 0 2"]);
    }
}
