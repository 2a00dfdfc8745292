//! Log lines in NCCL's format:
//! `host:pid:tid [dev] NCCL INFO text` and `[2026-01-31 12:00:00] host:pid:tid [dev] file:line NCCL WARN GINRS-E052 text`.
//!
//! Each line is one write(2): lines of threads and processes never mix, and a forked child finds no lock that was held.
//! Where NCCL_DEBUG is unset NCCL prints nothing; we print warnings on stderr, because a failure must not be silent and a
//! program's stdout is its own.
//!
//! Imports from error, sync, text and config.

use crate::error::Error;
use crate::sync::{Mutex, PerProcess};
use std::cell::Cell;
use std::fmt::Arguments;

mod kept;
mod lines;
mod settings;
mod site;
mod time;
pub mod timeline;

pub use crate::config::verbosity::{Level, Subsys};
pub use kept::{last_error_ptr, recall};
pub use settings::report;
pub use site::{Site, attach};

/// `warn!("GINRS-E010 what failed | where | measured | fix: ..")`: a WARN line, kept for ncclGetLastError.
#[macro_export]
macro_rules! warn {
    ($($arg:tt)+) => {{
        $crate::log::keep(format_args!($($arg)+));
        $crate::event!(Warn, None, $($arg)+)
    }};
}

/// `hint!("what is odd | where | fix: ..")`: a WARN line of what is no failure, not kept for ncclGetLastError.
#[macro_export]
macro_rules! hint {
    ($($arg:tt)+) => { $crate::event!(Warn, None, $($arg)+) };
}

/// `info!(INIT, "..")`: a line for NCCL_DEBUG=INFO when the subsystem is chosen.
#[macro_export]
macro_rules! info {
    ($subsys:ident, $($arg:tt)+) => { $crate::event!(Info, Some($crate::log::Subsys::$subsys), $($arg)+) };
}

/// `trace!(PROXY, "..")`: a line for NCCL_DEBUG=TRACE.
#[macro_export]
macro_rules! trace {
    ($subsys:ident, $($arg:tt)+) => { $crate::event!(Trace, Some($crate::log::Subsys::$subsys), $($arg)+) };
}

/// An event; its text is made only if somebody wants it.
#[doc(hidden)]
#[macro_export]
macro_rules! event {
    ($level:ident, $subsys:expr, $($arg:tt)+) => {{
        static SITE: $crate::log::Site =
            $crate::log::Site::new($crate::log::Level::$level, $subsys, module_path!(), file!(), line!(), &SITE);
        if SITE.is_wanted() {
            SITE.say(format_args!($($arg)+), None);
        }
    }};
}

thread_local! {
    static DEVICE: Cell<i32> = const { Cell::new(0) };
}

/// The device in `[dev]` of this thread's lines.
pub fn set_device(ordinal: i32) {
    DEVICE.set(ordinal);
}

/// Logs an error at the place that calls it: the first function that knows the cause does, callers pass it on.
#[track_caller]
pub fn error(error: &Error) {
    static SITE: Site = Site::new(Level::Warn, None, module_path!(), file!(), line!(), &SITE);
    keep(format_args!("{error}"));
    if is_news(error) {
        SITE.say(format_args!("{error}"), Some(std::panic::Location::caller()));
    }
}

/// Who has not come is told to every rank in the same words: one line, however many threads of the process wait for them.
fn is_news(error: &Error) -> bool {
    const NOT_JOINED: u16 = 11;
    static SAID: PerProcess<Mutex<String>> = PerProcess::new();
    if error.id != NOT_JOINED {
        return true;
    }
    let mut said = SAID.lock();
    let is_news = *said != error.text;
    said.clone_from(&error.text);
    is_news
}

#[doc(hidden)]
pub fn keep(text: Arguments<'_>) {
    kept::keep(&crate::text::printable(&text.to_string(), lines::MOST_BYTES));
}
