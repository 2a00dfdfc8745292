//! A machine that has no way to a peer for a moment, in a network namespace of the test's thread. Skipped where those are not permitted.

use super::*;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::process::Command;

pub(super) fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
}

/// Calls on a machine of its own.
pub(super) fn apart(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let apart = scope.spawn(|| {
            // SAFETY: this thread alone moves, which shares no files with what others change.
            if unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.is_err() || !ip("link set lo up") {
                return println!("skipped: no network namespaces here");
            }
            body();
        });
        apart.join().unwrap();
    });
}

/// Calls with two ranks that have not sent anything, on a machine of their own whose one address is away.
fn without_an_address(body: impl FnOnce(World) + Send) {
    apart(|| {
        let world = World::new();
        assert!(ip("addr del 127.0.0.1/8 dev lo"));
        body(world);
    });
}

/// Returns how many requests for a connection the kernel has dropped because a queue was full, in this
/// thread's network namespace.
fn overflows() -> u64 {
    let all = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = all.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap().split(' '), lines.next().unwrap().split(' '));
    let count = names.zip(values).find(|(name, _)| *name == "ListenOverflows").expect("Linux counts them");
    count.1.parse().unwrap()
}

/// Calls with two ranks of which the second lets nobody in: the kernel drops who asks, for its queue is full of what these connections are.
fn with_a_full_queue(body: impl FnOnce(World, Vec<std::net::TcpStream>) + Send) {
    apart(|| {
        // The longest that a queue may be, of this network namespace.
        if let Err(why) = std::fs::write("/proc/sys/net/core/somaxconn", "1") {
            return println!("skipped: queues of connections are as long as they are here: {why}");
        }
        let world = World::new();
        let door = std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, port(&world.said[1])));
        let mut strangers = Vec::new();
        while overflows() == 0 {
            strangers.extend(std::net::TcpStream::connect_timeout(&door, Duration::from_millis(500)));
            assert!(strangers.len() < 100);
        }
        assert!(!strangers.is_empty());
        body(world, strangers);
    });
}

#[test]
fn a_peer_whose_queue_is_full_for_a_while_is_reached() {
    with_a_full_queue(|mut world, strangers| {
        let work = put(0, 0, 64, Some((0, 1)));
        assert_eq!(world.ranks[0].submit(&work).unwrap(), Submitted::Done);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            world.ranks[0].progress(&mut Vec::new()).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(strangers);
        let end = hang_deadline();
        while world.signal(0) == 0 {
            world.step().unwrap();
            assert!(Instant::now() < end, "it does not land");
        }
    });
}

/// By then its machine is heard of all the while: nobody else ends this.
#[test]
fn a_peer_whose_queue_stays_full_is_named_with_its_port() {
    with_a_full_queue(|mut world, _strangers| {
        // A large one waits for the connection outside of it.
        let (work, begun) = (put(0, 0, 1 << 20, None), Instant::now());
        let error = loop {
            match world.ranks[0].submit(&work).and_then(|_| world.ranks[0].progress(&mut Vec::new())) {
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => break error,
            }
            assert!(begun.elapsed() < HANG_LIMIT, "the error is not reported");
        };
        let asked = format!("port {} of 127.0.0.1 was asked ", port(&world.said[1]));
        assert_eq!((error.id, error.culprit), (122, Some(1)), "{error}");
        assert!(error.text.contains(&asked) && error.text.contains("let TCP through"), "{error}");
    });
}

#[test]
fn a_first_put_waits_for_a_way_and_lands() {
    without_an_address(|mut world| {
        let work = put(0, 0, 64, Some((0, 1)));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) {
            assert_eq!(world.ranks[0].submit(&work).unwrap(), Submitted::Full);
            assert!(!world.ranks[0].arm().unwrap(), "nothing wakes it when there is a way again");
        }
        assert!(world.ranks[0].links.is_empty() && ip("addr add 127.0.0.1/8 dev lo"));
        world.put(&work).unwrap();
        assert_eq!((world.signal(0), world.ranks[0].astray.len()), (1, 0));
    });
}

/// Routes that say no in other words: what is missing is the same.
#[test]
fn a_first_put_waits_for_a_route_that_refuses() {
    for route in ["blackhole", "prohibit", "unreachable"] {
        without_an_address(|mut world| {
            // The own address is in the table that is asked first; the route has to be, too.
            assert!(ip("addr add 127.0.0.1/8 dev lo") && ip("route del local 127.0.0.1 table local"));
            assert!(ip("route del local 127.0.0.0/8 table local") && ip(&format!("route add {route} 127.0.0.0/8 table local")));
            let work = put(0, 0, 64, Some((0, 1)));
            for _ in 0..20 {
                assert_eq!(world.ranks[0].submit(&work).unwrap(), Submitted::Full, "{route}");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(world.ranks[0].links.is_empty() && ip(&format!("route del {route} 127.0.0.0/8 table local")));
            assert!(ip("route add local 127.0.0.0/8 dev lo table local"));
            world.put(&work).unwrap();
            assert_eq!(world.signal(0), 1, "{route}");
        });
    }
}

#[test]
fn a_peer_to_which_there_is_no_way_for_too_long_is_named() {
    without_an_address(|mut world| {
        world.ranks[0].gap = Duration::from_millis(300);
        let begun = Instant::now();
        let error = loop {
            match world.ranks[0].submit(&put(0, 0, 64, None)) {
                Ok(submitted) => assert_eq!(submitted, Submitted::Full),
                Err(error) => break error,
            }
        };
        assert!(begun.elapsed() >= Duration::from_millis(300), "{error}");
        assert_eq!((error.id, error.culprit), (122, Some(1)), "{error}");
        assert!(error.text.contains("rank 1 at ") && error.text.contains("no way to its network for 0.3 s: "), "{error}");
    });
}

#[test]
fn a_peer_of_another_family_is_named_before_anything_is_sent() {
    let (mut ranks, mut said) = ends(&[true; 2], None);
    // Its words begin with their length and a nonce of 16 bytes, and the address with its length.
    said[1][18..20].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    let words = said.into_iter().map(|said| {
        let mut words = Words::default();
        words.say(NAME, said);
        words
    });
    let error = ranks[0].connect(&*CpuDevice::new(0), &contract::NoShare, &Arc::new(words.collect())).unwrap_err();
    assert!(error.id == 126 && error.text.contains("rank 0 has IPv4, rank 1 IPv6"), "{error}");
}

/// As a machine says whose other addresses are link-local: on others nobody listens there.
#[test]
fn a_peer_that_only_its_own_machine_reaches_is_told_so() {
    let mut world = World::new();
    drop(world.ranks.pop());
    let rank = &mut world.ranks[0];
    rank.submit(&put(0, 0, 8, Some((0, 1)))).unwrap();
    let end = hang_deadline();
    let told = loop {
        match rank.progress(&mut Vec::new()) {
            Err(error) => break error.text,
            Ok(_) => assert!(Instant::now() < end, "nobody listens there"),
        }
    };
    assert!(told.contains("it listens at 127.0.0.1, where only its own machine reaches it: "), "{told}");
}
