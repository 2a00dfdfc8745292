//! Memory that nobody has written: cudaMalloc and ncclMemAlloc give it full of one word. Who reads nothing but that word, where no write is known
//! either, reads at a wrong offset, or more than was sent.
//!
//! By the value, for nobody sees all that writes: copies while no kernel runs, collectives, processes that left. What was copied as it was
//! allocated counts as written where a put or a kernel has done it.

use std::collections::HashMap;
use std::ops::Range;

use super::report;
use super::shadow::{self, Access, PAGE};
use super::touched::Place;
use super::wrong::Side;
use super::{Worker, known_page_of, names, whereabouts, windows};
use crate::memory::{self, Kind};

/// No number as float, double, half or bfloat16, and as an integer too large for a count.
const WORD: u32 = 0x7ff4_7ff4;
/// So much of an allocation is filled: of large ones most is never touched.
const MOST: usize = 64 << 20;
/// Bytes that are read at once.
const LARGEST: usize = 16;
/// Pages on either side that are looked through for what was written.
const FAR: usize = 256;

/// Memory of a device begins.
///
/// # Safety
/// It is nobody's yet, and aligned to words.
pub unsafe fn fill(base: usize, bytes: usize) {
    if super::on() {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(base as *mut u32, bytes.min(MOST) / 4) }.fill(WORD);
    }
}

/// Whether a word of so many bytes is as it was allocated.
#[inline]
pub fn is_it(value: u64, bytes: usize) -> bool {
    match bytes {
        4 => value as u32 == WORD,
        8 => value == u64::from(WORD) << 32 | u64::from(WORD),
        _ => false,
    }
}

/// Whether a plain access may be of what nobody has written. A kernel that reads more at once copies, a struct say that need not be full.
#[inline]
pub fn is_use(new: &Access, bytes: usize) -> bool {
    !new.writes && !new.polls && new.is_plain() && bytes <= LARGEST
}

/// Whether all words of these bytes, within a page, are as they were allocated.
///
/// # Safety
/// The page can be read.
#[inline]
pub unsafe fn stands_at(at: usize, bytes: usize) -> bool {
    // SAFETY: the caller's; volatile, as others may write it.
    (at & !3..at + bytes).step_by(4).all(|word| unsafe { (word as *const u32).read_volatile() } == WORD)
}

impl Worker {
    /// The running thread reads what [`fill`] writes.
    #[cold]
    pub(super) fn reads_unwritten(&self, at: usize, bytes: usize, place: usize) {
        let is_devices = || match memory::find(at) {
            Some(found) => found.kind == Kind::Device,
            None => names::is_window(windows::flat(at) & !(PAGE - 1)),
        };
        let is_written =
            |(at, bytes)| known_page_of(at).is_some_and(|(page, at): (_, usize)| shadow::Page::is_written(&page, at, bytes));
        if (self.stack.0..self.stack.1).contains(&at) || !is_devices() || shadow::pieces(at, bytes).any(is_written) {
            return;
        }
        let at = windows::flat(at);
        report::wrong_side(place as u64, Side::Unwritten { at, bytes, group: self.group, thread: self.current });
    }
}

/// Where that is, and what stands next to it.
pub fn place(at: usize) -> String {
    let Some((name, range)) = whereabouts::of(at) else { return format!("where: address {at:#x}") };
    let Some((written, by)) = nearest(at, &range) else {
        return format!("where: {name}; nothing is known to be written {}", far(&range));
    };
    let by = by.and_then(|by| report::say(&by, Place::At(written.start)));
    let by = by.map(|by| format!(": {by}")).unwrap_or_default();
    let [from, until] = [written.start, written.end].map(|at| at - range.start);
    format!("where: {name}\n  written next to it: {from:#x} to {until:#x} ({} bytes){by}", until - from)
}

fn far(range: &Range<usize>) -> &'static str {
    if range.len() > FAR * PAGE { "near it" } else { "there" }
}

