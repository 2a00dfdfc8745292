//! Whether a timeline is written (GINRS_TIMELINE); what stands in it, `timeline` says.

use std::sync::atomic::{AtomicU32, Ordering};

use ginrs_timeline::{is_on, open};

/// See waits.h.
#[unsafe(no_mangle)]
pub static ginrs_cpu_timeline: AtomicU32 = AtomicU32::new(0);

/// Records that the file may have unless GINRS_TIMELINE_EVENTS says otherwise.
const EVENTS: u64 = 1 << 20;

/// Begins if GINRS_TIMELINE says so.
pub fn start() {
    let Some(prefix) = std::env::var_os("GINRS_TIMELINE").filter(|prefix| !prefix.is_empty()) else { return };
    let events = crate::config::number("GINRS_TIMELINE_EVENTS", 64, 1 << 30).unwrap_or(EVENTS);
    match open(&prefix, events) {
        Ok(()) => ginrs_cpu_timeline.store(is_on().into(), Ordering::Relaxed),
        Err((path, error)) => crate::error::report(&format!(
            "GINRS_TIMELINE={}: {}: {error}\nfix: name a file in a folder that can be written",
            prefix.display(),
            path.display()
        )),
    }
}

/// In a child of fork(): it writes nothing.
pub fn stop() {
    ginrs_cpu_timeline.store(0, Ordering::Relaxed);
}
