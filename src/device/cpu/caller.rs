//! Where the program's host code calls this library: known of a program in which races are looked for (ginrs-cc --check=race), and of no other.

use super::runtime::watchers;
use std::cell::Cell;

thread_local! {
    /// The program has called on this thread, so it is none of ours: those never ask the loader whose code they come from ([`watchers`]).
    static IS_PROGRAMS: Cell<bool> = const { Cell::new(false) };
}

/// The program calls on this thread.
pub fn note_call() {
    IS_PROGRAMS.set(true);
}

/// Whether the program calls on this thread from a host function of a stream, of the CPU device's.
pub fn is_in_host_function() -> bool {
    // SAFETY: no arguments.
    IS_PROGRAMS.get() && watchers().and_then(|watchers| watchers.in_host_function).is_some_and(|is_in| unsafe { is_in() } != 0)
}

/// The place in the program's code from which this thread has called, for [`line_at`]; 0: not known.
pub fn call_site() -> u64 {
    let site = if IS_PROGRAMS.get() { watchers().and_then(|watchers| watchers.site) } else { None };
    // SAFETY: no arguments.
    site.map_or(0, |site| unsafe { site() })
}

/// Its line, where it is known.
pub fn line_at(site: u64) -> Option<String> {
    if site == 0 || !IS_PROGRAMS.get() {
        return None;
    }
    let line_of = watchers()?.line?;
    let mut line = [0u8; 4096];
    // SAFETY: there is so much room.
    let used = unsafe { line_of(site, line.as_mut_ptr().cast(), line.len()) };
    (used > 0).then(|| String::from_utf8_lossy(&line[..used]).into_owned())
}

/// The line of the host's call on this thread, where it is known.
pub fn calling_line() -> Option<String> {
    line_at(call_site())
}
