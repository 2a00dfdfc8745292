//! Floods of strangers at libfabric's own port, and children of a process that has links.

use super::alone::is_alone;
use super::*;
use crate::transport::ofi::outgoing::State;
use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;

/// Strangers that stay connected.
const KEPT: usize = 200;

/// So many connect, silent, with garbage, half a request, huge, in a hurry, and some that speak libfabric and have another secret: what is
/// put lands all the while, and what they cost is bounded.
fn flood(strangers: usize) {
    let mut world = World::new();
    world.ranks[1].sockets.patience = Duration::ZERO;
    let door = (Ipv4Addr::LOCALHOST, port(&world.said[1])).into();
    let (mut kept, mut landed) = (VecDeque::new(), 0);
    let huge = vec![0xffu8; 64 << 10];
    // The beginning of a request of a provider over sockets: version, type and length, and no more.
    let half = [1u8, 1, 0, 0, 0, 0, 0, 40, 0, 0, 0, 1];
    for i in 0..strangers {
        let end = hang_deadline();
        // The listener's queue may be full: steps make space in it.
        let mut stranger = loop {
            match TcpStream::connect_timeout(&door, Duration::from_millis(200)) {
                Ok(stranger) => break stranger,
                Err(why) => assert!(Instant::now() < end, "stranger {i}: {why}"),
            }
            (0..4).for_each(|_| world.step().unwrap());
        };
        stranger.set_nonblocking(true).unwrap();
        let said: &[u8] = [&[][..], b"GET / HTTP/1.1\r\n\r\n", &half, &huge, &[0; 300], &half[..3]][i % 6];
        let _ = stranger.write(said);
        if i % 5 > 0 {
            kept.push_back(stranger);
        }
        if kept.len() > KEPT {
            kept.pop_front();
        }
        (0..4).for_each(|_| world.step().unwrap());
        if i % 250 == 0 {
            world.put(&put(0, 0, if i % 500 == 0 { 64 } else { 64 << 10 }, Some((0, 1)))).unwrap();
            landed += 1;
            assert_eq!(world.signal(0), landed);
            let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
            assert!(open < 3000, "{open} descriptors after {i} strangers");
        }
        if i % 1000 == 999 {
            let (mut liars, _) = ends(&[true; 2], None);
            connect(&mut liars, &world.said);
            (liars[0].secret, liars[0].answer) = ([8; 32], Duration::from_secs(10));
            let signals: Vec<_> = world.signals.clone();
            liars[0].register(&contract::region(SIGNALS, 0, &signals, false)).unwrap();
            liars[0].submit(&Work { source: Source::Inline(0), target: (0, 0), ..put(0, 0, 0, Some((8, 1))) }).unwrap();
            let end = hang_deadline();
            while liars[0].progress(&mut Vec::new()).is_ok() {
                world.step().unwrap();
                assert!(Instant::now() < end, "nobody tells the liar");
            }
        }
    }
    drop(kept);
    world.put(&put(0, 0, 1 << 20, Some((0, 1)))).unwrap();
    assert_eq!((world.signal(0), world.signal(1)), (landed + 1, 0));
    assert_eq!(world.ranks[1].links.len(), 1, "one sender, one link");
}

#[test]
fn a_flood_at_libfabrics_port() {
    flood(1000);
}

/// By hand: `cargo test -p ginrs --lib a_large_flood -- --ignored`.
#[test]
#[ignore = "minutes"]
fn a_large_flood_at_libfabrics_port() {
    flood(100_000);
}

/// A child of fork ends, by itself or with exit handlers and libfabric's destructors, and the links of its parent go on.
/// Alone in a process: another test's thread may hold a lock when this one forks.
#[test]
fn a_forked_child_does_nothing_to_links() {
    if !is_alone("transport::ofi::tests::edges::a_forked_child_does_nothing_to_links") {
        return;
    }
    let mut world = World::new();
    for (round, handlers) in [false, true].into_iter().enumerate() {
        world.put(&put(0, 0, 64 << 10, Some((0, 1)))).unwrap();
        // SAFETY: the child only ends. Its exit handlers are this process's: what the libraries in it do then is the question.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: an alarm ends a child that hangs.
            unsafe {
                libc::alarm(HANG_LIMIT.as_secs() as u32 / 2);
                if handlers { libc::exit(0) } else { libc::_exit(0) }
            }
        }
        let (mut status, end) = (0, hang_deadline());
        // SAFETY: a child of this test.
        while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
            world.step().unwrap();
            assert!(Instant::now() < end, "the child hangs");
        }
        assert_eq!(status, 0, "the child ended badly, handlers {handlers}");
        world.put(&put(0, 0, 8, Some((0, 1)))).unwrap();
        world.put(&put(0, 0, 1 << 20, Some((0, 1)))).unwrap();
        assert_eq!(world.signal(0), 3 * (round as u64 + 1));
    }
}

/// A card drops what has not gone when its endpoint does. So the last word is said once, and nothing ends before it is known to have gone.
#[test]
fn an_endpoint_outlives_its_last_word() {
    let mut world = World::new();
    let end = hang_deadline();
    world.put(&put(0, 0, 8, Some((0, 1)))).unwrap();
    assert_eq!(world.ranks[1].end(LEFT), 1, "nobody has seen it go");
    let has_heard = |world: &World| matches!(&world.ranks[0].links[0], Link::To(to) if matches!(to.state, State::Left));
    while world.ranks[1].end(LEFT) > 0 || !has_heard(&world) {
        world.step().unwrap();
        assert!(Instant::now() < end);
    }
    world.put(&put(0, 0, 8, Some((0, 1)))).unwrap();
    assert_eq!(world.signal(0), 1, "what is sent to one that has left counts as landed");

    let mut world = World::new();
    world.put(&put(0, 0, 8, Some((0, 1)))).unwrap();
    while world.ranks[1].end(ABORTED) > 0 {
        world.ranks[1].words_only().unwrap();
        assert!(Instant::now() < end);
    }
}

/// A sender that has room and asks nothing is told by and by, and not each time that nothing else is to do: who owes that may sleep.
#[test]
fn who_asks_nothing_is_told_by_and_by() {
    let mut world = World::new();
    world.put(&put(0, 0, 8, Some((0, 1)))).unwrap();
    let (end, hour) = (hang_deadline(), Duration::from_secs(3600));
    world.ranks[1].told = Instant::now() + hour;
    assert_eq!(world.ranks[0].submit(&put(0, 0, 8, Some((0, 1)))).unwrap(), Submitted::Done);
    while world.signal(0) < 2 || !world.ranks[1].arm().unwrap() {
        world.step().unwrap();
        assert!(Instant::now() < end, "it does not land, or has no sleep");
    }
    (0..2 * IDLE).for_each(|_| world.step().unwrap());
    assert_eq!(world.ranks[0].unlanded(), [(1, 1)]);
    world.ranks[1].told -= 2 * hour;
    while !world.ranks[0].unlanded().is_empty() {
        world.step().unwrap();
        assert!(Instant::now() < end, "never told");
    }
}
