//! The same where there are no connections: over providers of libfabric that are software, as they are and as if they kept no order.

use super::super::session::Kind;
use super::*;

const RXM: &str = "tcp;ofi_rxm";

fn over(provider: &'static str, writes: Option<Writes>, mixed: bool, test: impl FnOnce()) {
    HOW.set(How { provider, writes, mixed, ..How::default() });
    test();
    HOW.set(How::default());
}

fn quickly_over(provider: &'static str, test: impl FnOnce()) {
    HOW.set(How { provider, quick: true, ..How::default() });
    test();
    HOW.set(How::default());
}

fn contract_over(provider: &'static str, writes: Option<Writes>, mixed: bool) {
    over(provider, writes, mixed, || contract::all(ranks));
}

#[test]
fn contract_over_rxm() {
    contract_over(RXM, None, false);
}

#[test]
fn contract_with_order_in_place_of_data() {
    contract_over(RXM, Some(Writes::Ordered), false);
}

#[test]
fn contract_without_order() {
    contract_over(RXM, Some(Writes::Marked { wide: true }), true);
}

#[test]
fn contract_with_4_bytes_of_data_and_without_order() {
    contract_over(RXM, Some(Writes::Marked { wide: false }), true);
}

#[test]
fn contract_with_messages_alone() {
    contract_over(RXM, Some(Writes::None), true);
}

#[test]
fn contract_over_datagrams() {
    contract_over("udp;ofi_rxd", None, false);
}

#[test]
fn contract_over_another_and_mixed_up() {
    contract_over("net;ofi_rxm", None, true);
}

#[test]
fn a_provider_of_one_machine_alone_is_refused() {
    let refused = provider::among(&["shm"], IpAddr::V4(Ipv4Addr::LOCALHOST)).err().unwrap();
    assert!(refused.contains("shm: "), "{refused}");
}

/// Its address is of the kernel's choice again and again: nobody answers at the old one.
#[test]
fn a_peer_that_goes_is_named_without_connections() {
    for provider in [RXM, "udp;ofi_rxd"] {
        quickly_over(provider, || contract::failure(ranks, |ranks| drop(ranks.drain(1..))));
    }
}

/// Who has another secret hears nothing, and costs nothing; nor does one who sends what is no message of ours.
#[test]
fn strangers_are_not_answered() {
    over(RXM, None, false, || {
        let mut world = World::new();
        let refused = world.refuses_a_liar(|liar| liar.answer = Duration::from_millis(300));
        assert!(refused.id == 122 && refused.text.contains("has not answered"), "{refused}");
        assert!(world.ranks[1].links.is_empty(), "it was let in");
        world.put(&put(0, 0, 64, Some((0, 1)))).unwrap();
        world.put(&put(0, 0, 1 << 20, Some((0, 1)))).unwrap();
        assert_eq!((world.signal(0), world.signal(1)), (2, 0));
    });
}

/// What was written without connections, in every way that there is: signals that add more than one, over small puts, both directions.
#[test]
fn a_large_put_over_a_small_one_comes_last_without_connections() {
    for writes in [Writes::Marked { wide: true }, Writes::Marked { wide: false }] {
        over(RXM, Some(writes), true, a_large_put_over_a_small_one_comes_last);
    }
}

#[test]
fn nobody_waits_for_a_rank_that_has_left_without_connections() {
    over(RXM, None, false, nobody_waits_for_a_rank_that_has_left);
}

#[test]
fn nothing_lands_in_a_window_that_has_gone_without_connections() {
    quickly_over(RXM, nothing_lands_in_a_window_that_has_gone);
}

#[test]
fn a_peer_is_dialled_when_something_is_sent_without_connections() {
    over(RXM, None, false, a_peer_is_dialled_when_something_is_sent);
}

/// Of rxm's own connections, both ends.
#[test]
fn sockets_close_on_exec_without_connections() {
    over(RXM, None, false, || {
        let mut world = World::new();
        world.put(&put(0, 0, 8, None)).unwrap();
        let end = hang_deadline();
        // SAFETY: they live as long as the ranks.
        let flags = |fd| rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).unwrap();
        while let Some(open) = sockets(&world).iter().find(|(fd, _)| !flags(*fd).contains(rustix::io::FdFlags::CLOEXEC)) {
            world.step().unwrap();
            assert!(Instant::now() < end, "{open:?} of {:?}", sockets(&world));
        }
        assert!(sockets(&world).len() >= 3, "a door and both ends of a connection: {:?}", sockets(&world));
    });
}

