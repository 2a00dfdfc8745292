//! Who sleeps on a descriptor is woken when there is something to do, and not before.

use super::World;
use crate::transport::{Transport, Work};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// Steps `transport` until it has nothing to do.
fn asleep(transport: &mut dyn Transport) {
    let end = Instant::now() + Duration::from_secs(5);
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
        asleep(&mut *world.ranks[1]);
        asleep(&mut *world.ranks[0]);
        assert!(!ready(&*world.ranks[1], Duration::ZERO), "woken for nothing");
        let work = Work { signal: Some((0, 1)), ..world.put(1, 0, 0, 64) };
        world.ranks[0].submit(&work).unwrap();
        let end = Instant::now() + world.patience;
        while world.signal(1, 0) < round {
            assert!(ready(&*world.ranks[1], patience), "a message came and nobody was woken");
            world.ranks[1].progress(&mut Vec::new()).unwrap();
            assert!(Instant::now() < end, "round {round}");
        }
        // The sender waits for word that it has landed.
        while world.ranks[0].landing().left() > 0 {
            assert!(ready(&*world.ranks[0], patience), "it has landed and nobody was woken");
            world.ranks[0].progress(&mut Vec::new()).unwrap();
            assert!(Instant::now() < end, "round {round}");
        }
    }
}
