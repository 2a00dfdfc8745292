//! What is handed over with words that the processes of a job share: [`super::words`], in the arena.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::arena::{self, Key, Locked, Slot, kind};
use super::clock::Clock;
use super::relaxed::Teller;
use super::words::{Access, Left, ROOM, Raise, STEPS, Taken};
use super::{job, names};

/// Clocks as they were read last, by slot: (version, clock).
type Read = HashMap<usize, (u32, Arc<Clock>)>;
const SHARDS: usize = 64;
static READ: [Mutex<Option<Read>>; SHARDS] = [const { Mutex::new(None) }; SHARDS];

fn encoded(clock: &Clock) -> Vec<u32> {
    clock.encoded(job::global)
}

/// What was handed over here; the same Arc as long as it is the same.
fn clock(slot: &'static Slot, locked: &Locked) -> Arc<Clock> {
    let key = std::ptr::from_ref(slot) as usize;
    let mut read = READ[key / size_of::<Slot>() % SHARDS].lock();
    let known = read.get_or_insert_default().entry(key).or_default();
    if known.0 != locked.version {
        *known = (locked.version, Arc::new(Clock::decoded(locked.get(), job::local)));
    }
    known.1.clone()
}

fn put(slot: &'static Slot, locked: &mut Locked, clock: Clock) {
    let words = encoded(&clock);
    locked.put(&words);
    let key = std::ptr::from_ref(slot) as usize;
    READ[key / size_of::<Slot>() % SHARDS].lock().get_or_insert_default().insert(key, (locked.version, Arc::new(clock)));
}

fn give_to(slot: &'static Slot, locked: &mut Locked, given: &Clock) {
    arena::head().given.fetch_add(1, Ordering::Relaxed);
    let mut all = (*clock(slot, locked)).clone();
    all.join(given);
    if all.groups() > (locked.room as usize).max(ROOM) {
        let ended = all.ended;
        all.retain(|group| !names::is_over(group, ended));
        locked.room = 2 * all.groups() as u32;
    }
    put(slot, locked, all);
}

/// See `words::give`.
pub fn give(key: Key, given: &Clock) {
    if let Some(slot) = arena::find_or_make(key)
        && let Some(mut locked) = slot.lock()
    {
        give_to(slot, &mut locked, given);
    }
}

fn loosened(key: Key) -> Key {
    Key { kind: key.kind | kind::LOOSE, ..key }
}

/// Whether more may be told of this word: each takes of the arena.
pub fn may_tell(key: Key) -> bool {
    arena::has_loose(loosened(key))
}

/// See `words::tell`. All of them are one here, which is where the last one is.
pub fn tell(key: Key, teller: &Teller) {
    if let Some(slot) = arena::find_or_make(loosened(key))
        && let Some(mut locked) = slot.lock()
    {
        give_to(slot, &mut locked, &teller.all());
        locked.value = if teller.place == 0 { 0 } else { job::global_place(teller.place) };
    }
}

/// See `words::told`.
pub fn told(key: Key) -> Option<Teller> {
    let slot = arena::find(loosened(key))?;
    let locked = slot.lock()?;
    (locked.version != 0).then(|| Teller::of(clock(slot, &locked), job::local_place(locked.value)))
}

/// See `words::take`.
pub fn take(key: Key) -> Option<Arc<Clock>> {
    let slot = arena::find(key)?;
    let locked = slot.lock()?;
    (locked.version != 0).then(|| clock(slot, &locked))
}

/// What is there becomes what `how` makes of it.
pub fn change(key: Key, how: impl FnOnce(&mut Clock)) {
    if let Some(slot) = arena::find_or_make(key)
        && let Some(mut locked) = slot.lock()
    {
        let mut all = (*clock(slot, &locked)).clone();
        how(&mut all);
        put(slot, &mut locked, all);
    }
}

