//! Threads that call the host program: host functions may block, so none runs on a thread that others need.

use std::cell::Cell;
use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::error::report;

/// A call of the host program, and what follows it.
type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    idle: usize,
}

static QUEUE: Mutex<Option<Queue>> = Mutex::new(None);
static WAKE: Condvar = Condvar::new();

thread_local! {
    static IS_PROGRAMS: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call of the host program's function.
pub fn call(function: impl FnOnce()) {
    IS_PROGRAMS.set(true);
    function();
    IS_PROGRAMS.set(false);
}

/// Whether the calling thread is in one of those.
pub fn is_in_call() -> bool {
    IS_PROGRAMS.get()
}

/// Does `job`, soon, on a thread of its own.
pub fn submit(job: Job) {
    let mut guard = QUEUE.lock();
    let queue = guard.get_or_insert_with(Queue::default);
    queue.waiting.push_back(job);
    if queue.idle >= queue.waiting.len() {
        WAKE.notify_one();
        return;
    }
    let spawned = std::thread::Builder::new().name("ginrs host fn".into()).spawn(serve);
    if let Err(error) = spawned {
        report(&format!("no thread for a host function, it runs on the submitting one: {error}"));
        let job = queue.waiting.pop_back();
        drop(guard);
        if let Some(job) = job {
            job();
        }
    }
}

fn serve() {
    crate::worker::block_signals();
    let mut guard = QUEUE.lock();
    loop {
        let queue = guard.get_or_insert_with(Queue::default);
        if let Some(job) = queue.waiting.pop_front() {
            drop(guard);
            job();
            guard = QUEUE.lock();
        } else {
            queue.idle += 1;
            WAKE.wait(&mut guard);
            if let Some(queue) = guard.as_mut() {
                queue.idle -= 1;
            }
        }
    }
}
