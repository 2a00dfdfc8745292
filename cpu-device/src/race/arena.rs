//! Memory that the processes of a job share: one sparse memfd, gone with the last of them, however that one ends.
//!
//! Nothing in there is an address: things are found by names that mean the same in all processes ([`Key`]) in one table without removal, and
//! their bytes by offsets. A lock is a word; who holds one neither waits nor calls out, so a lock that is not free for seconds is that of
//! a process which was killed or stopped right there, and then nothing is checked any more.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Addresses of it, few of which ever get memory.
pub const BYTES: u64 = 1 << 37;
/// Processes of a job, with numbers from 1.
pub const PROCESSES: u32 = 256;
/// Grids and blocks of one process.
pub const RUNS: u32 = 1 << 20;
pub const GROUPS: u32 = 1 << 24;
const SLOTS: usize = 1 << 20;

const AT_ENDED: u64 = 1 << 20;
const AT_OWNERS: u64 = AT_ENDED + PROCESSES as u64 * RUNS as u64 * 8;
const AT_SLOTS: u64 = AT_OWNERS + PROCESSES as u64 * GROUPS as u64 * 4;
const AT_USED: u64 = AT_SLOTS + (SLOTS * size_of::<Slot>()) as u64;
const AT_HEAP: u64 = AT_USED + SLOTS as u64 * 4;
const _: () = assert!(AT_HEAP < BYTES / 2);

/// The first page.
#[repr(C)]
pub struct Head {
    /// Of the library that wrote it.
    pub mark: AtomicU64,
    /// Processes that have joined.
    pub processes: AtomicU32,
    /// Nothing is checked any more, in none of them.
    pub off: AtomicU32,
    /// See `words::mix`.
    pub mixed: AtomicU32,
    /// There are words of `kind::NARROW`.
    pub narrow: AtomicU32,
    /// See [`has_loose`].
    loose: AtomicU32,
    used: AtomicU32,
    /// Grids that run.
    pub running: AtomicU32,
    /// Grids that have ended.
    pub ended: AtomicU64,
    /// Counts what is handed over.
    pub given: AtomicU64,
    taken: AtomicU64,
}

/// What stands in the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// One of [`kind`].
    pub kind: u32,
    /// Which of them.
    pub of: [u64; 2],
}

/// Kinds of names; 0 is none.
pub mod kind {
    /// A word of memory: file and offset.
    pub const WORD: u32 = 1;
    /// A signal: communicator, and rank, context and id.
    pub const SIGNAL: u32 = 2;
    /// A counter, by the same.
    pub const COUNTER: u32 = SIGNAL + 1;
    /// What all grids that have ended knew.
    pub const KNOWN: u32 = 4;
    /// What a group is.
    pub const GROUP: u32 = 5;
    /// What a put is.
    pub const PUT: u32 = 6;
    /// Where an address of code is.
    pub const SITE: u32 = 7;
    /// Accesses to a page: file and number.
    pub const PAGE: u32 = 8;
    /// Two lines that were told.
    pub const TOLD: u32 = 9;
    /// What raises and resets signals and counters: communicator; and kind, rank, context and id.
    pub const WORDS: u32 = 10;
    /// What was handed over with a word to threads of one block alone: file and offset.
    pub const NARROW: u32 = 11;
    /// What a word would have handed over, were orders stronger: beside the word's own kind.
    pub const LOOSE: u32 = 1 << 8;
    /// Where a window begins: communicator, and rank and number.
    pub const WINDOW: u32 = 12;
    /// Being made.
    pub(super) const MAKING: u32 = u32::MAX;
}

/// What is known under one name. All zero at first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct State {
    /// Counts changes of what [`Locked::put`] puts.
    pub version: u32,
    /// See `words::Left`.
    pub left: u32,
    /// Its value.
    pub value: u64,
    /// A signal's sum of what was posted.
    pub posted: u64,
    /// Where its steps are; the first of them, and how many.
    pub steps: u64,
    /// See `steps`.
    pub first: u32,
    /// See `steps`.
    pub count: u32,
    /// Groups at which a clock is looked through.
    pub room: u32,
    /// What was put.
    pub put: Span,
}

/// Some words of the heap.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    /// Offset in bytes.
    at: u64,
    capacity: u32,
    length: u32,
}

