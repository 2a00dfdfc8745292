//! Who has touched which bytes: a few accesses for each eight bytes, of which those that a later one covers and knows are dropped.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

pub use super::access::{Access, Made, NOTHING, before};
use super::arena::{self, Key, Slot, kind};
use super::clock::Clock;
use super::job;
use super::places::{self, Byte};
use super::quick::Table;

/// Accesses kept for eight bytes: with more readers than that the oldest are forgotten, so a race may be missed, none invented.
const KEPT: usize = 4;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Cell {
    kept: [Access; KEPT],
    used: u8,
    next: u8,
    /// Bytes that anybody has written.
    written: u8,
    /// A kernel or a put: copies while nothing runs are not noted, so what a read finds must not hang on those that are.
    brought: u8,
    /// And has changed atomically.
    changed: u8,
}

const EMPTY: Cell = Cell { kept: [NOTHING; KEPT], used: 0, next: 0, written: 0, brought: 0, changed: 0 };

impl Cell {
    /// See [`Access::over`].
    fn unread(&self, new: &Access) -> u32 {
        let met = || self.kept[..self.used as usize].iter().filter(|old| old.mask & new.mask != 0);
        let last = met().find(|old| old.group == new.group).filter(|_| new.run == 0 && met().all(|old| old.writes));
        last.map_or(0, |old| if old.over == 0 { old.epoch } else { old.over })
    }

    /// Whether the one at `at` is an atomic whose value a thread has seen atomically before it came to `new`, for a word has its own order: it has
    /// looked, or was the last one to change it and writes what is there next.
    fn has_seen(&self, at: usize, new: &Access, clock: &Clock) -> bool {
        let sees =
            |seen: &Access| seen.sees() && (new.writes || !seen.writes) && seen.mask & new.mask != 0 && before(seen, new, clock);
        !self.kept[at].is_plain() && self.kept[at].writes && self.kept[at + 1..self.used as usize].iter().any(sees)
    }

    /// Notes an access; the first one that it has no order with.
    fn note(&mut self, new: Access, clock: &Clock) -> Option<Access> {
        let over = if new.writes { self.unread(&new) } else { 0 };
        let new = Access { over, finds: !new.writes && self.brought & new.mask != 0, ..new };
        self.written |= if new.writes { new.mask } else { 0 };
        self.brought |= if new.writes && !new.is_copy { new.mask } else { 0 };
        let (mut race, mut kept) = (None, 0);
        for at in 0..self.used as usize {
            let old = self.kept[at];
            let meets = old.mask & new.mask != 0;
            let same = meets && old.group == new.group && old.thread == new.thread && old.epoch == new.epoch;
            let as_strict = (old.writes || !new.writes) && (!old.polls || new.polls) && old.made.is_as_strict_as(new.made);
            if same && old.mask & new.mask == new.mask && as_strict {
                return None;
            }
            let ordered = !meets || before(&old, &new, clock);
            if !ordered && old.conflicts(&new) && !self.has_seen(at, &new, clock) {
                race = race.or(Some(old));
            }
            if !(meets && old.is_covered(&new, ordered, self.changed)) {
                self.kept[kept] = old;
                kept += 1;
            }
        }
        if !new.is_plain() && new.writes {
            self.changed |= new.mask;
        }
        if kept < KEPT {
            self.kept[kept] = new;
            (self.used, self.next) = (kept as u8 + 1, 0);
        } else if let Some(first) = self.kept.iter().position(|old| new.sees() && old.sees()) {
            // These are in the order in which they came.
            self.kept[first..].rotate_left(1);
            self.kept[KEPT - 1] = new;
        } else {
            self.kept[self.next as usize] = new;
            self.next = (self.next + 1) % KEPT as u8;
        }
        race
    }
}

/// Bytes that are looked up at once.
pub const PAGE: usize = 4096;

