//! What is not seen: a thread with the baton that sleeps in a call of the system, or computes without end. Another one goes on then, and the
//! replay is no longer exact, which is said.

use crate::baton::{Held, Inside, give, is_on};
use crate::choose::At;
use crate::next;
use crate::state::{NOBODY, Run};
use crate::trace;
use libc::c_void;
use std::io::Write;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// So often it is found asleep before another one goes on.
const ASLEEP: u32 = 3;
/// So long it may compute.
const COMPUTES: Duration = Duration::from_secs(3);
/// So long nobody can go on before that is told.
const STUCK: Duration = Duration::from_secs(1);

/// Starts it. A process that can have no more threads goes without.
pub fn start() {
    // SAFETY: signals are the program's threads' affair; the mask is put back. The thread takes nothing.
    unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let mut thread = 0;
        if next::pthread_create(&mut thread, std::ptr::null(), run, std::ptr::null_mut()) == 0 {
            libc::pthread_detach(thread);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
    }
}

fn nap(length: Duration) {
    let length = libc::timespec { tv_sec: 0, tv_nsec: length.as_nanos() as i64 };
    // SAFETY: a length of less than a second.
    unsafe { next::nanosleep(&length, std::ptr::null_mut()) };
}

extern "C-unwind" fn run(_: *mut c_void) -> *mut c_void {
    Inside::stay();
    // SAFETY: a name of the calling thread, which ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"ginrs baton".as_ptr()) };
    let (mut steps, mut since, mut asleep, mut told) = (0, now(), 0, false);
    while is_on() {
        nap(LOOK);
        let mut state = Held::take();
        if state.steps != steps {
            (steps, since, asleep, told) = (state.steps, now(), 0, false);
            continue;
        }
        if state.current == NOBODY {
            if state.has_outsiders() || state.has_files() {
                state.now += LOOK.as_nanos() as u64;
                let to = state.pass(NOBODY, At::Wait);
                if to != NOBODY {
                    give(&state, to);
                }
            } else if now() - since > STUCK && !told {
                told = true;
                tell(
                    &state
                        .threads
                        .iter()
                        .enumerate()
                        .filter_map(|(number, thread)| match thread.run {
                            Run::Waits(on, ..) => {
                                Some(format!("thread {number} ({}) for a {:?}", name(thread.tid), on.what).to_lowercase())
                            }
                            _ => None,
                        })
                        .collect::<Vec<_>>()
                        .join(", "),
                );
            }
            continue;
        }
        let me = state.current;
        let tid = state.threads[me].tid;
        asleep = if tid != 0 && state.alone != me && is_asleep(tid) { asleep + 1 } else { 0 };
        if asleep >= ASLEEP || now() - since > COMPUTES {
            let what =
                if asleep >= ASLEEP { "was in a call of the system that lasts" } else { "computed for seconds without a call" };
            trace::inexact(&format!("thread {me} ({}) {what}", name(tid)));
            state.threads[me].run = Run::Outside;
            let to = state.pass(NOBODY, At::Wait);
            if to != NOBODY {
                give(&state, to);
            }
            (steps, since, asleep) = (state.steps, now(), 0);
        }
    }
    std::ptr::null_mut()
}

/// The system's clock: this thread is inside.
fn now() -> Instant {
    Instant::now()
}

fn name(tid: i32) -> String {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).map_or_else(|_| "?".into(), |name| name.trim_end().to_owned())
}

/// Without the allocator: where this thread comes to it first, others get other addresses behind it.
fn is_asleep(tid: i32) -> bool {
    let (mut path, mut stat) = ([0u8; 64], [0u8; 256]);
    if write!(&mut path[..63], "/proc/self/task/{tid}/stat").is_err() {
        return false;
    }
    // SAFETY: a path that ends with a zero, a buffer of so many bytes, and a descriptor of our own.
    let length = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::read(file, stat.as_mut_ptr().cast(), stat.len());
        libc::close(file);
        length
    };
    let stat = &stat[..usize::try_from(length).unwrap_or(0)];
    let name_end = stat.iter().rposition(|byte| *byte == b')');
    name_end.is_some_and(|at| stat.get(at + 2) == Some(&b'S'))
}

fn tell(waits: &str) {
    let line = format!("ginrs-baton: no thread of the program can go on: {waits}\n");
    // SAFETY: bytes that are there.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}
