//! A piece of work on a device, and what must be over before it: the nodes of the graph that streams and events draw.

use crate::once::OnceLock;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::device::Device;
use crate::error::{Code, report};
use crate::grid::Grid;
use crate::launch::Launch;
use crate::race::{self, Called, Rows};
use crate::tsan;

/// What a task does. Memory is given as addresses; who submits the work vouches for them until it is over.
#[allow(missing_docs, reason = "the fields are those of the cuda* functions")]
#[derive(Clone)]
pub enum Work {
    /// Nothing: a point in the order.
    Point,
    /// Runs a kernel.
    Kernel(Arc<Launch>),
    /// Moves `height` rows of `width` bytes.
    Copy { to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, called: Called },
    /// Fills `height` rows of `width` bytes.
    Fill { to: usize, pitch: usize, value: u8, width: usize, height: usize, called: Called },
    /// Calls the host program (`cudaLaunchHostFunc`).
    Host { call: unsafe extern "C" fn(*mut c_void), data: usize },
    /// Calls the host program with the stream and its status (`cudaStreamAddCallback`).
    Callback { call: unsafe extern "C" fn(*mut c_void, i32, *mut c_void), stream: usize, data: usize },
    /// Frees memory (`cudaFreeAsync`).
    Free(usize),
}

impl Work {
    /// Calls a function of the program's.
    fn is_hosts(&self) -> bool {
        matches!(self, Work::Host { .. } | Work::Callback { .. })
    }
}

#[derive(Default)]
struct Progress {
    done: bool,
    successors: Vec<Arc<Task>>,
}

/// One piece of work.
pub struct Task {
    device: &'static Device,
    work: Mutex<Option<Work>>,
    /// Tasks that must be over first, and one until the submission is complete.
    pending: AtomicUsize,
    progress: Mutex<Progress>,
    over: Condvar,
    done: AtomicBool,
    done_at: OnceLock<Instant>,
}

impl Task {
    /// Work that begins once [`Task::submit`] was called and all tasks given to [`Task::after`] are over.
    pub fn new(device: &'static Device, work: Work) -> Arc<Task> {
        if matches!(work, Work::Kernel(_)) {
            device.kernel_launched();
        } else if work.is_hosts() {
            race::host_function(true);
        }
        Arc::new(Task {
            device,
            work: Mutex::new(Some(work)),
            pending: AtomicUsize::new(1),
            progress: Mutex::default(),
            over: Condvar::new(),
            done: AtomicBool::new(false),
            done_at: OnceLock::new(),
        })
    }

    /// Waits for `before` to be over.
    pub fn after(self: &Arc<Self>, before: &Arc<Task>) {
        let mut progress = before.progress.lock();
        if !progress.done {
            self.pending.fetch_add(1, Ordering::Relaxed);
            progress.successors.push(self.clone());
        }
    }

    /// All of its predecessors are known: it may begin.
    pub fn submit(self: Arc<Self>) {
        tsan::release(&*self);
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            begin(self);
        }
    }

    /// Whether it is over.
    pub fn is_done(&self) -> bool {
        let done = self.done.load(Ordering::Acquire);
        if done {
            tsan::acquire(self);
        }
        done
    }

    /// When it was over.
    pub fn done_at(&self) -> Option<Instant> {
        self.done_at.get().copied()
    }

    /// Blocks the calling thread until it is over.
    pub fn wait(&self) {
        let mut progress = self.progress.lock();
        while !progress.done {
            self.over.wait(&mut progress);
        }
        tsan::acquire(self);
    }
}

/// A kernel's last block, or a host function, is over: its task is, and what waited for it begins.
fn complete(task: Arc<Task>) {
    run(over(&task));
}

fn begin(task: Arc<Task>) {
    run(vec![task]);
}

