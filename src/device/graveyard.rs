//! The CPU device's [`Lifetime::bury`]: memory that kernels may still touch after its owner has gone, kept until the device is idle.
//!
//! Abort and destroy return at once; a kernel that they released still runs to its end, and its last loads and stores must
//! hit memory that is mapped.
#![forbid(unsafe_code)]

use super::Lifetime;
use crate::sync::{Mutex, PerProcess};
use std::any::Any;
use std::sync::Arc;

type Grave = (Arc<dyn Lifetime>, Box<dyn Any + Send>);

/// A forked child never drops what its parent buried.
static GRAVES: PerProcess<Mutex<Vec<Grave>>> = PerProcess::new();

/// Drops `remains` now if no kernel runs on `device`, else at a later [`sweep`] (each burial sweeps too).
pub fn bury(device: Arc<dyn Lifetime>, remains: Box<dyn Any + Send>) {
    sweep();
    if !device.idle() {
        GRAVES.lock().push((device, remains));
    }
}

/// Drops what no kernel can touch any more. Called wherever memory is taken or given back.
pub fn sweep() {
    let gone: Vec<Grave> = {
        let mut graves = GRAVES.lock();
        graves.extract_if(.., |(device, _)| device.idle()).collect()
    };
    // Outside the lock: dropping may bury again.
    drop(gone);
}

/// Number of things waiting, for tests and reports.
pub fn waiting() -> usize {
    GRAVES.lock().len()
}
