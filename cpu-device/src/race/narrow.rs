//! What is released to threads of one block alone: a fence or an atomic of block scope orders nothing for other blocks and ranks. They are told
//! so: what they would know if it did is kept beside what they know.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::arena::{self, Key, kind};
use super::clock::{Clock, Group};
use super::handed;
use super::words::Word;

/// Something was, in this process or another one of the job.
static ANY: AtomicBool = AtomicBool::new(false);
/// By word and block, and by word alone.
type Given = (HashMap<(Word, Group), Clock>, HashMap<Word, Clock>);
static GIVEN: Mutex<Option<Given>> = Mutex::new(None);

fn everywhere(word: Word) -> Option<Key> {
    word.key().map(|key| Key { kind: kind::NARROW, ..key })
}

/// A thread of a block hands over what it knows with a word, to its own block.
pub fn give(word: Word, group: Group, clock: &Clock) {
    ANY.store(true, Ordering::Relaxed);
    let mut given = GIVEN.lock();
    let (own, all) = given.get_or_insert_default();
    own.entry((word, group)).or_default().join(clock);
    match everywhere(word) {
        Some(key) => {
            drop(given);
            arena::head().narrow.store(1, Ordering::Relaxed);
            handed::give(key, clock);
        }
        None => all.entry(word).or_default().join(clock),
    }
}

/// What a thread of a block learns from a word, and what it would if scopes were wider.
pub fn take(word: Word, group: Group) -> Option<(Option<Clock>, Option<Arc<Clock>>)> {
    let everywhere = everywhere(word);
    if !ANY.load(Ordering::Relaxed) && everywhere.is_none_or(|_| arena::head().narrow.load(Ordering::Relaxed) == 0) {
        return None;
    }
    let mut given = GIVEN.lock();
    let (own, all) = given.get_or_insert_default();
    let (own, all) = (own.get(&(word, group)).cloned(), all.get(&word).cloned().map(Arc::new));
    drop(given);
    Some((own, all.or_else(|| handed::take(everywhere?))))
}

/// A block has ended.
pub fn end(group: Group) {
    if ANY.load(Ordering::Relaxed) {
        GIVEN.lock().get_or_insert_default().0.retain(|(_, of), _| *of != group);
    }
}
