//! Copies and fills of the CUDA API: each is a grid of one thread, from when its stream comes to it until it is done. So it is held against
//! what runs at the same time and against puts, and streams, events and the host order it as they order kernels.

use super::clock::Clock;
use super::names::{self, Of};
use super::report;
use super::shadow::{self, Access, Made, PAGE};
use super::touched::Place;
use super::{foreign, frames, job, lines, pinned, windows, words};
use crate::launch::Dim3;

/// A call of the host's.
#[derive(Clone, Copy, Default)]
pub struct Called {
    name: &'static str,
    /// The address behind it; 0: not looked at.
    place: usize,
    /// Its number where it is queued; 0: its memory is the host's, or it has been waited for.
    queued: u64,
}

impl Called {
    /// The one that the calling thread is in.
    pub fn here(name: &'static str) -> Called {
        Called { name, place: frames::called_at(), queued: 0 }
    }

    /// It is about to be queued: until it is done the host keeps off this memory.
    pub fn queue(&mut self, rows: &[Rows]) {
        if super::on() && self.place != 0 {
            self.queued = pinned::queue(self.place, rows);
        }
    }

    /// It is done, or was refused.
    pub fn done(&self) {
        pinned::done(self.queued);
    }
}

/// What is read or written.
pub struct Rows {
    /// The first one.
    pub at: usize,
    /// From one to the next.
    pub pitch: usize,
    /// Bytes of each.
    pub width: usize,
    /// How many there are.
    pub height: usize,
    /// Else they are read.
    pub writes: bool,
}

/// Does a copy or fill that `called` has asked `device` for.
pub fn copy(device: i32, called: Called, rows: &[Rows], does: impl FnOnce()) {
    if !super::on() || called.place == 0 {
        return does();
    }
    let run = names::new_run(device, called.name);
    let none = Dim3 { x: 0, y: 0, z: 0 };
    let group = names::new_groups(&[Of::Block { run, index: none, shape: none }]);
    // The host may have read all that kernels have told it.
    let mut clock = (*names::run(run).began).clone();
    clock.join(&words::everything());
    for rows in rows {
        // Word by word the host talks with kernels that run.
        let made = if rows.width <= 8 && rows.height <= 1 { Made::Whole } else { Made::Plain };
        let new = Access {
            group,
            made,
            is_copy: true,
            epoch: 1,
            run,
            writes: rows.writes,
            place: called.place as u64,
            ..shadow::NOTHING
        };
        (0..rows.height).for_each(|row| note(new, &clock, rows.at + row * rows.pitch, rows.width));
    }
    does();
    called.done();
    names::end_run(run);
}

fn note(new: Access, clock: &Clock, at: usize, bytes: usize) {
    // Where nothing else runs all that comes later knows it: it is held against what was, and pages that no kernel touches stay unknown.
    let is_alone = names::all_running() <= 1;
    for (at, bytes) in shadow::pieces(at, bytes) {
        let known = super::known_page_of(at);
        let page = known.or_else(|| (!is_alone && windows::is_watched(at & !(PAGE - 1))).then(|| super::page_of(at)));
        let Some((page, at)) = page else { continue };
        if job::is_joined() {
            foreign::tell_block(new.group);
            foreign::tell_site(new.place, lines::module_of);
        }
        shadow::note(&page, at, bytes, new, clock, |at, old| {
            report::found(Place::At(windows::flat(at)), new, old, clock, None);
        });
    }
}
