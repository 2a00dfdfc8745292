//! Device memory that was freed, of a program that is looked at for races: for a while its addresses are nobody's, so a kernel that still touches it
//! ends there, by name. Else they would be the next allocation's, or the heap's, and what such a kernel destroys shows anywhere.

use std::collections::VecDeque;
use std::ffi::c_void;

use parking_lot::Mutex;

use crate::race;

/// So many are kept: each is a mapping of its own, of which a process has some ten thousand.
const KEPT: usize = 1024;

#[derive(Clone, Copy)]
struct Freed {
    base: usize,
    /// Whole pages.
    length: usize,
    /// What was asked for.
    bytes: usize,
    /// Where that was called, for the race detector's lines; 0: not known.
    called_at: usize,
}

/// In the order in which they were freed.
static ALL: Mutex<VecDeque<Freed>> = Mutex::new(VecDeque::new());

/// Memory of `bytes`, in pages of its own, is given back to the system; its addresses later.
///
/// # Safety
/// It is a mapping of the caller's, which nobody may use any more.
pub unsafe fn keep(base: usize, bytes: usize) {
    let length = bytes.next_multiple_of(race::PAGE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: over a mapping of the caller's.
    let kept = unsafe { libc::mmap(base as *mut c_void, length, libc::PROT_NONE, flags, -1, 0) };
    let mut all = ALL.lock();
    if kept == libc::MAP_FAILED || all.len() == KEPT {
        let gone =
            if kept == libc::MAP_FAILED { Some((base, length)) } else { all.pop_front().map(|old| (old.base, old.length)) };
        let Some((base, length)) = gone else { return };
        // SAFETY: this mapping, or one that was kept and is out of the list.
        unsafe { libc::munmap(base as *mut c_void, length) };
    }
    if kept != libc::MAP_FAILED {
        all.push_back(Freed { base, length, bytes, called_at: race::called_at() });
    }
}

/// What is known of an address in such memory: words, and where it was freed, for [`line`]. Waits for nobody.
pub fn find(address: usize) -> Option<(impl std::fmt::Display, usize)> {
    let all = ALL.try_lock()?;
    let found = *all.iter().find(|one| (one.base..one.base + one.length).contains(&address))?;
    let offset = address - found.base;
    Some((Words { offset, bytes: found.bytes }, found.called_at))
}

/// `halo.cu:84`, of what [`find`] says.
pub fn line(called_at: usize) -> Option<String> {
    (called_at != 0).then(|| race::users_line(called_at)).flatten()
}

struct Words {
    offset: usize,
    bytes: usize,
}

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {} of {} bytes of cudaMalloc that were freed", self.offset, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> usize {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping.
        unsafe { libc::mmap(std::ptr::null_mut(), race::PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) as usize }
    }

    #[test]
    fn what_was_freed_is_known_until_many_others_were() {
        let first = page();
        // SAFETY: pages of this test's.
        unsafe { keep(first, 100) };
        let told = find(first + 40).map(|(words, _)| words.to_string());
        assert_eq!(told.as_deref(), Some("byte 40 of 100 bytes of cudaMalloc that were freed"));
        assert!(find(first + race::PAGE).is_none());
        for _ in 0..KEPT {
            // SAFETY: as above.
            unsafe { keep(page(), 1) };
        }
        assert!(find(first + 40).is_none() && ALL.lock().len() == KEPT);
    }
}
