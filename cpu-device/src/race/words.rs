//! What is handed over with a word: an atomic of the program's, a signal, a counter, an mbarrier.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::arena::{self, Key, kind};
use super::clock::Clock;
use super::quick::Table;
use super::relaxed::Teller;
use super::{handed, job, names, places, windows};

/// A word that orders.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Of the program's memory.
    At(usize),
    /// A signal (0) or counter (1): of which communicator, rank, context. Its device communicators may share a number: then more is taken
    /// for ordered than is, which hides and never invents.
    Raised(i32, u64, i32, u32, u32),
    /// One that the processes of a job share.
    Job(Key),
}

impl Word {
    /// Its name among the processes of a job.
    pub fn key(self) -> Option<Key> {
        if let Word::Job(key) = self { Some(key) } else { None }
    }
}

/// The word at an address.
pub fn at(at: usize) -> Word {
    if job::is_joined()
        && let Some(byte) = places::byte_at(at)
    {
        return Word::Job(Key { kind: kind::WORD, of: [byte.file, byte.offset] });
    }
    Word::At(windows::flat(at))
}

/// A signal (0) or counter (1).
pub fn of(what: i32, comm: u64, rank: i32, context: u32, id: u32) -> Word {
    if job::is_joined() {
        let name = u64::from(rank as u32) << 40 | u64::from(context & 0xff) << 32 | u64::from(id);
        return Word::Job(Key { kind: kind::SIGNAL + what as u32, of: [comm, name] });
    }
    Word::Raised(what, comm, rank, context, id)
}

/// What the last access of those that are watched has left in a word.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Left {
    /// There was none.
    #[default]
    Untouched,
    /// A volatile store that may not have been made yet.
    Some,
    /// This.
    Value(u64),
}

impl Left {
    /// Of [`Left::numbers`].
    pub fn of(kind: u32, value: u64) -> Left {
        match kind {
            0 => Left::Untouched,
            1 => Left::Some,
            _ => Left::Value(value),
        }
    }

    /// For memory of a job.
    pub fn numbers(self) -> (u32, u64) {
        match self {
            Left::Untouched => (0, 0),
            Left::Some => (1, 0),
            Left::Value(value) => (2, value),
        }
    }

    /// Whether somebody who is not watched has written what was found.
    pub fn is_foreign(self, found: u64) -> bool {
        match self {
            Left::Untouched => found != 0,
            Left::Some => false,
            Left::Value(left) => found != left,
        }
    }
}

/// What was handed over with a word.
#[derive(Default)]
struct Handed {
    all: Arc<Clock>,
    /// Groups in there at which those that are over are looked for.
    room: usize,
    /// A signal or counter: the sum of what was posted, and all that was handed over up to the latest of such sums.
    posted: u64,
    /// A signal: who has raised it first since it was zero, and how.
    first: Option<Raise>,
    steps: VecDeque<(u64, Arc<Clock>)>,
}

/// Sums kept; a wait for an older one takes the oldest.
pub const STEPS: u32 = 256;
/// See [`Handed::room`].
pub const ROOM: usize = 32;
/// Two communicators use one name for two words: nothing is said of sums.
static MIXED: AtomicBool = AtomicBool::new(false);

/// Counts what is handed over, for those who have looked at all of it.
static GIVEN: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Words {
    handed: Table<Word, Handed>,
    /// Far more: each word that was read is one.
    left: Table<Word, Left>,
    /// For the words of a report.
    told: Table<Word, VecDeque<Teller>>,
}

type Shard = Mutex<Option<Words>>;
const SHARDS: usize = 64;
static WORDS: [Shard; SHARDS] = [const { Mutex::new(None) }; SHARDS];

fn shard(word: Word) -> &'static Shard {
    let key = match word {
        Word::At(at) => at >> 3,
        Word::Raised(kind, _, rank, context, id) => (kind + rank) as usize + context as usize + id as usize,
        Word::Job(_) => 0,
    };
    &WORDS[key % SHARDS]
}

/// Whoever sees the word from now on knows all of `clock`.
pub fn give(word: Word, clock: &Clock) {
    if let Some(key) = word.key() {
        return handed::give(key, clock);
    }
    give_to(&mut shard(word).lock(), word, clock);
}

/// Tellers of a word that are kept: the latest.
const TELLERS: usize = 4;

