//! A put is a thread of its own: it reads its source from the call on until a flush or its counter, and writes its target until the
//! signal that covers it is seen. The puts of one rank to one peer on a context are one queue: a signal covers all before it.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::device::is_forked;

use super::clock::Group;
use super::names::{self, Call, Of, Part, Put};
use super::relaxed::{By, Teller};
use super::shadow::{self, Access};
use super::touched::Place;
use super::windows::{self, Memory};
use super::words::Raise;
use super::{Worker, family, known, raised, report, words, worker};

/// `ginrsCpuRacePut`
#[repr(C)]
pub struct Posted {
    file: *const c_char,
    line: i32,
    rank: i32,
    peer: i32,
    context: u32,
    comm: usize,
    source: *const c_void,
    target: *const c_void,
    window: u64,
    offset: u64,
    bytes: u64,
    signal: i64,
    counter: i64,
    add: u64,
}

struct Queue {
    /// The first of three groups, as [`Part`] has them.
    first: Group,
    posted: u32,
}

/// By communicator, rank, context and peer.
type Queues = HashMap<(u64, i32, u32, i32), Queue>;
static QUEUES: Mutex<Option<Queues>> = Mutex::new(None);

/// A counter says that the source of its own put has been read, and nothing of earlier ones: reads are those of so many threads in turn. Of two puts of
/// one thread the later one's counter is taken for both.
const LANES: u32 = 16;

/// `GINRS_CPU_RACE_ADD`
const ADD: u32 = 2;
const SIGNAL: i32 = 0;
const COUNTER: i32 = 1;

/// Communicators as kernels know them, and as all their ranks do.
static COMMS: RwLock<Vec<(usize, u64)>> = RwLock::new(Vec::new());

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_comm(table: usize, name: u64) {
    if is_forked() {
        return; // a thread of the parent may have held the lock
    }
    let mut comms = COMMS.write();
    comms.retain(|comm| comm.0 != table);
    comms.push((table, name));
}

fn name_of(table: usize) -> u64 {
    COMMS.read().iter().find(|comm| comm.0 == table).map_or(table as u64, |comm| comm.1)
}

/// See race.h.
///
/// # Safety
/// `put` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_put(put: *const Posted) {
    // SAFETY: the caller's.
    if let (Some(worker), Some(put)) = (worker(), unsafe { put.as_ref() }) {
        worker.post(put);
    }
}

/// "file:line", of what the compiler gives.
fn line(file: *const c_char, line: i32) -> String {
    let file = match file.is_null() {
        true => "?".into(),
        // SAFETY: the compiler's name of a file.
        false => unsafe { std::ffi::CStr::from_ptr(file) }.to_string_lossy(),
    };
    format!("{file}:{line}")
}

