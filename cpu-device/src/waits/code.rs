//! Code of a block's own that lasts: it computes, or looks at memory until another rank writes it. Which of both nobody can tell, but whose it is,
//! and where. Told to who asks, and nothing is judged by it.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{BOARDS, CODE, Seen, Wait};
use crate::baton;
use crate::launch::{Dim3, Launch};

/// So many turns and so long without a wait until it is told; a choice.
const OFTEN: u32 = 16;
const LONG: Duration = Duration::from_millis(500);

/// Whether that is long ago. Where clocks are virtual next to no time passes in code that runs.
pub(super) fn is_long(since: Instant) -> bool {
    since.elapsed() >= LONG || baton::is_there()
}

/// A block that runs.
#[derive(Clone)]
pub struct Running {
    /// Its kernel.
    pub launch: Arc<Launch>,
    /// blockIdx.
    pub block: Dim3,
    /// Its device.
    pub device: i32,
}

/// What a block thread's block does besides waiting.
#[derive(Default)]
pub struct Code {
    running: Mutex<Option<(Running, Instant)>>,
    /// Turns that threads have used up since, and behind which address the last one's code goes on.
    turns: AtomicU32,
    behind: AtomicUsize,
}

/// What lasts.
pub struct Lasting {
    /// Whose it is.
    pub running: Running,
    behind: usize,
    /// The block's begin, or its last wait.
    pub since: Instant,
}

impl Code {
    /// A block begins.
    pub fn begin(&self, running: Running) {
        *self.running.lock() = Some((running, Instant::now()));
        self.turns.store(0, Ordering::Relaxed);
        self.behind.store(0, Ordering::Relaxed);
    }

    /// It is over.
    pub fn end(&self) {
        *self.running.lock() = None;
    }

    /// One of its waits is.
    pub fn waited(&self) {
        if let Some((_, since)) = &mut *self.running.lock() {
            *since = Instant::now();
        }
        self.turns.store(0, Ordering::Relaxed);
    }

    /// A thread has used up its turn in code behind that address; 0 where that is not known.
    #[inline]
    pub fn took_a_turn(&self, behind: usize) {
        // By the block's thread alone; not an increment, which costs more.
        self.turns.store(self.turns.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        if behind != 0 {
            self.behind.store(behind, Ordering::Relaxed);
        }
    }

    /// What the block does, if it lasts.
    pub fn lasting(&self) -> Option<Lasting> {
        let (running, since) = self.running.lock().clone()?;
        let lasts = self.turns.load(Ordering::Relaxed) >= OFTEN && is_long(since);
        lasts.then(|| Lasting { running, behind: self.behind.load(Ordering::Relaxed), since })
    }
}

/// Shows what lasts and is no wait: words that threads read over and over; and, when nothing is held up any more, code of blocks that read none, if their
/// kernels are not the library's `own`.
pub fn each_lasting(mut see: impl FnMut(&Seen), own: impl Fn(&Launch) -> bool, see_code: impl FnMut(Lasting)) {
    let boards = BOARDS.lock().clone();
    let mut all = Vec::new();
    for board in boards {
        let mut reads = 0;
        board.polls.each(&mut |read| {
            reads += 1;
            see(read);
        });
        all.extend(board.code.lasting().filter(|code| reads == 0 && !own(&code.running.launch)));
    }
    all.into_iter().for_each(see_code);
}

impl Lasting {
    /// On a device of the context's number.
    pub fn seen(&self, name: &CStr, place: Option<(&CStr, i32)>) -> Seen {
        let Running { block, device, .. } = self.running;
        let seen = Seen::of(None, Wait { note: CODE, ..Wait::default() }, 0, (block, Dim3::default()), self.since);
        Seen { context: device as u32, ..seen }.called(name, 0, place)
    }

    /// The address behind a call of its code, as far as that is known.
    pub fn behind(&self) -> Option<usize> {
        Some(self.behind).filter(|behind| *behind != 0)
    }
}
