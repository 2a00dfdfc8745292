//! A race in words: both accesses with their lines, what they touch, and the order that is missing. Found on the small stack of a CUDA
//! thread, told by the block's OS thread: to name a line takes another process.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::{Mutex, ReentrantMutex};

use super::clock::Clock;
use super::lines::{line_and_caller, line_of};
use super::names::{self, Call, Of, PUT, Part};
use super::relaxed::{Weakly, Why};
use super::shadow::{Access, Made};
use super::touched::Place;
use super::wrong::Side;
use super::{collectives, foreign, job, whereabouts};

struct Race {
    at: Place,
    new: Access,
    old: Access,
    /// The older one is a put's, and the younger one comes behind its post for sure.
    follows: bool,
    /// The older one is a put's that has landed on another one's bytes, whose signal the younger one has awaited.
    replaces: bool,
    /// There is an order between the two that is too weak.
    weak: Option<Why>,
}

static WRONG: Mutex<Vec<(u64, Side)>> = Mutex::new(Vec::new());
static FOUND: Mutex<Vec<Race>> = Mutex::new(Vec::new());
/// Each pair of lines is told once.
static KNOWN: Mutex<Option<HashSet<(String, String)>>> = Mutex::new(None);
static SEEN: Mutex<Option<HashSet<(u64, u64)>>> = Mutex::new(None);
static WAITING: AtomicBool = AtomicBool::new(false);
/// The process that has found races.
static OWNER: AtomicU32 = AtomicU32::new(0);
static TOLD: AtomicUsize = AtomicUsize::new(0);
/// A program that races everywhere is told so.
const MOST: usize = 50;
/// The status of a program that raced, as ThreadSanitizer has it.
const STATUS: i32 = 66;

/// Two accesses without order, the younger one by a thread with this clock, which would know more if scopes were wider.
pub fn found(at: Place, new: Access, old: Access, clock: &Clock, weakly: Option<&Weakly>) {
    if super::STOPPED.load(Ordering::Relaxed) {
        return;
    }
    if (collectives::is_one(&new) || collectives::is_one(&old)) && !collectives::are_together(&new, &old) {
        return;
    }
    // A put is one by its line here, whoever made it.
    let key = (new.place, old.place);
    if SEEN.lock().get_or_insert_with(HashSet::new).insert(key) {
        let follows = match names::group(old.group) {
            Of::Puts(part) => clock.knows(old.group + 2 - part as u32, 0, old.epoch),
            Of::Block { .. } => false,
        };
        let replaces = old.over != 0 && clock.knows(old.group, 0, old.over);
        let weak = weakly.and_then(|weakly| weakly.why(&old));
        own();
        FOUND.lock().push(Race { at, new, old, follows, replaces, weak });
        WAITING.store(true, Ordering::Release);
    }
}

/// What is found is this process's.
fn own() {
    let _ = OWNER.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
}

/// The access behind `place` is one of those, each place once.
pub fn wrong_side(place: u64, side: Side) {
    if SEEN.lock().get_or_insert_with(HashSet::new).insert((place, place)) {
        own();
        WRONG.lock().push((place, side));
        WAITING.store(true, Ordering::Release);
    }
}

/// Tells what was found since. Not on a CUDA thread. A child of fork() has neither kernels nor races.
pub fn print() {
    if OWNER.load(Ordering::Relaxed) == std::process::id() && WAITING.load(Ordering::Acquire) {
        tell_all();
    }
}

/// Behind it all is told that was found before, also what another thread was about to tell.
fn tell_all() {
    // Of the thread that has it, too: a signal handler of the program's may end the process in the middle.
    static PRINTING: ReentrantMutex<()> = ReentrantMutex::new(());
    let _one = PRINTING.lock();
    job::look();
    let races = std::mem::take(&mut *FOUND.lock());
    WAITING.store(false, Ordering::Relaxed);
    for race in races.into_iter().filter(|_| super::on()) {
        tell(&race);
    }
    let wrong = std::mem::take(&mut *WRONG.lock());
    for (place, side) in wrong {
        // What is written too late is no less a race.
        if !(matches!(side, Side::Unwritten { .. }) && is_raced(place)) {
            tell_side(place, &side);
        }
    }
}

/// Whether this access is one of a race that was found.
fn is_raced(place: u64) -> bool {
    let is_its = |&(one, other): &(u64, u64)| one != other && (one == place || other == place);
    SEEN.lock().as_ref().is_some_and(|seen| seen.iter().any(is_its))
}

