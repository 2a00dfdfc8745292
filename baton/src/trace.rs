//! What a run tells of its choices: a page of a file that ginrs-run reads when the process has ended, however it did.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
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

/// Maps the file, or memory of this process alone where none is named.
pub fn begin() {
    let Some(at) = map(file()) else { return };
    PAGE.store(at, Ordering::Release);
    page().inspect(|page| page.magic.store(MAGIC, Ordering::Release));
}

/// The file that is named, if it has a page.
fn file() -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).open(std::env::var_os(FILE)?).ok()?;
    (file.metadata().ok()?.len() >= BYTES as u64).then_some(file)
}

fn map(file: Option<File>) -> Option<*mut Page> {
    let (flags, fd) = file.as_ref().map_or((libc::MAP_ANONYMOUS, -1), |file| (0, file.as_raw_fd()));
    // SAFETY: a new mapping, of a file that has so many bytes or of none.
    let at = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED | flags, fd, 0)
    };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// What was told so far: how many choices, their hash, and why a replay may differ.
pub fn told() -> Option<(u64, u64, String)> {
    let page = page()?;
    let length = page.length.load(Ordering::Acquire) as usize;
    // SAFETY: so many bytes were written before the length was, and none of them is written again.
    let text = unsafe { std::slice::from_raw_parts(page.text.get().cast::<u8>(), length) };
    let text = String::from_utf8_lossy(text).into_owned();
    Some((page.choices.load(Ordering::Relaxed), page.hash.load(Ordering::Relaxed), text))
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
