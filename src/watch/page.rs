//! A rank's status page: its last words. The rank writes, everybody else reads, also after the rank's process has died.
//!
//! Order: texts are stored before the state that announces them is released, so whoever reads the state finds them whole.
//! The step is a sequence lock: odd while it is written.

use super::shown::Shown;
use crate::bootstrap::CALLED;
use crate::error::{Code, Error, Result};
use crate::sync::Mutex;
use crate::text::printable;
use crate::{bail, error_wire, fault};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// Size of a page in bytes.
const BYTES: usize = 12288;
const MAGIC: u32 = u32::from_le_bytes(*b"GINW");
const VERSION: u32 = 7;
const STEP: usize = 64;
/// For what its kernels wait for, in bytes.
pub const WAITS: usize = 2048;
/// For what it has raised, in bytes.
pub const SUMS: usize = 2048;
/// Windows of which is said that they are gone: those of the numbers below.
pub const GONE: usize = 1024;

#[repr(C)]
struct Layout {
    magic: AtomicU32,
    version: AtomicU32,
    state: AtomicU32,
    error_bytes: AtomicU32,
    step_seq: AtomicU32,
    step_bytes: AtomicU32,
    step: [AtomicU8; STEP],
    waits_seq: AtomicU32,
    waits_bytes: AtomicU32,
    waits: [AtomicU8; WAITS],
    /// Of its last stillness: which look, and what was seen. 0: something can go on.
    still_look: AtomicU64,
    still_print: AtomicU64,
    /// Nothing of it runs any more.
    over: AtomicU32,
    error: [AtomicU8; error_wire::MAX_BYTES],
    moves: AtomicU64,
    quiescent: AtomicU32,
    sums_seq: AtomicU32,
    sums_bytes: AtomicU32,
    sums: [AtomicU8; SUMS],
    gone: [AtomicU8; GONE],
    called_seq: AtomicU32,
    called_bytes: AtomicU32,
    called: [AtomicU8; CALLED],
    shown: Shown,
}

const _: () = assert!(size_of::<Layout>() <= BYTES);

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Membership {
    /// Its communicator is being made.
    Joining,
    /// All is well.
    Alive,
    /// Its end is no failure.
    Leaving,
    /// It failed, and of what.
    Aborted(Error),
}

const JOINING: u32 = 0;
const ALIVE: u32 = 1;
const LEAVING: u32 = 2;
const ABORTED: u32 = 3;

/// A mapped page, our own or another rank's.
pub struct Page {
    at: NonNull<Layout>,
    /// One thread at a time says what was raised: the watch's, and who leaves.
    sums: Mutex<()>,
}

