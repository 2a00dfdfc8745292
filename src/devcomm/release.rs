//! Ends waits of kernels that read no abort word (compiled with NVIDIA's headers): once the communicator is aborted the words
//! that they wait on are moved, for as long as the communicator's memory lives.
//!
//! | a kernel waits on | who moves it |
//! |---|---|
//! | signals (also those of GIN barriers), counters | the proxy, `gin/proxy.rs` |
//! | the same of direct contexts | here, [`words`] |
//! | credit, flush | the proxy, which goes on consuming |
//! | LSA barriers of the device communicator and of ncclLsaBarrierCreateRequirement | here, [`barrier`]: at once, for the next 2^30 epochs |
//! | LL all-to-all of ncclLLA2ACreateRequirement | here, [`lines`]: the epochs that it may be at, in turn |
//! | a word of its own in a window | nobody can: the library does not know it |
//!
//! Sweeps repeat because a peer that is late may still store into the words, and because later waits have to end too.

mod barrier;
mod helpers;
mod lines;
mod words;

pub use helpers::{Waits, find, note};

use super::Layout;
use super::registry::Record;
use crate::device::{DevPtr, Device, Kind, Transfers};
use crate::error::Result;
use crate::layout::RESOURCE_HANDLE_UNIT;
use crate::process;
use crate::sync::{Condvar, Mutex, OnceCell};
use crate::{info, log, warn};
use std::sync::Arc;
use std::time::{Duration, Instant};

enum Span {
    Barrier(barrier::Inboxes),
    Lines(lines::Lines),
    Words(words::Words),
}

impl Span {
    fn new(at: DevPtr, waits: Waits) -> Self {
        match waits {
            Waits::LsaBarrier { barriers, members } => Span::Barrier(barrier::Inboxes::new(at, barriers, members)),
            Waits::Lla2a { blocks, slots } => Span::Lines(lines::Lines::new(at, blocks, slots)),
        }
    }

    fn sweep(&mut self, device: &dyn Transfers) -> Result<()> {
        match self {
            Span::Barrier(inboxes) => inboxes.sweep(device),
            Span::Lines(lines) => lines.sweep(device),
            Span::Words(words) => words.sweep(device),
        }
    }
}

/// Sweeps in the first second, in the next ten, and later.
const PACE: [Duration; 3] = [Duration::from_millis(2), Duration::from_millis(10), Duration::from_millis(50)];
/// So much of each range is looked at for signs of life. Bytes.
const PRINTED: usize = 16 << 10;
/// A kernel that runs so long after the end of its communicator waits for something that nobody can move.
const STUCK: Duration = Duration::from_secs(3);

#[derive(Default)]
struct Watchlist {
    /// Of which device communicator.
    spans: Vec<(Record, Span)>,
    /// Where their words are, likewise: address and bytes.
    ranges: Vec<(Record, DevPtr, usize)>,
    /// Device communicators that stand, or stood when the communicator failed: kernels may wait.
    live: Vec<Record>,
    aborted: bool,
    started: bool,
    over: bool,
}

impl Watchlist {
    fn is_used(&self) -> bool {
        !self.live.is_empty()
    }
}

struct Shared {
    device: Arc<dyn Device>,
    tag: String,
    state: Mutex<Watchlist>,
    changed: Condvar,
    /// Beside the lock, which a sweep holds: an abort waits for no sweep.
    ended: OnceCell<Instant>,
    owner: u32,
}

impl crate::watch::Words for Shared {
    fn are_used(&self) -> bool {
        self.state.try_lock().is_some_and(|state| state.is_used() && !state.over)
    }

    fn print(&self) -> Option<u64> {
        let state = self.state.try_lock()?;
        let mut bytes = Vec::new();
        for &(_, at, length) in &state.ranges {
            let from = bytes.len();
            bytes.resize(from + length.min(PRINTED), 0);
            // A device that cannot be read has failed, which is told elsewhere.
            self.device.read(at, &mut bytes[from..]).ok()?;
        }
        Some(u64::from(crc32fast::hash(&bytes)) | 1 << 32)
    }
}

/// One per rank of a communicator; dropped before the memory that it writes.
pub struct Release(Arc<Shared>);

impl Release {
    /// Nothing to move yet. `tag` names the communicator in messages.
    pub fn new(device: Arc<dyn Device>, tag: String) -> Self {
        let owner = std::process::id();
        Self(Arc::new(Shared { device, tag, state: Mutex::default(), changed: Condvar::new(), ended: OnceCell::new(), owner }))
    }

