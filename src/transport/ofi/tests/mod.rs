//! The contract over the provider that there is, and what is the network's own.

use super::door::{self, Address};
use super::hub::Queue;
use super::net::Event;
use super::rdm::Writes;
use super::*;
use crate::device::cpu::CpuDevice;
use crate::device::{Memory, Physical};
use crate::hang_limit::{HANG_LIMIT, hang_deadline};
use crate::transport::{SIGNALS, Source, contract};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(super) mod alone;
mod astray;
mod edges;
mod parting;
mod places;
mod rdm;
mod threads;

/// Calls with what rank `rank` is made from.
fn with_setup<T>(serves: &[bool], rank: u32, make: impl FnOnce(&Setup<'_>) -> T) -> T {
    let device: Arc<dyn Device> = CpuDevice::new(0);
    let all = |_| (0..serves.len() as u32).collect();
    make(&Setup {
        rank,
        device: &device,
        serves: serves.to_vec(),
        senders: &all,
        share: &contract::NoShare,
        secret: [7; 32],
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        others: HOW.get().others.to_vec(),
        has_left: Arc::new(|_| false),
    })
}

/// Each rank's end, and its words; on a GPU with what `queue` makes.
pub fn ends(serves: &[bool], queue: Option<Queue>) -> (Vec<Ofi>, Vec<Vec<u8>>) {
    let how = HOW.get();
    let make = |setup: &Setup<'_>| match how.provider {
        "" => Ofi::new(setup, queue).unwrap(),
        name => {
            let mut made = Ofi::over(provider::among(&[name], setup.address).unwrap(), setup, queue).unwrap();
            if how.quick {
                made.0.answer = Duration::from_secs(2);
                made.0.post.net.rdm().unwrap().patience = Duration::from_millis(500);
            } else if !how.gone {
                made.0.post.net.rdm().unwrap().waiting.away = HANG_LIMIT;
            }
            made
        }
    };
    (0..serves.len() as u32).map(|rank| with_setup(serves, rank, make)).unzip()
}

/// What carries in this thread's test.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    pub provider: &'static str,
    /// As if it had no more than that.
    pub writes: Option<Writes>,
    /// What comes is mixed up.
    pub mixed: bool,
    /// Nobody waits for long for what may be lost.
    pub quick: bool,
    /// A peer exits: one that takes nothing counts as away as soon as it does elsewhere.
    pub gone: bool,
    /// Where each rank listens beside 127.0.0.1.
    pub others: &'static [IpAddr],
}

thread_local!(pub(super) static HOW: std::cell::Cell<How> = const { std::cell::Cell::new(How { provider: "", writes: None, mixed: false, quick: false, gone: false, others: &[] }) });

/// The same, connected as a communicator connects them.
fn ranks(serves: Vec<bool>) -> Vec<Box<dyn Transport>> {
    let (mut ranks, said) = ends(&serves, None);
    connect(&mut ranks, &said);
    ranks.into_iter().map(|rank| Box::new(rank) as _).collect()
}

pub fn connect(ranks: &mut [Ofi], said: &[Vec<u8>]) {
    contract::connect(ranks.iter_mut().map(|rank| rank as _), NAME, said);
}

#[test]
fn contract() {
    contract::all(ranks);
}

#[test]
fn a_peer_that_goes_is_named() {
    contract::failure(ranks, |ranks| drop(ranks.drain(1..)));
}

/// Two ranks with a window and signals each.
struct World {
    ranks: Vec<Ofi>,
    said: Vec<Vec<u8>>,
    data: Vec<Arc<dyn Physical>>,
    signals: Vec<Arc<dyn Physical>>,
}

const DATA: u32 = 1;

impl World {
    fn new() -> Self {
        Self::of(2)
    }