/// Does the work of tasks whose predecessors are over, and of those that become so: a loop, for chains may be long.
fn run(mut ready: Vec<Arc<Task>>) {
    while let Some(task) = ready.pop() {
        tsan::acquire(&*task);
        let work = task.work.lock().take().expect("a task begins once");
        let device = task.device;
        let healthy = device.healthy().is_ok();
        match work {
            Work::Kernel(launch) if healthy => {
                crate::signals::take();
                crate::fault::follow_reports();
                let touched = launch.touched.as_ref().map_or(0, |touched| race::collectives::begin(device.id, touched));
                let ended = move || {
                    race::collectives::end(touched);
                    complete(task);
                };
                crate::pool::of(device).submit(device, Grid::new(launch, device, ended));
                continue;
            }
            Work::Kernel(_) => device.kernel_ended(),
            _ if work.is_hosts() => {
                crate::executor::submit(Box::new(move || {
                    tsan::acquire(&*task);
                    crate::executor::call(|| call_host(&task, &work));
                    race::host_function(false);
                    complete(task);
                }));
                continue;
            }
            // SAFETY: whoever submitted them vouched for the ranges until they are over (the contract of cudaMemcpyAsync).
            _ if healthy => unsafe { transfer(device.id, &work) },
            Work::Copy { called, .. } => called.done(),
            _ => {}
        }
        ready.append(&mut over(&task));
    }
}

/// Marks it over; which tasks may begin now.
fn over(task: &Task) -> Vec<Arc<Task>> {
    let _ = task.done_at.set(Instant::now());
    // A kernel's last block knows of it what its threads do not.
    tsan::acquire(task);
    tsan::release(task);
    let mut progress = task.progress.lock();
    progress.done = true;
    task.done.store(true, Ordering::Release);
    task.over.notify_all();
    let mut successors = std::mem::take(&mut progress.successors);
    drop(progress);
    successors.iter().for_each(|next| tsan::release(&**next));
    successors.retain(|next| next.pending.fetch_sub(1, Ordering::AcqRel) == 1);
    successors.reverse(); // `run` takes from the end: in the order of submission
    successors
}

/// Calls the host program. On a thread of the executor.
fn call_host(task: &Task, work: &Work) {
    match *work {
        // SAFETY: the program gave function and argument together.
        Work::Host { call, data } => unsafe {
            // CUDA skips host functions once the device has failed; a callback learns of it.
            if task.device.healthy().is_ok() {
                call(data as *mut c_void);
            }
        },
        // SAFETY: as above.
        Work::Callback { call, stream, data } => unsafe {
            let status = task.device.healthy().err().unwrap_or(Code::SUCCESS);
            call(stream as *mut c_void, status.0, data as *mut c_void);
        },
        _ => report("internal error: work for the host that is none"),
    }
}

/// # Safety
/// The ranges of a copy, fill or free are valid.
unsafe fn transfer(device: i32, work: &Work) {
    match *work {
        Work::Copy { to, to_pitch, from, from_pitch, width, height, called } => {
            // memmove by libc: kernels of other streams may use the memory at the same time, which Rust's copy forbids.
            let row = |i: usize, bytes: usize| {
                // SAFETY: the caller's.
                unsafe {
                    libc::memmove((to + i * to_pitch) as *mut c_void, (from + i * from_pitch) as *const c_void, bytes);
                }
            };
            let source = Rows { at: from, pitch: from_pitch, width, height, writes: false };
            let target = Rows { at: to, pitch: to_pitch, width, height, writes: true };
            race::copy(device, called, &[source, target], || {
                if to_pitch == width && from_pitch == width {
                    row(0, width * height);
                } else {
                    (0..height).for_each(|i| row(i, width));
                }
            });
        }
        Work::Fill { to, pitch, value, width, height, called } => {
            race::copy(device, called, &[Rows { at: to, pitch, width, height, writes: true }], || {
                for i in 0..height {
                    // SAFETY: the caller's.
                    unsafe { libc::memset((to + i * pitch) as *mut c_void, i32::from(value), width) };
                }
            });
        }
        Work::Free(address) => {
            let _ = crate::memory::free(address, false);
        }
        _ => {}
    }
}
