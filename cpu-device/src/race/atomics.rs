//! The compiler's hooks: plain accesses, and those that order (shim/race.c decides which is which).
//!
//! An atomic access is made between [`ginrs_race_lock`] and [`ginrs_race_unlock`], so what is handed over with a value is what was known
//! when it was written. A volatile one comes behind its hook: what it hands over is handed over before, and what it is handed over is taken
//! at the thread's next step, for the value that it read may have been written since.
//!
//! Host code writes flags, too, unseen, for it knows what kernels have told it. So a word that holds another value than the last watched
//! access left in it tells all that anybody has told so far.

use std::cell::Cell;
use std::sync::Arc;

use super::relaxed::By;
use super::report;
use super::shadow::{self, Access, Made};
use super::words::{self, Left, Taken, Word};
use super::wrong::Side;
use super::{Worker, known, names, narrow, relaxed, unwritten, worker};

const WRITE: i32 = 1;
const HINTED: i32 = 2;
const ACQUIRE: i32 = 1;
const RELEASE: i32 = 2;
const FENCED: i32 = 4;
/// It reads: in a relaxed order that the program has asked for; with an order that acquires.
const RELAXED: i32 = 8;
const ACQUIRES: i32 = 16;
/// It compares and swaps.
const SWAP: i32 = 32;

/// A volatile access to come.
#[derive(Clone, Copy)]
pub struct Announced {
    at: usize,
    bytes: u8,
    reads: bool,
    /// Of the program's code; 0: a call of the API.
    place: usize,
}

impl Announced {
    fn value(&self) -> u64 {
        let at = self.at as *const u8;
        // SAFETY: the thread has made its access, so the memory was there; it is still, for the hooks of free and of barriers come before.
        unsafe {
            match self.bytes {
                1 => u64::from(at.read_volatile()),
                2 => u64::from(at.cast::<u16>().read_unaligned()),
                4 => u64::from(at.cast::<u32>().read_unaligned()),
                _ => at.cast::<u64>().read_unaligned(),
            }
        }
    }
}

thread_local! {
    /// What `ginrs_race_lock` has locked: a window may become known in between, and change the word's address.
    static LOCKED: Cell<Option<(Word, usize, usize)>> = const { Cell::new(None) };
}

impl Worker {
    /// The volatile access that `thread` has announced has been made.
    #[inline]
    pub(super) fn catch_up(&mut self, thread: u16) {
        if let Some(announced) = self.actors[thread as usize].announced.take() {
            self.made(thread, announced);
        }
    }

    #[cold]
    fn made(&mut self, thread: u16, announced: Announced) {
        let word = words::at(announced.at);
        if !announced.reads {
            return words::settle(word, announced.value());
        }
        if !words::lock(word) {
            return;
        }
        let value = announced.value();
        // SAFETY: just locked.
        let taken = unsafe {
            words::unlock(word, &words::Access { found: Some(value), gives: None, leaves: Left::Value(value) }, |_| ())
        };
        self.take(thread, &taken);
        self.take_narrow(thread, word);
        // Only now it has seen what was there.
        if announced.place != 0 {
            let current = std::mem::replace(&mut self.current, thread);
            if unwritten::is_it(value, announced.bytes.into()) {
                self.reads_unwritten(announced.at, announced.bytes.into(), announced.place);
            }
            self.access(announced.at, announced.bytes.into(), Access { polls: true, ..self.now(false, announced.place) });
            self.current = current;
        }
    }

    /// An atomic of the program's as an access, the running thread's in its epoch before it hands anything over. What finds the value that it leaves is
    /// a read, `atomicAdd(at, 0)` say.
    fn atomic(&self, what: i32, is_narrow: bool, [found, left]: [u64; 2], by: By, at: usize) -> Option<Access> {
        let By::Program(place) = by else { return None };
        let writes = what & (RELEASE | FENCED) != 0 && !(what & ACQUIRE != 0 && found == left);
        let made = match what {
            _ if is_narrow => Made::Narrow,
            _ if what & SWAP != 0 => Made::Swap,
            _ => Made::Whole,
        };
        (!(self.stack.0..self.stack.1).contains(&at)).then(|| Access { made, ..self.now(writes, place as usize) })
    }

    /// What is handed over with a word within a block.
    fn take_narrow(&mut self, thread: u16, word: Word) {
        if let Some((own, all)) = narrow::take(word, self.group) {
            own.iter().for_each(|own| Arc::make_mut(&mut self.actors[thread as usize].clock).join(own));
            all.iter().for_each(|all| self.weakly.narrow.join(all));
        }
    }

    fn take_clock(&mut self, thread: u16, taken: &Taken) {
        let actor = &mut self.actors[thread as usize];
        if let Some(taken) = &taken.clock
            && !actor.learned.as_ref().is_some_and(|learned| Arc::ptr_eq(learned, taken))
        {
            Arc::make_mut(&mut actor.clock).join(taken);
            actor.learned = Some(taken.clone());
        }
    }