/// The connection that `stalls` queries. A rank that was dialled by a rank of the same process cannot
/// distinguish it from its own trial, and queries none, however old the census is.
#[test]
fn the_connection_to_a_peer_is_found_without_connections() {
    over(RXM, None, false, || {
        let mut world = World::new();
        world.put(&put(0, 0, 8, None)).unwrap();
        let end = hang_deadline();
        let knows = |world: &World, own: usize, other: &[u8]| world.ranks[own].sockets.of_peer(other).is_some();
        let at: Vec<Vec<u8>> = world.said.iter().map(|said| Address::decode(said, 0).unwrap().at().to_vec()).collect();
        while !knows(&world, 0, &at[1]) {
            assert!(!knows(&world, 1, &at[0]), "{:?}", sockets(&world));
            world.step().unwrap();
            assert!(Instant::now() < end, "{:?}", sockets(&world));
        }
        (0..2).for_each(|rank| world.ranks[rank].sockets.look());
        assert!(knows(&world, 0, &at[1]) && !knows(&world, 1, &at[0]));
        assert!(!knows(&world, 0, &[2, 0, 0, 9, 127, 0, 0, 2]), "nobody");
    });
}

fn put_to(peer: u32) -> Work {
    Work { peer, ..put(0, 0, 8, Some((0, 1))) }
}

/// Of three ranks the last has gone, and its endpoint with it: what is there for it nobody takes.
fn with_one_that_takes_nothing(test: impl FnOnce(&mut World)) {
    over(RXM, None, false, || {
        HOW.set(How { gone: true, ..HOW.get() });
        let mut world = World::of(3);
        world.put(&put_to(2)).unwrap();
        let link = world.ranks[0].dialled[2][0] - 1;
        let peer = world.ranks[0].post.net.rdm().unwrap().line(link).unwrap().session.peer;
        drop(world.ranks.pop());
        let end = hang_deadline();
        while !world.ranks[0].post.net.rdm().unwrap().keeps_waiting(peer) {
            let _ = world.step();
            assert!(Instant::now() < end, "somebody takes it");
        }
        test(&mut world);
        assert!(world.ranks[0].post.net.rdm().unwrap().keeps_waiting(peer));
    });
}

#[test]
fn a_peer_that_takes_nothing_holds_up_nobody_else() {
    with_one_that_takes_nothing(|world| {
        let before = world.signal(0);
        world.put(&put_to(1)).unwrap();
        assert_eq!(world.signal(0), before + 1);
    });
}

/// An idle process used half a core for a peer that had left before.
#[test]
fn a_peer_that_takes_nothing_keeps_nobody_awake() {
    with_one_that_takes_nothing(|world| {
        let end = hang_deadline();
        let still = |world: &mut World| (0..8).all(|_| world.ranks[0].arm().unwrap());
        while !still(world) {
            let _ = world.step();
            assert!(Instant::now() < end, "it never rests");
        }
        let before = world.signal(0);
        world.put(&put_to(1)).unwrap();
        assert_eq!(world.signal(0), before + 1);
    });
}

/// That would be dialled for ever.
#[test]
fn a_peer_that_has_said_that_it_goes_is_told_nothing() {
    over(RXM, None, false, || {
        let mut world = World::new();
        world.put(&put_to(1)).unwrap();
        drop(world.ranks.pop());
        let end = hang_deadline();
        while world.ranks[0].post.net.rdm().unwrap().lines.iter().any(Option::is_some) {
            let _ = world.step();
            assert!(Instant::now() < end, "it has not heard of that");
        }
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            let _ = world.step();
        }
        assert!(world.ranks[0].post.net.rdm().unwrap().sent_all());
    });
}

/// The first DIAL or the first ANSWER is lost: they are said again, and one link comes of it, over which nothing lands twice.
#[test]
fn a_dial_or_an_answer_that_is_lost_is_said_again() {
    for lost in [Kind::Dial, Kind::Answer] {
        quickly_over(RXM, || {
            let mut world = World::new();
            world.ranks.iter_mut().for_each(|rank| {
                rank.post.net.rdm().unwrap().lose_next = Some(lost);
                rank.answer = HANG_LIMIT;
            });
            world.put(&put_to(1)).unwrap();
            world.put(&put_to(1)).unwrap();
            assert!(world.ranks.iter().any(|rank| rank.post.net.rdm().unwrap().lose_next.is_none()), "{lost:?} was never said");
            assert_eq!((world.signal(0), world.ranks[0].links.len(), world.ranks[1].links.len()), (2, 1, 1), "{lost:?}");
        });
    }
}

/// A rank may leave before what it has no need of has come, and its endpoint with it: nobody answers, and nobody is waited for.
#[test]
fn who_has_left_is_not_waited_for_though_nobody_answers() {
    quickly_over(RXM, || {
        let mut world = World::of(3);
        drop(world.ranks.pop());
        let rank = &mut world.ranks[0];
        (rank.has_left, rank.answer) = (Arc::new(|peer| peer == 2), Duration::from_secs(3600));
        rank.submit(&put_to(2)).unwrap();
        let end = hang_deadline();
        while rank.landing().left() > 0 {
            rank.progress(&mut Vec::new()).unwrap();
            assert!(Instant::now() < end, "it is waited for");
        }
        assert_eq!(rank.submit(&put_to(2)).unwrap(), Submitted::Done);
    });
}
