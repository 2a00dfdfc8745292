//! Orders that are too weak. A wait or barrier of the API that was called with `memory_order_relaxed`, and an atomic of the program's that says so, make
//! nothing known to their thread but what had ended before the others' grids began; the rest is `pending` until a fence of the thread, a put, the end of
//! its grid, which all acquire.
//! What was fenced and what is pending goes along through the barriers of a block: who fences there, before or behind, is a matter of style.
//!
//! A write behind such a wait depends on it, and is not made before: so that alone which is read early is told. For the words of a report there
//! stands, beside what a word hands over, what it would if orders were stronger.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::{Clock, Group};
use super::lines::{from_here, line_of};
use super::shadow::{Access, Made};
use super::words::{self, Word};
use super::{Actor, Worker, handed, known};
use crate::thread::Variables;
use crate::waits::Call;

/// What threads bring to a barrier of their block, or to an arrival at one.
#[derive(Default)]
pub struct Brought {
    /// What they know, of a barrier that not all come to.
    pub clock: Clock,
    fenced: Option<Arc<Clock>>,
    fenced_block: Option<Arc<Clock>>,
    pending: Option<Arc<Clock>>,
}

/// What both know.
pub fn join(all: &mut Option<Arc<Clock>>, one: Option<&Arc<Clock>>) {
    match (all, one) {
        (Some(all), Some(one)) if !Arc::ptr_eq(all, one) => Arc::make_mut(all).join(one),
        (all @ None, Some(one)) => *all = Some(one.clone()),
        _ => {}
    }
}

impl Brought {
    /// Another one comes to the same barrier.
    pub fn join(&mut self, clock: &Clock, other: &Brought) {
        self.clock.join(clock);
        join(&mut self.fenced, other.fenced.as_ref());
        join(&mut self.fenced_block, other.fenced_block.as_ref());
        join(&mut self.pending, other.pending.as_ref());
    }
}

impl Actor {
    /// It goes on behind the barrier.
    pub fn bring(&mut self, brought: &Brought) {
        join(&mut self.fenced, brought.fenced.as_ref());
        join(&mut self.fenced_block, brought.fenced_block.as_ref());
        join(&mut self.pending, brought.pending.as_ref());
    }

    /// Whether the order with `old`, which this thread does not know, is one that a wait of relaxed order is enough for.
    pub fn is_settled(&self, new: &Access, old: &Access) -> bool {
        let knows = || self.pending.as_ref().is_some_and(|pending| pending.knows(old.group, old.thread, old.epoch));
        (new.writes || new.polls || new.made != Made::Plain) && knows()
    }
}

/// Who makes an access that orders.
#[derive(Clone, Copy)]
pub enum By {
    /// A wait or barrier of the API, which has the user's line.
    Wait,
    /// Another call of the API: nothing is said of it.
    Call,
    /// The program, at this address of code.
    Program(u64),
}

impl By {
    /// As shim/race.c says it.
    pub fn of(place: usize) -> By {
        match place {
            0 => By::Wait,
            1 => By::Call,
            place => By::Program(place as u64),
        }
    }
}

/// Which order is too weak.
#[derive(Clone, PartialEq, Eq)]
pub enum Why {
    /// One of block scope.
    Scope,
    /// A wait's or barrier's, by its name and line.
    Call(String),
    /// That of a relaxed atomic, at this address of code, behind a write that no fence has released.
    Told(u64),
    /// That of a relaxed atomic, at this address of code, behind which no fence acquires.
    Seen(u64),
}

/// Who has told a word less than it might have, were orders stronger.
#[derive(Clone)]
pub struct Teller {
    clock: Arc<Clock>,
    /// The thread, and how far it had come, beside what it knew.
    group: Group,
    thread: u16,
    epoch: u32,
    /// Where in the program's code; 0: in a call of the API.
    pub place: u64,
}

impl Teller {
    /// One, or several, who knew this.
    pub fn of(clock: Arc<Clock>, place: u64) -> Teller {
        Teller { clock, group: Group::MAX, thread: 0, epoch: 0, place }
    }

    /// All that it knew and had done.
    pub fn all(&self) -> Clock {
        let mut all = (*self.clock).clone();
        if self.group != Group::MAX {
            all.learn(self.group, self.thread, self.epoch);
        }
        all
    }

    fn knows(&self, old: &Access) -> bool {
        (self.group, self.thread) == (old.group, old.thread) && old.epoch <= self.epoch
            || self.clock.knows(old.group, old.thread, old.epoch)
    }

    fn is(&self, other: &Teller) -> bool {
        let name = |it: &Teller| (it.group, it.thread, it.epoch);
        name(self) == name(other) && Arc::ptr_eq(&self.clock, &other.clock)
    }
}

/// Whom a block has heard, where a report that names it says why that was not enough.
struct Hint {
    why: Why,
    /// The reader's own order is weak there. Where it is not, the teller's may be that of a later barrier, to which the reader has not come.
    is_own: bool,
    heard: VecDeque<Teller>,
}

/// What a block would know if scopes were wider, and orders stronger.
#[derive(Default)]
pub struct Weakly {
    /// If scopes were wider.
    pub narrow: Clock,
    hints: Vec<Hint>,
}

/// Lines of which a block remembers that their order was weak, and whom it has heard there: the latest.
const HINTS: usize = 8;
/// Of a barrier of eight ranks each other one may be two: what it has told, and what would have been known.
const HEARD: usize = 16;

impl Weakly {
    /// Why the block does not know of `old`.
    pub fn why(&self, old: &Access) -> Option<Why> {
        if self.narrow.knows(old.group, old.thread, old.epoch) {
            return Some(Why::Scope);
        }
        let hint = self.hints.iter().rev().find(|hint| hint.heard.iter().any(|teller| teller.knows(old)))?;
        Some(hint.why.clone())
    }
}