/// Whoever sees the word knows less than `teller`, whose order is too weak.
pub fn tell(word: Word, teller: Teller) {
    if let Some(key) = word.key() {
        return handed::tell(key, &teller);
    }
    let mut words = shard(word).lock();
    let tellers = words.get_or_insert_default().told.entry(word).or_default();
    if tellers.len() == TELLERS {
        tellers.pop_front();
    }
    tellers.push_back(teller);
}

/// `each` of those who have told it so.
pub fn told(word: Word, mut each: impl FnMut(&Teller)) {
    if let Some(key) = word.key() {
        return handed::told(key).iter().for_each(each);
    }
    if let Some(tellers) = shard(word).lock().as_ref().and_then(|words| words.told.get(&word)) {
        tellers.iter().for_each(&mut each);
    }
}

/// All that was ever handed over with it.
pub fn take(word: Word) -> Option<Arc<Clock>> {
    if let Some(key) = word.key() {
        return handed::take(key);
    }
    Some(shard(word).lock().as_ref()?.handed.get(&word)?.all.clone())
}

/// How a signal is raised.
#[derive(Clone, Copy)]
pub struct Raise {
    /// By SignalInc (1) or SignalAdd (2); 0: not told.
    pub how: u32,
    /// The place of the call.
    pub place: u64,
}

/// A signal or counter is going to be raised by `add`, in the order of the calls: any order of arrival is as good. Who has raised it
/// in the other way since it was zero: whoever resets it has awaited that one, and all that know of the reset come behind it.
pub fn raise(word: Word, clock: &Clock, add: u64, by: Raise) -> Option<Raise> {
    if let Some(key) = word.key() {
        return handed::raise(key, clock, add, by);
    }
    let mut words = shard(word).lock();
    let handed = words.get_or_insert_default().handed.entry(word).or_default();
    if handed.steps.is_empty() {
        // Who still finds it as it is knows no more.
        handed.steps.push_back((handed.posted, handed.all.clone()));
    }
    give_to(&mut words, word, clock);
    let handed = words.as_mut()?.handed.get_mut(&word)?;
    handed.posted = handed.posted.wrapping_add(add);
    handed.steps.push_back((handed.posted, handed.all.clone()));
    if handed.steps.len() > STEPS as usize {
        handed.steps.pop_front();
    }
    let first = *handed.first.get_or_insert(by);
    Raise::differ(first, by).then_some(first)
}

impl Raise {
    /// Whether gin.h forbids the two for one signal.
    pub fn differ(one: Raise, other: Raise) -> bool {
        one.how != other.how && one.how != 0 && other.how != 0
    }
}

/// What a signal or counter that has reached `value` is sure to have handed over, of so many bits: whoever waits for one message knows nothing of a
/// second one, though it may have come. All, where the sum is not known.
pub fn take_at(word: Word, value: u64, bits: i32) -> Option<Arc<Clock>> {
    let mask = if (1..64).contains(&bits) { (1 << bits) - 1 } else { u64::MAX };
    if let Some(key) = word.key() {
        return handed::take_at(key, value, mask);
    }
    let words = shard(word).lock();
    let handed = words.as_ref()?.handed.get(&word)?;
    let ahead = handed.posted.wrapping_sub(value) & mask;
    if MIXED.load(Ordering::Relaxed) || ahead > mask / 2 || ahead > handed.posted {
        return Some(handed.all.clone());
    }
    let reached = handed.posted - ahead;
    let step = handed.steps.iter().find(|step| step.0 >= reached);
    Some(step.map_or_else(|| handed.all.clone(), |step| step.1.clone()))
}

/// See [`MIXED`].
pub fn mix() {
    MIXED.store(true, Ordering::Relaxed);
    if job::is_joined() {
        arena::head().mixed.store(1, Ordering::Relaxed);
    }
}

/// See [`mix`].
pub fn is_mixed() -> bool {
    MIXED.load(Ordering::Relaxed) || job::is_joined() && arena::head().mixed.load(Ordering::Relaxed) != 0
}

/// It is zero again; what it handed over stays.
pub fn reset(word: Word) {
    if let Some(key) = word.key() {
        return handed::reset(key);
    }
    if let Some(handed) = shard(word).lock().as_mut().and_then(|words| words.handed.get_mut(&word)) {
        (handed.posted, handed.first) = (0, None);
        handed.steps.clear();
    }
}

