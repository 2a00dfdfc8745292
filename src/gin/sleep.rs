//! How the proxy thread sleeps: until a transport has something to do, a kernel of the CPU device has posted, its communicators change, or a
//! nap is over ([`super::naps`]). Where blocks of the CPU device look for what transports have, and had it sooner whenever the thread was woken for
//! it, the thread leans on them: it sleeps, and what transports have wakes nobody (docs/results/ofi.md).
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

/// In a row, for something that blocks had sooner: then the thread leans on them.
const SOONER: u32 = 2;
/// How long it does so before it looks again: who stops looking rings, unless that was just before.
const LEAN: Duration = Duration::from_millis(1);
/// So many steps in a row that move something are help: a kernel that posts on and on took up to twice as long without.
const HELP: u32 = 4;

/// Who sleeps has these in the kernels' word: they ring when they post, and also when they stop looking.
const SLEEPS: u32 = 1;
const LEANS: u32 = 2;

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
    /// Bells, those of kernels too.
    bells: OwnedFd,
    /// They, and transports.
    set: OwnedFd,
    pumps: Vec<Arc<Pump>>,
    in_vain: u32,
    /// A transport has ended the last sleep, and there was no step since.
    woken: bool,
    /// So often in a row that step found nothing.
    sooner: u32,
    /// Steps in a row that have moved something.
    run: u32,
    /// Steps of blocks up to the last look at them.
    beside: u64,
    posts: Option<PostBell>,
    /// When a kernel has rung last.
    pub rung: Option<Instant>,
}

impl Sleep {
    /// Ended by `bell`, and by kernels that ring `posts`.
    pub fn new(bell: &Bell, posts: Option<PostBell>) -> Result<Self> {
        let set = || epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed);
        let (bells, set) = (set()?, set()?);
        add(&bells, &bell.0)?;
        posts.iter().try_for_each(|posts| add(&bells, posts.descriptor))?;
        add(&set, &bells)?;
        Ok(Self { bells, set, pumps: Vec::new(), in_vain: 0, woken: false, sooner: 0, run: 0, beside: 0, posts, rung: None })
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
        pumps[kept..].iter().flat_map(|pump| pump.descriptors()).try_for_each(|descriptor| add(&self.set, descriptor))?;
        self.pumps = pumps.to_vec();
        Ok(())
    }

    /// From here on who posts rings. What was posted before has to be looked for behind this: the fence is one half of the event count's,
    /// and kernels have the other.
    pub fn begin(&self) {
        self.begin_as(SLEEPS);
    }

    fn begin_as(&self, how: u32) {
        if let Some(posts) = &self.posts {
            posts.asleep.store(how, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// The same before [`Self::lean`], if blocks have looked since this was asked last, and had sooner what the thread was woken for; else false.
    pub fn begin_to_lean(&mut self) -> bool {
        let steps = self.pumps.iter().map(|pump| pump.beside()).sum();
        let look = std::mem::replace(&mut self.beside, steps) != steps;
        let leans = look && self.posts.is_some() && self.sooner >= SOONER;
        if leans {
            self.begin_as(LEANS);
        }
        leans
    }

    /// Nobody need ring.
    pub fn end(&self) {
        self.posts.iter().for_each(|posts| posts.asleep.store(0, Ordering::Relaxed));
    }

    /// All engines were stepped: something has moved, or nothing.
    pub fn stepped(&mut self, moved: bool) {
        if std::mem::take(&mut self.woken) {
            self.sooner = if moved { 0 } else { self.sooner.saturating_add(1) };
        }
        self.run = if moved { self.run.saturating_add(1) } else { 0 };
        if moved {
            self.in_vain = 0;
        }
        if self.run >= HELP {
            self.sooner = 0;
        }
    }

    /// Sleeps, for `nap` at the longest. True if nothing has ended it before.
    pub fn sleep(&mut self, nap: Duration) -> bool {
        if self.in_vain > IN_VAIN {
            std::thread::sleep(nap.min(Duration::from_millis(1)));
            return false;
        }
        let over = wait(&self.set, nap);
        let rung = !over && self.heard();
        // A kernel that is launched need not post.
        self.woken = !over && !rung;
        self.in_vain = if self.woken { self.in_vain + 1 } else { 0 };
        over
    }

    /// Sleeps until somebody rings, for [`LEAN`] at the longest. True if nobody has.
    pub fn lean(&mut self) -> bool {
        let over = wait(&self.bells, LEAN);
        if !over {
            self.sooner = 0;
            self.heard();
        }
        over
    }

    /// True if a kernel has rung.
    fn heard(&mut self) -> bool {
        let rung = self.posts.as_ref().is_some_and(|posts| rustix::io::read(posts.descriptor, &mut [0; 8]).is_ok());
        if rung {
            self.rung = Some(Instant::now());
        }
        rung
    }
}

fn add(set: &OwnedFd, descriptor: impl AsFd) -> Result<()> {
    epoll::add(set, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(failed)
}

/// True if nothing of `set` has come within `nap`. Not by epoll_wait: it counts in milliseconds.
fn wait(set: &OwnedFd, nap: Duration) -> bool {
    let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: nap.subsec_nanos().into() };
    poll(set.as_fd(), PollFlags::IN, Some(&nap)) == Ok(false)
}

fn failed(error: rustix::io::Errno) -> Error {
    Error::new(
        Code::SystemError,
        89,
        format!("the proxy thread has nothing to sleep on | eventfd, epoll | {error} | fix: raise `ulimit -n`"),
    )
}
