//! What a run tells of its choices: a page of a file that ginrs-run reads when the process has ended, however it did.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The file's name; it has to be there.
pub const FILE: &str = "GINRS_SCHEDULE_TRACE";
/// What the page begins with.
pub const MAGIC: u64 = u64::from_le_bytes(*b"gbaton01");
/// Bytes of the file.
pub const BYTES: usize = 4096;
const TEXT: usize = BYTES - 3 * 8 - 4;

/// The page.
#[repr(C)]
struct Page {
    magic: AtomicU64,
    choices: AtomicU64,
    hash: AtomicU64,
    /// Bytes of the text.
    length: AtomicU32,
    /// Why a replay may differ.
    text: std::cell::UnsafeCell<[u8; TEXT]>,
}

static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());

fn page() -> Option<&'static Page> {
    // SAFETY: null, or a mapping of a whole page that is never undone.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

/// Maps the file, if one is named.
pub fn begin() {
    let Some(name) = std::env::var_os(FILE) else { return };
    let Some(at) = map(&name) else { return };
    PAGE.store(at, Ordering::Release);
    page().inspect(|page| page.magic.store(MAGIC, Ordering::Release));
}

fn map(name: &OsString) -> Option<*mut Page> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(OsStr::from_bytes(name.as_bytes())).ok()?;
    if file.metadata().ok()?.len() < BYTES as u64 {
        return None;
    }
    use std::os::fd::AsRawFd;
    // SAFETY: a new mapping of a file that has so many bytes.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// So many choices have been made, with this hash.
pub fn choices(choices: u64, hash: u64) {
    if let Some(page) = page() {
        page.choices.store(choices, Ordering::Relaxed);
        page.hash.store(hash, Ordering::Relaxed);
    }
}

/// A reason why a replay may differ, told once. To be called under the lock of the state.
pub fn inexact(reason: &str) {
    let Some(page) = page() else { return };
    let length = page.length.load(Ordering::Relaxed) as usize;
    // SAFETY: under the lock nobody else writes, and the other process reads when this one has ended.
    let text = unsafe { &mut *page.text.get() };
    let told = text[..length].split(|byte| *byte == b'\n').any(|line| line == reason.as_bytes());
    if !told && length + reason.len() < TEXT {
        text[length..length + reason.len()].copy_from_slice(reason.as_bytes());
        text[length + reason.len()] = b'\n';
        page.length.store((length + reason.len() + 1) as u32, Ordering::Release);
    }
}
