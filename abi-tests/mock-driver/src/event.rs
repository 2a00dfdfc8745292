//! cuEvent*.

use crate::entry::{enter, give};
use crate::error::{Code, Result};
use crate::queue::Operation;
use crate::{capture, context, stream};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

/// BLOCKING_SYNC 1, DISABLE_TIMING 2, INTERPROCESS 4.
const FLAGS: u32 = 7;
const DISABLE_TIMING: u32 = 2;

/// An event: it is reached when its newest recording is.
pub struct Event {
    device: usize,
    timed: bool,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    recorded: u64,
    reached: u64,
    at: Option<Instant>,
}

impl Event {
    /// Recording number `version` is reached.
    pub fn reach(&self, version: u64) {
        let mut state = self.state.lock();
        state.reached = state.reached.max(version);
        state.at = Some(Instant::now());
        self.moved.notify_all();
    }

    /// Waits for it.
    pub fn wait(&self, version: u64) {
        let mut state = self.state.lock();
        while state.reached < version {
            self.moved.wait(&mut state);
        }
    }

    fn newest(&self) -> u64 {
        self.state.lock().recorded
    }

    fn done(&self) -> bool {
        let state = self.state.lock();
        state.reached >= state.recorded
    }
}

static EVENTS: Mutex<(u64, BTreeMap<u64, Arc<Event>>)> = Mutex::new((0, BTreeMap::new()));

fn find(event: *mut c_void) -> Result<Arc<Event>> {
    EVENTS.lock().1.get(&(event as u64)).map(Arc::clone).ok_or(Code::INVALID_HANDLE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(out: *mut u64, flags: u32) -> i32 {
    enter("cuEventCreate", || {
        let device = context::current()?;
        if out.is_null() || flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let event = Event { device, timed: flags & DISABLE_TIMING == 0, state: Mutex::default(), moved: Condvar::new() };
        let mut events = EVENTS.lock();
        events.0 += 1;
        let number = 0x6576_656e_0000 + events.0 * 64;
        events.1.insert(number, Arc::new(event));
        // SAFETY: see the crate; also below.
        unsafe { give(out, number) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> i32 {
    enter("cuEventDestroy", || EVENTS.lock().1.remove(&(event as u64)).map(drop).ok_or(Code::INVALID_HANDLE))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> i32 {
    enter("cuEventRecord", || {
        let (event, stream) = (find(event)?, stream::find(stream)?);
        if event.device != stream.device {
            return Err(Code::INVALID_HANDLE);
        }
        if stream.capture.lock().is_some() {
            return Ok(());
        }
        let version = {
            let mut state = event.state.lock();
            state.recorded += 1;
            state.recorded
        };
        stream.submit(Operation::Record(event, version));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecordWithFlags(event: *mut c_void, stream: *mut c_void, flags: u32) -> i32 {
    if flags > 1 { Code::INVALID_VALUE.0 } else { cuEventRecord(event, stream) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: u32) -> i32 {
    enter("cuStreamWaitEvent", || {
        let (event, stream) = (find(event)?, stream::find(stream)?);
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let version = event.newest();
        stream.submit(Operation::Wait(event, version));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: *mut c_void) -> i32 {
    enter("cuEventQuery", || {
        let event = find(event)?;
        capture::refuse()?;
        let done = event.done();
        context::usable(event.device)?;
        if done { Ok(()) } else { Err(Code::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: *mut c_void) -> i32 {
    enter("cuEventSynchronize", || {
        let event = find(event)?;
        capture::refuse()?;
        event.wait(event.newest());
        context::usable(event.device).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(out: *mut f32, from: *mut c_void, to: *mut c_void) -> i32 {
    enter("cuEventElapsedTime", || {
        let (from, to) = (find(from)?, find(to)?);
        if !from.timed || !to.timed {
            return Err(Code::INVALID_HANDLE);
        }
        if !from.done() || !to.done() {
            return Err(Code::NOT_READY);
        }
        // One after the other: they may be the same event.
        let from = from.state.lock().at.ok_or(Code::INVALID_HANDLE)?;
        let to = to.state.lock().at.ok_or(Code::INVALID_HANDLE)?;
        let time = to.saturating_duration_since(from).as_secs_f32() - from.saturating_duration_since(to).as_secs_f32();
        // SAFETY: as above.
        unsafe { give(out, time * 1000.0) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(out: *mut f32, from: *mut c_void, to: *mut c_void) -> i32 {
    // SAFETY: as above.
    unsafe { cuEventElapsedTime_v2(out, from, to) }
}
