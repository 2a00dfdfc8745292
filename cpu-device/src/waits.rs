//! Waits that last, as the device headers tell of them (ginrs_cpu/waits.h): each block has a board that other threads read, on which
//! stands who waits for what, and whether the block's threads do nothing else.
//!
//! Order: a block takes `only_waits` back, and counts a change, before a thread of its goes on behind a wait. So who finds the same
//! count of changes twice, and `only_waits` both times, knows that the block has done nothing in between.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::launch::{Dim3, Launch, Place};
use crate::tsan;

pub mod code;
mod polls;

use code::{Code, Running};
use polls::Polls;

/// GINRS_CPU_CALL_BARRIER.
const HYBRID: u32 = 7;
/// GINRS_CPU_CALL_FOREIGN.
const FOREIGN: u32 = 256;
/// GINRS_WAITS_ of what is no wait (include/ginrs_device/marker.h), as a note.
const READS: u32 = 5 << 24;
const CODE: u32 = 6 << 24;

/// `ginrsCpuCall`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Call {
    outer: *const Call,
    file: *const c_char,
    line: i32,
    kind: u32,
    context: u32,
    id: u32,
}

impl Call {
    /// The user's of the calls from `innermost` outwards: the outermost.
    ///
    /// # Safety
    /// The calls are alive.
    pub unsafe fn outermost<'a>(innermost: *const Call) -> Option<&'a Call> {
        // SAFETY: the caller's: a call stands on the same stack as those that it makes.
        let mut call = unsafe { innermost.as_ref() }?;
        // SAFETY: as above.
        while let Some(outer) = unsafe { call.outer.as_ref() } {
            call = outer;
        }
        Some(call)
    }

    /// What is called, with which id: the same for all threads of a group that makes a call together.
    pub fn what(&self) -> [u32; 3] {
        [self.kind(), self.context, self.id]
    }

    /// `halo.cu:41`.
    pub fn place(&self) -> String {
        Place::new(std::ptr::null(), self.file, self.line).line()
    }

    /// `LSA barrier 0 at halo.cu:41`: the user's of the calls from `innermost` outwards.
    ///
    /// # Safety
    /// The calls are alive.
    pub unsafe fn describe(innermost: *const Call) -> Option<String> {
        // SAFETY: the caller's.
        let (inner, outer) = unsafe { (innermost.as_ref()?, Call::outermost(innermost)?) };
        Some(format!("{} at {}", outer.name(inner), outer.place()))
    }

    /// `LSA barrier 0`. `inner` is the innermost call that it makes.
    fn name(&self, inner: &Call) -> String {
        let Call { context, id, .. } = self;
        match self.kind() {
            1 => format!("a call for signal {id}"),
            2 => format!("a call for counter {id}"),
            3 => format!("a flush of context {context}"),
            4 => format!("a put or signal to rank {id}"),
            5 => format!("GIN barrier {id}"),
            6 => format!("LSA barrier {id}"),
            HYBRID if inner.kind() != HYBRID => format!("{} of a hybrid barrier", inner.name(inner)),
            HYBRID => "a hybrid barrier".into(),
            9 => "a pointer into a window".into(),
            _ => "an LL all-to-all".into(),
        }
    }

    /// The outermost call, which has the user's line, and what it waits for: a hybrid barrier for one of those that it is made of.
    ///
    /// # Safety
    /// The calls are alive: each stands on the same stack as those that it makes.
    pub(crate) unsafe fn ends(innermost: *const Call) -> Option<(Call, Call)> {
        // SAFETY: the caller's.
        let (mut next, mut calls) = (unsafe { innermost.as_ref() }, None);
        while let Some(call) = next {
            let what = calls.filter(|_| call.kind() == HYBRID).map_or(*call, |(_, what)| what);
            calls = Some((*call, what));
            // SAFETY: as above.
            next = unsafe { call.outer.as_ref() };
        }
        calls
    }