/// The nearest bytes that anybody has written, by one access as far as that is known.
fn nearest(at: usize, range: &Range<usize>) -> Option<(Range<usize>, Option<Access>)> {
    let mut pages = Pages(HashMap::new());
    let low = range.start.max(at.saturating_sub(FAR * PAGE));
    let high = range.end.min(range.start + MOST).min(at + FAR * PAGE) & !3;
    let above = (at..high).find(|&at| pages.write(at).is_some());
    let below = (low..at).rev().find(|&at| pages.write(at).is_some());
    let found = match (below, above) {
        (Some(below), Some(above)) if at - below > above - at => above,
        (Some(below), _) => below,
        (None, above) => above?,
    };
    let by = pages.write(found)?;
    let place = by.map(|by| by.place);
    let is_its = |pages: &mut Pages, at: usize| pages.write(at).is_some_and(|by| by.map(|by| by.place) == place);
    let mut written = found..found + 1;
    while written.start > low && is_its(&mut pages, written.start - 1) {
        written.start -= 1;
    }
    while written.end < high && is_its(&mut pages, written.end) {
        written.end += 1;
    }
    Some((written, by))
}

/// What is known of pages, each looked up once.
struct Pages(HashMap<usize, Known>);

/// Of one page.
struct Known {
    /// See [`shadow::Page::writes`]; empty: nobody who is watched has touched it.
    accesses: Vec<(u8, Vec<Access>)>,
    /// What stands there; empty: it was given back.
    bytes: Vec<u8>,
}

impl Pages {
    fn of(&mut self, at: usize) -> &Known {
        let page = at & !(PAGE - 1);
        self.0.entry(page).or_insert_with(|| Known {
            accesses: known_page_of(page).map(|(page, _)| page.writes()).unwrap_or_default(),
            bytes: bytes_of(page).unwrap_or_default(),
        })
    }

    /// Whether a byte was written, and by what, as far as that is kept.
    fn write(&mut self, at: usize) -> Option<Option<Access>> {
        let Known { accesses, bytes } = self.of(at);
        let (place, bit) = (at % PAGE, 1u8 << (at % 8));
        match accesses.get(place / 8) {
            Some((written, by)) if written & bit != 0 => Some(by.iter().rev().find(|by| by.mask & bit != 0).copied()),
            _ => bytes.get(place & !3..(place & !3) + 4).filter(|word| **word != WORD.to_le_bytes()).map(|_| None),
        }
    }
}

/// What stands in a page, which may have been given back meanwhile.
fn bytes_of(page: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; PAGE];
    let [own, other] =
        [bytes.as_mut_ptr() as usize, page].map(|at| libc::iovec { iov_base: at as *mut libc::c_void, iov_len: PAGE });
    // SAFETY: it writes to `bytes` alone, and refuses an address that is none.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const own, 1, &raw const other, 1, 0) };
    (read == PAGE as isize).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_new_where_all_words_of_it_are() {
        let words = [WORD, WORD, 1, WORD];
        let at = words.as_ptr() as usize;
        // SAFETY: bytes of the array.
        let stands = |from: usize, bytes| unsafe { stands_at(at + from, bytes) };
        assert!(stands(0, 8) && stands(4, 4) && stands(5, 1) && stands(2, 4));
        assert!(!stands(0, 16) && !stands(4, 8) && !stands(8, 4) && !stands(11, 1));
        assert!(is_it(u64::from(WORD), 4) && is_it(u64::from(WORD) << 32 | u64::from(WORD), 8));
        assert!(!is_it(u64::from(WORD), 8) && !is_it(0x7ff4, 2));
    }

    #[test]
    fn a_copy_of_more_and_what_writes_are_no_use() {
        assert!(is_use(&shadow::NOTHING, LARGEST) && !is_use(&shadow::NOTHING, LARGEST + 1));
        assert!(!is_use(&Access { writes: true, ..shadow::NOTHING }, 4));
        assert!(!is_use(&Access { polls: true, ..shadow::NOTHING }, 4), "its value is looked at, not what stands there before");
    }

    #[test]
    fn the_nearest_bytes_that_are_other_than_new_are_found() {
        let mut memory = vec![[WORD; 2]; 4096];
        (20..24).for_each(|at| memory[at] = [7; 2]);
        memory[3000] = [7; 2];
        let base = memory.as_ptr() as usize;
        let range = base..base + 8 * 4096;
        let found = |at: usize| nearest(base + at, &range).map(|(found, _)| found.start - base..found.end - base);
        assert_eq!(found(0), Some(160..192));
        assert_eq!(found(1000), Some(160..192));
        assert_eq!(found(8 * 2000), Some(24000..24008));
        assert_eq!(nearest(base, &(base..base + 160)).map(|(found, _)| found), None);
    }
}
