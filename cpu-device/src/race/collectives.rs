//! Collectives: their kernels are the library's own, in which nothing is looked at. Each counts as a read of what it sends and a write of
//! what it receives, by a grid of one thread, from when its stream comes to it until it is done.
//!
//! Held against what runs on its own device alone: of another rank's kernel the data may say more of the order than anybody sees here, for
//! what comes out of a collective is made of what went in.
//!
//! A collective may be far larger than what kernels touch of it, and runs beside those of the other ranks. So it makes no pages: it is noted
//! in those that there are, and, while it runs, in each that somebody asks for ([`meet`]).

use std::cell::Cell;
use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::clock::{Clock, Group};
use super::names::{self, Of, Part};
use super::report;
use super::shadow::{self, Access, PAGE, Page};
use super::touched::Place;
use super::{foreign, frames, job, lines, on, windows, words};
use crate::launch::{Dim3, Span, Touched};

/// One that runs.
struct Active {
    run: u32,
    group: Group,
    clock: Clock,
    touched: Arc<Touched>,
}

static ACTIVE: Mutex<Vec<Active>> = Mutex::new(Vec::new());
/// How many there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Of the next launch of this thread: of a Box, or NULL.
    static NEXT: Cell<*mut Touched> = const { Cell::new(std::ptr::null_mut()) };
}

/// See race.h.
///
/// # Safety
/// A terminated name, and so many spans.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrs_cpu_race_touches(name: *const c_char, spans: *const Span, count: usize, number: u64) {
    let next = (count != 0).then(|| {
        // Where nothing is looked at it has a name alone, for waits that last.
        let place = frames::called_beyond(1).unwrap_or(0);
        // SAFETY: the caller's.
        let spans = unsafe { std::slice::from_raw_parts(spans, count) }.to_vec();
        Touched { name: crate::launch::text(name, "nccl"), place, spans, number }
    });
    drop(take());
    NEXT.set(next.map_or(std::ptr::null_mut(), |next| Box::into_raw(Box::new(next))));
}

fn take() -> Option<Box<Touched>> {
    let next = NEXT.replace(std::ptr::null_mut());
    // SAFETY: not NULL: `ginrs_cpu_race_touches` has made it of a Box, and nobody takes it twice.
    (!next.is_null()).then(|| unsafe { Box::from_raw(next) })
}

/// What the launch that this thread makes just now touches, if that was told.
pub fn touched() -> Option<Arc<Touched>> {
    take().map(Arc::from)
}

/// The line of the program's that has called a collective; None: not known.
pub fn called_at(touched: &Touched) -> Option<String> {
    lines::users_line(touched.place)
}

/// A launch of `device` begins; its number for [`end`].
pub fn begin(device: i32, touched: &Arc<Touched>) -> u32 {
    if !on() || touched.place == 0 {
        return 0;
    }
    let run = names::new_run(device, &touched.name);
    let none = Dim3 { x: 0, y: 0, z: 0 };
    let group = names::new_groups(&[Of::Block { run, index: none, shape: none }]);
    // As of a copy: the host may have read all that kernels have told it.
    let mut clock = (*names::run(run).began).clone();
    clock.join(&words::everything());
    if job::is_joined() {
        foreign::tell_block(group);
        foreign::tell_site(touched.place as u64, lines::module_of);
    }
    // First: a page that is asked for meanwhile meets it there, or is found below.
    ACTIVE.lock().push(Active { run, group, clock: clock.clone(), touched: touched.clone() });
    COUNT.fetch_add(1, Ordering::SeqCst);
    let active = Active { run, group, clock, touched: touched.clone() };
    for span in &touched.spans {
        for (at, bytes) in shadow::pieces(span.at, span.bytes as usize) {
            if let Some((page, at)) = super::known_page_of(at) {
                active.note(&page, at, bytes, span.writes != 0);
            }
        }
    }
    run
}

/// It has ended.
pub fn end(run: u32) {
    if run != 0 {
        ACTIVE.lock().retain(|active| active.run != run);
        COUNT.fetch_sub(1, Ordering::SeqCst);
        names::end_run(run);
    }
}

impl Active {
    fn note(&self, page: &Page, at: usize, bytes: usize, writes: bool) {
        let new =
            Access { group: self.group, epoch: 1, run: self.run, writes, place: self.touched.place as u64, ..shadow::NOTHING };
        shadow::note(page, at, bytes, new, &self.clock, |at, old| {
            report::found(Place::At(windows::flat(at)), new, old, &self.clock, None);
        });
    }
}

/// Somebody asks for the page around `at`: what runs and touches it stands there.
pub fn meet(page: &Page, at: usize) {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return;
    }
    let first = windows::flat(at) & !(PAGE - 1);
    for active in &*ACTIVE.lock() {
        for span in &active.touched.spans {
            let begin = windows::flat(span.at);
            let (from, to) = (begin.max(first), (begin + span.bytes as usize).min(first + PAGE));
            if from < to {
                active.note(page, from, to - from, span.writes != 0);
            }
        }
    }
}

/// Whether an access is a collective's.
pub fn is_one(access: &Access) -> bool {
    access.place & names::PUT == 0 && matches!(names::group(access.group), Of::Block { .. }) && {
        let block = names::block(access.group);
        block.is_copy() && block.kernel.starts_with("nccl")
    }
}

/// Whether two accesses of which one is a collective's are of one device.
pub fn are_together(one: &Access, other: &Access) -> bool {
    let device = |access: &Access| match names::group(access.group) {
        Of::Block { .. } => Some(names::block(access.group).device),
        Of::Puts(Part::Read) => Some(names::block(names::put(access.place).group).device),
        Of::Puts(_) => None,
    };
    device(one).is_some_and(|one| one >= 0 && device(other) == Some(one))
}
