//! Where threads meet: barriers, warps, grid syncs, mbarriers.

use std::sync::Arc;

use super::{names, words, worker};

/// Barrier `id` gets an arrival of the running thread, of a generation that is not the whole block's.
pub fn arrive(id: usize) {
    if let Some(worker) = worker() {
        let clock = worker.release();
        let brought = worker.bring(std::iter::once(worker.current.into()));
        worker.barriers[id].join(&clock, &brought);
    }
}

/// A barrier ends: of the `whole` block, or of those who have arrived; `woken` and the running thread go on.
pub fn barrier_ends(id: usize, whole: bool, woken: &[u32], running: Option<u32>) {
    let Some(worker) = worker() else { return };
    if whole {
        return worker.meet(0..worker.actors.len() as u32, true);
    }
    let brought = std::mem::take(&mut worker.barriers[id]);
    for thread in woken.iter().copied().chain(running) {
        let actor = &mut worker.actors[thread as usize];
        Arc::make_mut(&mut actor.clock).join(&brought.clock);
        actor.bring(&brought);
    }
}

/// Lanes of a warp meet, `lanes` of those from thread `first` on.
pub fn lanes_meet(first: u32, lanes: u32) {
    if let Some(worker) = worker() {
        let threads = worker.actors.len() as u32;
        worker.meet(
            (0..32).filter(move |lane| lanes & (1 << lane) != 0).map(move |lane| first + lane).filter(move |&t| t < threads),
            false,
        );
    }
}

/// All threads of the block have come to a grid sync.
pub fn block_arrives() {
    let Some(worker) = worker() else { return };
    worker.meet(0..worker.actors.len() as u32, true);
    worker.settle(0);
    let clock = worker.actors[0].clock.clone();
    names::run(worker.run).sync.lock().join(&clock);
}

/// All blocks have.
pub fn block_leaves() {
    let Some(worker) = worker() else { return };
    let clock = Arc::new(names::run(worker.run).sync.lock().clone());
    for actor in &mut worker.actors {
        (actor.clock, actor.fenced, actor.pending) = (clock.clone(), Some(clock.clone()), None);
    }
}

/// The running thread hands over what it knows with its arrival at an mbarrier.
pub fn arrive_at(mbarrier: usize) {
    if let Some(worker) = worker() {
        worker.settle(worker.current);
        let clock = worker.release();
        words::give(words::at(mbarrier), &clock);
    }
}

/// It has waited there.
pub fn waited_at(mbarrier: usize) {
    if let Some(worker) = worker()
        && let Some(clock) = words::take(words::at(mbarrier))
    {
        worker.learn(&clock);
        // Who has arrived may have fenced before: that is taken for granted.
        worker.settle(worker.current);
        let actor = worker.actor();
        actor.fenced = Some(actor.clock.clone());
    }
}
