//! The baton: exactly one of the process's threads runs, and at each call that this library stands in front of the next one is chosen.
//!
//! A thread that waits does so here, whatever it waits for: it is written down, and is ready when another thread's call says so or when
//! virtual time has come to its deadline. So who is ready is known under the baton alone, and a seed makes the same choices each time.

use crate::choose::{At, Chooser};
use crate::next;
use crate::state::{NEVER, NOBODY, On, Run, STEP, State, What};
use crate::trace;
use libc::{c_int, c_long, c_void, pollfd};
use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The number of a thread that has ended, whose last destructors may still call.
const ENDED: usize = usize::MAX;

static ON: AtomicBool = AtomicBool::new(false);
static LOCKED: AtomicBool = AtomicBool::new(false);
static HOLDER: AtomicUsize = AtomicUsize::new(NOBODY);
/// A thread that has just given the baton away for ever.
static DYING: AtomicI32 = AtomicI32::new(0);
static KEY: AtomicU32 = AtomicU32::new(0);

struct Cellar(UnsafeCell<Option<State>>);
// SAFETY: it is taken under LOCKED alone.
unsafe impl Sync for Cellar {}
static STATE: Cellar = Cellar(UnsafeCell::new(None));

thread_local! {
    static ME: Cell<usize> = const { Cell::new(NOBODY) };
    /// In this library: what it calls itself, and what a signal's handler calls meanwhile, goes to the system.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The state, taken.
pub struct Held(());

impl Held {
    /// Takes it. The caller is inside.
    pub fn take() -> Held {
        while LOCKED.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // SAFETY: takes nothing.
            unsafe { next::sched_yield() };
        }
        Held(())
    }
}

impl Deref for Held {
    type Target = State;
    fn deref(&self) -> &State {
        // SAFETY: under the lock; `begin` has made it before ON was set.
        unsafe { (*STATE.0.get()).as_ref().unwrap_unchecked() }
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above.
        unsafe { (*STATE.0.get()).as_mut().unwrap_unchecked() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HOLDER.store(self.current, Ordering::Relaxed);
        trace::choices(self.chooser.choices, self.chooser.hash);
        LOCKED.store(false, Ordering::Release);
    }
}

/// The calling thread is inside until this is dropped; its errno stays.
pub struct Inside(c_int);

impl Inside {
    /// None if it is already.
    pub fn enter() -> Option<Inside> {
        // SAFETY: the calling thread's own.
        (!INSIDE.replace(true)).then(|| Inside(unsafe { *libc::__errno_location() }))
    }