/// What an access is.
enum Kind {
    Thread { block: u32, run: u32, device: i32, thread: u16 },
    Reads,
    Lands,
}

fn kind(access: &Access) -> Kind {
    match names::group(access.group) {
        Of::Block { .. } => {
            let block = names::block(access.group);
            Kind::Thread { block: access.group, run: block.run, device: block.device, thread: access.thread }
        }
        Of::Puts(Part::Land) => Kind::Lands,
        Of::Puts(_) => Kind::Reads,
    }
}

/// "rank 0, block (0,0,0) thread (5,0,0) of kernel k"
pub fn who(group: u32, thread: u16) -> String {
    if !matches!(names::group(group), Of::Block { .. }) {
        return "a put".into();
    }
    let block = names::block(group);
    if block.is_copy() {
        return format!("{} of {}", block.kernel, block.rank);
    }
    format!("{}, block {} thread {} of kernel {}", block.rank, block.index, block.shape.at(u64::from(thread)), block.kernel)
}

/// None where the compiler has made it.
fn line(access: &Access, at: Place) -> Option<String> {
    if access.place & PUT != 0 {
        return Some(names::put(access.place).line);
    }
    let is_hosts = matches!(names::group(access.group), Of::Block { .. }) && names::block(access.group).is_copy();
    if is_hosts {
        return line_of(access.place);
    }
    let line = line_and_caller(access.place)?;
    // A thread-local reference, or the byte that says whether it is made: they lie beside the block's variables.
    let may_be_compilers = line.is_nameless && matches!(at, Place::Shared) && matches!(access.mask.count_ones(), 1 | 8);
    (!may_be_compilers).then_some(line.text)
}

/// In words; None as of [`line`].
pub fn say(access: &Access, place: Place) -> Option<String> {
    Some(describe(access, &line(access, place)?, place))
}

fn describe(access: &Access, line: &str, place: Place) -> String {
    if access.place & PUT != 0 {
        let put = names::put(access.place);
        let who = who(put.group, put.thread);
        let does = match (put.call, place) {
            (Call::Reset, _) => return format!("reset at {line} by {who}"),
            (_, Place::Signal { .. }) => {
                let call = if put.call == Call::Signal { "signal" } else { "put" };
                let how = if access.writes { "SignalAdd" } else { "SignalInc" };
                return format!(
                    "the {call} at {line} raises it by {how} (rank {} to rank {}; posted by {who})",
                    put.from, put.to
                );
            }
            (Call::Signal, _) => {
                return format!("the signal at {line} raises it (rank {} to rank {}; posted by {who})", put.from, put.to);
            }
            (_, Place::Raised { .. }) => "raises it",
            _ if access.writes => "writes its target",
            _ => "reads its source",
        };
        return format!("the put at {line} {does} ({} bytes, rank {} to rank {}; posted by {who})", put.bytes, put.from, put.to);
    }
    let does = match (access.made, access.writes) {
        (Made::Plain | Made::Hinted, true) => "write",
        (Made::Plain | Made::Hinted, false) => "read",
        (Made::Narrow, true) => "atomic write of block scope",
        (Made::Narrow, false) => "atomic read of block scope",
        (_, true) => "atomic write",
        (_, false) => "atomic read",
    };
    format!("{does} at {line} by {}", who(access.group, access.thread))
}

const KERNELS: &str = "the same stream, or an event, between the two kernels";

