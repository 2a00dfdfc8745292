//! Pinned memory of copies that are queued: a host thread that writes what one of them reads, or touches what it writes, has not waited for it.
//!
//! From when a copy is queued until it is done. Nothing is told while a host function is queued, which may be what fills the memory, or waits for
//! who does.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::copies::Rows;
use crate::memory::{self, Kind};

struct Queued {
    number: u64,
    place: usize,
    low: usize,
    high: usize,
    writes: bool,
}

static QUEUED: Mutex<Vec<Queued>> = Mutex::new(Vec::new());
static HOST_FUNCTIONS: AtomicUsize = AtomicUsize::new(0);

/// The number of a copy of pinned memory that is called at `place`; 0 of another one, and of rows with room between them.
pub fn queue(place: usize, rows: &[Rows]) -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    let is_pinned = |rows: &&Rows| {
        let is_whole = rows.height == 1 || rows.pitch == rows.width;
        is_whole && rows.width > 0 && memory::find(rows.at).is_some_and(|found| found.kind == Kind::Host)
    };
    let mut number = 0;
    for rows in rows.iter().filter(is_pinned) {
        if number == 0 {
            number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        }
        let (low, high) = (rows.at, rows.at + rows.width * rows.height);
        QUEUED.lock().push(Queued { number, place, low, high, writes: rows.writes });
        memory::look_at(low, high);
    }
    number
}

/// That copy is done. 0: there is none.
pub fn done(number: u64) {
    if number != 0 {
        QUEUED.lock().retain(|queued| queued.number != number);
    }
}

/// A function of the program's is queued, or not any more.
pub fn host_function(is_queued: bool) {
    if is_queued {
        HOST_FUNCTIONS.fetch_add(1, Ordering::SeqCst);
    } else {
        HOST_FUNCTIONS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Of what a host thread does with this memory.
pub enum Touched {
    /// No copy of this page is queued.
    Clean,
    /// One is, and does not mind.
    Free,
    /// The one that is called at this place does.
    Early(u64),
}

/// A host thread touches so many bytes.
pub fn touch(at: usize, bytes: usize, writes: bool) -> Touched {
    const PAGE: usize = 4096;
    let queued = QUEUED.lock();
    let meets = |low: usize, high: usize| queued.iter().filter(move |queued| queued.low < high && low < queued.high);
    if meets(at & !(PAGE - 1), at + bytes.max(PAGE)).next().is_none() {
        return Touched::Clean;
    }
    let is_early = HOST_FUNCTIONS.load(Ordering::SeqCst) == 0;
    match meets(at, at + bytes).find(|queued| is_early && (writes || queued.writes)) {
        Some(queued) => Touched::Early(queued.place as u64),
        None => Touched::Free,
    }
}
