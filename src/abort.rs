//! The way out of every wait: a word that kernels and host loops read, and the failure that raised it.
//!
//! The word has two homes on a GPU. Kernels poll the one in the GPU's own memory, where a look costs an L2 hit, and look at the
//! one in host memory now and then, in case the driver cannot write the other. On the CPU device they are one.

mod words;

pub use words::{Beside, Held, Raised, Sums};

use crate::device::{ControlMemory, DevPtr, Device, DeviceMemory, Kind};
use crate::error::{Code, Error, Result};
use crate::sync::Mutex;
use crate::sync::OnceCell;
use crate::{info, log, process};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const BYTES: usize = 4096;
/// GINRS_WAIT_NOTE_OFFSET: behind the host's word, where waits of kernels leave a note.
const NOTE: usize = 64;

type Listener = Box<dyn FnOnce(&Error) + Send>;
type Teller = Box<dyn Fn(&Error) + Send + Sync>;
type Quiet = Box<dyn Fn() -> bool + Send + Sync>;
type BesideOf = Box<dyn Fn(DevPtr) -> Beside + Send + Sync>;
type SumsNow = Box<dyn Fn(bool) -> Option<Sums> + Send + Sync>;

/// Raised once per communicator, by whoever sees the failure first; the first cause is kept.
///
/// Order: the cause is stored before the word is released, so whoever reads a nonzero word finds the cause; other processes are told in
/// between. The host's word comes before the device's.
pub struct Abort {
    memory: ControlMemory,
    near: Option<Arc<Near>>,
    cpu_device: Option<i32>,
    cause: OnceCell<Error>,
    teller: OnceCell<Teller>,
    listeners: Mutex<Vec<Listener>>,
    moves: AtomicU64,
    quiet: OnceCell<Quiet>,
    beside: OnceCell<BesideOf>,
    sums: OnceCell<SumsNow>,
}

impl Abort {
    /// `memory` holds the word at offset 0: zeroed, device-visible, at least a page.
    pub fn new(memory: ControlMemory) -> Self {
        Self {
            memory,
            near: None,
            cpu_device: None,
            cause: OnceCell::new(),
            teller: OnceCell::new(),
            listeners: Mutex::new(Vec::new()),
            moves: AtomicU64::new(0),
            quiet: OnceCell::new(),
            beside: OnceCell::new(),
            sums: OnceCell::new(),
        }
    }

    /// With a word in the memory of `device`, if that is a GPU.
    pub fn of(device: &Arc<dyn Device>) -> Result<Self> {
        let abort = Self::new(device.control(BYTES)?);
        match device.kind() {
            Kind::Cpu => Ok(Self { cpu_device: Some(device.ordinal()), ..abort }),
            Kind::Cuda => abort.with_word_in(device),
        }
    }

    fn with_word_in(self, device: &Arc<dyn Device>) -> Result<Self> {
        let near = Near { memory: device.objects(size_of::<u64>())?, device: device.clone() };
        Ok(Self { near: Some(Arc::new(near)), ..self })
    }

    /// The rank's device, if that is a CPU device.
    pub fn cpu_device(&self) -> Option<i32> {
        self.cpu_device
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: ControlMemory is zeroed, page-aligned, at least a page, and lives as long as self;
        // every access to the word, here and in kernels, is atomic.
        unsafe { AtomicU32::from_ptr(self.memory.host().as_ptr().cast()) }
    }