/// What it is, and what is missing.
fn words(race: &Race) -> (&'static str, &'static str) {
    let Race { new, old, follows, replaces, .. } = race;
    let (later, earlier) = (kind(new), kind(old));
    let writes = new.writes;
    let is_copy =
        |access: &Access| matches!(names::group(access.group), Of::Block { .. }) && names::block(access.group).is_copy();
    const OVERWRITTEN: &str = "a put overwrites what its target may still read";
    const EARLY: (&str, &str) = (
        "the target of a put is read before its signal",
        "wait for the put's signal before reading: waitSignal, in this thread or before a barrier with it",
    );
    const UNSYNCED: &str = "a put is posted before its source is written";
    const COPIED: &str =
        "the same stream, an event, or a synchronisation by the host between the two, and a barrier where they are of two ranks";
    const SYNC: &str = "__syncthreads(), or a put by the whole group, between the writes of other threads and the put";
    match (later, earlier) {
        (Kind::Thread { block, .. }, Kind::Reads) if !follows && block == putter(old) => (UNSYNCED, SYNC),
        (Kind::Thread { device, run, .. }, Kind::Reads) if !follows && !is_copy(new) => (UNSYNCED, order(device, run, old)),
        (Kind::Thread { .. }, Kind::Reads) => (
            "the source of a put is changed before it has been read",
            "flush (or wait for the put's counter, or for an answer to its signal) before you overwrite its source",
        ),
        (Kind::Thread { .. }, Kind::Lands) if !writes && *replaces => (
            OVERWRITTEN,
            "back-pressure: the reader answers with a signal once it has read, and the next put to that place waits for the answer",
        ),
        (Kind::Thread { .. }, Kind::Lands) if !writes => EARLY,
        (Kind::Thread { .. }, Kind::Lands) => {
            ("the target of a put is written while it may land", "wait for the put's signal before writing there")
        }
        (Kind::Lands, Kind::Thread { .. }) if !old.writes && !old.finds => EARLY,
        (Kind::Lands, Kind::Thread { .. }) if !old.writes => (
            OVERWRITTEN,
            "back-pressure: the reader waits for the signal of the put that it reads, and answers with one; the next put to that place waits for the answer",
        ),
        (Kind::Lands, Kind::Thread { .. }) => {
            ("a put lands on what its target writes", "a barrier or a signal of the target after its write, before the put")
        }
        (Kind::Reads, Kind::Thread { block, .. }) if block == putter(new) => (UNSYNCED, SYNC),
        (Kind::Reads, Kind::Thread { .. }) if is_copy(old) => (UNSYNCED, COPIED),
        (Kind::Reads, Kind::Thread { device, run, .. }) => (UNSYNCED, order(device, run, new)),
        (Kind::Reads, _) | (_, Kind::Reads) => (
            "a put lands on what another one may still read",
            "wait for the put's signal before its data are put on; flush before a source is a target",
        ),
        (Kind::Lands, Kind::Lands) => (
            "two puts land on the same bytes",
            "a place for each of them, or an order: the second one waits for an answer to the first one's signal",
        ),
        (Kind::Thread { .. }, Kind::Thread { .. }) if collectives::is_one(new) || collectives::is_one(old) => {
            ("a collective and what runs at the same time have no order", COPIED)
        }
        (Kind::Thread { .. }, Kind::Thread { .. }) if is_copy(new) || is_copy(old) => {
            ("a copy and what runs at the same time have no order", COPIED)
        }
        (Kind::Thread { block, thread, .. }, Kind::Thread { block: b, thread: t, .. }) if block == b && thread / 32 == t / 32 => {
            ("two threads of a warp have no order", "__syncwarp() or __syncthreads() between the two")
        }
        (Kind::Thread { block, .. }, Kind::Thread { block: b, .. }) if block == b => {
            ("two threads of a block have no order", "__syncthreads() between the two")
        }
        (Kind::Thread { device, .. }, Kind::Thread { device: d, .. }) if device != d => (
            "two ranks have no order",
            "an LSA barrier with memory_order_acq_rel (ncclLsaBarrierSession::sync), or a flag of system scope with release and acquire, between the two",
        ),
        (Kind::Thread { run, .. }, Kind::Thread { run: r, .. }) if run == r => (
            "two blocks have no order",
            "a grid sync, or an atomic flag with release (fence) before and acquire behind, between the two",
        ),
        _ => ("two kernels that run at the same time have no order", KERNELS),
    }
}

/// What orders a write by a thread of this grid before a put.
fn order(device: i32, run: u32, put: &Access) -> &'static str {
    let poster = names::block(putter(put));
    if poster.device == device && poster.run != run {
        return KERNELS;
    }
    "order the write before the put: a barrier of both, or a flag with release and acquire"
}

/// Made by a kernel of the program's.
fn is_kernels(access: &Access) -> bool {
    matches!(names::group(access.group), Of::Block { .. })
        && !names::block(access.group).is_copy()
        && !collectives::is_one(access)
}

fn putter(access: &Access) -> u32 {
    names::put(access.place).group
}

