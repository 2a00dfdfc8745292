//! The device communicators of one communicator and rank that were made and not destroyed.

use super::Release;
use crate::device::DevPtr;
use crate::sync::Mutex;
use std::ops::Range;

/// One per communicator.
pub struct DevComms {
    /// Moves the words that kernels wait on, after an abort; ends before what holds them.
    pub release: Release,
    pub(super) live: Mutex<Vec<Record>>,
}

/// What a device communicator owns; found again by the fields that ncclDevCommDestroy may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub window: DevPtr,
    pub signal_base: u32,
    pub signals: u32,
    pub counter_base: u32,
    pub counters: u32,
    /// The first GIN context, 0 for none: says whose the ids are.
    pub contexts: DevPtr,
}

impl Record {
    pub fn signal_ids(&self) -> Range<u32> {
        self.signal_base..self.signal_base + self.signals
    }

    pub fn counter_ids(&self) -> Range<u32> {
        self.counter_base..self.counter_base + self.counters
    }
}

impl DevComms {
    /// None made.
    pub fn new(release: Release) -> Self {
        Self { release, live: Mutex::default() }
    }

    /// Takes out the one that `wanted` describes, once.
    pub(super) fn take(&self, wanted: &Record) -> Option<Record> {
        let mut live = self.live.lock();
        live.iter().position(|record| record == wanted).map(|at| live.swap_remove(at))
    }

    /// How many stand, for reports and tests.
    pub fn len(&self) -> usize {
        self.live.lock().len()
    }

    /// True if none stands.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
