//! What is printed when no live thread of a block can go on: where each group of threads waits.

use crate::block::{Block, State, Switch, threads_of};
use crate::grid::Grid;

/// Groups that a report lists; the rest is counted.
const MOST_GROUPS: usize = 24;

/// Names each place where threads of the block wait, with the threads.
pub fn describe(block: &Block, grid: &Grid) -> String {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for thread in (0..block.threads()).filter(|&t| block.state(t) == State::Gave(Switch::Blocked)) {
        let at = wait_of(block, thread);
        match groups.iter_mut().find(|(place, _)| *place == at) {
            Some((_, threads)) => threads.push(thread),
            None => groups.push((at, vec![thread])),
        }
    }
    let mut text = format!(
        "deadlock in {}, device {}, block {}: none of its {} live threads can go on",
        grid.launch.describe(),
        grid.device.id,
        block.index.get(),
        block.live.get()
    );
    for (at, threads) in groups.iter().take(MOST_GROUPS) {
        text += &format!("\n  {} in {at}", threads_of(threads));
    }
    if groups.len() > MOST_GROUPS {
        text += &format!("\n  and {} more groups", groups.len() - MOST_GROUPS);
    }
    text += "\nfix: let every thread that a barrier or a lane mask counts reach it, and every byte that an mbarrier expects";
    text
}

fn wait_of(block: &Block, thread: u32) -> String {
    let at = block.whereabouts(thread);
    let barriers = block.barriers.borrow();
    if let Some((id, barrier)) = barriers.iter().enumerate().find(|(_, b)| b.waiters.contains(&thread)) {
        let needed = if barrier.count == 0 { block.live.get() } else { barrier.count };
        return format!("{at} (barrier {id}: {} of {needed} arrived)", barrier.arrived);
    }
    if let Some((mask, arrived)) = block.warps.borrow()[thread as usize / 32].waits(thread % 32) {
        return format!("{at} (mask {mask:#010x}, arrived {arrived:#010x})");
    }
    if let Some(missing) = block.mbarriers.borrow().describe(thread) {
        return format!("{at} {missing}");
    }
    let waiting = block.grid_waiters.borrow().len();
    format!("{at} ({waiting} of {} live threads of the block arrived)", block.live.get())
}
