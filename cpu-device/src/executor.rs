//! Threads that call the host program: host functions may block, so none runs on a thread that others need.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::error::report;
use crate::task::{Task, Work, call_host, complete};

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Arc<Task>, Work)>,
    idle: usize,
}

static QUEUE: Mutex<Option<Queue>> = Mutex::new(None);
static WAKE: Condvar = Condvar::new();

/// Calls the host program for `task`, soon, on a thread of its own.
pub fn submit(task: Arc<Task>, work: Work) {
    let mut guard = QUEUE.lock();
    let queue = guard.get_or_insert_with(Queue::default);
    queue.waiting.push_back((task, work));
    if queue.idle >= queue.waiting.len() {
        WAKE.notify_one();
        return;
    }
    let spawned = std::thread::Builder::new().name("ginrs host fn".into()).spawn(serve);
    if let Err(error) = spawned {
        report(&format!("no thread for a host function, it runs on the submitting one: {error}"));
        let item = queue.waiting.pop_back();
        drop(guard);
        if let Some((task, work)) = item {
            call_host(&task, &work);
            complete(task);
        }
    }
}

fn serve() {
    crate::pool::block_signals();
    let mut guard = QUEUE.lock();
    loop {
        let queue = guard.get_or_insert_with(Queue::default);
        if let Some((task, work)) = queue.waiting.pop_front() {
            drop(guard);
            call_host(&task, &work);
            complete(task);
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
