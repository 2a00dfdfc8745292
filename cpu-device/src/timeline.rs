//! What kernels do, for GINRS_TIMELINE: a file of records that ginrs-run makes a picture of (timeline/src/lib.rs). Off, each place costs a
//! relaxed load; the device headers' look at [`crate::recorder::ginrs_cpu_timeline`].

use std::sync::atomic::{AtomicU64, Ordering};

use ginrs_timeline::{Kind, hash, is_on, now, put, text};

use crate::launch::Launch;
use crate::waits::{Call, Wait};

/// Which block of which grid, and which of its threads.
#[derive(Clone, Copy)]
pub struct Where {
    /// [`number`] of the grid.
    pub grid: u64,
    /// Of the thread in its block.
    pub thread: u32,
    /// Of the block in its grid.
    pub block: u64,
}

/// A number that no other grid or launch of the process has.
pub fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn of_launch(launch: &Launch) -> [u64; 5] {
    let (file, line) = launch.place.parts();
    [text(launch.name.as_bytes()), file.map_or(0, text), line as u64, launch.grid.count(), launch.block.count()]
}

/// The host launches.
pub fn launched(launch: &Launch, device: i32) {
    if is_on() {
        let [name, file, line, blocks, threads] = of_launch(launch);
        put(now(), Kind::Launch, [name, file, line, blocks, threads, device as u64, launch.number]);
    }
}

/// A grid begins.
pub fn kernel(grid: u64, launch: &Launch, device: i32) {
    if is_on() {
        let [name, file, line, blocks, threads] = of_launch(launch);
        put(now(), Kind::Kernel, [grid, name, file, line, blocks, threads, device as u64, launch.number]);
    }
}

/// It is over.
pub fn kernel_end(grid: u64) {
    if is_on() {
        put(now(), Kind::KernelEnd, [grid]);
    }
}

/// A block begins.
pub fn block(grid: u64, index: u64) {
    if is_on() {
        put(now(), Kind::Block, [grid, index]);
    }
}

/// It is over.
pub fn block_end(grid: u64, index: u64) {
    if is_on() {
        put(now(), Kind::BlockEnd, [grid, index]);
    }
}

/// Where it is, and the outermost call that it is in: five words.
///
/// # Safety
/// `innermost` is null or the calling thread's call, which is alive.
unsafe fn at(place: Where, innermost: *const Call) -> ([u64; 5], u64) {
    // SAFETY: the caller's.
    let (outer, inner) = unsafe { Call::ends(innermost) }.unzip();
    let file = outer.and_then(|call| call.file()).map_or_else(|| hash(b""), text);
    let line = outer.map_or(0, |call| u64::from(call.kind()) << 32 | u64::from(call.line() as u32));
    ([place.grid, place.thread.into(), place.block, file, line], inner.map_or(0, |call| call.context_and_id()))
}

/// A thread has posted the descriptor with this index to a slot.
///
/// # Safety
/// As [`at`].
pub unsafe fn post(place: Where, innermost: *const Call, began: u64, slot: u64, index: u32) {
    // SAFETY: the caller's.
    let ([grid, thread, block, file, line], whom) = unsafe { at(place, innermost) };
    put(began, Kind::Post, [grid, thread, block, file, line, slot, index.into(), now(), whom]);
}

/// A thread has stored to a peer.
///
/// # Safety
/// As [`at`].
pub unsafe fn direct(place: Where, innermost: *const Call, began: u64, bytes: u64, signal: u64, add: u64) {
    // SAFETY: the caller's.
    let ([grid, thread, block, file, line], whom) = unsafe { at(place, innermost) };
    put(began, Kind::Direct, [grid, thread, block, file, line, bytes, signal, add, now(), whom]);
}

/// A thread waits.
///
/// # Safety
/// As [`at`].
pub unsafe fn wait(place: Where, innermost: *const Call, wait: &Wait) {
    // SAFETY: the caller's.
    let ([grid, thread, block, file, line], whom) = unsafe { at(place, innermost) };
    let [owner, word, wants, note] = wait.parts();
    put(now(), Kind::Wait, [grid, thread, block, file, line, owner, word, wants, note, whom]);
}

/// It goes on.
pub fn wait_end(place: Where) {
    put(now(), Kind::WaitEnd, [place.grid, place.thread.into(), place.block]);
}
