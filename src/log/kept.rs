//! What ncclGetLastError returns: the newest warnings, kept in memory that stays where it is.

#![forbid(unsafe_code)]

use crate::error::Error;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Size of what ncclGetLastError returns, its NUL included.
const KEPT_BYTES: usize = 1024;
const KEPT_TEXTS: usize = 16;

/// The newest warnings. A reader holds a pointer into one text while later warnings go to the others; the last byte of each is
/// always 0, so even a reader that sleeps through 16 warnings never runs past the end.
static KEPT: [[AtomicU8; KEPT_BYTES]; KEPT_TEXTS] = [const { [const { AtomicU8::new(0) }; KEPT_BYTES] }; KEPT_TEXTS];
static CLAIMED: AtomicUsize = AtomicUsize::new(0);
static NEWEST: AtomicUsize = AtomicUsize::new(0);

/// Makes `text` the newest.
pub(super) fn keep(text: &str) {
    let slot = (CLAIMED.fetch_add(1, Ordering::Relaxed) + 1) % KEPT_TEXTS;
    let mut cut = text.len().min(KEPT_BYTES - 1);
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    for (to, from) in KEPT[slot].iter().zip(text.as_bytes()[..cut].iter().chain(&[0])) {
        to.store(*from, Ordering::Relaxed);
    }
    NEWEST.store(slot, Ordering::Release);
}

/// Makes `error`, which was or is just being printed, what ncclGetLastError returns, unless it is that already.
pub fn recall(error: &Error) {
    let text = error.to_string();
    let newest = &KEPT[NEWEST.load(Ordering::Acquire)];
    let cut = text.len().min(KEPT_BYTES - 4);
    if !newest.iter().zip(&text.as_bytes()[..cut]).all(|(kept, byte)| kept.load(Ordering::Relaxed) == *byte) {
        keep(&text);
    }
}

/// ncclGetLastError: the text of the newest warning, at most 1023 bytes and a NUL; "" when there was none.
pub fn last_error_ptr() -> *const c_char {
    KEPT[NEWEST.load(Ordering::Acquire)].as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_warning_is_kept_cut_to_size_and_ended() {
        let read = || {
            let bytes = KEPT[NEWEST.load(Ordering::Acquire)].iter().map(|byte| byte.load(Ordering::Relaxed));
            String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
        };
        for _ in 0..2 * KEPT_TEXTS {
            keep(&"ä".repeat(2000));
        }
        keep("short");
        let error = Error::new(crate::error::Code::RemoteError, 40, "ö".repeat(600));
        recall(&error);
        assert!(read().starts_with("GINRS-E040 öö"));
        let before = CLAIMED.load(Ordering::Relaxed);
        recall(&error);
        // Other tests warn too, but not thousands of times.
        (0..1000).for_each(|_| recall(&error));
        assert!(CLAIMED.load(Ordering::Relaxed) - before < 1000, "known texts are not kept again");
        // Other tests may warn meanwhile: only what the pointer shows must be whole.
        assert!(read().len() < KEPT_BYTES);
        for slot in &KEPT {
            assert_eq!(slot[KEPT_BYTES - 1].load(Ordering::Relaxed), 0);
        }
    }
}
