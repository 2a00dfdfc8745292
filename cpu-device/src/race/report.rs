//! A race in words: both accesses with their lines, what they touch, and the order that is missing. Found on the small stack of a CUDA
//! thread, told by the block's OS thread: to name a line takes binutils' addr2line.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::clock::Clock;
use super::names::{self, Call, Of, PUT, Part};
use super::shadow::Access;
use super::{foreign, job};

/// What was touched.
#[derive(Clone, Copy)]
pub enum Place {
    /// An address that all threads share.
    At(usize),
    /// Shared memory of a block.
    Shared,
    /// A signal (0) or counter (1).
    Raised {
        /// Which of both.
        what: u32,
        /// Of whom.
        rank: u32,
        /// Of which context.
        context: u32,
    },
}

struct Race {
    at: Place,
    new: Access,
    old: Access,
    /// The older one is a put's, and the younger one comes behind its post for sure.
    follows: bool,
    /// There is an order between the two, of too narrow a scope.
    is_narrow: bool,
}

/// A pointer that is not for whoever uses it.
pub enum Side {
    /// Memory of a device, by a host thread.
    Host {
        /// Else it reads.
        writes: bool,
        /// What the memory is.
        what: String,
    },
    /// A host thread's stack, by a kernel.
    Kernel {
        /// Else it reads.
        writes: bool,
        /// The address.
        at: usize,
        /// Its block.
        group: u32,
        /// Its thread.
        thread: u16,
    },
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
pub fn found(at: Place, new: Access, old: Access, clock: &Clock, narrowly: Option<&Clock>) {
    if super::STOPPED.load(Ordering::Relaxed) {
        return;
    }
    // A put is one by its line here, whoever made it.
    let key = (new.place, old.place);
    if SEEN.lock().get_or_insert_with(HashSet::new).insert(key) {
        let follows = match names::group(old.group) {
            Of::Puts(part) => clock.knows(old.group + 2 - part as u32, 0, old.epoch),
            Of::Block { .. } => false,
        };
        let is_narrow = narrowly.is_some_and(|clock| clock.knows(old.group, old.thread, old.epoch));
        own();
        FOUND.lock().push(Race { at, new, old, follows, is_narrow });
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
    let owner = OWNER.load(Ordering::Relaxed);
    if owner != 0 && owner != std::process::id() || !WAITING.load(Ordering::Acquire) {
        return;
    }
    static PRINTING: Mutex<()> = Mutex::new(());
    let _one = PRINTING.lock();
    job::look();
    let races = std::mem::take(&mut *FOUND.lock());
    WAITING.store(false, Ordering::Relaxed);
    for race in races.into_iter().filter(|_| super::on()) {
        tell(&race);
    }
    let wrong = std::mem::take(&mut *WRONG.lock());
    for (place, side) in wrong {
        tell_side(place, &side);
    }
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
fn who(group: u32, thread: u16) -> String {
    if !matches!(names::group(group), Of::Block { .. }) {
        return "a put".into();
    }
    let block = names::block(group);
    format!("{}, block {} thread {} of kernel {}", block.rank, block.index, block.shape.at(u64::from(thread)), block.kernel)
}

fn line(access: &Access) -> Option<String> {
    if access.place & PUT != 0 { Some(names::put(access.place).line) } else { line_of(access.place) }
}

fn describe(access: &Access, line: &str, place: Place) -> String {
    if access.place & PUT != 0 {
        let put = names::put(access.place);
        let who = who(put.group, put.thread);
        let does = match (put.call, place) {
            (Call::Reset, _) => return format!("reset at {line} by {who}"),
            (Call::Signal, _) => {
                return format!("the signal at {line} raises it (rank {} to rank {}; posted by {who})", put.from, put.to);
            }
            (_, Place::Raised { .. }) => "raises it",
            _ if access.writes => "writes its target",
            _ => "reads its source",
        };
        return format!("the put at {line} {does} ({} bytes, rank {} to rank {}; posted by {who})", put.bytes, put.from, put.to);
    }
    let does = if access.writes { "write" } else { "read" };
    format!("{does} at {line} by {}", who(access.group, access.thread))
}

/// What it is, and what is missing.
fn words(new: &Access, old: &Access, follows: bool) -> (&'static str, &'static str) {
    let (later, earlier) = (kind(new), kind(old));
    let writes = new.writes;
    const UNSYNCED: &str = "a put is posted before its source is written";
    const SYNC: &str = "__syncthreads(), or a put by the whole group, between the writes of other threads and the put";
    match (later, earlier) {
        (Kind::Thread { block, .. }, Kind::Reads) if !follows && block == putter(old) => (UNSYNCED, SYNC),
        (Kind::Thread { .. }, Kind::Reads) => (
            "the source of a put is changed before it has been read",
            "flush (or wait for the put's counter, or for an answer to its signal) before you overwrite its source",
        ),
        (Kind::Thread { .. }, Kind::Lands) if !writes => (
            "the target of a put is read before its signal",
            "wait for the put's signal before reading: waitSignal, in this thread or before a barrier with it",
        ),
        (Kind::Thread { .. }, Kind::Lands) => {
            ("the target of a put is written while it may land", "wait for the put's signal before writing there")
        }
        (Kind::Lands, Kind::Thread { .. }) if !old.writes => (
            "a put overwrites what its target may still read",
            "the reader waits for the signal of the put that it reads, and answers with one; the next put to that place waits for the answer",
        ),
        (Kind::Lands, Kind::Thread { .. }) => {
            ("a put lands on what its target writes", "a barrier or a signal of the target after its write, before the put")
        }
        (Kind::Reads, Kind::Thread { block, .. }) if block == putter(new) => (UNSYNCED, SYNC),
        (Kind::Reads, Kind::Thread { .. }) => {
            (UNSYNCED, "order the write before the put: a barrier of both, or a flag with release and acquire")
        }
        (Kind::Reads, _) | (_, Kind::Reads) => (
            "a put lands on what another one may still read",
            "wait for the put's signal before its data are put on; flush before a source is a target",
        ),
        (Kind::Lands, Kind::Lands) => {
            ("two puts land on the same bytes", "order them: the second one waits for an answer to the first one's signal")
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
        _ => ("two kernels that run at the same time have no order", "the same stream, or an event, between the two kernels"),
    }
}

fn putter(access: &Access) -> u32 {
    names::put(access.place).group
}

fn tell(race: &Race) {
    let (Some(later), Some(earlier)) = (line(&race.new), line(&race.old)) else { return };
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
        _ if race.is_narrow => (
            "the order between two blocks is of block scope",
            "a wider scope: __threadfence() or thread_scope_device for a block of this device, __threadfence_system() or thread_scope_system for another rank",
        ),
        _ => words(&race.new, &race.old, race.follows),
    };
    let place = match race.at {
        Place::Shared => "shared memory of the block".into(),
        Place::Raised { what, rank, context } => {
            let reset = if race.new.writes { &race.new } else { &race.old };
            let kind = if what == 0 { "signal" } else { "counter" };
            format!("{kind} {} of context {context} of rank {rank}", names::put(reset.place).bytes)
        }
        Place::At(at) => names::window_at(at).unwrap_or_else(|| format!("address {at:#x}, in no window")),
    };
    crate::error::report(&format!(
        "race {number}: {what}\n  {}\n  {}\n  where: {place}\n  missing: {missing}",
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
    let Some(line) = line_of(place) else { return };
    let Some(number) = number(line.clone(), line.clone()) else { return };
    let does = |writes: bool| if writes { "written" } else { "read" };
    crate::error::report(&match side {
        Side::Host { writes, what } => format!(
            "race {number}: a device pointer is used on the host at {line}: {what}, {} there by a host thread\n  \
             fix: copy it with cudaMemcpy, or use cudaMallocManaged or cudaMallocHost",
            does(*writes)
        ),
        Side::Kernel { writes, at, group, thread } => format!(
            "race {number}: a host pointer is used in a kernel at {line}: {at:#x} is on the stack of a host thread, {} there by {}\n  \
             fix: pass it by value, or copy it to memory of cudaMalloc, or use cudaMallocManaged",
            does(*writes),
            who(*group, *thread)
        ),
    });
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
    print();
    if OWNER.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
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

/// The user's line of an address behind a call in compiled code; its module and offset where there is no better. Nothing: the compiler
/// made it, for thread-local references of its OS thread (file-scope dynamic shared memory, `__constant__`), which all CUDA threads may make.
fn line_of(place: u64) -> Option<String> {
    /// As long as so many objects have been unloaded: then others may come to their addresses.
    type Lines = (u64, BTreeMap<u64, Option<String>>);
    static LINES: Mutex<Lines> = Mutex::new((0, BTreeMap::new()));
    let unloaded = unloaded();
    {
        let mut lines = LINES.lock();
        if lines.0 != unloaded {
            *lines = (unloaded, BTreeMap::new());
        }
        if let Some(line) = lines.1.get(&place) {
            return line.clone();
        }
    }
    let line = ask(place).unwrap_or_else(|| Some(format!("code at {place:#x} (no addr2line, no -g, or unloaded since)")));
    LINES.lock().1.insert(place, line.clone());
    line
}

/// How many objects the loader has unloaded.
fn unloaded() -> u64 {
    unsafe extern "C" fn see(object: *mut libc::dl_phdr_info, _: usize, out: *mut libc::c_void) -> i32 {
        // SAFETY: the loader's record, and our number.
        unsafe { *out.cast::<u64>() = (*object).dlpi_subs };
        1
    }
    let mut subs = 0u64;
    // SAFETY: `see` gets the number, for the time of the call.
    unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut subs).cast()) };
    subs
}

/// Folders of headers that are not the user's.
const HEADERS: [&str; 6] = ["/nccl_device/", "/ginrs_device/", "/ginrs_cpu/", "/lib/ginrs/", "/usr/include/", "/usr/lib/"];

fn ask(place: u64) -> Option<Option<String>> {
    let (module, offset) = match job::is_foreign(place) {
        true => foreign::site(place).map(|(module, offset)| (module.into(), offset))?,
        false => module_of(place as usize)?,
    };
    let output = Command::new("addr2line")
        .args(["-f", "-i", "-e"])
        .arg(module)
        // The call, not what comes after it.
        .arg(format!("{:#x}", offset - 1))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // From the innermost function that was inlined to the one that it stands in, each with a line of its name before it.
    let functions: Vec<&str> = text.lines().step_by(2).collect();
    if functions.contains(&"__tls_init") || is_nameless(&functions) {
        return Some(None);
    }
    let lines = || {
        text.lines().skip(1).step_by(2).map(|line| line.split(" (").next().unwrap_or(line)).filter(|line| !line.starts_with("??"))
    };
    let users = lines().find(|line| !HEADERS.iter().any(|folder| line.contains(folder)) && !line.ends_with(":?"));
    let line = users.or_else(|| lines().next())?;
    // As the program was compiled, mostly from here.
    let here = std::env::current_dir().ok().map(|folder| format!("{}/", folder.display()));
    Some(Some(here.and_then(|here| line.strip_prefix(&here)).unwrap_or(line).to_owned()))
}

/// Whether the innermost function has no name, as what the compiler makes and inlines: then it is given that of the code it stands in,
/// which comes last. A kernel's is a lambda's, by its symbol alone.
fn is_nameless(functions: &[&str]) -> bool {
    let &[first, .., last] = functions else { return false };
    first == last && first.starts_with("_Z") || last == "operator()" && first.starts_with("_ZZ") && first.contains("clE")
}

/// The file that an address was loaded from, and its offset in there.
pub fn module_of(at: usize) -> Option<(OsString, usize)> {
    struct Query {
        at: usize,
        found: Option<(OsString, usize)>,
    }
    unsafe extern "C" fn see(object: *mut libc::dl_phdr_info, _: usize, query: *mut libc::c_void) -> i32 {
        // SAFETY: the loader's record, and our query.
        unsafe {
            let (object, query) = (&*object, &mut *query.cast::<Query>());
            for i in 0..usize::from(object.dlpi_phnum) {
                let header = &*object.dlpi_phdr.add(i);
                let begin = object.dlpi_addr as usize + header.p_vaddr as usize;
                if header.p_type == libc::PT_LOAD && query.at.wrapping_sub(begin) < header.p_memsz as usize {
                    let name = CStr::from_ptr(object.dlpi_name).to_bytes();
                    let name = if name.is_empty() { b"/proc/self/exe".as_slice() } else { name };
                    query.found = Some((OsString::from_vec(name.to_vec()), query.at - object.dlpi_addr as usize));
                    return 1;
                }
            }
        }
        0
    }
    let mut query = Query { at, found: None };
    // SAFETY: `see` gets the query, for the time of the call.
    unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut query).cast()) };
    let (name, offset) = query.found?;
    let name = if name == "/proc/self/exe" { std::fs::read_link(&name).ok()?.into_os_string() } else { name };
    Some((name, offset))
}

#[cfg(test)]
mod tests {
    use super::is_nameless;

    #[test]
    fn what_the_compiler_inlines_has_no_name() {
        let lambda = "_ZZ15quantiseAndSend11ncclDevCommENUlvE_clEv";
        assert!(is_nameless(&[lambda, "operator()"]) && is_nameless(&["_Z3devv", "_Z3devv"]));
        assert!(!is_nameless(&["operator()"]) && !is_nameless(&["_Z3sumPVii", "operator()"]) && !is_nameless(&["_Z3devv"]));
    }
}
