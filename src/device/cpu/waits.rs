//! Waits of kernels on the CPU device that last, and whether its blocks do anything else: `ginrs_cpu/library.h`.

use super::runtime::{self, EachWait};
use crate::device::DevPtr;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::Duration;

/// `ginrsCpuWaitSeen`.
#[repr(C)]
pub(super) struct Seen {
    owner: *const c_void,
    file: *const c_char,
    line: i32,
    outer: u32,
    kind: u32,
    context: u32,
    id: u32,
    note: u32,
    block: [u32; 3],
    thread: [u32; 3],
    wants: u64,
    has: u64,
    bits: u32,
    bytes: u32,
    nanoseconds: u64,
    word: *const c_void,
    name: *const c_char,
    launch: u64,
}

/// `ginrsCpuStillness`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// That run.
    pub running: u32,
    /// That do anything else than wait, or have not begun.
    pub others: u32,
    /// Another number: one began, ended, or went on behind a wait.
    pub changes: u64,
    /// Of this look.
    pub mark: u64,
    /// Every waiting thread has looked in vain since the look of this mark.
    pub passed: u64,
}

pub(super) type SeeWait = unsafe extern "C" fn(*mut c_void, *const Seen);
pub(super) type SeeThread = unsafe extern "C" fn(*mut c_void, c_int);

/// The call of the device API that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// waitSignal and its kin.
    Signal,
    /// waitCounter.
    Counter,
    /// flush.
    Flush,
    /// put, putValue, signal.
    Put,
    /// ncclGinBarrierSession.
    GinBarrier,
    /// ncclLsaBarrierSession.
    LsaBarrier,
    /// ncclBarrierSession.
    Barrier,
    /// ncclLLA2ASession.
    LlA2a,
    /// The headers did not say.
    Unknown,
}

impl Call {
    fn of(kind: u32) -> Self {
        use Call::{Barrier, Counter, Flush, GinBarrier, LlA2a, LsaBarrier, Put, Signal, Unknown};
        let all = [Unknown, Signal, Counter, Flush, Put, GinBarrier, LsaBarrier, Barrier, LlA2a];
        all.get(kind as usize).copied().unwrap_or(Unknown)
    }
}

/// A wait of a CUDA thread that lasts.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Address of the communicator's abort word.
    pub owner: u64,
    /// The user's file and line.
    pub place: Option<(String, i32)>,
    /// Of a collective: the function that the host has called.
    pub name: Option<String>,
    /// Which launch of its communicator's that is, from 1; 0: not known.
    pub launch: u64,
    /// The user's call.
    pub outer: Call,
    /// What is waited for, and its numbers.
    pub call: Call,
    /// The GIN context.
    pub context: u32,
    /// The signal, counter, barrier or slot.
    pub id: u32,
    /// As include/ginrs_device/marker.h says: the low half of a note.
    pub note: u32,
    /// blockIdx.
    pub block: [u32; 3],
    /// threadIdx.
    pub thread: [u32; 3],
    /// What the word has, and what it has to reach, of so many bits; None where it is no single word.
    pub word: Option<(u64, u64, u32)>,
    /// Where the word is; 0 where it is no single word.
    pub at: DevPtr,
    /// Since it was seen to last.
    pub lasts: Duration,
}

/// All waits of kernels of this process that last.
pub fn waits() -> Vec<Wait> {
    let mut all = seen(runtime::find().and_then(|runtime| runtime.0.each_wait));
    // An older stand-in shows reads, too.
    all.retain(|wait| !wait.is_read());
    all
}

/// What lasts and is no wait for all that is known: threads that read a signal or counter over and over by themselves, and find the same each
/// time, and code of blocks' own.
pub fn lasting() -> Vec<Wait> {
    seen(runtime::find().and_then(|runtime| runtime.0.each_lasting))
}

/// GINRS_WAITS_ (include/ginrs_device/marker.h).
const READS: u32 = 5;
const CODE: u32 = 6;

impl Wait {
    /// A thread's that reads by itself.
    pub fn is_read(&self) -> bool {
        self.note >> 24 == READS
    }

    /// Of code of a block's own, which has no owner: the device that it runs on.
    pub fn device(&self) -> Option<i32> {
        (self.note >> 24 == CODE).then_some(self.context as i32)
    }
}

fn seen(each: Option<EachWait>) -> Vec<Wait> {
    let mut all: Vec<Wait> = Vec::new();
    if let Some(each) = each {
        // SAFETY: library.h: it calls `see` with the context, on this thread, before it returns.
        unsafe { each(see_wait, (&raw mut all).cast()) };
    }
    all
}

unsafe extern "C" fn see_wait(context: *mut c_void, seen: *const Seen) {
    // SAFETY: `seen` passed its vector, which nobody else uses meanwhile; the wait is valid during the call.
    let (all, seen) = unsafe { (&mut *context.cast::<Vec<Wait>>(), &*seen) };
    // SAFETY: a string literal of a program whose kernel runs, or valid during the call.
    let file = (!seen.file.is_null()).then(|| unsafe { CStr::from_ptr(seen.file) }.to_string_lossy().into_owned());
    // Of an older library it is not there.
    let reaches = |end: usize| seen.bytes as usize >= end;
    let has_address = reaches(std::mem::offset_of!(Seen, name));
    let name = if reaches(std::mem::offset_of!(Seen, launch)) && !seen.name.is_null() {
        // SAFETY: terminated, and valid during the call.
        Some(unsafe { CStr::from_ptr(seen.name) }.to_string_lossy().into_owned())
    } else {
        None
    };
    all.push(Wait {
        owner: seen.owner as u64,
        place: file.map(|file| (file, seen.line)),
        name,
        launch: if reaches(size_of::<Seen>()) { seen.launch } else { 0 },
        outer: Call::of(seen.outer),
        call: Call::of(seen.kind),
        context: seen.context,
        id: seen.id,
        note: seen.note,
        block: seen.block,
        thread: seen.thread,
        word: (seen.bits != 0).then_some((seen.has, seen.wants, seen.bits)),
        at: if has_address { seen.word as DevPtr } else { 0 },
        lasts: Duration::from_nanos(seen.nanoseconds),
    });
}

/// What the blocks of this process do, and their OS threads. None where the stand-in does not say.
pub fn blocks() -> Option<(Blocks, Vec<i32>)> {
    let Some(runtime) = runtime::find() else { return Some(Default::default()) };
    let stillness = runtime.0.stillness?;
    let (mut blocks, mut threads) = (Blocks::default(), Vec::<i32>::new());
    // SAFETY: as in `seen`; the struct is the library's, field by field.
    unsafe { stillness(&raw mut blocks, see_thread, (&raw mut threads).cast()) };
    Some((blocks, threads))
}

unsafe extern "C" fn see_thread(context: *mut c_void, thread: c_int) {
    // SAFETY: `blocks` passed its vector, which nobody else uses meanwhile.
    unsafe { &mut *context.cast::<Vec<i32>>() }.push(thread);
}