    /// The caller's file.
    pub(crate) fn file(&self) -> Option<&'static [u8]> {
        // SAFETY: null or a string literal of code that is loaded as long as its kernels run.
        (!self.file.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(self.file) }.to_bytes())
    }

    /// The caller's line.
    pub(crate) fn line(&self) -> i32 {
        self.line
    }

    /// It waits for a signal, a counter or its own operations, and changes nothing: threads that have left a loop before others, because of
    /// a word that they read one by one, are not missed by it.
    pub fn only_waits(&self) -> bool {
        matches!(self.kind(), 1..=3)
    }

    /// GINRS_CPU_CALL_
    pub(crate) fn kind(&self) -> u32 {
        self.kind & !FOREIGN
    }

    /// The same, if another NCCL's device headers make it.
    ///
    /// # Safety
    /// It is alive.
    pub(crate) unsafe fn foreign(innermost: *const Call) -> Option<*mut Foreign> {
        // SAFETY: the caller's.
        unsafe { innermost.as_ref() }.filter(|call| call.kind & FOREIGN != 0).map(|_| innermost.cast_mut().cast())
    }

    /// `context << 32 | id`
    pub(crate) fn context_and_id(&self) -> u64 {
        u64::from(self.context) << 32 | u64::from(self.id)
    }
}

/// `ginrsCpuForeign`.
#[repr(C)]
pub struct Foreign {
    call: Call,
    waits: unsafe extern "C" fn(*const Foreign, *mut Wait) -> i32,
    turns: u32,
    is_told: u32,
}

impl Foreign {
    /// What it waits for, once its thread has used up two turns within it: no call does without waiting.
    ///
    /// # Safety
    /// It is the running thread's innermost call.
    pub unsafe fn waits(&mut self) -> Option<Wait> {
        self.turns = self.turns.saturating_add(1);
        let mut wait = Wait::default();
        // SAFETY: the headers', which wrote it; the call is alive.
        let waits = self.turns > 1 && unsafe { (self.waits)(self, &mut wait) } != 0;
        waits.then_some(wait)
    }

    /// Whether its wait has begun, from now on as `is`; how it was.
    pub fn is_told(&mut self, is: bool) -> bool {
        std::mem::replace(&mut self.is_told, is.into()) != 0
    }
}

impl Wait {
    /// Of a thread that reads a word by itself: for what is not known.
    fn of_reads(owner: *const c_void) -> Wait {
        Wait { owner, bits: 64, note: READS, ..Wait::default() }
    }

    /// Owner, word, wanted value and note.
    pub(crate) fn parts(&self) -> [u64; 4] {
        [self.owner.addr() as u64, self.word.addr() as u64, self.wants, self.note.into()]
    }

    /// Whether there is one.
    pub(crate) fn lasts(&self) -> bool {
        !self.owner.is_null()
    }
}

/// `ginrsCpuWait`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Wait {
    owner: *const c_void,
    word: *const c_void,
    wants: u64,
    bits: u32,
    note: u32,
}

/// `ginrsCpuWaitSeen`.
#[repr(C)]
pub struct Seen {
    owner: *const c_void,
    file: *const c_char,
    line: i32,
    outer: u32,
    kind: u32,
    context: u32,
    id: u32,
    note: u32,
    block: Dim3,
    thread: Dim3,
    wants: u64,
    has: u64,
    bits: u32,
    bytes: u32,
    nanoseconds: u64,
    word: *const c_void,
    name: *const c_char,
    launch: u64,
}

impl Seen {
    /// With the call of the host's that has launched the kernel, in place of one that the kernel makes.
    pub fn called(mut self, name: &CStr, launch: u64, place: Option<(&CStr, i32)>) -> Seen {
        (self.name, self.launch) = (name.as_ptr(), launch);
        (self.file, self.line) = place.map_or((std::ptr::null(), 0), |(file, line)| (file.as_ptr(), line));
        self
    }
}

