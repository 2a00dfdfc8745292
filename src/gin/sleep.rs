//! How the proxy thread sleeps: until a transport has something to do, a kernel of the CPU device has posted, its communicators change, or a
//! nap is over ([`super::naps`]).
#![forbid(unsafe_code)]

use super::pump::Pump;
use crate::device::PostBell;
use crate::error::{Code, Error, Result};
use crate::sync::system::poll;
use rustix::event::{EventfdFlags, PollFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// So often in a row a sleep may end for nothing; then a descriptor that is always ready costs naps, not a core.
const IN_VAIN: u32 = 64;

/// Ends the sleep of a thread, also one that begins later.
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?))
    }

    pub fn ring(&self) {
        // Only a counter that has not been looked at for 2^64 rings would be full.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn still(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// What ends the sleep of one thread.
pub(super) struct Sleep {
    set: OwnedFd,
    pumps: Vec<Arc<Pump>>,
    in_vain: u32,
    posts: Option<PostBell>,
    /// When a kernel has rung last.
    pub rung: Option<Instant>,
}

impl Sleep {
    /// Ended by `bell`, and by kernels that ring `posts`.
    pub fn new(bell: &Bell, posts: Option<PostBell>) -> Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let sleep = Self { set, pumps: Vec::new(), in_vain: 0, posts, rung: None };
        sleep.add(&bell.0)?;
        sleep.posts.iter().try_for_each(|posts| sleep.add(posts.descriptor))?;
        Ok(sleep)
    }

    fn add(&self, descriptor: impl AsFd) -> Result<()> {
        epoll::add(&self.set, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(failed)
    }

    /// Ended by the transports of `pumps`, too: those it knows, but for some that have gone, and new ones behind them.
    pub fn serve(&mut self, pumps: &[Arc<Pump>]) -> Result<()> {
        let mut kept = 0;
        for old in std::mem::take(&mut self.pumps) {
            if pumps.get(kept).is_some_and(|pump| Arc::ptr_eq(pump, &old)) {
                kept += 1;
            } else {
                for descriptor in old.descriptors() {
                    let _ = epoll::delete(&self.set, descriptor);
                }
            }
        }
        pumps[kept..].iter().flat_map(|pump| pump.descriptors()).try_for_each(|descriptor| self.add(descriptor))?;
        self.pumps = pumps.to_vec();
        Ok(())
    }

    /// From here on who posts rings. What was posted before has to be looked for behind this: the fence is one half of the event count's,
    /// and kernels have the other.
    pub fn begin(&self) {
        if let Some(posts) = &self.posts {
            posts.asleep.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// Nobody need ring.
    pub fn end(&self) {
        self.posts.iter().for_each(|posts| posts.asleep.store(0, Ordering::Relaxed));
    }

    /// Something has moved: the last sleep was not ended in vain.
    pub fn moved(&mut self) {
        self.in_vain = 0;
    }

    /// Sleeps, for `nap` at the longest. True if nothing has ended it before.
    pub fn sleep(&mut self, nap: Duration) -> bool {
        if self.in_vain > IN_VAIN {
            std::thread::sleep(nap.min(Duration::from_millis(1)));
            return false;
        }
        // Not epoll_wait: it counts in milliseconds.
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: nap.subsec_nanos().into() };
        let over = poll(self.set.as_fd(), PollFlags::IN, Some(&nap)) == Ok(false);
        let rung = !over && self.posts.as_ref().is_some_and(|posts| rustix::io::read(posts.descriptor, &mut [0; 8]).is_ok());
        if rung {
            self.rung = Some(Instant::now());
        }
        // A kernel that is launched need not post.
        self.in_vain = if over || rung { 0 } else { self.in_vain + 1 };
        over
    }
}

fn failed(error: rustix::io::Errno) -> Error {
    Error::new(
        Code::SystemError,
        89,
        format!("the proxy thread has nothing to sleep on | eventfd, epoll | {error} | fix: raise `ulimit -n`"),
    )
}
