//! Log lines in NCCL's format:
//! `host:pid:tid [dev] NCCL INFO text` and `[2026-01-31 12:00:00] host:pid:tid [dev] file:line NCCL WARN GINRS-E052 text`.
//!
//! Each line is one write(2): lines of threads and processes never mix, and a forked child finds no lock that was held.
//! Where NCCL_DEBUG is unset NCCL prints nothing; we print warnings on stderr, because a failure must not be silent and a
//! program's stdout is its own.
//!
//! Imports from error, sync, text and config.

use crate::config;
use crate::config::verbosity::{LEVEL_NAMES, LEVELS, SUBSYSTEMS};
use crate::error::Error;
use crate::sync::PerProcess;
use crate::text::printable;
use std::cell::Cell;
use std::ffi::c_char;
use std::fmt::Arguments;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

mod settings;
mod time;

pub use crate::config::verbosity::{Level, Subsys};
pub use settings::report;

/// `warn!("GINRS-E010 what failed | where | measured | fix: ..")`: a WARN line, kept for ncclGetLastError.
#[macro_export]
macro_rules! warn {
    ($($arg:tt)+) => { $crate::log::emit_warn(file!(), line!(), format_args!($($arg)+)) };
}

/// `hint!("what is odd | where | fix: ..")`: a WARN line of what is no failure, not kept for ncclGetLastError.
#[macro_export]
macro_rules! hint {
    ($($arg:tt)+) => { $crate::log::emit_hint(file!(), line!(), format_args!($($arg)+)) };
}

/// `info!(INIT, "..")`: a line for NCCL_DEBUG=INFO when the subsystem is chosen.
#[macro_export]
macro_rules! info {
    ($subsys:ident, $($arg:tt)+) => {
        if $crate::log::wants($crate::log::Level::Info, $crate::log::Subsys::$subsys) {
            $crate::log::emit($crate::log::Level::Info, format_args!($($arg)+))
        }
    };
}

/// `trace!(PROXY, "..")`: a line for NCCL_DEBUG=TRACE.
#[macro_export]
macro_rules! trace {
    ($subsys:ident, $($arg:tt)+) => {
        if $crate::log::wants($crate::log::Level::Trace, $crate::log::Subsys::$subsys) {
            $crate::log::emit($crate::log::Level::Trace, format_args!($($arg)+))
        }
    };
}

const DEFAULT_SUBSYSTEMS: u32 = 1 << Subsys::INIT as u32 | 1 << Subsys::BOOTSTRAP as u32 | 1 << Subsys::ENV as u32;

/// Where lines go, and which.
struct Sink {
    level: AtomicU8,
    subsystems: u32,
    file: Option<OwnedFd>,
    to_stderr: bool,
    host: String,
    stamp: String,
    stamped: u32,
    warning_opens_info: bool,
}

thread_local! {
    static DEVICE: Cell<i32> = const { Cell::new(0) };
}

/// The device in `[dev]` of this thread's lines.
pub fn set_device(ordinal: i32) {
    DEVICE.set(ordinal);
}

/// True if such a line would be printed.
pub fn wants(level: Level, subsys: Subsys) -> bool {
    let sink = sink();
    sink.level.load(Ordering::Relaxed) >= level as u8 && sink.subsystems & (1 << subsys as u32) != 0
}

/// Logs an error at the place that calls it: the first function that knows the cause does, callers pass it on.
#[track_caller]
pub fn error(error: &crate::error::Error) {
    let at = std::panic::Location::caller();
    emit_warn(at.file(), at.line(), format_args!("{error}"));
}

#[doc(hidden)]
pub fn emit(level: Level, text: Arguments<'_>) {
    let sink = sink();
    let text = printable(&text.to_string(), MOST_BYTES);
    sink.write(&format!("{} NCCL {} {text}\n", sink.head(level), LEVEL_NAMES[level as usize]));
}

#[doc(hidden)]
pub fn emit_warn(file: &str, line: u32, text: Arguments<'_>) {
    keep(&printable(&text.to_string(), MOST_BYTES));
    emit_hint(file, line, text);
}

#[doc(hidden)]
pub fn emit_hint(file: &str, line: u32, text: Arguments<'_>) {
    let sink = sink();
    if sink.level.load(Ordering::Relaxed) >= Level::Warn as u8 {
        let text = printable(&text.to_string(), MOST_BYTES);
        sink.write(&format!("{} {}:{line} NCCL WARN {text}\n", sink.head(Level::Warn), short(file)));
        if sink.warning_opens_info {
            sink.level.fetch_max(Level::Info as u8, Ordering::Relaxed);
        }
    }
}

/// `/root/x/src/window/register.rs` and `src/window/register.rs` both as `window/register.rs`.
fn short(file: &str) -> &str {
    file.rsplit_once("src/").map_or(file, |(_, tail)| tail)
}

