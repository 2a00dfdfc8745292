//! Who sleeps on a descriptor is woken when there is something to do, and not before.

use super::World;
use crate::transport::{Transport, Work};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// Steps `transport` until it has nothing to do.
fn asleep(transport: &mut dyn Transport, end: Instant) {
    let mut still = 0;
    while still < 50 || !transport.arm().unwrap() {
        let moved = transport.progress(&mut Vec::new()).unwrap();
        still = if moved { 0 } else { still + 1 };
        assert!(Instant::now() < end, "it always has something to do");
    }
}

fn ready(transport: &dyn Transport, patience: Duration) -> bool {
    let descriptor = transport.descriptor().expect("it had one");
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::try_from(patience).unwrap())).unwrap() > 0
}

pub(super) fn woken(world: &mut World) {
    if world.ranks[0].descriptor().is_none() {
        return;
    }
    let patience = world.patience / 4;
    for round in 1..=20u64 {
        let end = Instant::now() + world.patience;
        loop {
            asleep(&mut *world.ranks[1], end);
            asleep(&mut *world.ranks[0], end);
            // The kernel may deliver what was sent before only after the last step.
            if !ready(&*world.ranks[1], Duration::ZERO) {
                break;
            }
            assert!(Instant::now() < end, "woken for nothing");
        }
        let work = Work { signal: Some((0, 1)), ..world.put(1, 0, 0, 64) };
        world.ranks[0].submit(&work).unwrap();
        world.ranks[0].flush().unwrap();
        let end = Instant::now() + world.patience;
        // Both ends have a part in it: a connection, the message, word that it has landed.
        while world.signal(1, 0) < round || world.ranks[0].landing().left() > 0 {
            wake(&mut world.ranks[..2], patience);
            assert!(Instant::now() < end, "round {round}");
        }
    }
}

/// Steps those that may not sleep, and those that are woken.
fn wake(ranks: &mut [Box<dyn Transport>], patience: Duration) {
    let restless: Vec<bool> = ranks.iter_mut().map(|rank| !rank.arm().unwrap()).collect();
    let patience = if restless.contains(&true) { Duration::ZERO } else { patience };
    let awake: Vec<bool> = {
        let descriptors: Vec<_> = ranks.iter().map(|rank| rank.descriptor().expect("it had one")).collect();
        let mut polled: Vec<_> = descriptors.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
        poll(&mut polled, Some(&Timespec::try_from(patience).unwrap())).unwrap();
        polled.iter().zip(restless).map(|(polled, restless)| restless || !polled.revents().is_empty()).collect()
    };
    assert!(awake.contains(&true), "something has come and nobody was woken");
    for (rank, _) in ranks.iter_mut().zip(awake).filter(|(_, awake)| *awake) {
        rank.progress(&mut Vec::new()).unwrap();
    }
}