/// `ginrsCpuStillness`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Stillness {
    /// Blocks that run.
    pub blocks: u32,
    /// Of these, those that do not only wait.
    pub others: u32,
    /// Another number: a block began, ended, or went on behind a wait.
    pub changes: u64,
    /// Of this look.
    pub mark: u64,
    /// Every waiting thread has looked in vain since the look with this mark.
    pub passed: u64,
}

struct Record {
    thread: u32,
    at: Dim3,
    block: Dim3,
    /// Keeps the program's strings: a kernel's code is loaded while it runs.
    launch: Arc<Launch>,
    /// The outermost call, which has the user's line, and what it waits for: a hybrid barrier for one of those that it is made of.
    calls: Option<(Call, Call)>,
    wait: Wait,
    since: Instant,
}

// SAFETY: the pointers are to string literals and to words that are alive while the wait lasts, that is while the record stands.
unsafe impl Send for Record {}

/// What a block shows of itself.
#[derive(Default)]
pub struct Board {
    records: Mutex<Vec<Record>>,
    /// What its threads read over and over.
    pub(crate) polls: Polls,
    pub(crate) code: Code,
    /// How many; of the block's own thread.
    waits: AtomicU32,
    /// The OS thread, while it runs a block; else 0.
    thread: AtomicI32,
    only_waits: AtomicBool,
    /// The newest mark when the round began that goes on, and when the last whole round began.
    begun: AtomicU64,
    passed: AtomicU64,
}

static BOARDS: Mutex<Vec<&'static Board>> = Mutex::new(Vec::new());
static CHANGES: AtomicU64 = AtomicU64::new(0);
static MARK: AtomicU64 = AtomicU64::new(0);

impl Board {
    /// Makes the board of a block thread.
    pub fn hang_up() -> &'static Board {
        let board: &'static Board = Box::leak(Box::default());
        BOARDS.lock().push(board);
        board
    }

    /// A block begins.
    pub fn begin(&self, running: Running) {
        self.code.begin(running);
        // SAFETY: takes nothing.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Release);
        tsan::ignore(true);
        self.goes_on();
    }

    /// It is over; waits of threads that were dropped are, too.
    pub fn end(&self) {
        tsan::ignore(false);
        self.goes_on();
        self.records.lock().clear();
        self.polls.clear();
        self.code.end();
        self.waits.store(0, Ordering::Relaxed);
        self.thread.store(0, Ordering::Release);
    }

    /// A thread of the block does something else than wait.
    pub fn goes_on(&self) {
        self.only_waits.store(false, Ordering::SeqCst);
        CHANGES.fetch_add(1, Ordering::SeqCst);
    }

    /// Threads are woken from a rendezvous.
    pub fn woken(&self) {
        if self.only_waits.load(Ordering::Relaxed) {
            self.goes_on();
        }
    }

    /// All threads of the block have had a turn. `only_waits`, of how many are in waits that last: the others are in a rendezvous.
    pub fn rest(&self, only_waits: impl FnOnce(u32) -> bool) {
        let waits = self.waits.load(Ordering::Relaxed);
        if waits == 0 {
            return;
        }
        let only_waits = only_waits(waits);
        if only_waits != self.only_waits.load(Ordering::Relaxed) {
            self.only_waits.store(only_waits, Ordering::SeqCst);
            self.begun.store(0, Ordering::Relaxed);
            CHANGES.fetch_add(1, Ordering::SeqCst);
        }
        self.passed.store(self.begun.load(Ordering::Relaxed), Ordering::Release);
        self.begun.store(MARK.load(Ordering::SeqCst), Ordering::Relaxed);
    }

    /// Thread number `thread` at `at` waits, in the calls from `innermost` outwards.
    ///
    /// # Safety
    /// The calls are alive now; the wait's word until [`Board::over`].
    pub unsafe fn waits(&self, thread: u32, at: Dim3, block: Dim3, launch: Arc<Launch>, innermost: *const Call, wait: Wait) {
        // SAFETY: the caller's: a call stands on the same stack as those that it makes.
        let calls = unsafe { Call::ends(innermost) };
        let mut records = self.records.lock();
        records.push(Record { thread, at, block, launch, calls, wait, since: Instant::now() });
        self.waits.store(records.len() as u32, Ordering::Relaxed);
    }

    /// Its wait is over.
    pub fn over(&self, thread: u32) {
        self.goes_on();
        self.code.waited();
        let mut records = self.records.lock();
        records.retain(|record| record.thread != thread);
        self.waits.store(records.len() as u32, Ordering::Relaxed);
    }
}