fn tell(race: &Race) {
    let (Some(later), Some(earlier)) = (line(&race.new, race.at), line(&race.old, race.at)) else { return };
    let Some(number) = number(later.clone().min(earlier.clone()), later.clone().max(earlier.clone())) else { return };
    let (what, missing) = match race.at {
        Place::Raised { what: 0, .. } => (
            "a signal is reset while it is raised",
            "wait for all that raises it before the reset; who raises it again learns of the reset before (a barrier, a signal)",
        ),
        Place::Raised { .. } => (
            "a counter is reset while it is raised",
            "wait for it, or flush, before the reset; the next put with it comes behind the reset, in that thread or behind a barrier with it",
        ),
        Place::Signal { .. } => (
            "a signal is raised by SignalInc and by SignalAdd, with no reset between the two",
            "one of both for each signal (SignalAdd of 1 is one more, too), or a signal for each; it works here, and GIN forbids it",
        ),
        _ if matches!(race.weak, Some(Why::Scope)) => (
            "the order between two blocks is of block scope",
            "a wider scope: __threadfence() or thread_scope_device for a block of this device, __threadfence_system() or thread_scope_system for another rank",
        ),
        _ if !race.new.is_plain() && !race.old.is_plain() => (
            "atomics of block scope by two blocks",
            "a scope of both: atomicAdd() in place of atomicAdd_block(), thread_scope_device; for another rank atomicAdd_system(), thread_scope_system",
        ),
        _ => words(race),
    };
    let weaker = race.weak.as_ref().and_then(Why::missing);
    let missing = weaker.as_deref().unwrap_or(missing);
    let both = [&race.new, &race.old];
    let is_half = race.new.is_plain() != race.old.is_plain();
    let alternative = match is_half && weaker.is_none() && both.iter().all(|access| is_kernels(access)) {
        true => "; or make the plain access an atomic one, too, where its place in the order does not matter",
        false => "",
    };
    let place = match race.at {
        Place::Shared => "shared memory of the block".into(),
        Place::Signal { number, rank, context } => format!("signal {number} of context {context} of rank {rank}"),
        Place::Raised { what, rank, context } => {
            let reset = if race.new.writes { &race.new } else { &race.old };
            let kind = if what == 0 { "signal" } else { "counter" };
            format!("{kind} {} of context {context} of rank {rank}", names::put(reset.place).bytes)
        }
        Place::There { here, rank } => {
            names::window_at(here, Some(rank)).map_or_else(|| format!("a window of rank {rank}"), |(name, _)| name)
        }
        Place::At(at) => whereabouts::of(at).map_or_else(|| format!("address {at:#x}, in no window"), |(name, _)| name),
    };
    crate::error::report(&format!(
        "race {number}: {what}\n  {}\n  {}\n  where: {place}\n  missing: {missing}{alternative}",
        describe(&race.new, &later, race.at),
        describe(&race.old, &earlier, race.at)
    ));
}

/// The next number, for what was found between two lines; None where it has one, or where there are too many.
fn number(one: String, other: String) -> Option<usize> {
    let is_first = !job::is_joined() || foreign::is_first(&one, &other);
    let new = KNOWN.lock().get_or_insert_with(HashSet::new).insert((one, other)) && is_first;
    let number = if new { TOLD.fetch_add(1, Ordering::Relaxed) + 1 } else { return None };
    (number <= MOST).then_some(number)
}

fn tell_side(place: u64, side: &Side) {
    if let Some(line) = line_of(place)
        && let Some(number) = number(line.clone(), line.clone())
    {
        crate::error::report(&format!("race {number}: {}", side.text(&line)));
    }
}

/// From the start: a rank that ends the process may do so while another one's thread names the lines of the first race.
pub fn tell_at_exit() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.swap(true, Ordering::Relaxed) {
        // SAFETY: a function without arguments.
        unsafe { libc::atexit(end) };
    }
}

/// At the end of the process: the races are its status.
extern "C" fn end() {
    static TOLD_ALL: AtomicBool = AtomicBool::new(false);
    if OWNER.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    if !TOLD_ALL.load(Ordering::Acquire) {
        // Ranks that are threads may call exit() at the same time: who comes second meets a handler, too, in place of the end of the process.
        // SAFETY: a function without arguments.
        unsafe { libc::atexit(end) };
    }
    tell_all();
    TOLD_ALL.store(true, Ordering::Release);
    let races = TOLD.load(Ordering::Relaxed);
    if races == 0 {
        return;
    }
    let more = if races > MOST { format!("; {} are not shown", races - MOST) } else { String::new() };
    crate::error::report(&format!("race: {races} found{more}; the status is {STATUS}"));
    // SAFETY: plain calls; what the program has buffered is written.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(STATUS);
    }
}
