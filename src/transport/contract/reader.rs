//! A thread that reads the target's memory while a test writes it. Faulty transports wait for it with
//! [`be_read`], so that it reads each state that they leave, whatever else the machine does.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Number of scans of a reader that has returned or panicked.
const OVER: u64 = u64::MAX;

thread_local!(static SCANS: RefCell<Arc<AtomicU64>> = RefCell::new(Arc::new(AtomicU64::new(OVER))));

pub struct Reader {
    thread: JoinHandle<()>,
}

struct Over(Arc<AtomicU64>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(OVER, Ordering::Release);
    }
}

impl Reader {
    /// Starts a thread that calls `scan` until it returns false. Returns after the first call.
    pub fn start(mut scan: impl FnMut() -> bool + Send + 'static) -> Self {
        let scans = Arc::new(AtomicU64::new(0));
        SCANS.set(scans.clone());
        let thread = std::thread::spawn(move || {
            let over = Over(scans);
            while scan() {
                over.0.fetch_add(1, Ordering::AcqRel);
                std::thread::yield_now();
            }
        });
        wait_for_scans(1);
        Self { thread }
    }

    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Joins the thread, with its panic.
    pub fn join(self) {
        self.thread.join().unwrap();
    }
}

fn wait_for_scans(more: u64) {
    let scans = SCANS.with_borrow(Arc::clone);
    let end = scans.load(Ordering::Acquire).saturating_add(more);
    while scans.load(Ordering::Acquire) < end {
        std::thread::yield_now();
    }
}

/// Waits until the last reader that this thread has started has scanned the memory as it is at the
/// call, or has returned.
pub fn be_read() {
    wait_for_scans(2);
}