    fn of(size: usize) -> Self {
        let (mut ranks, said) = ends(&vec![true; size], None);
        connect(&mut ranks, &said);
        let device = CpuDevice::new(0);
        let create = |_| Memory::create(&*device, contract::BYTES).unwrap();
        let (data, signals): (Vec<_>, Vec<_>) = ((0..size).map(create).collect(), (0..size).map(create).collect());
        for (id, memories) in [(SIGNALS, &signals), (DATA, &data)] {
            let words: Vec<Words> =
                ranks.iter_mut().zip(memories).map(|(rank, memory)| contract::prepare(rank, id, memory)).collect();
            for (rank, number) in ranks.iter_mut().zip(0..) {
                rank.register(&contract::region(id, number, memories, false).with_words(words.clone())).unwrap();
            }
        }
        Self { ranks, said, data, signals }
    }

    /// What one is told that speaks libfabric to rank 1 and has another secret; `set` sets it up further.
    fn refuses_a_liar(&mut self, set: impl FnOnce(&mut Ofi)) -> crate::error::Error {
        let (mut liars, _) = ends(&[true; 2], None);
        connect(&mut liars, &self.said);
        let liar = &mut liars[0];
        liar.secret = [8; 32];
        set(liar);
        liar.register(&contract::region(SIGNALS, 0, &self.signals, false)).unwrap();
        let signal = Work { source: Source::Inline(0), target: (0, 0), ..put(0, 0, 0, Some((8, 1))) };
        liar.submit(&signal).unwrap();
        let end = hang_deadline();
        loop {
            self.step().unwrap();
            if let Err(error) = liar.progress(&mut Vec::new()) {
                return error;
            }
            assert!(Instant::now() < end, "nobody tells the liar");
        }
    }

    fn step(&mut self) -> Result<()> {
        self.ranks.iter_mut().try_for_each(|rank| rank.progress(&mut Vec::new()).map(drop))
    }

    /// Until it has landed, or an error comes.
    fn put(&mut self, work: &Work) -> Result<()> {
        let end = hang_deadline();
        while self.ranks[0].submit(work)? == Submitted::Full {
            self.step()?;
            assert!(Instant::now() < end, "full for ever");
        }
        while self.ranks[0].landing().left() > 0 {
            self.step()?;
            assert!(Instant::now() < end, "it never lands");
        }
        Ok(())
    }

    fn signal(&self, id: usize) -> u64 {
        contract::word(&self.signals[1], id).load(Ordering::Acquire)
    }

    fn byte(&self, rank: usize, at: usize) -> u8 {
        contract::word(&self.data[rank], at / 8).load(Ordering::Acquire).to_ne_bytes()[at % 8]
    }

    fn fill(&self, rank: usize, at: usize, byte: u8) {
        contract::word(&self.data[rank], at / 8).store(u64::from_ne_bytes([byte; 8]), Ordering::Release);
    }
}

fn put(from: u64, to: u64, bytes: u64, signal: Option<(u64, u64)>) -> Work {
    Work { tag: 1, context: 0, peer: 1, source: Source::Region { region: DATA, offset: from }, bytes, target: (DATA, to), signal }
}

#[test]
fn a_peer_is_dialled_when_something_is_sent() {
    let mut world = World::new();
    (0..100).for_each(|_| world.step().unwrap());
    assert!(world.ranks.iter().all(|rank| rank.links.is_empty()));
    for context in [0, 1, 5, 0] {
        world.put(&Work { context, ..put(0, 0, 8, Some((0, 1))) }).unwrap();
    }
    assert_eq!((world.ranks[0].links.len(), world.ranks[1].links.len()), (2, 2), "contexts 1 and 5 share a stream");
    assert_eq!(world.signal(0), 4);
}

/// A small put is landed by the target's CPU, a large one by the network: in their order all the same.
#[test]
fn a_large_put_over_a_small_one_comes_last() {
    let mut world = World::new();
    // Word of the small one comes because it is asked for.
    world.ranks[1].told = Instant::now() + Duration::from_secs(3600);
    for round in 0..50u64 {
        world.fill(0, 0, 1);
        world.fill(0, 4096, 2);
        let small = put(0, 8192, 8, None);
        let large = Work { tag: 2, ..put(4096, 8192, 64 << 10, Some((0, 1 + round))) };
        while world.ranks[0].submit(&small).unwrap() == Submitted::Full {
            world.step().unwrap();
        }
        world.put(&large).unwrap();
        assert_eq!(world.byte(1, 8192), 2, "round {round}");
    }
    assert_eq!(world.signal(0), 50 * 51 / 2, "signals that add more than one");
}