    /// For ever: a thread of this library.
    pub fn stay() {
        INSIDE.set(true);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
        INSIDE.set(false);
    }
}

/// From here on the calling thread keeps the baton, and is the system's (true), until it calls again. False: nothing has changed.
pub fn alone(begins: bool) -> bool {
    if begins {
        let Some(turn) = turn() else { return false };
        Held::take().alone = turn.me;
        std::mem::forget(turn);
    } else {
        Held::take().alone = NOBODY;
        INSIDE.set(false);
    }
    true
}

/// Whether threads take turns.
pub fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// The calling thread, which has the baton.
pub struct Turn {
    /// Its number.
    pub me: usize,
    _inside: Inside,
}

/// Of the calling thread, once it has the baton; None where the call is the system's affair.
pub fn turn() -> Option<Turn> {
    if !is_on() {
        return None;
    }
    let me = ME.get();
    if me == ENDED {
        return None;
    }
    let turn = Turn { me, _inside: Inside::enter()? };
    if me == NOBODY {
        let me = adopt();
        return Some(Turn { me, ..turn });
    }
    if HOLDER.load(Ordering::Relaxed) != me {
        come_back(me);
    }
    Some(turn)
}

/// A thread that no pthread_create of the program has made.
fn adopt() -> usize {
    let mut state = Held::take();
    trace::inexact("a thread was made by other means than pthread_create");
    let me = state.join(Run::Ready);
    ME.set(me);
    begins(&mut state, me);
    queue(state, me);
    me
}

/// A thread that ran without the baton.
fn come_back(me: usize) {
    let mut state = Held::take();
    if state.current == me {
        return;
    }
    if state.threads[me].run == Run::Outside {
        state.threads[me].run = Run::Ready;
        queue(state, me);
    } else {
        drop(state);
        await_go(me);
    }
}

/// `me` is ready, and takes the baton if nobody has it.
fn queue(mut state: Held, me: usize) {
    if state.current == NOBODY {
        state.current = me;
        return;
    }
    drop(state);
    await_go(me);
}

fn futex(word: &AtomicU32, operation: c_int, value: u32) {
    let at = std::ptr::from_ref(word) as c_long;
    // SAFETY: a word that is never freed; no deadline.
    unsafe { next::syscall(libc::SYS_futex, at, (operation | libc::FUTEX_PRIVATE_FLAG).into(), value.into(), 0, 0, 0) };
}

/// Sleeps until somebody has given the baton to `me`.
fn await_go(me: usize) {
    let go = Held::take().threads[me].go;
    while go.swap(0, Ordering::Acquire) == 0 {
        futex(go, libc::FUTEX_WAIT, 0);
    }
    await_exit(DYING.swap(0, Ordering::Relaxed));
}

/// Waits until the thread of this number is gone: at its end it gives memory back, without the baton. On a busy machine that takes as long as
/// until it gets a core; one that a debugger has stopped there is not waited for.
fn await_exit(tid: i32) {
    const LONGEST: Duration = Duration::from_secs(2);
    // SAFETY: takes numbers; no signal is sent. The process's first thread stays for as long as others do.
    let is_there =
        || unsafe { tid != 0 && tid != libc::getpid() && libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) == 0 };
    let mut begin = None;
    while is_there() {
        // The system's clock: this thread is inside.
        if begin.get_or_insert_with(Instant::now).elapsed() > LONGEST {
            return;
        }
        // SAFETY: takes nothing.
        unsafe { next::sched_yield() };
    }
}

/// Wakes who has been chosen.
pub fn give(state: &State, to: usize) {
    let go = state.threads[to].go;
    go.store(1, Ordering::Release);
    futex(go, libc::FUTEX_WAKE, 1);
}

impl Turn {
    /// A point where another thread may go on.
    pub fn point(&self, at: At) {
        self.hand_over(Held::take(), at);
    }

    /// Waits; false if the deadline has passed.
    pub fn wait(&self, on: On, deadline: u64) -> bool {
        let mut state = Held::take();
        state.wait(self.me, on, deadline);
        self.hand_over(state, At::Wait);
        !Held::take().threads[self.me].late
    }

    /// Waits until one of these is ready, or the deadline has passed.
    pub fn wait_for_files(&self, files: Vec<pollfd>, deadline: u64) {
        let mut state = Held::take();
        state.wait_for_files(self.me, files, deadline);
        self.hand_over(state, At::Wait);
    }

    /// Lets up to `most` that wait for it go on; how many.
    pub fn wake(&self, on: On, most: usize) -> usize {
        Held::take().wake(on, most)
    }

    /// Waits until virtual time `deadline`.
    pub fn sleep_until(&self, deadline: u64) {
        self.wait(On::new(What::Time, 0), deadline);
    }

    /// Virtual nanoseconds.
    pub fn now(&self) -> u64 {
        Held::take().now
    }

    /// Of these, as many as have passed in its turns.
    pub fn time_of_own(&self) -> u64 {
        Held::take().threads[self.me].turns * STEP
    }

    /// `look` again and again until it finds something, for as long as until `deadline`.
    pub fn look<T>(&self, deadline: u64, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        const FIRST: u64 = 20_000;
        const LAST: u64 = 1_000_000;
        let mut nap = FIRST;
        loop {
            if let Some(found) = look() {
                self.point(At::Step);
                return Some(found);
            }
            let now = self.now();
            if now >= deadline {
                self.point(At::Poll);
                return None;
            }
            self.sleep_until(deadline.min(now + nap));
            nap = (2 * nap).min(LAST);
        }
    }

    fn hand_over(&self, mut state: Held, at: At) {
        let to = state.pass(self.me, at);
        if to == self.me {
            return;
        }
        if to != NOBODY {
            give(&state, to);
        }
        drop(state);
        await_go(self.me);
    }
}

