//! What a completion says, once; what it does not say; and what an error says.

use super::{Completion, World, reap};
use crate::error::Error;
use crate::transport::{Submitted, Transport, Work};
use std::time::Instant;

/// Each piece that was taken ends once: never twice, never not, and never with a tag that nobody gave.
pub(super) fn once(world: &mut World) {
    let (mut pending, mut done): (Vec<u64>, Vec<Completion>) = Default::default();
    for i in 0..500 {
        let put = world.put(1 + i % 2, 0, u64::from(i) * 64, 1 + u64::from(i) % 60);
        let end = Instant::now() + world.patience;
        while !world.offer(&put, &mut pending).unwrap() {
            assert!(Instant::now() < end, "full for ever");
            world.progress(&mut done).unwrap();
            reap(&mut pending, &mut done).unwrap();
        }
    }
    let end = Instant::now() + world.patience;
    while !pending.is_empty() {
        assert!(Instant::now() < end, "{} pieces never complete", pending.len());
        world.progress(&mut done).unwrap();
        reap(&mut pending, &mut done).unwrap();
    }
    for _ in 0..1000 {
        world.progress(&mut done).unwrap();
        assert!(done.is_empty(), "what has completed completes again: {done:?}");
    }
}

/// The source is overwritten as soon as its piece is done, or at once below the inline size; what lands is what it was.
pub(super) fn source_is_reusable(world: &mut World) {
    let inline = world.capabilities().inline;
    let sizes = [8, 64, world.piece().min(3000)];
    let (mut pending, mut done): (Vec<u64>, Vec<Completion>) = Default::default();
    for round in 0..200u64 {
        let bytes = sizes[round as usize % 3];
        let (from, to) = ((round % 16) * 4096, round * 4096);
        world.bytes(0)[from as usize..][..bytes as usize].fill(round as u8 | 1);
        let put = world.put(1, from, to, bytes);
        let end = Instant::now() + world.patience;
        let reusable = loop {
            match world.ranks[0].submit(&put).unwrap() {
                Submitted::Done => break true,
                Submitted::Pending => {
                    pending.push(put.tag);
                    break bytes <= inline;
                }
                Submitted::Full => world.progress(&mut done).unwrap(),
            }
            reap(&mut pending, &mut done).unwrap();
            assert!(Instant::now() < end, "full for ever");
        };
        while !reusable && pending.contains(&put.tag) {
            world.progress(&mut done).unwrap();
            reap(&mut pending, &mut done).unwrap();
            assert!(Instant::now() < end, "never done");
        }
        world.bytes(0)[from as usize..][..bytes as usize].fill(0);
    }
    let end = Instant::now() + world.patience;
    while !pending.is_empty() || world.ranks[0].landing().left() > 0 {
        assert!(Instant::now() < end, "never done");
        world.progress(&mut done).unwrap();
        reap(&mut pending, &mut done).unwrap();
    }
    for round in 0..200u64 {
        let bytes = sizes[round as usize % 3];
        let landed = &world.bytes(1)[round as usize * 4096..][..bytes as usize];
        assert!(landed.iter().all(|&byte| byte == round as u8 | 1), "round {round} lost its source");
    }
}

/// Whenever the transport says that all has landed, it is visible at the target.
pub(super) fn landed_is_visible(world: &mut World) {
    let (mut pending, mut done): (Vec<u64>, Vec<Completion>) = Default::default();
    let (mut given, mut asked) = (0, 0);
    let end = Instant::now() + world.patience;
    while given < 300 || asked == 0 {
        let before = world.ranks[0].landing();
        let work = world.signal_to(1, 5, 1);
        let taken = world.offer(&work, &mut pending).unwrap();
        given += u64::from(taken);
        let now = world.ranks[0].landing();
        assert!(now.landed <= now.taken && now.landed >= before.landed && now.taken >= before.taken, "{before:?}, {now:?}");
        for _ in 0..if given % 7 == 0 || !taken { 400 } else { 0 } {
            world.progress(&mut done).unwrap();
            reap(&mut pending, &mut done).unwrap();
        }
        if pending.is_empty() && world.ranks[0].landing().left() == 0 {
            asked += 1;
            assert_eq!(world.signal(1, 5), given, "it says that all has landed");
        }
        assert!(Instant::now() < end, "{given} given, {asked} times landed");
    }
}

/// See [`super::failure`].
pub(super) fn errors_name_the_peer(world: &mut World, mut fail: impl FnMut(&mut Vec<Box<dyn Transport>>)) {
    let mut done = Vec::new();
    let mut ended = 0;
    let end = Instant::now() + world.patience;
    let mut given = 0u64;
    let error: Error = loop {
        if given == 3 {
            fail(&mut world.ranks);
        }
        given += 1;
        let put = Work { signal: Some((0, 1)), ..world.put(1, 0, (given % 1000) * 64, 64) };
        let answer = world.ranks[0].submit(&put).map(|submitted| ended += u64::from(submitted == Submitted::Done));
        if let Err(error) = answer.and_then(|()| world.progress(&mut done)) {
            break error;
        }
        let mut failed = None;
        for (_, result) in done.drain(..) {
            match result {
                Ok(()) => ended += 1,
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            break error;
        }
        assert!(Instant::now() < end, "nobody noticed");
    };
    assert!(error.text.contains("rank 1") && error.text.contains("| fix:"), "whom it concerns: {error}");
    if world.capabilities().lands {
        assert_eq!(error.culprit, Some(1), "the way to a peer has failed: {error}");
    } else {
        let done = done.iter().filter(|(_, result)| result.is_ok()).count() as u64;
        assert!(world.signal(1, 0) <= ended + done, "a signal for what was lost");
    }
    world.ranks[0].abort();
    done.clear();
    for _ in 0..100 {
        let _ = world.ranks[0].progress(&mut done);
    }
    assert!(done.is_empty(), "no completion follows an abort");
}