/// The target's window has gone, the sender's has not: nothing lands, somebody says so, and names the other.
#[test]
fn nothing_lands_in_a_window_that_has_gone() {
    for bytes in [8, 1 << 20] {
        let mut world = World::new();
        world.put(&put(0, 0, bytes, Some((0, 1)))).unwrap();
        world.fill(1, 0, 7);
        world.fill(0, 0, 9);
        world.ranks[1].deregister(DATA);
        let error = world.put(&put(0, 0, bytes, Some((0, 1)))).unwrap_err();
        assert!(matches!(error.culprit, Some(0 | 1)) && matches!(error.id, 122 | 124), "{bytes}: {error}");
        (0..1000).for_each(|_| drop(world.step()));
        assert_eq!((world.signal(0), world.byte(1, 0)), (1, 7), "{bytes}");
    }
}

/// A window goes while a write into it is half received: its memory stays until the rest has come, and no longer.
#[test]
fn what_is_half_received_lands_in_memory_that_is_there() {
    const LARGE: usize = PIECE as usize;
    let mut world = World::new();
    world.put(&put(0, 0, 8, Some((0, 1)))).unwrap();
    for (fd, _) in sockets(&world) {
        // SAFETY: it lives as long as the ranks. So little room that the write below is in several parts.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        rustix::net::sockopt::set_socket_send_buffer_size(socket, 64 << 10).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(socket, 64 << 10).unwrap();
    }
    (0..LARGE / 8).for_each(|at| world.fill(0, 8 * at, 9));
    let end = hang_deadline();
    assert_eq!(world.ranks[0].submit(&put(0, 0, LARGE as u64, Some((0, 1)))).unwrap(), Submitted::Pending);
    while world.byte(1, 0) != 9 {
        world.step().unwrap();
        assert!(Instant::now() < end);
    }
    assert_eq!((world.byte(1, LARGE - 1), world.signal(0)), (0, 1), "half of it");
    // Regions of these tests keep all ranks' memory by themselves.
    let users = |world: &World| Arc::strong_count(&world.data[1]);
    let before = users(&world);
    world.ranks[1].deregister(DATA);
    let during = users(&world);
    while world.signal(0) < 2 {
        assert_eq!(users(&world), during, "the memory goes under the write");
        world.step().unwrap();
        assert!(Instant::now() < end);
    }
    assert_eq!(world.byte(1, LARGE - 1), 9);
    while users(&world) == during {
        world.step().unwrap();
        assert!(Instant::now() < end, "of {before}, {during} are left");
    }
    assert_eq!(users(&world), during - 1);
}

fn port(said: &[u8]) -> u16 {
    u16::from_be_bytes([said[20], said[21]])
}

/// Connections of who knows nothing, and of who knows all but the secret, open and half open: the ranks put all the same.
#[test]
fn strangers_stay_outside() {
    let mut world = World::new();
    let mut strangers = Vec::new();
    for i in 0..300usize {
        let mut stranger = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port(&world.said[1]))).unwrap();
        stranger.set_nonblocking(true).unwrap();
        let said: &[u8] = match i % 4 {
            0 => &[],
            1 => &[0xff; 700],
            2 => b"GET / HTTP/1.1\r\n",
            _ => &[1],
        };
        let _ = std::io::Write::write(&mut stranger, said);
        if i % 3 > 0 {
            strangers.push(stranger);
        }
        world.step().unwrap();
    }
    let refused = world.refuses_a_liar(|_| ());
    assert_eq!((refused.id, refused.culprit), (122, Some(1)), "{refused}");
    world.put(&put(0, 0, 64, Some((0, 1)))).unwrap();
    world.put(&put(0, 0, 1 << 20, Some((0, 1)))).unwrap();
    assert_eq!((world.signal(0), world.signal(1)), (2, 0));
    assert_eq!(world.ranks[1].links.len(), 1, "one sender, one link");
    drop(strangers);
}