/// The bytes of one page.
pub enum Page {
    /// Of this process.
    Own(Mutex<Vec<Cell>>),
    /// Of a file that the processes of a job share.
    Job(&'static Slot),
}

impl Page {
    /// Nobody has touched it.
    pub fn new() -> Page {
        // On the heap from the start: who makes it may be on a CUDA thread's stack.
        Page::Own(Mutex::new(vec![EMPTY; PAGE / 8]))
    }

    /// Where the job shares the memory around an address: its page, if there is one or it is to be made.
    pub fn shared(at: usize, make: bool) -> Option<Option<Page>> {
        Some(Page::of(places::byte_at(at).filter(|_| job::is_joined())?, make))
    }

    /// The same of a byte that needs no address here.
    pub fn of(byte: Byte, make: bool) -> Option<Page> {
        let key = Key { kind: kind::PAGE, of: [byte.file, byte.offset / PAGE as u64] };
        if make { arena::find_or_make(key) } else { arena::find(key) }.map(Page::Job)
    }

    /// What is known of each eight bytes: those that anybody has written, and the last that have, as far as they are kept.
    pub fn writes(&self) -> Vec<(u8, Vec<Access>)> {
        let is_shared = matches!(self, Page::Job(_));
        let mut all = Vec::new();
        self.with(|cells| {
            let of = |cell: &Cell| {
                let writes = cell.kept[..cell.used as usize].iter().filter(|access| access.writes);
                (cell.written, writes.map(|access| if is_shared { access.local() } else { *access }).collect())
            };
            all = cells.iter().map(of).collect();
        });
        all
    }

    /// Whether anybody has written one of these bytes.
    pub fn is_written(&self, at: usize, bytes: usize) -> bool {
        let mut found = false;
        self.with(|cells| found = (at..at + bytes).any(|at| cells[at % PAGE / 8].written & 1 << (at % 8) != 0));
        found
    }

    /// For what raises and resets words, a page of them: of those of one name.
    pub fn of_words(name: [u64; 2]) -> Option<Page> {
        arena::find_or_make(Key { kind: kind::WORDS, of: name }).map(Page::Job)
    }

    /// `what` gets the accesses that are known of each eight bytes.
    fn with(&self, what: impl FnOnce(&mut [Cell])) {
        match self {
            Page::Own(cells) => what(&mut cells.lock()),
            Page::Job(slot) => {
                if let Some(mut locked) = slot.lock()
                    // SAFETY: a zero Cell is EMPTY but for its padding, and pages' slots hold nothing else.
                    && let Some(cells) = unsafe { locked.items(PAGE / 8) }
                {
                    what(cells);
                }
            }
        }
    }
}

/// Pages by their addresses; a window has one address here, whichever of its mappings a kernel uses.
pub struct Shadow {
    pages: RwLock<Table<usize, Arc<Page>>>,
}

impl Shadow {
    /// Nobody has touched anything.
    pub fn new() -> Shadow {
        Shadow { pages: RwLock::default() }
    }

    /// The page around an address.
    pub fn page(&self, at: usize) -> Arc<Page> {
        let key = at / PAGE;
        if let Some(page) = self.pages.read().get(&key) {
            return page.clone();
        }
        self.pages.write().entry(key).or_insert_with(|| Arc::new(Page::new())).clone()
    }

    /// The same, where anybody has touched it.
    pub fn known_page(&self, at: usize) -> Option<Arc<Page>> {
        self.pages.read().get(&(at / PAGE)).cloned()
    }

