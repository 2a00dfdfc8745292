//! Device memory that was freed, of a program that is looked at for races: for a while its addresses are nobody's, so a kernel that still touches it
//! ends there, by name. Else they would be the next allocation's, or the heap's, and what such a kernel destroys shows anywhere.

use std::collections::VecDeque;
use std::ffi::c_void;

use parking_lot::Mutex;

/// So many are kept: each is a mapping of its own, of which a process has some ten thousand.
const KEPT: usize = 1024;

#[derive(Clone, Copy)]
struct Freed {
    base: usize,
    /// Whole pages.
    length: usize,
    /// What was asked for.
    bytes: usize,
    /// A place in the program's code (race::users_line); 0: not known.
    called_at: usize,
}

/// In the order in which they were freed.
static ALL: Mutex<VecDeque<Freed>> = Mutex::new(VecDeque::new());

/// Whole pages, `length` bytes of which `bytes` were asked for, are given back to the system; their addresses later. Freed at `called_at`; 0: not known.
///
/// # Safety
/// It is a mapping of the caller's, which nobody may use any more.
pub unsafe fn keep(base: usize, length: usize, bytes: usize, called_at: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: over a mapping of the caller's.
    let is_kept = unsafe { libc::mmap(base as *mut c_void, length, libc::PROT_NONE, flags, -1, 0) } != libc::MAP_FAILED;
    let mut all = ALL.lock();
    let gone = match is_kept {
        true if all.len() < KEPT => None,
        true => all.pop_front().map(|oldest| (oldest.base, oldest.length)),
        false => Some((base, length)),
    };
    if let Some((base, length)) = gone {
        // SAFETY: this mapping, or one that was kept and is out of the list.
        unsafe { libc::munmap(base as *mut c_void, length) };
    }
    if is_kept {
        all.push_back(Freed { base, length, bytes, called_at });
    }
}

/// What is known of an address in such memory: words, and where it was freed. Waits for nobody.
pub fn find(address: usize) -> Option<(impl std::fmt::Display, usize)> {
    let all = ALL.try_lock()?;
    let found = *all.iter().find(|one| (one.base..one.base + one.length).contains(&address))?;
    let offset = address - found.base;
    Some((Words { offset, bytes: found.bytes }, found.called_at))
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

    const PAGE: usize = 4096;

    fn page() -> usize {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping.
        unsafe { libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) as usize }
    }

    #[test]
    fn what_was_freed_is_known_until_many_others_were() {
        let first = page();
        // SAFETY: pages of this test's.
        unsafe { keep(first, PAGE, 100, 7) };
        let told = find(first + 40).map(|(words, called_at)| (words.to_string(), called_at));
        assert_eq!(told, Some(("byte 40 of 100 bytes of cudaMalloc that were freed".into(), 7)));
        assert!(find(first + PAGE).is_none());
        for _ in 0..KEPT {
            // SAFETY: as above.
            unsafe { keep(page(), PAGE, 1, 0) };
        }
        assert!(find(first + 40).is_none() && ALL.lock().len() == KEPT);
    }
}