/// Sockets that libfabric has made for the ranks of `world`: with where they begin and where they end.
fn sockets(world: &World) -> Vec<(rustix::fd::RawFd, [u16; 2])> {
    let doors = [port(&world.said[0]), port(&world.said[1])];
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let all = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let ports = |fd: rustix::fd::RawFd| {
        // SAFETY: only asked for its addresses; other tests' may go meanwhile, those of this test's ranks do not.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let port = |address: Option<rustix::net::SocketAddrAny>| {
            address.and_then(|at| std::net::SocketAddr::try_from(at).ok()).map(|at| at.port())
        };
        let local = port(rustix::net::getsockname(socket).ok())?;
        let peer = port(rustix::net::getpeername(socket).ok().flatten()).unwrap_or(0);
        (doors.contains(&local) || doors.contains(&peer)).then_some((fd, [local, peer]))
    };
    all.filter_map(ports).collect()
}

/// A program that this process becomes, or starts, is not to keep connections open.
#[test]
fn sockets_close_on_exec() {
    let mut world = World::new();
    for context in 0..2 {
        world.put(&Work { context, ..put(0, 0, 8, None) }).unwrap();
    }
    let all = sockets(&world);
    assert_eq!(all.len(), 2 + 2 * 2, "doors, and both ends of two links: {all:?}");
    let end = hang_deadline();
    // SAFETY: they live as long as the ranks.
    let flags = |fd| rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).unwrap();
    while let Some(open) = all.iter().find(|(fd, _)| !flags(*fd).contains(rustix::io::FdFlags::CLOEXEC)) {
        world.step().unwrap();
        assert!(Instant::now() < end, "{open:?} of {all:?}");
    }
    for rank in &world.ranks {
        assert!((0..2).all(|link| rank.sockets.of_link(link).is_some()), "each link's is known");
        assert!(rank.sockets.of_link(2).is_none());
    }
}

/// Silent strangers, and those who stop half way, cost no descriptors in the end; who was let in stays.
#[test]
fn who_says_nothing_is_sent_away() {
    let mut world = World::new();
    world.put(&put(0, 0, 8, None)).unwrap();
    world.ranks[1].sockets.patience = Duration::ZERO;
    let connect = |i: u8| {
        let mut stranger = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port(&world.said[1]))).unwrap();
        std::io::Write::write_all(&mut stranger, &vec![i; i.into()]).unwrap();
        stranger
    };
    let _strangers: Vec<_> = (0..40).map(connect).collect();
    let door = port(&world.said[1]);
    let ends = |world: &World| sockets(world).iter().filter(|(_, ports)| ports[0] == door).count();
    let end = hang_deadline();
    for looks in 0.. {
        (0..4 * EVENTS_EVERY).for_each(|_| world.step().unwrap());
        world.ranks[1].sockets.look();
        if looks > 4 && ends(&world) == 2 {
            break;
        }
        assert!(Instant::now() < end, "{} descriptors are left", ends(&world));
    }
    world.put(&put(0, 0, 64 << 10, Some((0, 1)))).unwrap();
    assert_eq!(world.signal(0), 1);
}

/// Returns the error of rank 0 in a world in which an impostor listens in place of rank 1. `play` is called
/// between the steps, and returns true once the impostor sends no further answer.
fn deceived(impostor: u16, mut play: impl FnMut() -> bool) -> crate::error::Error {
    let mut world = World::new();
    let mut said = world.said.clone();
    said[1][20..22].copy_from_slice(&impostor.to_be_bytes());
    connect(&mut world.ranks, &said);
    world.ranks[0].answer = HANG_LIMIT;
    (0..16).for_each(|at| world.fill(0, 8 * at, 0xa5));
    let end = hang_deadline();
    let (small, large) = (put(0, 0, 64, Some((0, 1))), put(0, 0, 64 << 10, Some((0, 1))));
    loop {
        assert!(Instant::now() < end, "nobody says that this is not rank 1");
        for work in [&small, &large] {
            if let Err(error) = world.ranks[0].submit(work).and_then(|_| world.ranks[0].progress(&mut Vec::new())) {
                assert!(world.ranks[0].submit(work).is_err(), "it is sent nothing more");
                return error;
            }
        }
        if play() {
            world.ranks[0].answer = Duration::from_secs(1);
        }
    }
}