    /// The memory is given back: who gets it next starts anew.
    pub fn forget(&self, at: usize, bytes: usize) {
        let pages = self.pages.read();
        let range = at / PAGE..=(at + bytes.max(1) - 1) / PAGE;
        let clear = |page: &Arc<Page>| page.with(|cells| cells.fill(EMPTY));
        // A reservation of addresses is far larger than what was touched.
        if range.end() - range.start() > pages.len() {
            pages.iter().filter(|(key, _)| range.contains(key)).for_each(|(_, page)| clear(page));
        } else {
            range.filter_map(|key| pages.get(&key)).for_each(clear);
        }
    }
}

/// Notes an access to bytes of one page; `each` is told of an older one that it has no order with, at most once.
pub fn note(page: &Page, at: usize, bytes: usize, new: Access, clock: &Clock, each: impl FnOnce(usize, Access)) {
    let (mut at, end) = (at, at + bytes);
    let mut told = None;
    let is_shared = matches!(page, Page::Job(_));
    let new = if is_shared { new.global() } else { new };
    page.with(|cells| {
        while at < end {
            let until = end.min((at | 7) + 1);
            let mask = (((1u32 << (until - at)) - 1) << (at % 8)) as u8;
            let race = cells[at % PAGE / 8].note(Access { mask, ..new }, clock);
            if let Some(old) = race.filter(|_| told.is_none()) {
                told = Some((at, old));
            }
            at = until;
        }
    });
    if let Some((at, old)) = told {
        each(at, if is_shared { old.local() } else { old });
    }
}

/// Cuts a range at the ends of pages.
pub fn pieces(at: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = at + bytes;
    std::iter::successors(Some(at), move |at| Some((at | (PAGE - 1)) + 1)).take_while(move |at| *at < end).map(move |at| {
        let until = end.min((at | (PAGE - 1)) + 1);
        (at, until - at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(thread: u16, epoch: u32, writes: bool) -> Access {
        Access { group: 1, thread, epoch, writes, ..NOTHING }
    }

    fn races(page: &Page, at: usize, bytes: usize, new: Access, clock: &Clock) -> Vec<u16> {
        let mut found = Vec::new();
        note(page, at, bytes, new, clock, |_, old| found.push(old.thread));
        found
    }

    #[test]
    fn accesses_without_order_are_told_where_one_writes() {
        let (page, nothing) = (Page::new(), Clock::default());
        assert_eq!(races(&page, 8, 4, access(0, 1, false), &nothing), []);
        assert_eq!(races(&page, 8, 4, access(1, 1, false), &nothing), [], "two reads");
        assert_eq!(races(&page, 12, 4, access(2, 1, true), &nothing), [], "other bytes of the eight");
        assert_eq!(races(&page, 10, 1, access(3, 1, true), &nothing), [0]);
        let mut clock = Clock::default();
        clock.learn_all(1, 1);
        assert_eq!(races(&page, 8, 8, access(0, 2, true), &clock), []);
        assert_eq!(races(&page, 8, 8, access(4, 2, false), &clock), [0]);
        assert_eq!(races(&page, 8, 8, access(0, 3, true), &clock), [4], "the read is told, too");
    }

    fn atomic(thread: u16, made: Made, writes: bool) -> Access {
        Access { made, ..access(thread, 1, writes) }
    }

    #[test]
    fn atomics_need_no_order_among_them_and_one_with_what_is_plain() {
        let (page, nothing) = (Page::new(), Clock::default());
        assert_eq!(races(&page, 8, 4, atomic(0, Made::Whole, true), &nothing), []);
        assert_eq!(races(&page, 8, 4, atomic(1, Made::Whole, true), &nothing), [], "two atomics");
        assert_eq!(races(&page, 8, 4, access(2, 1, false), &nothing), [0], "a plain read behind both");
        assert_eq!(races(&page, 8, 4, atomic(3, Made::Swap, true), &nothing), [], "what it guessed is made sure of");
        assert_eq!(races(&page, 8, 4, atomic(3, Made::Whole, true), &nothing), [2], "of who has read nobody has heard");
        assert_eq!(races(&page, 12, 4, access(4, 1, true), &nothing), [], "another word");
        assert_eq!(
            races(&page, 12, 4, atomic(5, Made::Whole, false), &nothing),
            [4],
            "an atomic read of what is written plainly"
        );
    }

    #[test]
    fn a_word_has_its_own_order_for_who_looks_at_it_atomically() {
        let (page, nothing) = (Page::new(), Clock::default());
        for thread in 0..8 {
            races(&page, 8, 4, atomic(thread, Made::Whole, true), &nothing);
        }
        assert_eq!(races(&page, 8, 4, access(7, 1, true), &nothing), [], "the last one clears it");
        races(&page, 16, 4, atomic(0, Made::Whole, true), &nothing);
        races(&page, 16, 4, atomic(9, Made::Whole, false), &nothing);
        assert_eq!(races(&page, 16, 4, access(9, 1, false), &nothing), [], "it has polled for the value");
        races(&page, 16, 4, atomic(1, Made::Whole, true), &nothing);
        assert_eq!(races(&page, 16, 4, access(9, 2, false), &nothing), [0], "and another one came later");
    }

    #[test]
    fn atomics_of_block_scope_are_for_their_block() {
        let (page, nothing) = (Page::new(), Clock::default());
        races(&page, 8, 4, atomic(0, Made::Narrow, true), &nothing);
        assert_eq!(races(&page, 8, 4, atomic(1, Made::Whole, true), &nothing), [], "they are of one block");
        races(&page, 8, 4, atomic(0, Made::Narrow, true), &nothing);
        assert_eq!(races(&page, 8, 4, Access { group: 2, ..atomic(3, Made::Whole, true) }, &nothing), [0]);
    }

    #[test]
    fn a_put_on_another_that_nobody_has_read_is_told_with_the_first_of_those() {
        let (page, nothing) = (Page::new(), Clock::default());
        let land = |epoch| note(&page, 8, 8, access(0, epoch, true), &nothing, |_, _| ());
        let seen = || {
            let mut over = Vec::new();
            note(&page, 8, 4, Access { group: 2, ..access(5, 9, false) }, &nothing, |_, old| over.push(old.over));
            over
        };
        land(3);
        assert_eq!(seen(), [0]);
        land(4);
        assert_eq!(seen(), [0], "it was read");
        let page = Page::new();
        let land = |epoch| note(&page, 8, 8, access(0, epoch, true), &nothing, |_, _| ());
        (3..=5).for_each(land);
        let mut over = 0;
        note(&page, 12, 4, Access { group: 2, ..access(5, 9, false) }, &nothing, |_, old| over = old.over);
        assert_eq!(over, 3);
    }

    #[test]
    fn a_read_knows_whether_there_was_anything_to_read() {
        let (page, nothing) = (Page::new(), Clock::default());
        let land = Access { group: 2, ..access(0, 1, true) };
        let finds = |at| {
            let mut found = Vec::new();
            note(&page, at, 4, access(5, 9, false), &nothing, |_, _| ());
            note(&page, at, 4, land, &nothing, |_, old| found.push(old.finds));
            found
        };
        let fill = Access { is_copy: true, ..access(7, 1, true) };
        note(&page, 8, 4, fill, &nothing, |_, _| ());
        assert_eq!(finds(8), [false], "nobody had written there but the host");
        assert_eq!(finds(12), [false], "only beside it");
        (0..9).for_each(|reader| note(&page, 8, 4, access(reader, 9, false), &nothing, |_, _| ()));
        assert_eq!(finds(8), [true], "however many have read since");
    }

    #[test]
    fn ranges_are_cut_at_pages() {
        assert_eq!(pieces(4000, 5000).collect::<Vec<_>>(), [(4000, 96), (4096, 4096), (8192, 808)]);
        assert_eq!(pieces(4096, 0).count(), 0);
    }

    #[test]
    fn memory_that_was_given_back_has_no_past() {
        let (shadow, clock) = (Shadow::new(), Clock::default());
        assert_eq!(races(&shadow.page(8192), 8192, 8, access(0, 1, true), &clock), []);
        shadow.forget(8192, 8);
        assert_eq!(races(&shadow.page(8192), 8192, 8, access(1, 1, true), &clock), []);
    }
}