/// All of a rank's may be.
pub fn reset_all(rank: i32) {
    if job::is_joined() {
        handed::reset_all(|key| key.of[1] >> 40 == u64::from(rank as u32));
    }
    for shard in &WORDS {
        let mut words = shard.lock();
        let of = |word: &Word| matches!(word, Word::Raised(_, _, owner, _, _) if *owner == rank);
        for (_, handed) in words.iter_mut().flat_map(|words| &mut words.handed).filter(|(word, _)| of(word)) {
            (handed.posted, handed.first) = (0, None);
            handed.steps.clear();
        }
    }
}

fn give_to(words: &mut Option<Words>, word: Word, clock: &Clock) {
    GIVEN.fetch_add(1, Ordering::Relaxed);
    let handed = words.get_or_insert_default().handed.entry(word).or_default();
    let all = Arc::make_mut(&mut handed.all);
    all.join(clock);
    if all.groups() > handed.room.max(ROOM) {
        // Who takes this clock knows all grids that ended by then.
        let ended = all.ended;
        all.retain(|group| !names::is_over(group, ended));
        handed.room = 2 * all.groups();
    }
}

/// The word's lock, until [`unlock`] by the same thread. False: nothing is checked any more.
pub fn lock(word: Word) -> bool {
    if let Some(key) = word.key() {
        return handed::lock(key);
    }
    std::mem::forget(shard(word).lock());
    true
}

/// One access to the word.
pub struct Access<'a> {
    /// The value that was found, if it reads.
    pub found: Option<u64>,
    /// What it hands over.
    pub gives: Option<&'a Clock>,
    /// What it leaves.
    pub leaves: Left,
}

/// What an access is handed over.
#[derive(Default)]
pub struct Taken {
    /// All that was handed over with the word.
    pub clock: Option<Arc<Clock>>,
    /// Somebody who is not watched has written it: host code, a copy.
    pub is_foreign: bool,
}

/// Ends what [`lock`] began. Before others may have the word `then` gets what the access is handed over.
///
/// # Safety
/// The calling thread has locked this word.
pub unsafe fn unlock(word: Word, access: &Access, then: impl FnOnce(&Taken)) -> Taken {
    if let Some(key) = word.key() {
        // SAFETY: the caller's.
        return unsafe { handed::unlock(key, access, then) };
    }
    let shard = shard(word);
    // SAFETY: the lock is held by this thread, whose guard was forgotten.
    let words = unsafe { &mut *shard.data_ptr() };
    let known = words.get_or_insert_default();
    let left = std::mem::replace(known.left.entry(word).or_default(), access.leaves);
    let mut taken = Taken::default();
    if let Some(found) = access.found {
        taken.clock = known.handed.get(&word).map(|handed| handed.all.clone());
        taken.is_foreign = left.is_foreign(found);
    }
    if let Some(clock) = access.gives {
        give_to(words, word, clock);
    }
    then(&taken);
    // SAFETY: as above.
    unsafe { shard.force_unlock() };
    taken
}

/// A volatile store to the word has been made since: this is there.
pub fn settle(word: Word, value: u64) {
    if let Some(key) = word.key() {
        return handed::settle(key, value);
    }
    if let Some(left) = shard(word).lock().as_mut().and_then(|words| words.left.get_mut(&word))
        && *left == Left::Some
    {
        *left = Left::Value(value);
    }
}

/// All that was ever handed over with any word of memory: who has read what the host wrote may know as much as the host. With a signal that nobody
/// has awaited the host has been told nothing; who has awaited one passes it on.
pub fn everything() -> Arc<Clock> {
    static LAST: Mutex<Option<(u64, Arc<Clock>)>> = Mutex::new(None);
    let mut last = LAST.lock();
    let others = if job::is_joined() { arena::head().given.load(Ordering::Relaxed) } else { 0 };
    let given = GIVEN.load(Ordering::Relaxed) + others;
    if let Some((at, all)) = &*last
        && *at == given
    {
        return all.clone();
    }
    let mut all = Clock::default();
    for shard in &WORDS {
        shard
            .lock()
            .iter()
            .flat_map(|words| &words.handed)
            .filter(|(word, _)| matches!(word, Word::At(_)))
            .for_each(|(_, handed)| all.join(&handed.all));
    }
    if job::is_joined() {
        handed::everything(&mut all);
    }
    let all = Arc::new(all);
    *last = Some((given, all.clone()));
    all
}