impl Why {
    /// What is missing, where it is a matter of orders.
    pub fn missing(&self) -> Option<String> {
        match self {
            Why::Scope => None,
            Why::Call(call) if call.contains("barrier") => Some(format!(
                "memory_order_acq_rel in {call}: it is relaxed there, or of one direction alone, and orders no data \
                 (or a fence of system scope on both sides: before it where data are written, behind it where they are read)"
            )),
            Why::Call(call) => Some(format!(
                "memory_order_acquire in {call}: it is relaxed there, and orders no data (or a fence of system scope behind it)"
            )),
            Why::Seen(place) => line_of(*place).map(|line| {
                format!("memory_order_acquire in the atomic at {line}: it is relaxed there, and orders no data (or a fence behind it)")
            }),
            Why::Told(place) => line_of(*place).map(|line| {
                format!(
                    "a fence between the write and the atomic that tells of it: __threadfence(), for another rank __threadfence_system(); \
                     the atomic at {line} is relaxed (as CUDA's atomic functions are), and releases no data"
                )
            }),
        }
    }
}

/// Some word was loosened.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether a report may speak of such an access to a word, which is relaxed.
pub fn is_hinted(word: Word, by: By) -> bool {
    match by {
        By::Wait => true,
        By::Call => false,
        By::Program(_) => word.key().is_none_or(handed::may_tell),
    }
}

/// `LSA barrier 0 at halo.cu:41`, of the call that the running thread is in.
fn call() -> Option<String> {
    // SAFETY: the view of the running thread, whose calls stand on its stack.
    let described = unsafe { Call::describe(Variables::of_this_thread().current().as_ref()?.call) }?;
    let (what, line) = described.rsplit_once(" at ")?;
    Some(format!("{what} at {}", from_here(line)))
}

impl Worker {
    /// What these threads bring to a barrier.
    pub(super) fn bring(&self, threads: impl Iterator<Item = u32>) -> Brought {
        let mut brought = Brought::default();
        for actor in threads.map(|thread| &self.actors[thread as usize]) {
            join(&mut brought.fenced, actor.fenced.as_ref());
            join(&mut brought.fenced_block, actor.fenced_block.as_ref());
            join(&mut brought.pending, actor.pending.as_ref());
        }
        brought
    }

    /// What is pending is known from here on: a fence.
    pub(super) fn settle(&mut self, thread: u16) {
        let actor = &mut self.actors[thread as usize];
        if let Some(pending) = actor.pending.take() {
            Arc::make_mut(&mut actor.clock).join(&pending);
        }
    }

    /// The running thread, as it has come so far: what it does from here on is not in it.
    pub(super) fn teller(&mut self, by: By) -> Teller {
        self.catch_up(self.current);
        let place = if let By::Program(place) = by { place } else { 0 };
        let (group, thread) = (self.group, self.current);
        let actor = self.actor();
        actor.epoch += 1;
        Teller { clock: actor.clock.clone(), group, thread, epoch: actor.epoch - 1, place }
    }

    /// It has told the word less.
    pub(super) fn tell_loosely(&mut self, word: Word, teller: Teller) {
        ANY.store(true, Ordering::Relaxed);
        if teller.place != 0 && word.key().is_some() {
            self.tell_site(teller.place);
        }
        words::tell(word, teller);
    }

    /// The running thread reads a word: in relaxed order, where it is `seen` what acquiring would have made known.
    pub(super) fn sees(&mut self, word: Word, seen: Option<Arc<Clock>>, by: By) {
        let hints = &mut self.weakly.hints;
        if let Some(seen) = &seen {
            hint(hints, &Teller::of(seen.clone(), 0), true, || match by {
                By::Program(place) => Some(Why::Seen(place)),
                _ => call().map(Why::Call),
            });
        }
        if !matches!(by, By::Call) && (ANY.load(Ordering::Relaxed) || word.key().is_some()) {
            let (me, is_own) = ((self.group, self.current), seen.is_some());
            words::told(word, |teller| match teller.place {
                _ if (teller.group, teller.thread) == me => {}
                0 => hint(hints, teller, is_own, || call().map(Why::Call)),
                place => hint(hints, teller, true, || Some(Why::Told(place))),
            });
        }
        let Some(seen) = seen else { return };
        let actor = self.actor();
        if !actor.pending.as_ref().is_some_and(|pending| Arc::ptr_eq(pending, &seen)) {
            join(&mut actor.pending, Some(&seen));
            let ended = seen.common(&known::now());
            Arc::make_mut(&mut actor.clock).join(&ended);
        }
    }
}

fn hint(hints: &mut Vec<Hint>, teller: &Teller, is_own: bool, why: impl FnOnce() -> Option<Why>) {
    if hints.iter().any(|hint| (hint.is_own || !is_own) && hint.heard.iter().any(|heard| heard.is(teller))) {
        return;
    }
    let Some(why) = why() else { return };
    hints.iter_mut().for_each(|hint| hint.heard.retain(|heard| !heard.is(teller)));
    let at = hints.iter().position(|hint| hint.why == why && hint.is_own == is_own);
    if at.is_none() && hints.len() == HINTS {
        hints.remove(0);
    }
    let mut hint = at.map_or_else(|| Hint { why, is_own, heard: VecDeque::new() }, |at| hints.remove(at));
    if hint.heard.len() == HEARD {
        hint.heard.pop_front();
    }
    hint.heard.push_back(teller.clone());
    hints.push(hint);
}