    /// Something of the communicator has moved on this rank: whoever looks for waits that nobody ends begins anew.
    pub fn moved(&self) {
        // Not an increment: a lost one is not missed, and the proxy calls this in every step that moves something.
        self.moves.store(self.moves.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Changes with every [`Self::moved`].
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// From now on `quiet` says whether nothing of what kernels of this rank have posted is under way. It must not wait.
    pub fn set_quiet(&self, quiet: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.quiet.set(Box::new(quiet));
    }

    /// Whether nothing of what kernels of this rank have posted is under way, as far as can be said without waiting.
    pub fn is_quiet(&self) -> bool {
        self.quiet.get().is_none_or(|quiet| quiet())
    }

    /// From now on `beside` says which word a kernel waits for, and finds those beside it. It must not wait.
    pub fn set_beside(&self, beside: impl Fn(DevPtr) -> Beside + Send + Sync + 'static) {
        let _ = self.beside.set(Box::new(beside));
    }

    /// Of the signal or counter at this address, if it is one that can be looked at.
    pub fn beside(&self, at: DevPtr) -> Beside {
        self.beside.get().map_or(Beside::default(), |beside| beside(at))
    }

    /// From now on `sums` says what this rank has raised. It is told whether it may wait for a step of the proxy.
    pub fn set_sums(&self, sums: impl Fn(bool) -> Option<Sums> + Send + Sync + 'static) {
        let _ = self.sums.set(Box::new(sums));
    }

    /// What this rank has raised, and what nobody here waits for. None where nobody counts, or that cannot be
    /// said now.
    pub fn sums(&self, may_wait: bool) -> Option<Sums> {
        self.sums.get().and_then(|sums| sums(may_wait))
    }

    /// The oldest wait of a kernel that had lasted for a millisecond and more at some time since the last call. The same wait is
    /// equal in every call.
    pub fn take_wait(&self) -> Option<Waiting> {
        // SAFETY: inside the page, aligned; every access to it, here and in kernels, is atomic.
        let note = unsafe { AtomicU64::from_ptr(self.memory.host().as_ptr().add(NOTE).cast()) };
        Some(note.swap(0, Ordering::Relaxed)).filter(|&note| note != 0).map(Waiting)
    }

    /// Address of the word that kernels poll.
    pub fn device_address(&self) -> DevPtr {
        self.near.as_ref().map_or(self.memory.device(), |near| near.memory.device())
    }

    /// Address, for kernels too, of the word in host memory.
    pub fn host_address(&self) -> DevPtr {
        self.memory.device()
    }

    /// Ends every wait of the communicator with `cause`. The first call wins and returns true. Never waits for the device.
    pub fn raise(&self, cause: Error) -> bool {
        if self.cause.set(cause).is_err() {
            return false;
        }
        let cause = self.cause.get().expect("set above");
        if let Some(tell) = self.teller.get() {
            tell(cause);
        }
        self.word().store(1, Ordering::Release);
        if let Some(near) = &self.near {
            near.raise();
        }
        for listener in std::mem::take(&mut *self.listeners.lock()) {
            listener(cause);
        }
        true
    }

    /// From now on `tell` takes the cause to other processes, before kernels here are let go: a program that ends at once when it hears of a
    /// failure is not to be taken for the failure. It must not wait.
    pub fn set_teller(&self, tell: impl Fn(&Error) + Send + Sync + 'static) {
        let _ = self.teller.set(Box::new(tell));
    }

    /// True once raised; one load, for loops.
    pub fn is_raised(&self) -> bool {
        self.word().load(Ordering::Acquire) != 0
    }

    /// The first cause.
    pub fn cause(&self) -> Option<&Error> {
        self.cause.get()
    }

    /// `Err(cause)` once raised: every host wait calls it in its loop.
    pub fn check(&self) -> Result<()> {
        if !self.is_raised() {
            return Ok(());
        }
        Err(self.cause.get().cloned().unwrap_or_else(|| {
            Error::new(Code::InternalError, 49, "abort word raised without a cause | written by a kernel? | fix: report this")
        }))
    }

    /// Runs `listener` when raised, at once if it is already.
    pub fn on_raise(&self, listener: impl FnOnce(&Error) + Send + 'static) {
        let mut listeners = self.listeners.lock();
        match self.cause.get() {
            Some(cause) => {
                drop(listeners);
                listener(cause);
            }
            None => listeners.push(Box::new(listener)),
        }
    }
}

/// A wait of a kernel, as include/ginrs_device/marker.h says: since when, of whose kernel, for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting(u64);

impl Waiting {
    /// Of a collective or a message: a kernel of the library.
    pub fn is_own(self) -> bool {
        self.0 & 1 << 31 != 0
    }

    /// The rank that alone can end it, where the kernel knows.
    pub fn rank(self) -> Option<u32> {
        let rank = self.0 as u32 & 0xff_ffff;
        matches!(self.kind(), 2 | 4).then_some(rank).filter(|&rank| rank != 0xff_ffff)
    }

    /// Of the low half of a note: for what, without since when.
    pub fn of(reason: u32) -> Self {
        Self(reason.into())
    }

    /// For what this rank has posted.
    pub fn is_posted(self) -> bool {
        !self.is_own() && self.kind() == 1
    }

    /// To whom it was posted.
    pub fn peer(self) -> u32 {
        self.0 as u32 & 0xff_ffff
    }

    /// As a kernel writes it.
    #[cfg(test)]
    pub fn from_note(note: u64) -> Self {
        Self(note)
    }

    fn kind(self) -> u64 {
        self.0 >> 24 & 0x7f
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.is_own(), self.kind()) {
            (true, _) => "a collective or message",
            (_, 0) => "a wait for a signal or counter",
            (_, 1) => "a wait for what it has posted",
            (_, 2) => "an LSA barrier",
            (_, 3) => "an LL all-to-all",
            _ => "a wait",
        })
    }
}