// SAFETY: the page is only touched through atomics, and stays mapped until drop.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// A page of our own, and the descriptor that others map. Nobody can shrink it, and others cannot write it.
    pub fn create() -> Result<(Page, OwnedFd)> {
        let made = (|| {
            fault::step("memfd")?;
            let fd = memfd_create("ginrs-status", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&fd, BYTES as u64)?;
            let page = Page::map(&fd, ProtFlags::READ | ProtFlags::WRITE)?;
            let size = SealFlags::SHRINK | SealFlags::GROW;
            // FUTURE_WRITE needs Linux 5.1: without it a peer could write its own copy of our last words, which is not worth failing for.
            let _ = fcntl_add_seals(&fd, SealFlags::FUTURE_WRITE);
            fcntl_add_seals(&fd, size | SealFlags::SEAL)?;
            Ok::<_, rustix::io::Errno>((page, fd))
        })();
        let (page, fd) = match made {
            Ok(made) => made,
            Err(e) => {
                bail!(
                    SystemError,
                    24,
                    "no status page | memfd of {BYTES} bytes, pid {} | {e} | fix: raise ulimit -n",
                    std::process::id()
                )
            }
        };
        page.layout().magic.store(MAGIC, Ordering::Relaxed);
        page.layout().version.store(VERSION, Ordering::Release);
        Ok((page, fd))
    }

    /// Another rank's page. Refused unless it can never shrink under our reads.
    pub fn open(fd: &OwnedFd) -> Result<Page> {
        let opened = (|| {
            let sealed = fcntl_get_seals(fd)?.contains(SealFlags::SHRINK);
            let whole = fstat(fd)?.st_size >= BYTES as i64;
            if sealed && whole { Page::map(fd, ProtFlags::READ) } else { Err(rustix::io::Errno::PERM) }
        })();
        let page = match opened {
            Ok(page) => page,
            Err(e) => {
                bail!(RemoteError, 18, "a peer's status page cannot be read | {e} | fix: load the same libginrs on every rank")
            }
        };
        let layout = page.layout();
        if (layout.version.load(Ordering::Acquire), layout.magic.load(Ordering::Relaxed)) != (VERSION, MAGIC) {
            bail!(RemoteError, 18, "a peer's status page has another layout | fix: load the same libginrs on every rank");
        }
        Ok(page)
    }

    fn map(fd: &OwnedFd, access: ProtFlags) -> rustix::io::Result<Page> {
        fault::step("mapping")?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let at = unsafe { mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, fd.as_fd(), 0) }?;
        NonNull::new(at.cast()).map(|at| Page { at, sums: Mutex::default() }).ok_or(rustix::io::Errno::NOMEM)
    }

    fn layout(&self) -> &Layout {
        // SAFETY: mapped until drop, page-aligned, large enough (sealed against shrinking), and all fields are atomics that are
        // valid for any bytes.
        unsafe { self.at.as_ref() }
    }

    /// Everything was set up.
    pub fn alive(&self) {
        self.step_to(ALIVE);
    }

    /// This rank's end is no failure, unless it has failed already. True the first time.
    pub fn leaving(&self) -> bool {
        self.step_to(LEAVING)
    }

    /// Only onwards, and nothing follows an end. In one exchange, however often others step in between.
    fn step_to(&self, to: u32) -> bool {
        let onwards = |now| (now < to && now < LEAVING).then_some(to);
        self.layout().state.fetch_update(Ordering::AcqRel, Ordering::Acquire, onwards).is_ok()
    }

    /// The failure, for those who find this rank dead later. The first one stays; called by one thread (Abort raises once).
    pub fn aborted(&self, cause: &Error) {
        let page = self.layout();
        if page.state.load(Ordering::Acquire) >= LEAVING {
            return;
        }
        page.error_bytes.store(store(&page.error, &error_wire::encode(cause)), Ordering::Relaxed);
        self.step_to(ABORTED);
    }

    /// This rank is about to abort, and nothing was under way on it. Told before the abort is.
    pub fn quiescent(&self) {
        self.layout().quiescent.store(1, Ordering::Release);
    }

    /// True if nothing was under way on the rank when it aborted.
    pub fn was_quiescent(&self) -> bool {
        self.layout().quiescent.load(Ordering::Acquire) != 0
    }

    /// What the rank does now, at most 64 bytes. One writer at a time.
    pub fn set_step(&self, step: &str) {
        let page = self.layout();
        write(&page.step_seq, &page.step_bytes, &page.step, step);
    }

    /// What the rank did last; None if it died while it wrote that.
    pub fn step(&self) -> Option<String> {
        let page = self.layout();
        read(&page.step_seq, &page.step_bytes, &page.step).map(|text| printable(&text, STEP))
    }

    /// What its kernels wait for (`told`). One writer.
    pub fn set_waits(&self, waits: &str) {
        let page = self.layout();
        if page.waits_bytes.load(Ordering::Relaxed) != 0 || !waits.is_empty() {
            write(&page.waits_seq, &page.waits_bytes, &page.waits, waits);
        }
    }

    /// What its kernels waited for at the last look there.
    pub fn waits(&self) -> Option<String> {
        let page = self.layout();
        read(&page.waits_seq, &page.waits_bytes, &page.waits)
    }

    /// What its proxy has raised (`counts`).
    pub fn set_sums(&self, sums: &str) {
        let page = self.layout();
        let _one = self.sums.lock();
        write(&page.sums_seq, &page.sums_bytes, &page.sums, sums);
    }

    /// What its proxy had raised at the last look there, or when it left.
    pub fn sums(&self) -> Option<String> {
        let page = self.layout();
        read(&page.sums_seq, &page.sums_bytes, &page.sums)
    }

    /// What it has called (`calls`), before it leaves. Several threads of a rank that ends may come here; all say the same.
    pub fn set_called(&self, called: &str) {
        let page = self.layout();
        let _one = self.sums.lock();
        write(&page.called_seq, &page.called_bytes, &page.called, called);
    }

    /// Its latest collectives.
    pub fn shown(&self) -> &Shown {
        &self.layout().shown
    }

    /// What it had called when it left.
    pub fn called(&self) -> Option<String> {
        let page = self.layout();
        read(&page.called_seq, &page.called_bytes, &page.called)
    }

    /// Nothing here can go on by itself: which look has found that (never 0), and what it saw. None: something can, or nobody looked.
    /// One writer.
    pub fn set_still(&self, still: Option<(u64, u64)>) {
        let page = self.layout();
        let (look, print) = still.unwrap_or((0, 0));
        // The number comes last, and goes first: who finds it before and behind the print has both.
        if page.still_look.load(Ordering::Relaxed) != look {
            page.still_look.store(0, Ordering::SeqCst);
            page.still_print.store(print, Ordering::SeqCst);
            page.still_look.store(look, Ordering::SeqCst);
        }
    }

    /// What [`Self::set_still`] said last.
    pub fn still(&self) -> Option<(u64, u64)> {
        let page = self.layout();
        let look = page.still_look.load(Ordering::SeqCst);
        let print = page.still_print.load(Ordering::SeqCst);
        (look != 0 && look == page.still_look.load(Ordering::SeqCst)).then_some((look, print))
    }

    /// The rank has taken away the window of this number.
    pub fn set_gone(&self, window: u64) {
        if let Some(gone) = self.layout().gone.get(window as usize) {
            gone.store(1, Ordering::Release);
        }
    }

    /// Where that is said, a byte for each window; kernels look there.
    pub fn gone(&self) -> u64 {
        self.layout().gone.as_ptr().expose_provenance() as u64
    }

    /// It has left, and none of its kernels runs any more.
    pub fn over(&self) {
        self.layout().over.store(1, Ordering::Release);
    }

    /// See [`Self::over`].
    pub fn is_over(&self) -> bool {
        self.layout().over.load(Ordering::Acquire) != 0
    }

    /// Something of the communicator has moved on this rank. One writer.
    pub fn moved(&self) {
        self.layout().moves.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes when something moves, on its device or in a step of its host; while ranks have left, for nobody looks before.
    pub fn moves(&self) -> (u64, u32) {
        (self.layout().moves.load(Ordering::Relaxed), self.layout().step_seq.load(Ordering::Relaxed))
    }

    /// What the rank says of itself.
    pub fn membership(&self) -> Membership {
        let page = self.layout();
        match page.state.load(Ordering::Acquire) {
            JOINING => Membership::Joining,
            ALIVE => Membership::Alive,
            LEAVING => Membership::Leaving,
            // ABORTED, or what only a broken peer writes.
            _ => {
                let bytes = load(&page.error, page.error_bytes.load(Ordering::Relaxed));
                Membership::Aborted(error_wire::decode(&bytes).unwrap_or_else(|| {
                    let text =
                        "a peer's status page says nothing | its rank has failed | fix: load the same libginrs on every rank";
                    Error::new(Code::RemoteError, 18, text)
                }))
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, unmapped only here.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), BYTES) };
    }
}