/// The calling thread runs as number `me`.
fn begins(state: &mut State, me: usize) {
    // SAFETY: no arguments but a key of ours and a count; both are of the calling thread.
    unsafe {
        state.threads[me].tid = libc::gettid();
        state.threads[me].handle = libc::pthread_self() as usize;
        libc::pthread_setspecific(KEY.load(Ordering::Relaxed), std::ptr::without_provenance(1));
    }
}

/// The first call of a thread that the caller's process has made as number `me`.
pub fn first_turn(me: usize) {
    let inside = Inside::enter();
    ME.set(me);
    begins(&mut Held::take(), me);
    await_go(me);
    drop(inside);
}

/// Destructors of a thread's data run in four rounds; behind the last one the thread gives the baton away.
extern "C" fn ends(round: *mut c_void) {
    let round = round.addr();
    let me = ME.get();
    if round < 4 {
        // SAFETY: as in `begins`.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), std::ptr::without_provenance(round + 1)) };
        return;
    }
    if !is_on() || me == ENDED || me == NOBODY {
        return;
    }
    let Some(Turn { .. }) = turn() else { return };
    Inside::stay();
    let mut state = Held::take();
    state.threads[me].run = Run::Gone;
    state.wake(On::new(What::Thread, me), usize::MAX);
    DYING.store(state.threads[me].tid, Ordering::Relaxed);
    let to = state.pass(me, At::Wait);
    if to != NOBODY {
        give(&state, to);
    }
    drop(state);
    ME.set(ENDED);
    INSIDE.set(false);
}

/// In a child of fork() there is one thread, and this library is of no use.
extern "C" fn forked() {
    ON.store(false, Ordering::Release);
}

/// From here on threads take turns, as `seed` has it; the calling one goes on.
pub fn begin(seed: u64, until: u64) {
    let Some(inside) = Inside::enter() else { return };
    let mut key = 0;
    // SAFETY: functions of ours, and a number to be written.
    let made =
        unsafe { libc::pthread_key_create(&mut key, Some(ends)) == 0 && libc::pthread_atfork(None, None, Some(forked)) == 0 };
    if is_on() || !made {
        return;
    }
    KEY.store(key, Ordering::Relaxed);
    next::find_all();
    trace::begin();
    let mut state = State::new(Chooser::new(seed, until), crate::files::are_ready);
    let me = state.join(Run::Ready);
    state.current = me;
    begins(&mut state, me);
    // SAFETY: nobody else looks at it before ON is set.
    unsafe { *STATE.0.get() = Some(state) };
    ME.set(me);
    HOLDER.store(me, Ordering::Relaxed);
    ON.store(true, Ordering::Release);
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        trace::inexact("threads had begun before libginrs_cpu was loaded");
    }
    crate::watchdog::start();
    drop(inside);
}

/// Who there is besides the calling thread: the system's numbers of threads that have not ended, in the order in which they were made.
pub fn others() -> Vec<i32> {
    let Some(turn) = turn() else { return Vec::new() };
    let state = Held::take();
    let others = state.threads.iter().enumerate().filter(|(number, other)| *number != turn.me && other.run != Run::Gone);
    others.map(|(_, other)| other.tid).filter(|tid| *tid != 0).collect()
}

/// The thread of that number stands still for so many virtual nanoseconds, as if the system gave it no core. Whether it is there.
pub fn hold(tid: i32, length: u64) -> bool {
    let Some(_turn) = turn() else { return false };
    let mut state = Held::take();
    let until = state.now.saturating_add(length);
    let thread = state.threads.iter_mut().find(|thread| thread.tid == tid && thread.run != Run::Gone);
    thread.map(|thread| thread.held = until).is_some()
}

/// A thread that waits for other threads alone, without a deadline: how many turns it has had, and where in memory what it waits for
/// lies; 0 where that is the end of a thread, or nothing. For libginrs's proof of a hang.
pub fn parked(tid: i32) -> Option<(u64, usize)> {
    let _turn = turn()?;
    let state = Held::take();
    let thread = state.threads.iter().find(|thread| thread.tid == tid && thread.run != Run::Gone)?;
    match thread.run {
        Run::Waits(On { what: What::Files, .. }, ..) => None,
        Run::Waits(On { what: What::Thread | What::Time, .. }, NEVER, _) => Some((thread.turns, 0)),
        Run::Waits(on, NEVER, _) => Some((thread.turns, on.at)),
        _ => None,
    }
}
