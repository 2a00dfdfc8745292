//! What happens, for GINRS_TIMELINE: a file of records that ginrs-run makes a picture of (timeline/src/lib.rs). Off, each place costs a
//! relaxed load. The proxy's places are not events of [`super::Site`]: those make text, which takes longer than a put.
//!
//! A rank of a communicator is known in its process by the address of its abort word, which kernels know it by, too.

#![forbid(unsafe_code)]

use crate::{config, hint};
use ginrs_timeline::{Kind, now, open, put, text};
use std::cell::Cell;
use std::ffi::OsStr;

pub use ginrs_timeline::is_on;
pub(super) use ginrs_timeline::told;

/// Signals of direct contexts are other words than those of proxied ones with the same number.
pub const DIRECT: u32 = 1 << 31;

/// Begins if GINRS_TIMELINE says so; once per process.
pub(super) fn start() {
    let Some(prefix) = config::text("GINRS_TIMELINE") else { return };
    if let Err((path, error)) = open(OsStr::new(&prefix), config::int("GINRS_TIMELINE_EVENTS").max(1) as u64) {
        hint!(
            "GINRS-W022 no timeline is written | GINRS_TIMELINE={prefix} | {}: {error} | fix: name a file in a folder that can be written",
            path.display()
        );
    }
}

/// While it lives a call of the host lasts.
pub struct Call(Option<u64>);

/// A call of the host begins.
pub fn call(name: &str) -> Call {
    Call(is_on().then(|| {
        let name = text(name.as_bytes());
        put(now(), Kind::Call, [name]);
        name
    }))
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.inspect(|name| put(now(), Kind::Returned, [*name]));
    }
}

/// The next launch of this thread is a collective's.
pub fn collective(what: impl FnOnce() -> String) {
    if is_on() {
        put(now(), Kind::Collective, [text(what().as_bytes())]);
    }
}

/// `owner` is the abort word of this rank.
pub fn rank(owner: u64, comm: u64, rank: u32, ranks: u32, device: i32) {
    if is_on() {
        put(now(), Kind::Rank, [owner, comm, rank.into(), ranks.into(), device as u64]);
    }
}

/// Where the signal words of a context are, for its own rank.
pub fn words(owner: u64, context: u32, first: u64, count: u32) {
    if is_on() {
        put(now(), Kind::Words, [owner, context.into(), first, count.into()]);
    }
}

/// An operation as the proxy has taken it.
pub struct Taken {
    /// Of the posting rank.
    pub owner: u64,
    /// The proxy's name for it.
    pub tag: u64,
    /// Address of its slot, and its index.
    pub slot: (usize, u32),
    /// Target rank.
    pub peer: u32,
    /// Payload.
    pub bytes: u64,
    /// Word of the target's signal memory, and what is added.
    pub signal: Option<(u64, u64)>,
    /// Counter that it raises.
    pub counter: Option<u16>,
}

/// The proxy has taken it.
#[cold]
#[inline(never)]
pub fn take(taken: Taken) {
    let Taken { owner, tag, slot: (slot, index), peer, bytes, signal, counter } = taken;
    let (word, add) = signal.map_or((0, 0), |(word, add)| (word + 1, add));
    let counter = counter.map_or(0, |id| u64::from(id) + 1);
    put(now(), Kind::Take, [owner, tag, slot as u64, index.into(), peer.into(), bytes, word, add, counter]);
}

thread_local! {
    static CARRYING: Cell<u64> = const { Cell::new(0) };
}

/// What this thread moves from now on is this rank's.
pub fn carrying(owner: u64) {
    CARRYING.set(owner);
}

/// A payload has landed; its signal is raised next.
pub fn moved(tag: u64) {
    put(now(), Kind::Moved, [CARRYING.get(), tag]);
}

/// The operation is done.
pub fn done(owner: u64, tag: u64) {
    put(now(), Kind::Done, [owner, tag]);
}