impl Worker {
    fn post(&mut self, put: &Posted) {
        let comm = name_of(put.comm);
        let [from, to] = [put.rank, put.peer].map(|rank| family::rank_in_job(comm, rank));
        names::set_rank(self.device(), from);
        let mut queues = QUEUES.lock();
        let queue = queues.get_or_insert_with(HashMap::new).entry((comm, put.rank, put.context, put.peer)).or_insert_with(|| {
            Queue { first: names::new_groups(&[Part::Read, Part::Land, Part::Posted].map(Of::Puts)), posted: 0 }
        });
        queue.posted += 1;
        let ([reads, lands, posts], epoch) = ([0, 1, 2].map(|part| queue.first + part), queue.posted);
        drop(queues);
        let lane = (epoch % LANES) as u16;
        Arc::make_mut(&mut self.actor().clock).learn_all(posts, epoch);
        let is_relaxed = std::mem::take(&mut self.actor().is_relaxed);
        if !is_relaxed {
            self.settle(self.current);
        }
        let mut clock = self.release();
        let raises = put.signal >= 0 || put.counter >= 0;
        let place = if put.bytes > 0 || raises {
            self.tell();
            let call = if put.bytes == 0 { Call::Signal } else { Call::Put };
            names::place_of(Put {
                call,
                line: line(put.file, put.line),
                from,
                to,
                group: self.group,
                thread: self.current,
                bytes: put.bytes,
            })
        } else {
            0
        };
        if put.bytes > 0 {
            let here = |at: usize| (at != 0).then_some(Memory::At(at));
            let target = here(put.target.addr()).or_else(|| windows::landing(comm, [put.rank, put.peer], put.window, put.offset));
            for (memory, group, thread, writes) in [(here(put.source.addr()), reads, lane, false), (target, lands, 0, true)] {
                let access = Access { group, thread, epoch, writes, place, ..shadow::NOTHING };
                for (page, first, bytes, name) in memory.into_iter().flat_map(|it| it.pages(put.bytes as usize, put.peer)) {
                    shadow::note(&page, first, bytes, access, &clock, |at, old| {
                        report::found(name.behind(at - first), access, old, &clock, None)
                    });
                }
            }
        }
        // Done when the source is free: who waits for less than that is told of no reset.
        let raise = Access { group: reads, thread: lane, epoch, run: self.run, place, ..shadow::NOTHING };
        if let Ok(id) = u32::try_from(put.counter) {
            raised::note([COUNTER as u32, put.rank as u32, put.context, id], comm, raise, &clock);
            let mut read = clock.clone();
            read.learn(reads, lane, epoch);
            words::raise(words::of(COUNTER, comm, put.rank, put.context, id), &read, 1, Raise { how: 0, place });
        }
        if let Ok(signal) = u64::try_from(put.signal) {
            let (id, how, number) = (signal as u32, (signal >> 32) as u32 & 3, (signal >> 34) as u32);
            raised::note([SIGNAL as u32, put.peer as u32, put.context, id], comm, raise, &clock);
            let word = words::of(SIGNAL, comm, put.peer, put.context, id);
            if is_relaxed {
                self.tell_loosely(word, Teller::of(Arc::new(clock), 0));
                clock = self.actor().fenced.as_deref().cloned().unwrap_or_default();
            }
            clock.learn_all(reads, epoch);
            clock.learn_all(lands, epoch);
            if let Some(other) = words::raise(word, &clock, put.add, Raise { how, place })
                && !words::is_mixed()
            {
                let at = Place::Signal { number, rank: to as u32, context: put.context };
                let old = Access { place: other.place, writes: other.how == ADD, ..raise };
                report::found(at, Access { writes: how == ADD, ..raise }, old, &clock, None);
            }
        }
    }
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_seen(kind: i32, comm: usize, rank: i32, context: u32, id: u32, value: u64, bits: i32) {
    let word = words::of(kind, name_of(comm), rank, context, id);
    let Some(worker) = worker() else { return };
    // Programs with older headers tell no value of a counter: 0 of 64 bits, which are 0 bits today.
    let is_told = kind == SIGNAL || value != 0 || bits != 64;
    let seen = if is_told { words::take_at(word, value, bits) } else { words::take(word) };
    if std::mem::take(&mut worker.actor().is_relaxed) {
        return worker.sees(word, seen, By::Wait);
    }
    worker.sees(word, None, By::Wait);
    if let Some(clock) = seen {
        worker.learn(&clock);
    }
    worker.settle(worker.current);
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_relaxed() {
    if let Some(worker) = worker() {
        worker.actor().is_relaxed = true;
    }
}

/// `ginrsCpuRaceReset`
#[repr(C)]
pub struct Reset {
    file: *const c_char,
    line: i32,
    kind: i32,
    rank: i32,
    context: u32,
    id: u32,
    number: u32,
    comm: usize,
}

/// See race.h.
///
/// # Safety
/// `reset` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_reset(reset: *const Reset) {
    // SAFETY: the caller's.
    let Some(&Reset { file, line, kind, rank, context, id, number, comm }) = (unsafe { reset.as_ref() }) else { return };
    let comm = name_of(comm);
    if let Some(worker) = worker() {
        worker.tell();
        let of = family::rank_in_job(comm, rank);
        let (group, thread, line) = (worker.group, worker.current, self::line(file, line));
        let place = names::place_of(Put { call: Call::Reset, line, from: of, to: of, group, thread, bytes: number.into() });
        let actor = &worker.actors[usize::from(thread)];
        let reset = Access { group, thread, epoch: actor.epoch, run: worker.run, writes: true, place, ..shadow::NOTHING };
        raised::note([kind as u32, rank as u32, context, id], comm, reset, &actor.clock);
    }
    words::reset(words::of(kind, comm, rank, context, id));
}

/// Contexts by communicator, rank and number: a second one means that a signal's name may stand for two words.
static CONTEXTS: Mutex<Option<Contexts>> = Mutex::new(None);
type Contexts = HashMap<(u64, i32, u32), usize>;

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_context(comm: usize, rank: i32, context: u32, handle: usize) {
    if worker().is_none() {
        return;
    }
    let name = (name_of(comm), rank, context);
    if *CONTEXTS.lock().get_or_insert_default().entry(name).or_insert(handle) != handle {
        words::mix();
    }
}

/// See race.h.
#[unsafe(no_mangle)]
pub extern "C" fn ginrs_cpu_race_flushed(comm: usize, rank: i32, context: u32) {
    let Some(worker) = worker() else { return };
    let (queues, comm) = (QUEUES.lock(), name_of(comm));
    let of = |key: &(u64, i32, u32, i32)| (key.0, key.1, key.2) == (comm, rank, context);
    let clock = Arc::make_mut(&mut worker.actors[worker.current as usize].clock);
    for queue in queues.iter().flatten().filter(|(key, _)| of(key)).map(|(_, queue)| queue) {
        clock.learn_all(queue.first, queue.posted);
    }
}

/// All that `rank` has posted has been done: the library has waited for it, and its signals may be another's.
pub fn settle(rank: i32) {
    let queues = QUEUES.lock();
    known::change(|settled| {
        for queue in queues.iter().flatten().filter(|(key, _)| key.1 == rank).map(|(_, queue)| queue) {
            settled.learn_all(queue.first, queue.posted);
            settled.learn_all(queue.first + 1, queue.posted);
        }
    });
    words::reset_all(rank);
}