/// It hears who calls, for which stream, a nonce and a proof; and nothing of what is put.
#[test]
fn a_listener_in_place_of_a_rank_learns_nothing() {
    for answer in [&[][..], &[0; 12], &[0xff; 300]] {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (mut caller, mut heard, mut turns) = (None, Vec::new(), 0);
        let error = deceived(listener.local_addr().unwrap().port(), || {
            if caller.is_none() {
                caller = listener.accept().ok().map(|(socket, _)| socket);
                caller.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
            }
            let Some(socket) = &mut caller else { return false };
            let _ = std::io::Read::read_to_end(socket, &mut heard);
            turns += u32::from(heard.len() >= proof::HELLO);
            // For long it only listens.
            if turns == 300 {
                let _ = std::io::Write::write_all(socket, answer);
                let _ = socket.shutdown(std::net::Shutdown::Write);
            }
            heard.len() >= proof::HELLO && turns >= 300
        });
        assert_eq!((error.id, error.culprit), (122, Some(1)), "{error}");
        assert!((proof::HELLO..2 * proof::HELLO).contains(&heard.len()), "{heard:?}");
        assert!(!heard.windows(4).any(|bytes| bytes == [0xa5; 4]) && !heard.windows(4).any(|bytes| bytes == [7; 4]), "{heard:?}");
    }
}

/// One that speaks libfabric and takes whoever comes: it has no proof, and is not believed.
#[test]
fn a_listener_without_the_secret_is_no_rank() {
    let (mut liars, said) = ends(&[true; 2], None);
    let liar = &mut liars[1];
    let mut taken = Vec::new();
    let error = deceived(port(&said[1]), || {
        while let Some(event) = liar.post.net.event().unwrap() {
            if let Event::Asks { request, .. } = event {
                let endpoint = liar.post.net.called(&request, 0).unwrap();
                (0..4).for_each(|_| liar.post.expect_message(&endpoint, 0).unwrap());
                endpoint.accept(&[0; proof::ANSWER]).unwrap();
                taken.push(endpoint);
            }
        }
        liar.post.net.completions(|ended| assert!(ended.error.is_some(), "{} bytes have come", ended.bytes)).unwrap();
        false
    });
    assert!(error.id == 122 && error.culprit == Some(1) && error.text.contains("does not know"), "{error}");
    assert!(!taken.is_empty());
}

/// A rank may leave with puts to it on their way: their sender is not to wait for it.
#[test]
fn nobody_waits_for_a_rank_that_has_left() {
    let mut world = World::new();
    world.put(&put(0, 0, 8, None)).unwrap();
    for _ in 0..20 {
        world.ranks[0].submit(&put(0, 0, 8, None)).unwrap();
        world.ranks[0].submit(&put(0, 0, 64 << 10, None)).unwrap();
    }
    world.ranks[1].close(Duration::from_millis(10)).unwrap();
    let end = hang_deadline();
    while world.ranks[0].landing().left() > 0 {
        world.ranks[0].progress(&mut Vec::new()).unwrap();
        assert!(Instant::now() < end);
    }
    assert_eq!(world.ranks[0].submit(&put(0, 0, 8, None)).unwrap(), Submitted::Done);
}

/// A rank that is told to write where it has not prepared anything refuses, and so does one that knows no peer.
#[test]
fn addresses_that_make_no_sense_are_refused() {
    assert_eq!((Address::decode(&[], 0), Address::decode(&[17; 18], 0), Address::decode(&[40; 40], 0)), (None, None, None));
    assert_eq!(Address::decode(&[200; 201], 0), None);
    let mut world = World::new();
    assert!(world.ranks[0].submit(&Work { peer: 2, ..put(0, 0, 8, None) }).is_err());
    assert!(world.ranks[0].submit(&Work { target: (7, 0), ..put(0, 0, 1 << 20, None) }).is_err());
}