#[repr(C)]
pub struct Slot {
    lock: AtomicU32,
    kind: AtomicU32,
    of: [AtomicU64; 2],
    state: std::cell::UnsafeCell<State>,
}

// SAFETY: the state is touched by the holder of the lock alone (Locked, unlock).
unsafe impl Sync for Slot {}

/// Where it is mapped here; null: this process has joined no job.
static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// This process uses the arena that is mapped at `base` from now on.
///
/// # Safety
/// [`BYTES`] of shared memory, which began as zeroes and is written by this module alone, mapped for ever.
pub unsafe fn begin(base: *mut u8) {
    BASE.store(base, Ordering::Release);
    let _ = head().taken.compare_exchange(0, AT_HEAP, Ordering::Relaxed, Ordering::Relaxed);
}

/// Something in it. The arena must be there.
fn at<T>(offset: u64) -> *mut T {
    let base = BASE.load(Ordering::Acquire);
    assert!(!base.is_null() && offset < BYTES, "no job");
    // SAFETY: within the mapping.
    unsafe { base.add(offset as usize).cast() }
}

/// Of an arena that is there.
pub fn head() -> &'static Head {
    // SAFETY: mapped for ever, of atomics alone.
    unsafe { &*at(0) }
}

/// As which number a grid of a process has ended; 0: not yet.
pub fn ended(process: u32, run: u32) -> &'static AtomicU64 {
    let number = u64::from(process % PROCESSES) * u64::from(RUNS) + u64::from(run % RUNS);
    // SAFETY: in that part, atomics alone.
    unsafe { &*at(AT_ENDED + number * 8) }
}

/// Whose a group of a process is: its grid, or what kind of puts.
pub fn owner(process: u32, group: u32) -> &'static AtomicU32 {
    let number = u64::from(process % PROCESSES) * u64::from(GROUPS) + u64::from(group % GROUPS);
    // SAFETY: in that part, atomics alone.
    unsafe { &*at(AT_OWNERS + number * 4) }
}

fn slot(number: usize) -> &'static Slot {
    // SAFETY: in that part; all zero is a free one.
    unsafe { &*at(AT_SLOTS + (number * size_of::<Slot>()) as u64) }
}

impl Key {
    fn hash(self) -> usize {
        let mixed = self
            .of
            .iter()
            .fold(u64::from(self.kind), |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        (mixed ^ mixed >> 32) as usize % SLOTS
    }
}

/// What is known under a name, where something is.
pub fn find(key: Key) -> Option<&'static Slot> {
    search(key, false)
}

/// The same, made if there is nothing. None: there is no room, and nothing is checked any more.
pub fn find_or_make(key: Key) -> Option<&'static Slot> {
    search(key, true)
}

fn search(key: Key, make: bool) -> Option<&'static Slot> {
    let first = key.hash();
    let mut patience = Patience::default();
    for number in (0..SLOTS).map(|i| (first + i) % SLOTS) {
        let slot = slot(number);
        loop {
            match slot.kind.load(Ordering::Acquire) {
                0 if !make => return None,
                0 => {
                    if slot.kind.compare_exchange(0, kind::MAKING, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                        slot.of[0].store(key.of[0], Ordering::Relaxed);
                        slot.of[1].store(key.of[1], Ordering::Relaxed);
                        slot.kind.store(key.kind, Ordering::Release);
                        let used = head().used.fetch_add(1, Ordering::AcqRel);
                        // SAFETY: in that part: there are as many as slots.
                        unsafe { (*at::<AtomicU32>(AT_USED + u64::from(used) * 4)).store(number as u32 + 1, Ordering::Release) };
                        return Some(slot);
                    }
                }
                kind::MAKING => {
                    if !patience.goes_on() {
                        return None;
                    }
                }
                found => {
                    if found == key.kind && [0, 1].iter().all(|&i| slot.of[i].load(Ordering::Relaxed) == key.of[i]) {
                        return Some(slot);
                    }
                    break;
                }
            }
        }
    }
    super::refuse("its table is full: a million words and pages of shared memory are in use");
    None
}

/// Words whose name has `kind::LOOSE`, at most: they help with words of a report, and what has none costs no report.
const LOOSE: u32 = SLOTS as u32 / 16;

/// Whether there is such a word of this name, or room for it.
pub fn has_loose(key: Key) -> bool {
    find(key).is_some() || head().loose.fetch_add(1, Ordering::Relaxed) < LOOSE
}