    fn take(&mut self, thread: u16, taken: &Taken) {
        self.take_clock(thread, taken);
        let actor = &mut self.actors[thread as usize];
        if taken.is_foreign {
            let (all, ended) = (words::everything(), names::all_ended());
            if ended <= actor.clock.ended && actor.foreign.as_ref().is_some_and(|known| Arc::ptr_eq(known, &all)) {
                return;
            }
            let clock = Arc::make_mut(&mut actor.clock);
            clock.join(&known::now());
            clock.join(&all);
            clock.ended = clock.ended.max(ended);
            actor.foreign = Some(all);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_on() {
    super::begin_watching();
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_access(at: usize, bytes: usize, how: i32, place: usize) {
    if let Some(worker) = worker() {
        let made = if how & HINTED != 0 { Made::Hinted } else { Made::Plain };
        worker.access(at, bytes, Access { made, ..worker.now(how & WRITE != 0, place) });
    }
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_misaligned(at: usize, bytes: usize, writes: i32, place: usize) {
    if let Some(worker) = worker() {
        let side = Side::Misaligned { writes: writes != 0, at, bytes, group: worker.group, thread: worker.current };
        report::wrong_side(place as u64, side);
    }
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_volatile(at: usize, bytes: usize, writes: i32, place: usize) {
    let Some(worker) = worker().filter(|worker| !(worker.stack.0..worker.stack.1).contains(&at)) else { return };
    worker.catch_up(worker.current);
    if writes != 0 {
        if place != 0 {
            worker.access(at, bytes, Access { made: Made::Whole, ..worker.now(true, place) });
        }
        let gives = worker.actor().fenced.clone();
        let word = words::at(at);
        if let Some(narrow) = worker.actor().fenced_block.clone() {
            narrow::give(word, worker.group, &narrow);
        }
        if words::lock(word) {
            // SAFETY: just locked.
            unsafe { words::unlock(word, &words::Access { found: None, gives: gives.as_deref(), leaves: Left::Some }, |_| ()) };
        }
    }
    worker.actor().announced = Some(Announced { at, bytes: bytes as u8, reads: writes == 0, place });
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_lock(at: usize, bytes: usize) {
    if let Some(worker) = worker() {
        worker.catch_up(worker.current);
    }
    let word = words::at(at);
    LOCKED.set(words::lock(word).then_some((word, at, bytes)));
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_unlock(what: i32, value: u64, left: u64, place: usize) {
    let Some((word, at, bytes)) = LOCKED.take() else { return };
    let by = By::of(place);
    let mut worker = worker();
    let is_narrow = worker.as_mut().is_some_and(|worker| std::mem::take(&mut worker.actor().is_narrow));
    let (mut within, mut loosely, mut found) = (None, None, None);
    let new = worker.as_ref().and_then(|worker| worker.atomic(what, is_narrow, [value, left], by, at));
    let gives = worker.as_mut().and_then(|worker| match what {
        _ if what & RELEASE != 0 && is_narrow => {
            within = Some(Arc::new(worker.release()));
            None
        }
        _ if what & RELEASE != 0 => {
            worker.settle(worker.current);
            Some(Arc::new(worker.release()))
        }
        // Nor does a wider fence before it make it known to others.
        _ if what & FENCED != 0 && is_narrow => {
            let actor = worker.actor();
            relaxed::join(&mut within, actor.fenced.as_ref());
            relaxed::join(&mut within, actor.fenced_block.as_ref());
            None
        }
        _ if what & FENCED != 0 => {
            loosely = relaxed::is_hinted(word, by).then(|| worker.teller(by));
            within = worker.actor().fenced_block.clone();
            worker.actor().fenced.clone()
        }
        _ => None,
    });
    let access =
        words::Access { found: Some(value).filter(|_| what & ACQUIRE != 0), gives: gives.as_deref(), leaves: Left::Value(left) };
    let look = |taken: &Taken| {
        if let (Some(worker), Some(new)) = (&mut worker, new) {
            if what & RELAXED == 0 {
                worker.take_clock(worker.current, taken);
            }
            worker.look_at_memory();
            if what & ACQUIRE != 0 && unwritten::is_it(value, bytes) {
                worker.reads_unwritten(at, bytes, place);
            }
            found = worker.note(at, bytes, new);
        }
    };
    // SAFETY: ginrs_race_lock came before, on this thread.
    let mut taken = unsafe { words::unlock(word, &access, look) };
    if let Some(worker) = worker {
        if what & ACQUIRE != 0 {
            let seen = if what & RELAXED != 0 { taken.clock.take() } else { None };
            worker.sees(word, seen, by);
        }
        worker.take(worker.current, &taken);
        if what & ACQUIRES != 0 {
            worker.settle(worker.current);
        }
        if what & ACQUIRE != 0 {
            worker.take_narrow(worker.current, word);
        }
        // What it has learned only now may be an order, too.
        if let (Some(new), Some((place, old))) = (new, found)
            && !shadow::before(&old, &new, &worker.actor().clock)
        {
            worker.found(place, new, old);
        }
        loosely.into_iter().for_each(|loosely| worker.tell_loosely(word, loosely));
        // Of its own block nobody runs in between.
        within.iter().for_each(|within| narrow::give(word, worker.group, within));
    }
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_copying(is: i32) {
    if let Some(worker) = worker() {
        worker.actor().is_copying = is != 0;
    }
}

/// The next atomic access or fence of the running thread is of block scope.
#[unsafe(no_mangle)]
extern "C" fn ginrs_race_narrow() {
    if let Some(worker) = worker() {
        worker.actor().is_narrow = true;
    }
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_fence(releases: i32, is_any: i32) {
    let Some(worker) = worker() else { return };
    let is_narrow = std::mem::take(&mut worker.actor().is_narrow);
    // One of block scope is enough for what comes from the block, and of what is pending nobody knows where it comes from.
    if is_any != 0 {
        worker.settle(worker.current);
    }
    if releases != 0 {
        let clock = Some(Arc::new(worker.release()));
        let actor = worker.actor();
        *(if is_narrow { &mut actor.fenced_block } else { &mut actor.fenced }) = clock;
    }
}
