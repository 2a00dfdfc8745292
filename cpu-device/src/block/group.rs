//! A call of the device API is made by its whole group. Threads that meet in one while others of the group have ended, or have come to the
//! same barrier from elsewhere, would go on as if nothing were wrong; here the kernel ends, and it is told who is where.

use std::sync::atomic::Ordering;

use super::{Block, State};
use crate::error::Code;
use crate::launch::Place;
use crate::waits::Call;
use crate::warp::bits;

const FIX: &str =
    "let every thread of the group make the call, or give it the group that does: ncclCoopThread(), ncclCoopWarp(), ..";

/// Where threads wait for those of their span (coop.h).
const SPAN: &str = "ncclCoopWarpSpan::sync";
const SPAN_FIX: &str = "give each span that is live at a time an id of its own, 0 to 14";

impl Block {
    /// The calls of the device API that `thread` is in, innermost first.
    pub(crate) fn call_of(&self, thread: u32) -> *const Call {
        // SAFETY: only the thread's own code writes it, which is suspended, or has called us.
        unsafe { (*self.slots.borrow()[thread as usize].view.get()).call }
    }

    /// Where a thread waits: the user's call of the device API that it is in, or the CUDA function.
    pub(crate) fn whereabouts(&self, thread: u32) -> String {
        // SAFETY: calls stand on the stack of the thread, which is suspended or runs now.
        let call = unsafe { Call::describe(self.call_of(thread)) };
        call.unwrap_or_else(|| {
            let place = self.place(thread);
            format!("{} at {}", place.what(), place.line())
        })
    }

    /// Barrier `id` is complete; by the running thread, at `here`, or because one has ended.
    pub(crate) fn check_barrier(&self, id: usize, here: Option<Place>) {
        let (wrong, fix) = {
            let barriers = self.barriers.borrow();
            let met = barriers[id].waiters.iter().copied().chain(here.map(|_| self.thread()));
            let whole = if barriers[id].count == 0 { 0..self.threads() } else { 0..0 };
            match self.part_of_spans(id, met.clone(), here) {
                Some(spans) => (Some(spans), SPAN_FIX),
                None => (self.part_of_group(met, whole, here), FIX),
            }
        };
        wrong.inspect(|message| self.wrong_group(message, fix, here.is_some()));
    }

    /// Says so if threads have met at the barrier of a span that are none.
    fn part_of_spans(&self, id: usize, met: impl Iterator<Item = u32> + Clone, here: Option<Place>) -> Option<String> {
        let (first, last) = (met.clone().min()?, met.clone().max()?);
        let is_span = here.unwrap_or_else(|| self.place(first)).what() == SPAN;
        if !is_span || first % 32 == 0 && (last - first + 1) as usize == met.clone().count() {
            return None;
        }
        let places = self.places_of(met, here);
        let places: Vec<String> = places.iter().map(|(at, threads)| format!("{} in {at}", threads_of(threads))).collect();
        Some(format!("id {} is that of several ncclCoopWarpSpan at a time: {}", id - 1, places.join("; ")))
    }

    /// The running thread's lane has completed a sync of `met` under `mask`, at `here`.
    pub(crate) fn check_sync(&self, met: u32, mask: u32, here: Place) {
        let first = self.thread() & !31;
        let threads = |lanes: u32| bits(lanes).map(move |lane| first + lane as u32);
        let whole = threads(mask & !met).filter(|&thread| thread < self.threads());
        self.part_of_group(threads(met), whole, Some(here)).inspect(|message| self.wrong_group(message, FIX, true));
    }

    /// Lanes `woken` of `warp` go on because another one has ended.
    pub(crate) fn check_warp(&self, warp: u32, woken: u32) {
        let whole = warp * 32..self.threads().min(warp * 32 + 32);
        let met = bits(woken).map(|lane| warp * 32 + lane as u32);
        self.part_of_group(met, whole, None).inspect(|message| self.wrong_group(message, FIX, false));
    }

    /// Says what is wrong if threads that have `met` are in a call of the device API and are not all that make it: others are elsewhere, or
    /// have ended, of those that the group was made of.
    fn part_of_group(
        &self,
        met: impl Iterator<Item = u32> + Clone,
        whole: impl Iterator<Item = u32>,
        here: Option<Place>,
    ) -> Option<String> {
        let mut calls = met.clone().map(|thread| self.call_of(thread));
        let first = calls.next()?;
        if first.is_null() && calls.all(<*const Call>::is_null) {
            return None; // the program's own barrier: threads may come to it from where they like
        }
        if self.with_grid(|grid| grid.aborted.load(Ordering::Relaxed)) {
            return None; // threads learn of it at different turns of a loop
        }
        // SAFETY: calls stand on stacks of threads that are suspended, or that of the running one.
        let what =
            |call: *const Call| unsafe { call.as_ref().map(|inner| (inner.what(), Call::outermost(call).map(Call::what))) };
        // SAFETY: calls stand on stacks of threads that are suspended, or that of the running one.
        let waits = unsafe { Call::outermost(first) }.is_some_and(Call::only_waits);
        let ended: Vec<u32> = whole.filter(|&thread| !waits && self.state(thread) == State::Exited).collect();
        if ended.is_empty() && met.clone().all(|thread| what(self.call_of(thread)) == what(first)) {
            return None;
        }
        let places = self.places_of(met, here);
        let mut parts = places.iter().map(|(at, threads)| (at, threads_of(threads)));
        let (call, threads) = parts.next()?;
        let mut text = format!("{call} is entered by a part of its group: by {threads}");
        parts.for_each(|(at, threads)| text += &format!("; {threads} in {at}"));
        if !ended.is_empty() {
            text += &format!("; {} ended without it", threads_of(&ended));
        }
        Some(text)
    }

    /// Where each of the threads is that have met, the running one at `here`; those first who are in a call of the device API.
    fn places_of(&self, met: impl Iterator<Item = u32>, here: Option<Place>) -> Vec<(String, Vec<u32>)> {
        if let Some(here) = here {
            self.slots.borrow()[self.thread() as usize].place.set(here);
        }
        let mut places: Vec<(String, Vec<u32>)> = Vec::new();
        for thread in met {
            let at = self.whereabouts(thread);
            match places.iter_mut().find(|(other, _)| *other == at) {
                Some((_, threads)) => threads.push(thread),
                None if !self.call_of(thread).is_null() => places.insert(0, (at, vec![thread])),
                None => places.push((at, vec![thread])),
            }
        }
        places.iter_mut().for_each(|(_, threads)| threads.sort_unstable());
        places
    }

    /// Ends the kernel, and the running thread if there is one.
    fn wrong_group(&self, message: &str, fix: &str, runs: bool) {
        let message = format!("{message}\nfix: {fix}");
        if runs {
            self.fatal(Code::LAUNCH_FAILURE, &message);
        }
        self.with_grid(|grid| {
            let message = format!("{message}\n  block {} of {}", self.index.get(), grid.launch.describe());
            grid.fail(Code::LAUNCH_FAILURE, &message);
        });
    }
}

/// "threads 0-31, 33, 40-47"
pub(crate) fn threads_of(threads: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &thread in threads {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == thread => *last = thread,
            _ => parts.push((thread, thread)),
        }
    }
    let text = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let noun = if threads.len() == 1 { "thread" } else { "threads" };
    format!("{noun} {}", parts.iter().map(text).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_are_given_as_ranges() {
        assert_eq!(super::threads_of(&[0, 1, 2, 5, 7, 8]), "threads 0-2, 5, 7-8");
        assert_eq!(super::threads_of(&[7]), "thread 7");
    }
}