/// All that stands in the table.
pub fn all() -> impl Iterator<Item = (Key, &'static Slot)> {
    let used = head().used.load(Ordering::Acquire);
    (0..used).filter_map(|number| {
        // SAFETY: in that part.
        let entry = unsafe { &*at::<AtomicU32>(AT_USED + u64::from(number) * 4) }.load(Ordering::Acquire);
        let slot = slot(entry.checked_sub(1)? as usize);
        let of = [0, 1].map(|i| slot.of[i].load(Ordering::Relaxed));
        Some((Key { kind: slot.kind.load(Ordering::Acquire), of }, slot))
    })
}

/// How long somebody may hold what is held for a moment.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Patience {
    spins: u32,
    since: Option<Instant>,
}

impl Patience {
    /// False: it is over.
    fn goes_on(&mut self) -> bool {
        self.spins += 1;
        if self.spins < 100 {
            std::hint::spin_loop();
            return true;
        }
        std::thread::yield_now();
        let goes_on = super::on() && self.since.get_or_insert_with(Instant::now).elapsed() < LONGEST;
        if !goes_on {
            super::refuse("a process of the job was killed or stopped while it wrote down an access");
        }
        goes_on
    }
}

/// A locked slot.
pub struct Locked(&'static Slot);

impl Slot {
    /// None: nothing is checked any more.
    pub fn lock(&'static self) -> Option<Locked> {
        let mut patience = Patience::default();
        while self.lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            if !patience.goes_on() {
                return None;
            }
        }
        Some(Locked(self))
    }

    /// What this thread has locked and forgotten.
    ///
    /// # Safety
    /// It has.
    pub unsafe fn locked(&'static self) -> Locked {
        Locked(self)
    }
}

impl Deref for Locked {
    type Target = State;
    fn deref(&self) -> &State {
        // SAFETY: we hold the lock.
        unsafe { &*self.0.state.get() }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above.
        unsafe { &mut *self.0.state.get() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.lock.store(0, Ordering::Release);
    }
}

impl Locked {
    /// Leaves these words here.
    pub fn put(&mut self, words: &[u32]) {
        self.version = self.version.wrapping_add(1);
        write(&mut self.put, words);
    }

    /// What was put last.
    pub fn get(&self) -> &[u32] {
        read(&self.put)
    }

    /// Memory for a page of `T`, zero at first. None: there is no room.
    ///
    /// # Safety
    /// Zeroes are `T`s, and nothing else is kept here.
    pub unsafe fn items<T>(&mut self, count: usize) -> Option<&mut [T]> {
        if self.put.at == 0 {
            self.put.at = take((count * size_of::<T>()) as u64)?;
        }
        // SAFETY: taken for them, and we hold the lock.
        Some(unsafe { std::slice::from_raw_parts_mut(at(self.put.at), count) })
    }

    /// The steps of a signal, as many as `count`: a sum, and what was put.
    pub fn step(&mut self, number: u32, count: u32) -> Option<&mut (u64, Span)> {
        if self.steps == 0 {
            self.steps = take(u64::from(count) * size_of::<(u64, Span)>() as u64)?;
        }
        // SAFETY: taken for them, zeroes at first, and we hold the lock.
        Some(unsafe { &mut *at::<(u64, Span)>(self.steps).add((number % count) as usize) })
    }
}

/// What stands there; its slot is locked.
pub fn read(span: &Span) -> &[u32] {
    match span.length {
        0 => &[],
        // SAFETY: written by `write`, under the lock that the caller holds.
        length => unsafe { std::slice::from_raw_parts(at(span.at), length as usize) },
    }
}

/// Writes there; its slot is locked. What was too small is lost, at most as much again as is in use.
pub fn write(span: &mut Span, words: &[u32]) {
    let length = words.len() as u32;
    if span.capacity < length {
        let capacity = length.next_power_of_two().max(16);
        let Some(at) = take(u64::from(capacity) * 4) else { return };
        *span = Span { at, capacity, length: 0 };
    }
    // SAFETY: as large as that, and the caller's alone.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), at::<u32>(span.at), words.len()) };
    span.length = length;
}

fn take(bytes: u64) -> Option<u64> {
    let offset = head().taken.fetch_add(bytes.next_multiple_of(64), Ordering::Relaxed);
    if offset + bytes > BYTES {
        super::refuse("its memory is full");
        return None;
    }
    Some(offset)
}
