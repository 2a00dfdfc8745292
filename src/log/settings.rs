//! What a process says once of itself: its version and its settings.

#![forbid(unsafe_code)]

use super::{Level, sink};
use crate::config;
use crate::sync::PerProcess;
use crate::{hint, info};
use std::sync::atomic::{AtomicBool, Ordering};

/// Says once per process what was set and from where (NCCL_DEBUG=INFO), and warns of what cannot be meant.
/// Called by the first thing that a program does with the library.
pub fn report() {
    static SAID: PerProcess<AtomicBool> = PerProcess::new();
    if SAID.get(AtomicBool::default).swap(true, Ordering::AcqRel) {
        return;
    }
    let sink = sink();
    if !sink.to_stderr && sink.level.load(Ordering::Relaxed) >= Level::Version as u8 {
        sink.write(&format!("NCCL version 2.28.9 (ginrs {})\n", env!("CARGO_PKG_VERSION")));
    }
    for complaint in config::complaints() {
        hint!("{complaint}");
    }
    for (name, text, source) in config::set() {
        info!(ENV, "{name} set by {source} to {text}");
    }
}
