//! What kernels ring when they have posted something to libginrs and nobody looks there: an event count.
//!
//! Who posts stores first and then looks whether somebody sleeps; who is about to sleep says so first and then looks at what is posted.
//! With a fence between the two on either side one of them sees the other (models/src/bell.rs). While nobody sleeps a post costs the
//! fence and a load. The descriptor is never closed: who rings late rings nobody else's.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::once::OnceLock;

/// In the word: who sleeps counts on blocks that look, and is to hear when one stops.
const LEANS: u32 = 2;

/// See the module.
pub struct Bell {
    /// The sleeper sets it; who zeroes it rings.
    asleep: AtomicU32,
    /// An eventfd, if somebody has asked for it and there is one.
    descriptor: OnceLock<Option<File>>,
}

impl Bell {
    /// Nobody sleeps.
    pub const fn new() -> Self {
        Self { asleep: AtomicU32::new(0), descriptor: OnceLock::new() }
    }

    /// Something has been posted.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) != 0 && self.asleep.swap(0, Ordering::AcqRel) != 0 {
            self.wake();
        }
    }

    fn is_leant_on(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) == LEANS
    }

    #[cold]
    fn wake(&self) {
        if let Some(Some(mut descriptor)) = self.descriptor.get().map(Option::as_ref) {
            // Full it is only after 2^64 rings.
            let _ = descriptor.write(&1u64.to_ne_bytes());
        }
    }

    /// Which word says that somebody sleeps, and the descriptor that is readable once it has rung; -1 where there can be none.
    pub fn of_library(&self) -> (i32, *mut u32) {
        let descriptor = self.descriptor.get_or_init(|| {
            // SAFETY: no pointers.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            // SAFETY: new, and nobody else's.
            (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
        });
        (descriptor.as_ref().map_or(-1, |descriptor| descriptor.as_raw_fd()), self.asleep.as_ptr())
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

/// What the threads of a block have posted and nobody was woken for.
///
/// A block that waits steps the proxy itself ([`crate::block::Block`]'s rest), so who sleeps is woken only where the block goes on with
/// something else, naps or ends. Woken at each post, it took a core from two blocks that hand a word to and fro on two: 12 us a
/// round trip in place of 1.2 (benches/pingpong.cu).
#[derive(Default)]
pub struct Posts(Cell<bool>);

impl Posts {
    /// The running thread has posted something.
    pub fn note(&self) {
        self.0.set(true);
    }

    /// The block no longer sees to it.
    pub fn ring(&self, bell: &Bell) {
        if self.0.replace(false) || bell.is_leant_on() {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn it_rings_once_for_each_sleep() {
        let bell = Bell::new();
        bell.ring();
        assert!(bell.of_library().0 >= 0);
        let mut descriptor = bell.descriptor.get().unwrap().as_ref().unwrap();
        let mut rung = || descriptor.read(&mut [0; 8]).is_ok();
        bell.ring();
        assert!(!rung(), "nobody sleeps");
        for _ in 0..2 {
            bell.asleep.store(1, Ordering::SeqCst);
            bell.ring();
            bell.ring();
            assert!(rung() && !rung());
        }
        let posts = Posts::default();
        bell.asleep.store(1, Ordering::SeqCst);
        posts.ring(&bell);
        assert!(!rung(), "nothing was posted");
        posts.note();
        posts.note();
        posts.ring(&bell);
        bell.asleep.store(1, Ordering::SeqCst);
        posts.ring(&bell);
        assert!(rung() && !rung(), "once for both");
        bell.asleep.store(LEANS, Ordering::SeqCst);
        posts.ring(&bell);
        posts.ring(&bell);
        assert!(rung() && !rung(), "the block looks no longer");
    }
}