    /// What the abort runs: starts the sweeps, and gives what to add to the abort's message.
    pub fn starter(&self) -> impl Fn() -> &'static str + Send + 'static {
        let shared = self.0.clone();
        move || {
            let mut state = shared.state.lock();
            state.aborted = true;
            if !state.is_used() {
                return "";
            }
            start(&shared, &mut state);
            "; waits of its kernels end, but a loop of a kernel's own on window memory does not"
        }
    }

    /// A device communicator stands, or stood when the communicator failed: kernels of the program's may wait.
    pub fn is_used(&self) -> bool {
        self.0.state.lock().is_used()
    }

    /// The same, to be asked by others, who do not wait for a sweep: that is of one that is used.
    pub fn used(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let shared = self.0.clone();
        move || shared.state.try_lock().is_none_or(|state| state.is_used())
    }

    /// Device communicator `record` stands, whose resource window begins at `local`.
    pub(super) fn add(&self, record: Record, local: DevPtr, layout: &Layout, lsa_size: u32, entries: &[Option<Waits>]) {
        let built_in = (&layout.lsa, Some(Waits::LsaBarrier { barriers: layout.n_lsa, members: lsa_size }));
        let mut state = self.0.state.lock();
        state.live.push(record);
        for (outputs, waits) in layout.entries.iter().zip(entries.iter().copied()).chain([built_in]) {
            if let Some(waits) = waits.filter(|waits| waits.bytes() > 0) {
                let at = local + u64::from(outputs.buffer_handle) * RESOURCE_HANDLE_UNIT as u64;
                state.spans.push((record, Span::new(at, waits)));
                state.ranges.push((record, at, waits.bytes() as usize & !3));
            }
        }
        if state.aborted {
            start(&self.0, &mut state);
        }
    }

    /// What shows whether any of it moves by itself.
    pub fn words(&self) -> Arc<dyn crate::watch::Words> {
        self.0.clone()
    }

    /// Its words in device memory, which the proxy does not move: address and how many.
    pub(super) fn add_words(&self, record: Record, words: Vec<(DevPtr, u32)>) {
        let mut state = self.0.state.lock();
        state.ranges.extend(words.iter().map(|&(at, count)| (record, at, 8 * count as usize)));
        state.spans.extend(words.into_iter().map(|(at, count)| (record, Span::Words(words::Words::new(at, count)))));
    }

    /// Before the memory of a device communicator goes. Waits for a sweep under way.
    pub(super) fn remove(&self, record: &Record) {
        let mut state = self.0.state.lock();
        state.spans.retain(|(of, _)| of != record);
        state.ranges.retain(|(of, ..)| of != record);
        if !state.aborted {
            state.live.retain(|live| live != record);
        }
    }

    /// The communicator has been destroyed or aborted by its owner; its memory goes when its kernels have ended.
    pub fn ended(&self) {
        self.0.ended.get_or_init(Instant::now);
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if self.0.owner != std::process::id() {
            return; // a forked child has no such thread, and its copy of the lock may be held by it
        }
        let mut state = self.0.state.lock();
        state.over = true;
        state.spans.clear();
        state.ranges.clear();
        self.0.changed.notify_all();
    }
}

fn start(shared: &Arc<Shared>, state: &mut Watchlist) {
    if std::mem::replace(&mut state.started, true) {
        return;
    }
    let body = shared.clone();
    if let Err(error) = process::service_thread("ginrs release", move || run(&body), |_| {}) {
        log::error(&error);
    }
}

