//! Aborts and departures.

use super::{BYTES, World};
use crate::transport::{Submitted, Work};
use std::time::{Duration, Instant};

pub(super) fn aborted_means_still(world: &mut World) {
    let work: Vec<Work> = (0..8).map(|i| world.put(1, 0, i * 4096, 4096)).collect();
    for work in work {
        world.ranks[0].submit(&work).unwrap();
    }
    world.ranks[0].abort();
    // What the targets' progress still lands is theirs.
    world.settle_others();
    world.bytes(1).fill(0xee);
    let mut done = Vec::new();
    for _ in 0..100 {
        let _ = world.progress(&mut done);
    }
    assert!(done.is_empty(), "no completion follows an abort");
    assert!(*world.bytes(1) == *vec![0xee; BYTES], "no byte moves after an abort");
    assert_eq!(world.ranks[0].landing().left(), 0, "nobody waits for it");
}

/// Where the target's progress lands what comes: nothing lands behind its abort, and the sender neither hangs nor is told that
/// it has.
pub(super) fn receivers_that_abort(world: &mut World) {
    if !world.capabilities().lands {
        return;
    }
    let put = |world: &mut World| Work { signal: Some((0, 1)), ..world.put(1, 0, 0, 4096) };
    for _ in 0..4 {
        let work = put(world);
        world.carry(&[work]).unwrap();
    }
    let mut done = Vec::new();
    for _ in 0..8 {
        let work = put(world);
        let _ = world.ranks[0].submit(&work);
        let _ = world.ranks[0].progress(&mut done);
    }
    let counted = world.signal(1, 0);
    let completed = done.len() as u64;
    world.ranks[1].abort();
    world.bytes(1).fill(0xee);
    let after = world.signal(1, 0);
    assert!(world.threaded || counted == after, "an abort lands nothing");
    let begin = Instant::now();
    for i in 0..2000 {
        let work = put(world);
        let (submitted, told) = (world.ranks[0].submit(&work), world.progress(&mut done));
        if submitted.is_err() || told.is_err() {
            break;
        }
        assert!(i < 1999 || matches!(submitted, Ok(Submitted::Full)), "it takes without end what nobody lands");
    }
    assert!(begin.elapsed() < world.patience, "{:?}", begin.elapsed());
    assert_eq!(world.signal(1, 0), after, "a signal behind the abort");
    assert!(*world.bytes(1) == *vec![0xee; BYTES], "a byte behind the abort");
    // One whose completions say that it has landed, for want of another word for that, must not say so now.
    if world.ranks[0].landing().taken > 0 {
        return;
    }
    let good = done.iter().filter(|(_, result)| result.is_ok()).count() as u64;
    assert!(good <= completed.max(after), "told of {good} completions, {after} landed");
}

/// The last signals of a rank that leaves at once, while its peers go on.
pub(super) fn close_lands(world: &mut World) {
    let mut given = 0;
    for _ in 0..16 {
        let work = Work { signal: Some((8, 1)), ..world.put(1, 0, 0, 512) };
        given += u64::from(world.ranks[0].submit(&work).unwrap() != Submitted::Full);
    }
    let mut own = world.ranks.remove(0);
    let patience = world.patience;
    let closed = std::thread::scope(|scope| {
        let closing = scope.spawn(move || own.close(patience));
        while !closing.is_finished() {
            world.ranks.iter_mut().for_each(|rank| _ = rank.progress(&mut Vec::new()).unwrap());
            std::thread::yield_now();
        }
        closing.join().unwrap()
    });
    closed.unwrap();
    // Where the sender's own copies land it, deregistration waits for them: nothing is lost that close did not wait for.
    if world.ranks.first().is_some_and(|rank| rank.capabilities().lands) {
        assert_eq!(world.signal(1, 1), given, "close said that all has landed");
    }
}

/// A peer that stands still holds up a rank that leaves for as long as it was told to wait, and is named.
pub(super) fn close_is_bounded(world: &mut World) {
    if !world.capabilities().lands {
        return;
    }
    let work = Work { signal: Some((8, 1)), ..world.put(1, 0, 0, 512) };
    let mut taken = false;
    for _ in 0..100 {
        taken = taken || world.ranks[0].submit(&work).unwrap() != Submitted::Full;
        world.ranks[0].progress(&mut Vec::new()).unwrap();
    }
    assert!(taken, "a first message is taken though nobody answers yet");
    let begin = Instant::now();
    let error = world.ranks[0].close(Duration::from_millis(50)).expect_err("nobody has landed it");
    assert!(begin.elapsed() < world.patience, "{:?}", begin.elapsed());
    assert!(error.text.contains("rank 1") && error.culprit == Some(1), "{error}");
}