/// A text under its sequence lock, cut to the room that there is. One writer at a time.
fn write(seq: &AtomicU32, bytes: &AtomicU32, at: &[AtomicU8], text: &str) {
    let now = seq.load(Ordering::Relaxed);
    seq.store(now.wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::Release);
    bytes.store(store(at, &text.as_bytes()[..text.floor_char_boundary(at.len())]), Ordering::Relaxed);
    seq.store(now.wrapping_add(2), Ordering::Release);
}

/// None if its writer died meanwhile.
fn read(seq: &AtomicU32, bytes: &AtomicU32, at: &[AtomicU8]) -> Option<String> {
    for _ in 0..100 {
        let before = seq.load(Ordering::Acquire);
        let text = load(at, bytes.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if before.is_multiple_of(2) && before == seq.load(Ordering::Relaxed) {
            return Some(String::from_utf8_lossy(&text).into_owned());
        }
        std::hint::spin_loop();
    }
    None
}

fn store(to: &[AtomicU8], bytes: &[u8]) -> u32 {
    to.iter().zip(bytes).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    bytes.len() as u32
}

fn load(from: &[AtomicU8], bytes: u32) -> Vec<u8> {
    from.iter().take(bytes as usize).map(|byte| byte.load(Ordering::Relaxed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hang_limit::{RACE_TIME, spin_until};
    use std::time::Instant;

    #[test]
    fn the_reader_sees_what_the_writer_says_and_cannot_be_cut_off() {
        let (own, fd) = Page::create().unwrap();
        let seen = Page::open(&fd).unwrap();
        assert_eq!((seen.membership(), seen.step().as_deref()), (Membership::Joining, Some("")));
        own.alive();
        own.set_step(&"window register #12 ä".repeat(9));
        assert_eq!(seen.step().unwrap().len(), 64);
        let cause = Error::new(Code::SystemError, 23, "no memory").by(7);
        own.aborted(&cause);
        own.aborted(&Error::new(Code::InternalError, 1, "later"));
        own.leaving();
        let Membership::Aborted(told) = seen.membership() else { panic!("{:?}", seen.membership()) };
        assert_eq!(told, cause);

        assert!(ftruncate(&fd, 0).is_err(), "sealed against shrinking");
        assert!(Page::map(&fd, ProtFlags::READ | ProtFlags::WRITE).is_err(), "others cannot write");
        let unsealed = memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, BYTES as u64).unwrap();
        assert_eq!(Page::open(&unsealed).err().unwrap().id, 18);
    }

    /// A rank may be ended by one thread while another still makes it.
    #[test]
    fn an_end_is_not_lost_to_a_step_at_the_same_time() {
        let (own, _fd) = Page::create().unwrap();
        let (round, begun) = (AtomicU32::new(0), Instant::now());
        const ROUNDS: u32 = 200_000;
        const OVER: u32 = u32::MAX;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for next in (1..2 * ROUNDS).step_by(2) {
                    spin_until(|| [next, OVER].contains(&round.load(Ordering::Acquire)));
                    if round.load(Ordering::Acquire) == OVER {
                        return;
                    }
                    own.alive();
                    round.store(next + 1, Ordering::Release);
                }
            });
            for next in (1..2 * ROUNDS).step_by(2) {
                own.layout().state.store(JOINING, Ordering::Relaxed);
                round.store(next, Ordering::Release);
                own.leaving();
                spin_until(|| round.load(Ordering::Acquire) == next + 1);
                assert_eq!(own.membership(), Membership::Leaving, "round {next}");
                if begun.elapsed() > RACE_TIME {
                    break;
                }
            }
            round.store(OVER, Ordering::Release);
        });
    }

    #[test]
    fn what_a_rank_waits_for_and_that_it_is_still_are_read_whole() {
        let (own, fd) = Page::create().unwrap();
        let seen = Page::open(&fd).unwrap();
        assert_eq!((seen.waits().as_deref(), seen.still(), seen.is_over()), (Some(""), None, false));
        own.set_waits(&"ä".repeat(WAITS));
        assert_eq!(seen.waits().unwrap().len(), WAITS);
        own.set_waits("");
        assert_eq!(seen.waits().as_deref(), Some(""));
        own.set_still(Some((7, 9)));
        assert_eq!(seen.still(), Some((7, 9)));
        own.set_still(None);
        own.set_gone(7);
        own.set_gone(GONE as u64);
        let gone: Vec<_> = seen.layout().gone.iter().map(|byte| byte.load(Ordering::Acquire)).collect();
        assert_eq!((gone[7], gone.iter().map(|&byte| u32::from(byte)).sum::<u32>()), (1, 1), "one further is nobody's");
        own.over();
        assert_eq!((seen.still(), seen.is_over()), (None, true));
    }

    #[test]
    fn a_rank_that_leaves_has_not_failed() {
        let (own, _fd) = Page::create().unwrap();
        own.alive();
        own.leaving();
        own.aborted(&Error::new(Code::InternalError, 1, "later"));
        assert_eq!(own.membership(), Membership::Leaving);
    }
}
