//! What a process says once of itself: its version and its settings.

#![forbid(unsafe_code)]

use crate::sync::PerProcess;
use crate::{config, event, hint, info};
use std::sync::atomic::{AtomicBool, Ordering};

/// Says once per process what was set and from where (NCCL_DEBUG=INFO), and warns of what cannot be meant.
/// Called by the first thing that a program does with the library.
pub fn report() {
    static SAID: PerProcess<AtomicBool> = PerProcess::new();
    if SAID.get(AtomicBool::default).swap(true, Ordering::AcqRel) {
        return;
    }
    super::timeline::start();
    event!(Version, None, "NCCL version 2.28.9 (ginrs {})", env!("CARGO_PKG_VERSION"));
    for complaint in config::complaints() {
        hint!("{complaint}");
    }
    for (name, text, source) in config::set() {
        info!(ENV, "{name} set by {source} to {text}");
    }
}