fn run(shared: &Shared) {
    log::set_device(shared.device.ordinal());
    let (begin, mut told) = (Instant::now(), false);
    loop {
        let Some(at_work) = process::at_work() else { return };
        let mut state = shared.state.lock();
        if state.over {
            return;
        }
        let swept = state.spans.iter_mut().try_for_each(|(_, span)| span.sweep(shared.device.as_ref()));
        if let Err(error) = swept {
            // The device has failed, so its kernels are over, or the process is about to be.
            info!(INIT, "{} words of kernels are moved no more: {error}", shared.tag);
            return;
        }
        let stuck = shared.ended.get().is_some_and(|ended| ended.elapsed() > STUCK) && !shared.device.idle();
        if stuck && !std::mem::replace(&mut told, true) {
            warn!(
                "GINRS-E083 the device still runs kernels {} s after the end of a communicator | {} | all words of the library that it may wait on have \
                 been moved{} | fix: if one of its kernels loops on window memory, that loop needs a way out of its own; kernels of other communicators only delay the release of its memory",
                STUCK.as_secs(),
                shared.tag,
                if shared.device.kind() == Kind::Cuda { "" } else { ", and its waits look at the abort word" }
            );
        }
        drop(at_work);
        let pace = match begin.elapsed().as_secs() {
            0 => PACE[0],
            1..=10 => PACE[1],
            _ => PACE[2],
        };
        shared.changed.wait_for(&mut state, pace);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Requirements, Resource};
    use super::*;
    use crate::device::cpu::CpuDevice;
    use crate::hang_limit::HANG_LIMIT;

    fn word(device: &dyn Transfers, at: DevPtr) -> u32 {
        let mut bytes = [0; 4];
        device.read(at, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn until(what: &str, condition: impl Fn() -> bool) {
        let begin = Instant::now();
        while !condition() {
            assert!(begin.elapsed() < HANG_LIMIT, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_words_of_all_barriers_and_lines_move_and_a_users_buffer_does_not() {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let memory = device.objects(1 << 16).unwrap();
        let entry = |waits: Option<Waits>, bytes| Resource { bytes, waits, ..Resource::default() };
        let (barrier, ll) = (Waits::LsaBarrier { barriers: 2, members: 4 }, Waits::Lla2a { blocks: 1, slots: 4 });
        let reqs = Requirements {
            barrier_count: 1,
            resources: vec![entry(None, 512), entry(Some(barrier), barrier.bytes()), entry(Some(ll), ll.bytes())],
            ..Requirements::default()
        };
        let layout = reqs.layout(4, 0, false).unwrap();
        let at = |handle: u32, word: u64| memory.device() + u64::from(handle) * 128 + 4 * word;
        let release = Release::new(device.clone(), "comm 0x1 rank 0".into());
        let starter = release.starter();
        let waits: Vec<_> = reqs.resources.iter().map(|resource| resource.waits).collect();
        let record = Record { window: 7, ..Record::default() };
        release.add(record, memory.device(), &layout, 4, &waits);
        assert!(starter().contains("loop of a kernel's own"));

        let look = |handle, index| word(&*device, at(handle, index));
        let built_in = layout.lsa.buffer_handle;
        until("inboxes", || look(built_in, 3) == 1 << 30 && look(layout.entries[1].buffer_handle, 6) == 1 << 30);
        until("lines", || look(layout.entries[2].buffer_handle, 5) >= 2);
        // A peer's late store does not last.
        device.write(at(layout.entries[1].buffer_handle, 6), &[1, 0, 0, 0, 1, 0, 0, 0]).unwrap();
        until("moved back", || look(layout.entries[1].buffer_handle, 6) == 1 << 30);
        assert_eq!((look(layout.entries[0].buffer_handle, 3), look(built_in, 0)), (0, 0));
        release.remove(&record);
        device.write(at(built_in, 2), &[0; 8]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(look(built_in, 3), 0, "removed: the memory may be gone");
        assert!(release.is_used(), "its kernels were under way when the communicator failed");
        drop(release);
    }

    #[test]
    fn of_two_that_have_words_and_no_window_one_goes_and_the_other_is_moved() {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let memory = device.objects(1 << 12).unwrap();
        let layout = Requirements::default().layout(1, 0, false).unwrap();
        let release = Release::new(device.clone(), "comm 0x1 rank 0".into());
        let records = [1, 2].map(|counter_base| Record { counter_base, counters: 1, ..Record::default() });
        for (i, record) in (0..).zip(records) {
            release.add_words(record, vec![(memory.device() + 8 * i, 1)]);
            release.add(record, 0, &layout, 1, &[]);
        }
        release.remove(&records[0]);
        assert!(release.is_used());
        _ = release.starter()();
        until("the other's word", || word(&*device, memory.device() + 12) != 0);
        assert_eq!(word(&*device, memory.device() + 4), 0);
    }

    #[test]
    fn without_a_device_communicator_no_kernel_waits() {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let layout = Requirements::default().layout(1, 0, false).unwrap();
        let release = Release::new(device, "comm 0x1 rank 0".into());
        let (record, used) = (Record::default(), release.used());
        release.add(record, 0, &layout, 1, &[]);
        assert!(used());
        release.remove(&record);
        assert!(!used() && release.starter()().is_empty());
    }
}