/// See `words::raise`.
pub fn raise(key: Key, given: &Clock, add: u64, by: Raise) -> Option<Raise> {
    let slot = arena::find_or_make(key)?;
    let mut locked = slot.lock()?;
    if locked.count == 0 {
        keep(&mut locked);
    }
    give_to(slot, &mut locked, given);
    locked.posted = locked.posted.wrapping_add(add);
    keep(&mut locked);
    // No signal is a word of memory: what one of those was left at has room for the first raise.
    if locked.left == 0 {
        (locked.left, locked.value) = (by.how, job::global_place(by.place));
    }
    let first = Raise { how: locked.left, place: job::local_place(locked.value) };
    Raise::differ(first, by).then_some(first)
}

/// All that was handed over up to this sum.
fn keep(locked: &mut Locked) {
    let (all, posted) = (locked.get().to_vec(), locked.posted);
    if locked.count == STEPS {
        locked.first = (locked.first + 1) % STEPS;
        locked.count -= 1;
    }
    let last = locked.first + locked.count;
    let Some(step) = locked.step(last, STEPS) else { return };
    step.0 = posted;
    arena::write(&mut step.1, &all);
    locked.count += 1;
}

/// See `words::take_at`.
pub fn take_at(key: Key, value: u64, mask: u64) -> Option<Arc<Clock>> {
    let slot = arena::find(key)?;
    let mut locked = slot.lock()?;
    if locked.version == 0 {
        return None;
    }
    let posted = locked.posted;
    let ahead = posted.wrapping_sub(value) & mask;
    if arena::head().mixed.load(Ordering::Relaxed) != 0 || ahead > mask / 2 || ahead > posted {
        return Some(clock(slot, &locked));
    }
    for number in 0..locked.count {
        let at = locked.first + number;
        let step = locked.step(at, STEPS)?;
        if step.0 >= posted - ahead {
            return Some(Arc::new(Clock::decoded(arena::read(&step.1), job::local)));
        }
    }
    Some(clock(slot, &locked))
}

fn is_zero_again(locked: &mut Locked) {
    (locked.posted, locked.first, locked.count, locked.left) = (0, 0, 0, 0);
}

/// See `words::reset`.
pub fn reset(key: Key) {
    if let Some(mut locked) = arena::find(key).and_then(Slot::lock) {
        is_zero_again(&mut locked);
    }
}

/// Signals and counters for which `of` holds may be zero again.
pub fn reset_all(of: impl Fn(Key) -> bool) {
    for (_, slot) in arena::all().filter(|(key, _)| [kind::SIGNAL, kind::COUNTER].contains(&key.kind) && of(*key)) {
        if let Some(mut locked) = slot.lock() {
            is_zero_again(&mut locked);
        }
    }
}

/// See `words::lock`.
pub fn lock(key: Key) -> bool {
    let locked = arena::find_or_make(key).and_then(Slot::lock);
    locked.map(std::mem::forget).is_some()
}

/// See `words::unlock`.
///
/// # Safety
/// The calling thread has locked it.
pub unsafe fn unlock(key: Key, access: &Access, then: impl FnOnce(&Taken)) -> Taken {
    let Some(slot) = arena::find(key) else { return Taken::default() };
    // SAFETY: the caller's.
    let mut locked = unsafe { slot.locked() };
    let left = Left::of(locked.left, locked.value);
    (locked.left, locked.value) = access.leaves.numbers();
    let mut taken = Taken::default();
    if let Some(found) = access.found {
        taken.clock = (locked.version != 0).then(|| clock(slot, &locked));
        taken.is_foreign = left.is_foreign(found);
    }
    if let Some(given) = access.gives {
        give_to(slot, &mut locked, given);
    }
    then(&taken);
    taken
}

/// See `words::settle`.
pub fn settle(key: Key, value: u64) {
    if let Some(mut locked) = arena::find(key).and_then(Slot::lock)
        && Left::of(locked.left, locked.value) == Left::Some
    {
        (locked.left, locked.value) = Left::Value(value).numbers();
    }
}

/// All that was ever handed over with any word of the job's memory.
pub fn everything(all: &mut Clock) {
    for (_, slot) in arena::all().filter(|(key, _)| key.kind == kind::WORD) {
        if let Some(locked) = slot.lock().filter(|locked| locked.version != 0) {
            all.join(&clock(slot, &locked));
        }
    }
}