/// The word in a GPU's own memory.
struct Near {
    memory: DeviceMemory,
    device: Arc<dyn Device>,
}

impl Near {
    /// By a thread of its own: the driver may hold the caller up for as long as a kernel runs (a cudaFree on another thread is
    /// enough), and that kernel may wait for what the caller does next. Fails silently: the host's word stands.
    fn raise(self: &Arc<Self>) {
        let near = self.clone();
        let body = move || {
            log::set_device(near.device.ordinal());
            let Some(_at_work) = process::at_work() else { return };
            if let Err(error) = near.device.write(near.memory.device(), &1u64.to_le_bytes()) {
                info!(INIT, "kernels find the abort word in host memory only: {error}");
            }
        };
        if let Err(error) = process::service_thread("ginrs abort", body, |_| {}) {
            log::error(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;
    use crate::hang_limit::HANG_LIMIT;
    use std::time::Instant;

    #[test]
    fn the_word_in_device_memory_follows_the_hosts() {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let one = Abort::of(&device).unwrap();
        assert_eq!(one.device_address(), one.host_address());
        let two = Abort::new(device.control(BYTES).unwrap()).with_word_in(&device).unwrap();
        assert_ne!(two.device_address(), two.host_address());
        let read = |at| {
            let mut word = [0; 4];
            device.read(at, &mut word).unwrap();
            u32::from_le_bytes(word)
        };
        assert_eq!((read(two.host_address()), read(two.device_address())), (0, 0));
        two.raise(Error::new(Code::InternalError, 1, "planted"));
        assert_eq!(read(two.host_address()), 1);
        let begin = Instant::now();
        while read(two.device_address()) == 0 {
            assert!(begin.elapsed() < HANG_LIMIT);
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_note_of_a_wait_is_taken_once() {
        let abort = Abort::new(ControlMemory::anonymous(4096).unwrap());
        assert_eq!(abort.take_wait(), None);
        let write = |note: u64| {
            // SAFETY: inside the page of this test.
            unsafe { abort.memory.host().as_ptr().add(NOTE).cast::<u64>().write(note) }
        };
        write(7 << 32 | 2 << 24 | 5);
        let wait = abort.take_wait().unwrap();
        assert_eq!((wait.is_own(), wait.rank(), wait.to_string().as_str()), (false, Some(5), "an LSA barrier"));
        assert_eq!(abort.take_wait(), None);
        write(7 << 32 | 0x84 << 24 | 3);
        let wait = abort.take_wait().unwrap();
        assert_eq!((wait.is_own(), wait.rank(), wait.to_string().as_str()), (true, Some(3), "a collective or message"));
        write(7 << 32 | 2 << 24 | 0xff_ffff);
        assert_eq!(abort.take_wait().unwrap().rank(), None);
        write(9 << 32);
        assert_eq!(abort.take_wait().map(|wait| wait.to_string()), Some("a wait for a signal or counter".into()));
    }

    #[test]
    fn first_cause_wins_and_every_listener_hears_it() {
        let abort = Abort::new(ControlMemory::anonymous(4096).unwrap());
        let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
        let early = heard.clone();
        abort.on_raise(move |e| early.lock().push(e.id));
        assert!(abort.check().is_ok());
        assert!(abort.raise(Error::new(Code::RemoteError, 40, "rank 3 died").by(3)));
        assert!(!abort.raise(Error::new(Code::InternalError, 1, "later")));
        let late = heard.clone();
        abort.on_raise(move |e| late.lock().push(e.id));
        assert_eq!(*heard.lock(), [40, 40]);
        assert_eq!(abort.check().unwrap_err().culprit, Some(3));
    }
}
