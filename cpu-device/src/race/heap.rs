//! Memory that host code has made for itself: malloc, new and mmap of host threads in files that were compiled for the race detector (shim/heap.c).
//!
//! What is noted was made there and is not known to be given back. Nothing is said of other memory of the heap: kernels' own lies there, and that of
//! libraries. Who gives back what was noted without being seen, a library, leaves a note until somebody who is seen makes memory of these bytes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use parking_lot::lock_api::RawRwLock as _;

/// Who has made it.
const NAMES: [&str; 3] = ["malloc", "new", "mmap"];

/// Some of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// First byte.
    pub base: usize,
    /// How many.
    pub bytes: usize,
    by: u8,
    /// Where, in code.
    pub place: usize,
}

impl Made {
    /// The function.
    pub fn by(&self) -> &'static str {
        NAMES[usize::from(self.by)]
    }
}

/// What does not overlap, by first bytes.
#[derive(Default)]
struct Table(BTreeMap<usize, Made>);

impl Table {
    const fn new() -> Table {
        Table(BTreeMap::new())
    }

    fn find(&self, low: usize, high: usize) -> Option<&Made> {
        let (_, made) = self.0.range(..high).next_back()?;
        (made.base + made.bytes > low).then_some(made)
    }

    fn remove(&mut self, low: usize, high: usize) {
        while let Some(base) = self.find(low, high).map(|made| made.base) {
            self.0.remove(&base);
        }
    }
}

static TABLE: RwLock<Table> = RwLock::new(Table::new());

/// What holds some of the bytes from `low` to `high`.
pub fn find(low: usize, high: usize) -> Option<Made> {
    TABLE.read().find(low, high).copied()
}

/// The table is whole in a child of fork(), which may make memory, too.
fn survive_fork() {
    extern "C" fn before() {
        // SAFETY: `behind` unlocks it, on this thread.
        unsafe { TABLE.raw() }.lock_exclusive();
    }
    extern "C" fn behind() {
        // SAFETY: locked by `before`, on this thread or its parent.
        unsafe { TABLE.raw().unlock_exclusive() };
    }
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.swap(true, Ordering::Relaxed) {
        // SAFETY: these two lock and unlock.
        unsafe { libc::pthread_atfork(Some(before), Some(behind), Some(behind)) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_made(base: usize, bytes: usize, by: i32, is_hosts: i32, place: usize) {
    survive_fork();
    let mut table = TABLE.write();
    table.remove(base, base + bytes);
    if is_hosts != 0 && bytes != 0 {
        table.0.insert(base, Made { base, bytes, by: by as u8, place });
    }
}

#[unsafe(no_mangle)]
extern "C" fn ginrs_race_gone(base: usize, bytes: usize) {
    let mut table = TABLE.write();
    match bytes {
        0 => drop(table.0.remove(&base)),
        _ => table.remove(base, base + bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_memory_takes_it_from_who_had_it() {
        let made = |base, bytes| (base, Made { base, bytes, by: 0, place: 1 });
        let mut table = Table([made(100, 50), made(150, 50), made(300, 10)].into());
        assert_eq!(table.find(149, 150).map(|made| made.base), Some(100));
        assert_eq!(table.find(150, 151).map(|made| made.base), Some(150));
        assert_eq!((table.find(200, 300), table.find(0, 100)), (None, None));
        assert_eq!(table.find(0, 4096).map(|made| made.base), Some(300));
        table.remove(140, 301);
        assert!(table.0.is_empty());
    }
}
