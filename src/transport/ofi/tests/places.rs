//! A rank that listens at several places, of which some do not serve.

use super::astray::{apart, ip};
use super::*;
use crate::error::Error;
use proptest::prelude::*;

/// A sockaddr_in.
fn place(ip: [u8; 4], port: u16) -> Vec<u8> {
    [&(libc::AF_INET as u16).to_ne_bytes()[..], &port.to_be_bytes(), &ip, &[0; 8]].concat()
}

/// Where rank 1 listens, as it says.
fn places_of(world: &World) -> Vec<Vec<u8>> {
    Address::decode(&world.said[1], 0).unwrap().places().map(<[u8]>::to_vec).collect()
}

/// Two ranks, each also at these addresses.
fn listening(others: Vec<[u8; 4]>) -> World {
    let others: Vec<IpAddr> = others.into_iter().map(IpAddr::from).collect();
    HOW.set(How { others: others.leak(), ..HOW.get() });
    let world = World::new();
    HOW.set(How { others: &[], ..HOW.get() });
    world
}

/// Two ranks, each at these addresses of loopback; the first is told that the second listens at the places that `told` makes of its own.
fn world(addresses: &[u8], told: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>) -> World {
    let mut world = listening(addresses.iter().map(|last| [127, 0, 0, *last]).collect());
    let nonce = Address::decode(&world.said[1], 0).unwrap().nonce;
    let mut said = world.said.clone();
    said[1] = Address::encode(&nonce, &told(places_of(&world)));
    connect(&mut world.ranks, &said);
    world
}

/// Returns a port of 127.0.0.`last` without a listener, and the socket that reserves it.
fn refusing(last: u8) -> (u16, rustix::fd::OwnedFd) {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    let bound = std::net::SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (bound.port(), socket)
}

/// Small and large puts arrive, and all over one link.
#[track_caller]
fn serves(world: &mut World) {
    for (round, bytes) in (1..).zip([64, 1 << 20, 8]) {
        world.put(&put(0, 0, bytes, Some((0, 1)))).unwrap();
        assert_eq!(world.signal(0), round);
    }
    assert_eq!((world.ranks[0].links.len(), world.ranks[1].links.len()), (1, 1));
    assert!(world.ranks[0].dialing.is_empty() || world.step().is_ok());
}

/// The error of a put that lands nowhere.
fn told(world: &mut World) -> Error {
    let end = hang_deadline();
    loop {
        match world.ranks[0].submit(&put(0, 0, 8, None)).and_then(|_| world.ranks[0].progress(&mut Vec::new())) {
            Err(error) => return error,
            Ok(_) => assert!(Instant::now() < end, "nobody says so"),
        }
    }
}