impl Sink {
    fn open() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.split('.').next().unwrap_or_default().to_owned();
        let debug = config::text("NCCL_DEBUG");
        let at = |name: &str| LEVEL_NAMES.iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
        // NCCL takes an unknown word as no level; so do we, but warnings still show.
        let level = debug.as_deref().and_then(at).map(|at| LEVELS[at]);
        let listed =
            |name: &str, names: &[&str], default| config::text(name).map_or(default, |list| config::mask(&list, names, default));
        let mut subsystems = listed("NCCL_DEBUG_SUBSYS", &SUBSYSTEMS, DEFAULT_SUBSYSTEMS);
        if level == Some(Level::Trace) && config::text("NCCL_DEBUG_SUBSYS").is_none() {
            subsystems = u32::MAX;
        }
        let file = level.and(config::text("NCCL_DEBUG_FILE")).map(|path| expand(&path, &host));
        let (file, trouble) = match file.map(|path| (create(&path), path)) {
            Some((Ok(file), _)) => (Some(file), None),
            Some((Err(e), path)) => (
                None,
                Some(format!(
                    "NCCL WARN GINRS-W001 NCCL_DEBUG_FILE cannot be written | {} | {e} | fix: correct the path; lines go to stdout\n",
                    printable(&path, 200)
                )),
            ),
            None => (None, None),
        };
        let own = Self {
            level: AtomicU8::new(level.unwrap_or(Level::Warn) as u8),
            subsystems,
            file,
            to_stderr: level.is_none(),
            host,
            stamp: config::text("NCCL_DEBUG_TIMESTAMP_FORMAT").unwrap_or_else(|| "[%F %T] ".into()),
            stamped: listed("NCCL_DEBUG_TIMESTAMP_LEVELS", &LEVEL_NAMES, 1 << Level::Warn as u32),
            warning_opens_info: config::int("NCCL_WARN_ENABLE_DEBUG_INFO") != 0 && level.is_some(),
        };
        trouble.iter().for_each(|text| own.write(text));
        own
    }

    /// Timestamp, host, process, thread and device.
    fn head(&self, level: Level) -> String {
        let stamp = if self.stamped & (1 << level as u32) != 0 { time::stamp(&self.stamp) } else { String::new() };
        let thread = rustix::thread::gettid().as_raw_nonzero();
        format!("{stamp}{}:{}:{thread} [{}]", self.host, std::process::id(), DEVICE.get())
    }

    fn write(&self, text: &str) {
        // SAFETY: descriptors 1 and 2 are borrowed for this call; if the program closed them the write fails, which is all.
        let (out, err) = unsafe { (BorrowedFd::borrow_raw(1), BorrowedFd::borrow_raw(2)) };
        let fd = match &self.file {
            Some(file) => file.as_fd(),
            None if self.to_stderr => err,
            None => out,
        };
        let mut left = text.as_bytes();
        while !left.is_empty() {
            // SAFETY: left is a live slice. libc's write, so that nothing but the descriptor is needed.
            let wrote = unsafe { libc::write(fd.as_raw_fd(), left.as_ptr().cast(), left.len()) };
            match usize::try_from(wrote) {
                Ok(n) if n > 0 => left = &left[n.min(left.len())..],
                _ if wrote < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                _ => return, // a full disk or a closed pipe: there is nowhere to say so
            }
        }
    }
}

/// %h and %p of NCCL_DEBUG_FILE; %% is a percent sign.
fn expand(path: &str, host: &str) -> String {
    let mut out = String::new();
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.clone().next()) {
            ('%', Some('h')) => out += host,
            ('%', Some('p')) => out += &std::process::id().to_string(),
            ('%', Some('%')) => out.push('%'),
            _ => {
                out.push(letter);
                continue;
            }
        }
        letters.next();
    }
    out
}

fn create(path: &str) -> std::io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    // Ranks that share a file do not overwrite each other, and a FIFO that nobody reads is an error instead of a wait for ever.
    let flags = libc::O_NOCTTY | libc::O_APPEND | libc::O_NONBLOCK;
    let file: OwnedFd =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?.into();
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

fn sink() -> &'static Sink {
    static SINK: PerProcess<Sink> = PerProcess::new();
    SINK.get(Sink::open)
}

/// Most bytes of a line's text: a table of thousands of ranks is no line.
const MOST_BYTES: usize = 16 << 10;

/// Size of what ncclGetLastError returns, its NUL included.
const KEPT_BYTES: usize = 1024;
const KEPT_TEXTS: usize = 16;

/// The newest warnings. A reader holds a pointer into one text while later warnings go to the others; the last byte of each is
/// always 0, so even a reader that sleeps through 16 warnings never runs past the end.
static KEPT: [[AtomicU8; KEPT_BYTES]; KEPT_TEXTS] = [const { [const { AtomicU8::new(0) }; KEPT_BYTES] }; KEPT_TEXTS];
static CLAIMED: AtomicUsize = AtomicUsize::new(0);
static NEWEST: AtomicUsize = AtomicUsize::new(0);

fn keep(text: &str) {
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
    fn names_of_levels_subsystems_and_files() {
        assert_eq!(SUBSYSTEMS[Subsys::RAS as usize], "RAS");
        assert_eq!(LEVEL_NAMES[Level::Trace as usize], "TRACE");
        assert_eq!(expand("/tmp/%h-%p-%%-%x", "node7"), format!("/tmp/node7-{}-%-%x", std::process::id()));
    }

    #[test]
    fn the_last_warning_is_kept_cut_to_size_and_ended() {
        // SAFETY: the buffer is static and always holds a NUL.
        let read = || unsafe { std::ffi::CStr::from_ptr(last_error_ptr()) }.to_str().unwrap().to_owned();
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
