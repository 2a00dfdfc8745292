//! Connections that end, with something under way or not.

use super::*;
use crate::sync::Mutex;
use crate::transport::ofi::wire::ASKED;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// Ranks 1 and 2 have gone without a word, with puts to them under way; rank 3, now the second of the list, is there.
fn two_have_gone(set: impl FnOnce(&mut Ofi)) -> World {
    let mut world = World::of(4);
    set(&mut world.ranks[0]);
    for peer in 1..4 {
        world.put(&Work { peer, ..put(0, 0, 8, None) }).unwrap();
    }
    for peer in 1..3 {
        assert_eq!(world.ranks[0].submit(&Work { peer, ..put(0, 0, 8, None) }).unwrap(), Submitted::Done);
    }
    world.ranks[0].flush().unwrap();
    world.ranks.drain(1..3);
    world
}

/// Calls until `done`.
fn until(mut done: impl FnMut() -> bool) {
    let end = hang_deadline();
    while !done() {
        assert!(Instant::now() < end, "never");
    }
}

/// What became of the peers of several connections is asked at the same time, and nobody else waits for the answers.
#[test]
fn all_else_goes_on_while_peers_may_have_left() {
    let (asked, left) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicBool::new(false)));
    let mut world = two_have_gone(|rank| {
        let (asked, left) = (asked.clone(), left.clone());
        rank.tidings = Duration::from_secs(3600);
        rank.has_left = Arc::new(move |peer| {
            asked.lock().insert(peer);
            left.load(Ordering::Relaxed)
        });
    });
    until(|| {
        world.step().unwrap();
        asked.lock().len() == 2
    });
    assert_eq!(*asked.lock(), BTreeSet::from([1, 2]));
    let to = |peer| Work { peer, ..put(0, 0, 8, Some((0, 1))) };
    assert_eq!(world.ranks[0].submit(&to(1)).unwrap(), Submitted::Full, "it is not known yet");
    assert_eq!(world.ranks[0].submit(&to(3)).unwrap(), Submitted::Done);
    until(|| {
        world.step().unwrap();
        contract::word(&world.signals[3], 0).load(Ordering::Acquire) == 1
    });
    assert!(world.ranks[0].landing().left() > 0 && !world.ranks[0].arm().unwrap(), "nothing wakes it for the answer");
    left.store(true, Ordering::Relaxed);
    until(|| {
        world.step().unwrap();
        world.ranks[0].landing().left() == 0
    });
    assert_eq!(world.ranks[0].submit(&to(1)).unwrap(), Submitted::Done, "it has left");
}

#[test]
fn each_peer_that_has_not_left_is_named() {
    let mut world = two_have_gone(|rank| rank.tidings = Duration::ZERO);
    let mut named = Vec::new();
    until(|| {
        if let Err(error) = world.step() {
            assert_eq!(error.id, 122, "{error}");
            named.extend(error.culprit);
        }
        world.ranks[0].landing().left() == 0
    });
    named.sort_unstable();
    assert_eq!(named, [1, 2]);
}

/// Rank 1 has gone without a word, and nothing was under way to it.
fn one_has_gone(tidings: Duration) -> (World, Arc<AtomicBool>) {
    let (mut world, left) = (World::of(2), Arc::new(AtomicBool::new(false)));
    let says = left.clone();
    (world.ranks[0].tidings, world.ranks[0].has_left) = (tidings, Arc::new(move |_| says.load(Ordering::Relaxed)));
    world.put(&put(0, 0, 8, None)).unwrap();
    let none = |world: &World| world.ranks[0].landing().left() == 0;
    until(|| world.step().map(|_| none(&world)).unwrap());
    world.ranks.truncate(1);
    (world, left)
}

/// A process that ends by exit() after its last put was told: what others still put to it counts as landed.
#[test]
fn a_put_to_one_that_has_left_counts_as_landed_though_nothing_was_under_way() {
    let ended = |world: &World| matches!(&world.ranks[0].links[0], Link::To(to) if to.is_parting() || to.is_gone());
    let (mut world, left) = one_has_gone(Duration::from_secs(3600));
    until(|| world.step().map(|_| ended(&world)).unwrap());
    assert_eq!(world.ranks[0].submit(&put(0, 0, 8, None)).unwrap(), Submitted::Full, "word of it may still come");
    left.store(true, Ordering::Relaxed);
    until(|| world.step().map(|_| world.ranks[0].submit(&put(0, 0, 8, None)).unwrap() == Submitted::Done).unwrap());

    // Word comes late: the link counted as lost by then.
    let (mut world, left) = one_has_gone(Duration::ZERO);
    until(|| world.step().map(|_| ended(&world)).unwrap());
    let error = world.ranks[0].submit(&put(0, 0, 8, None)).unwrap_err();
    assert_eq!((error.id, error.culprit), (122, Some(1)), "{error}");
    left.store(true, Ordering::Relaxed);
    assert_eq!(world.ranks[0].submit(&put(0, 0, 8, None)).unwrap(), Submitted::Done);
}

/// What a peer says as soon as it has let one in may be here before the event that it has: it left, and its word was lost, and then the end of the
/// connection, for nothing was there to receive more.
#[test]
fn a_word_that_is_here_before_the_connection_counts() {
    for word in [LEFT, ASKED] {
        let mut world = World::new();
        assert_eq!(world.ranks[0].submit(&put(0, 0, 8, None)).unwrap(), Submitted::Done);
        let early = |world: &World| match &world.ranks[0].links[0] {
            Link::To(to) => to.early.len(),
            _ => unreachable!("it goes to a peer"),
        };
        let mut said = false;
        until(|| {
            world.ranks[1].events().unwrap();
            let Ofi { links, post, .. } = &mut world.ranks[1];
            if let Some(Link::From(from)) = links.first_mut()
                && !std::mem::replace(&mut said, true)
            {
                post.send_word(&from.endpoint, from.link, word).unwrap();
            }
            world.ranks.iter_mut().for_each(|rank| _ = rank.completions(&mut Vec::new()).unwrap());
            early(&world) == 1
        });
        until(|| world.ranks[0].events().map(|_| early(&world) == 0).unwrap());
        match word {
            LEFT => assert_eq!((world.ranks[0].landing().left(), world.ranks[0].links.len()), (0, 1), "it has left"),
            _ => until(|| world.step().map(|_| world.ranks[0].landing().left() == 0).unwrap()),
        }
        let Link::To(to) = &world.ranks[0].links[0] else { unreachable!("it goes to a peer") };
        assert_eq!(matches!(to.state, outgoing::State::Open(_)), word == ASKED);
    }
}