#[test]
fn a_rank_listens_at_each_address_and_one_of_them_is_asked() {
    let mut world = world(&[2, 3], |all| all);
    let at = places_of(&world).iter().map(|place| sockets::decode(place).unwrap().0.to_string()).collect::<Vec<_>>();
    assert_eq!(at, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    serves(&mut world);
    // Strangers at any of them are looked after.
    let doors: Vec<_> = places_of(&world).iter().map(|place| sockets::decode(place).unwrap()).collect();
    world.ranks[1].sockets.patience = Duration::ZERO;
    let strangers: Vec<_> = doors.iter().map(|door| std::net::TcpStream::connect(*door).unwrap()).collect();
    let end = hang_deadline();
    for mut stranger in strangers {
        stranger.set_nonblocking(true).unwrap();
        while std::io::Read::read(&mut stranger, &mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            world.step().unwrap();
            world.ranks[1].sockets.look();
            assert!(Instant::now() < end, "{stranger:?} is not sent away");
        }
    }
}

/// An address that has gone meanwhile, and more than there is room for.
#[test]
fn what_cannot_be_listened_at_is_left_out() {
    let gone = listening(vec![[10, 99, 0, 1], [127, 0, 0, 2]]);
    let many = listening((2..99).map(|last| [127, 0, 0, last]).collect());
    assert_eq!((places_of(&gone).len(), places_of(&many).len()), (2, door::PLACES));
}

/// And links to come go to the one that serves.
#[test]
fn a_place_where_nobody_listens_is_passed_over() {
    let (port, _socket) = refusing(1);
    let mut world = world(&[2], |all| vec![place([127, 0, 0, 1], port), all[1].clone()]);
    serves(&mut world);
    world.put(&Work { context: 1, ..put(0, 0, 8, None) }).unwrap();
    let said = |link: &Link| match link {
        Link::To(to) => to.search.explain(["first", "second"].map(String::from).into_iter()),
        _ => String::new(),
    };
    let said: Vec<_> = world.ranks[0].links.iter().map(said).collect();
    assert!(said[0].starts_with("first: Connection refused"), "{said:?}");
    assert_eq!(said[1], "first: no answer so far; second: no answer so far");
}

/// The listener of another job, which knows another secret and takes nobody in.
#[test]
fn a_place_that_is_another_jobs_is_passed_over() {
    let (mut others, said) = ends(&[true; 2], None);
    others.iter_mut().for_each(|other| other.secret = [8; 32]);
    let theirs = Address::decode(&said[1], 0).unwrap().at().to_vec();
    let mut world = world(&[2], |all| vec![theirs, all[1].clone()]);
    assert_eq!(world.ranks[0].submit(&put(0, 0, 64, Some((0, 1)))).unwrap(), Submitted::Done);
    let end = hang_deadline();
    while world.signal(0) == 0 {
        world.step().unwrap();
        others[1].progress(&mut Vec::new()).unwrap();
        assert!(Instant::now() < end, "it does not land");
    }
    assert!(others[1].links.is_empty());
}

/// One that takes whoever comes and has no proof is not believed, and the next is asked.
#[test]
fn a_place_without_a_proof_is_passed_over() {
    let (mut liars, said) = ends(&[true; 2], None);
    let theirs = Address::decode(&said[1], 0).unwrap().at().to_vec();
    let (mut world, mut taken) = (world(&[2], |all| vec![theirs, all[1].clone()]), Vec::new());
    assert_eq!(world.ranks[0].submit(&put(0, 0, 64, Some((0, 1)))).unwrap(), Submitted::Done);
    let end = hang_deadline();
    while world.signal(0) == 0 {
        world.step().unwrap();
        let liar = &mut liars[1];
        while let Some(event) = liar.post.net.event().unwrap() {
            if let Event::Asks { request, .. } = event {
                let endpoint = liar.post.net.called(&request, 0).unwrap();
                endpoint.accept(&[0; proof::ANSWER]).unwrap();
                taken.push(endpoint);
            }
        }
        liar.post.net.completions(|_| ()).unwrap();
        assert!(Instant::now() < end, "it does not land");
    }
    assert_eq!(taken.len(), 1);
}

#[test]
fn where_no_place_serves_each_is_named() {
    let (ports, _sockets): (Vec<_>, Vec<_>) = [refusing(1), refusing(2)].into_iter().unzip();
    let error = told(&mut world(&[], |_| vec![place([127, 0, 0, 1], ports[0]), place([127, 0, 0, 2], ports[1])]));
    assert_eq!((error.id, error.culprit), (122, Some(1)), "{error}");
    for name in [format!("port {} of 127.0.0.1: ", ports[0]), format!("port {} of 127.0.0.2: ", ports[1])] {
        assert!(error.text.contains(&name), "{name}: {error}");
    }
}

/// A rank that has left closes its doors: nobody knocks at the next, which may be somebody else's by now.
#[test]
fn a_peer_that_has_left_is_asked_at_one_place() {
    let next = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    next.set_nonblocking(true).unwrap();
    let port = next.local_addr().unwrap().port();
    let (refuses, _socket) = refusing(1);
    let mut world = world(&[2], |_| vec![place([127, 0, 0, 1], refuses), place([127, 0, 0, 1], port)]);
    world.ranks[0].has_left = Arc::new(|_| true);
    let work = put(0, 0, 8, Some((0, 1)));
    world.ranks[0].submit(&work).unwrap();
    let end = hang_deadline();
    while world.ranks[0].landing().left() > 0 {
        world.ranks[0].progress(&mut Vec::new()).unwrap();
        assert!(Instant::now() < end);
    }
    assert!(next.accept().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

/// Without a route, and where packets are lost: nothing there answers, not even to say no.
#[test]
fn a_place_on_a_network_that_is_away_is_passed_over() {
    for lost in [false, true] {
        apart(move || {
            if lost {
                assert!(ip("link add lost type veth peer name other") && ip("link set other up") && ip("link set lost up"));
                assert!(ip("addr add 10.9.0.1/24 dev lost") && ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev lost"));
            }
            let mut world = world(&[2], |all| vec![place([10, 9, 0, 2], 4711), all[1].clone()]);
            let begun = Instant::now();
            let work = put(0, 0, 64, Some((0, 1)));
            assert_eq!(world.ranks[0].submit(&work).unwrap(), Submitted::Done, "its link is asked for");
            while world.signal(0) == 0 {
                world.step().unwrap();
                assert!(begun.elapsed() < HANG_LIMIT, "it does not land");
            }
        });
    }
}

/// The good place is away for a moment, and the other refuses: the first is asked again.
#[test]
fn a_way_that_comes_back_is_taken_though_another_place_has_refused() {
    apart(|| {
        let (refuses, _socket) = refusing(1);
        let mut world = world(&[2], |all| vec![all[1].clone(), place([127, 0, 0, 1], refuses)]);
        assert!(ip("route add unreachable 127.0.0.2/32 table local"));
        let work = put(0, 0, 64, Some((0, 1)));
        assert_eq!(world.ranks[0].submit(&work).unwrap(), Submitted::Done);
        let waits = |world: &World| match &world.ranks[0].links[0] {
            Link::To(to) => {
                to.search.explain(["first", "second"].map(String::from).into_iter()).contains("second: Connection refused")
            }
            _ => false,
        };
        let end = hang_deadline();
        while !waits(&world) || !world.ranks[0].has_turns() {
            world.step().unwrap();
            assert!(Instant::now() < end, "the second address is not dialled, or the first is not dialled again");
        }
        assert!(!world.ranks[0].arm().unwrap(), "nothing wakes it when there is a way again");
        assert!(ip("route del unreachable 127.0.0.2/32 table local"));
        let end = hang_deadline();
        while world.signal(0) == 0 {
            world.step().unwrap();
            assert!(Instant::now() < end, "it does not land");
        }
    });
}

proptest! {
    #[test]
    fn places_survive_the_way(nonce: [u8; 16], doors in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 8..28), 1..=door::PLACES), 1..5)) {
        let said: Vec<u8> = doors.iter().flat_map(|places| Address::encode(&nonce, places)).collect();
        for stream in 0..STREAMS {
            let address = Address::decode(&said, stream).unwrap();
            let wanted = &doors[stream as usize % doors.len()];
            prop_assert_eq!((address.nonce, address.at()), (nonce, &wanted[0][..]));
            prop_assert_eq!(&address.places().map(<[u8]>::to_vec).collect::<Vec<_>>(), wanted);
        }
        prop_assert_eq!(Address::decode(&said[..said.len() - 1], 0), None);
    }

    #[test]
    fn garbage_is_no_list_of_places(said: Vec<u8>) {
        if let Some(address) = Address::decode(&said, 0) {
            prop_assert!(address.places().all(|place| place.len() >= 8) && address.places().next().is_some());
        }
    }
}
