//! What a stream is inside: operations in order, and a thread that carries them out while there are any.

use crate::capture::Capture;
use crate::context;
use crate::copy::{self, One};
use crate::device;
use crate::error::Code;
use crate::event::Event;
use crate::world::WORLD;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// One operation of a stream.
pub enum Operation {
    /// Copies without an order among them.
    Copies(Vec<One>),
    /// `unit` bytes of `value`, `count` times from `at`.
    Fill {
        at: u64,
        value: u32,
        unit: u8,
        count: u64,
    },
    /// A word of 4 or 8 bytes, after everything before it is visible.
    Write {
        at: u64,
        value: u64,
        bytes: u8,
    },
    Record(Arc<Event>, u64),
    Wait(Arc<Event>, u64),
    Host(HostFunction, usize),
}

/// A stream.
pub struct Stream {
    pub number: u64,
    pub device: usize,
    /// CU_STREAM_NON_BLOCKING 1.
    pub flags: u32,
    pub priority: i32,
    pub capture: Mutex<Option<Capture>>,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Operation>,
    submitted: u64,
    finished: u64,
    working: bool,
}

impl Stream {
    pub fn new(number: u64, device: usize, flags: u32, priority: i32) -> Arc<Self> {
        let (capture, state) = (Mutex::default(), Mutex::default());
        Arc::new(Self { number, device, flags, priority, capture, state, moved: Condvar::new() })
    }

    /// Adds an operation; while the stream captures, the graph that takes it is never run.
    pub fn submit(self: &Arc<Self>, operation: Operation) {
        if self.capture.lock().is_some() {
            return;
        }
        let mut state = self.state.lock();
        state.queue.push_back(operation);
        state.submitted += 1;
        if !std::mem::replace(&mut state.working, true) {
            let stream = Arc::clone(self);
            let worker = std::thread::Builder::new().name("mock stream".into());
            worker.spawn(move || stream.work()).expect("a thread for a stream");
        }
        self.moved.notify_all();
    }

    /// True when nothing is pending.
    pub fn idle(&self) -> bool {
        let state = self.state.lock();
        state.finished == state.submitted
    }

    /// Waits for what was submitted so far.
    pub fn drain(&self) {
        let mut state = self.state.lock();
        let until = state.submitted;
        while state.finished < until {
            self.moved.wait(&mut state);
        }
    }

    fn work(&self) {
        loop {
            let operation = {
                let mut state = self.state.lock();
                if state.queue.is_empty() {
                    self.moved.wait_for(&mut state, Duration::from_millis(20));
                }
                match state.queue.pop_front() {
                    Some(operation) => operation,
                    None => {
                        state.working = false;
                        return;
                    }
                }
            };
            pause();
            let usable = context::usable(self.device).is_ok();
            let mut state = match operation {
                Operation::Record(event, version) if usable => {
                    // One step: who saw the event reached finds the stream behind it, and the other way round.
                    let state = self.state.lock();
                    event.reach(version);
                    state
                }
                operation => {
                    if usable && let Err(code) = self.perform(operation) {
                        context::break_with(self.device, code);
                    }
                    self.state.lock()
                }
            };
            state.finished += 1;
            drop(state);
            self.moved.notify_all();
        }
    }

    fn perform(&self, operation: Operation) -> Result<(), Code> {
        match operation {
            Operation::Copies(mut copies) => {
                shuffle(&mut copies);
                for one in &copies {
                    copy::perform(self.device, one)?;
                }
                Ok(())
            }
            Operation::Fill { at, value, unit, count } => copy::fill(self.device, at, value, unit, count),
            Operation::Write { at, value, bytes } => {
                let world = WORLD.read();
                if !world.writable(self.device, at, bytes.into()) {
                    return Err(Code::ILLEGAL_ADDRESS);
                }
                let at = world.host(at).0;
                // SAFETY: checked just now, aligned by the submitter, and not unmapped while the lock is held.
                unsafe {
                    if bytes == 8 {
                        (*(at as *const AtomicU64)).store(value, Ordering::SeqCst);
                    } else {
                        (*(at as *const AtomicU32)).store(value as u32, Ordering::SeqCst);
                    }
                }
                Ok(())
            }
            // `work` carries these out itself, in one step with the stream's count.
            Operation::Record(..) => Ok(()),
            Operation::Wait(event, version) => {
                event.wait(version);
                Ok(())
            }
            Operation::Host(function, data) => {
                // SAFETY: the program's function, called once with its argument.
                unsafe { function(data as *mut c_void) };
                Ok(())
            }
        }
    }
}

/// Any number; a different one each time.
fn random() -> u64 {
    static SEED: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.subsec_nanos().into());
    let mut x = SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) ^ time;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

fn shuffle(copies: &mut [One]) {
    for i in (1..copies.len()).rev() {
        copies.swap(i, (random() % (i as u64 + 1)) as usize);
    }
}

fn pause() {
    static MOST: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| device::number("GINRS_MOCK_DELAY_US", 0));
    if *MOST > 0 {
        std::thread::sleep(Duration::from_micros(random() % (*MOST + 1)));
    }
}