impl Record {
    fn seen(&self) -> Seen {
        let Wait { word, bits, .. } = self.wait;
        let has = match (word.is_null(), bits) {
            (true, _) => 0,
            // SAFETY: alive while the record stands, aligned, and only touched atomically (the headers').
            (_, ..=32) => unsafe { (*word.cast::<std::sync::atomic::AtomicU32>()).load(Ordering::Relaxed) }.into(),
            // SAFETY: as above.
            _ => unsafe { (*word.cast::<AtomicU64>()).load(Ordering::Relaxed) },
        };
        Seen::of(self.calls, self.wait, has, (self.block, self.at), self.since)
    }
}

impl Seen {
    /// A wait in these calls, by that block and thread; its word has `has`.
    fn of(calls: Option<(Call, Call)>, wait: Wait, has: u64, (block, at): (Dim3, Dim3), since: Instant) -> Seen {
        let Wait { owner, word, wants, bits, note } = wait;
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let (outer, inner) = calls.unzip();
        Seen {
            owner,
            file: outer.map_or(std::ptr::null(), |call| call.file),
            line: outer.map_or(0, |call| call.line),
            outer: outer.map_or(0, |call| call.kind()),
            kind: inner.map_or(0, |call| call.kind()),
            context: inner.map_or(0, |call| call.context),
            id: inner.map_or(0, |call| call.id),
            note,
            block,
            thread: at,
            wants: wants & mask,
            has: has & mask,
            bits: if word.is_null() && note != READS { 0 } else { bits },
            bytes: size_of::<Seen>() as u32,
            nanoseconds: since.elapsed().as_nanos() as u64,
            word,
            name: std::ptr::null(),
            launch: 0,
        }
    }
}

/// Shows each wait that lasts. Those of the library's own kernels, of which `own` holds, come last, when no wait is held up any more.
pub fn each(mut see: impl FnMut(&Seen), own: impl Fn(&Launch) -> bool, mut see_own: impl FnMut(Seen, &Launch)) {
    let boards = BOARDS.lock().clone();
    let mut later = Vec::new();
    for board in boards {
        for record in &*board.records.lock() {
            if own(&record.launch) { later.push((record.seen(), record.launch.clone())) } else { see(&record.seen()) }
        }
    }
    later.into_iter().for_each(|(seen, launch)| see_own(seen, &launch));
}

/// Whether all blocks of the process only wait; `see` is given the OS threads of those that run.
pub fn stillness(mut see: impl FnMut(i32)) -> Stillness {
    let mut still = Stillness { passed: u64::MAX, mark: MARK.fetch_add(1, Ordering::SeqCst) + 1, ..Stillness::default() };
    for board in BOARDS.lock().clone() {
        let thread = board.thread.load(Ordering::Acquire);
        if thread == 0 {
            continue;
        }
        see(thread);
        still.blocks += 1;
        still.others += u32::from(!board.only_waits.load(Ordering::SeqCst));
        still.passed = still.passed.min(board.passed.load(Ordering::Acquire));
    }
    still.changes = CHANGES.load(Ordering::SeqCst);
    still
}
