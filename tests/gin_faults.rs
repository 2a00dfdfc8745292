//! What goes wrong is told, stops everything and stays bounded: bad descriptors, transports that fail, fill up, finish out
//! of order or never.

mod support;

use ginrs::error::{Code, Error, Result};
use ginrs::gin::descriptor::{Descriptor, SignalOp, Source};
use ginrs::gin::proxy::Routes;
use ginrs::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex};
use support::{Plan, Random, Rank, eventually, fabric, fabric_over, signal};

/// Posts `words` to rank 1 and gives the text of the abort that follows.
fn refused(ranks: &[Rank], words: [u64; 8]) -> String {
    let kernel = ranks[0].kernel(1);
    let index = kernel.claim(1);
    assert!(kernel.has_credit(1, index));
    kernel.write(1, index, &words);
    eventually("abort", || ranks[0].gin.step() || ranks[0].abort.is_raised());
    eventually("abort", || ranks[0].abort.is_raised());
    let claimed = index.next().0;
    eventually("credit after the abort", || kernel.flushed(1, claimed) || ranks[0].gin.step());
    let cause = ranks[0].abort.cause().unwrap();
    assert_eq!((cause.code, cause.id), (Code::InvalidUsage, 51));
    cause.to_string()
}

#[test]
fn a_bad_descriptor_names_rank_context_operation_and_values() {
    let plan = Plan { contexts: 2, window: 0x20_0000, signals: 8, counters: 4, ..Plan::default() };
    type Make = fn(&Rank) -> [u64; 8];
    let cases: [(Make, &[&str]); 9] = [
        (|rank| rank.put(0, 0x1f_fff9, 8).encode().unwrap(), &["target window", "bytes 0x1ffff9", "+0x8", "of 0x200000"]),
        (|rank| rank.put(0x20_0000, 0, 1).encode().unwrap(), &["source window", "bytes 0x200000"]),
        (
            |rank| rank.put(0, u64::MAX >> 1, (1 << 57) - 1).encode().unwrap(),
            &["target window", "bytes -0x1 to -0x1+0x1ffffffffffffff"],
        ),
        (
            |rank| Descriptor { dst_handle: 0xdead_0001, ..rank.put(0, 0, 8) }.encode().unwrap(),
            &["0xdead0001", "never given out"],
        ),
        (
            |rank| rank.value(0, 8, 1).encode().map(|w| [w[0], w[1], w[2], w[3], 1, w[5], w[6], w[7]]).unwrap(),
            &["handle 0x0", "never"],
        ),
        (|_| signal(8, SignalOp::Inc).encode().unwrap(), &["signal 8", "has 8"]),
        (|rank| Descriptor { counter: Some(4), ..rank.put(0, 0, 8) }.encode().unwrap(), &["counter 4", "has 4"]),
        (|_| [25 << 1 | 1, 1, 1, 1, 1, 1, 1, 1], &["op is 0x19"]),
        (|_| [100 << 7 | 3 << 1 | 1, 1, 1, 1, 1, 1, 1, 1], &["inline value is 0x64"]),
    ];
    for (make, texts) in cases {
        let ranks = fabric(plan);
        ranks[1].bytes(0, plan.window).fill(0xee);
        let text = refused(&ranks, make(&ranks[0]));
        let operation = ranks[0].kernel(1).claimed(1).wrapping_sub(1);
        let whose = format!("rank 0, context 1, operation {operation} to rank 1");
        for text_part in texts.iter().chain(&[whose.as_str(), "fix: "]) {
            assert!(text.contains(text_part), "{text_part:?} is missing in {text:?}");
        }
        assert!(*ranks[1].bytes(0, plan.window) == *vec![0xee; plan.window], "not a byte has moved");
        assert!((0..8).all(|id| ranks[1].kernel(1).signal(id).load(Acquire) == 0));
    }
}

#[test]
fn a_deregistered_window_is_told_apart() {
    let ranks = fabric(Plan { contexts: 2, ..Plan::default() });
    ranks[0].gin.deregister(ranks[0].handle);
    let text = refused(&ranks, ranks[0].put(0, 0, 8).encode().unwrap());
    assert!(text.contains("was deregistered"), "{text}");
}

/// R10 in small: random ranges, half of them wrong; every wrong one is refused and no right one is.
#[test]
fn bounds_are_exact() {
    let plan = Plan { window: 4096, contexts: 1, threads: false, ..Plan::default() };
    let mut random = Random(0xb0_07);
    let mut ranks = fabric(plan);
    let (mut wrong, mut right) = (0, 0);
    while wrong < 150 {
        let bytes = random.below(64);
        let near = |random: &mut Random| (4096 - 80 + random.below(100)) - 10;
        let (from, to) = (near(&mut random), near(&mut random));
        let kernel = ranks[0].kernel(0);
        kernel.post(1, &ranks[0].put(from, to, bytes), || ());
        for _ in 0..3 {
            ranks[0].gin.step();
        }
        let valid = bytes == 0 || from.max(to) + bytes <= 4096;
        assert_eq!(!ranks[0].abort.is_raised(), valid, "{bytes} bytes from {from} to {to}");
        if valid {
            right += 1;
        } else {
            wrong += 1;
            ranks = fabric(plan);
        }
    }
    assert!(right > 20);
}

/// The same for a window in the middle of its memory, whose offsets count from the memory's start: both ends are exact, and what
/// arrives lies where it should.
#[test]
fn a_window_inside_its_memory_is_bounded_at_both_ends() {
    let (start, size) = (4096u64, 1000u64);
    let plan = Plan { window: 16384, threads: false, ..Plan::default() };
    for (from, to, bytes) in [(0u64, 0u64, 1000), (999, 999, 1), (992, 0, 8), (0, 992, 8)] {
        for (from, to) in [(from, to), (from.wrapping_sub(1), to), (from, to.wrapping_sub(1)), (from + 1, to), (from, to + 1)] {
            let ranks = fabric(plan);
            let window = window_of(&ranks, start, size);
            ranks[0].bytes(0, plan.window).fill(0x11);
            ranks[1].bytes(0, plan.window).fill(0xee);
            ranks[0].bytes(0, plan.window).fill(0x11);
            // As a kernel adds: modulo 2^64, of which 63 bits travel.
            let wrap = |offset: u64| offset.wrapping_add(start) & (u64::MAX >> 1);
            let put = Descriptor { dst_handle: window, ..ranks[0].put(0, wrap(to), bytes) };
            let put = Descriptor { source: Source::Memory { handle: window, offset: wrap(from) }, ..put };
            ranks[0].kernel(0).post(1, &put, || ());
            (0..3).for_each(|_| _ = ranks[0].gin.step());
            let valid = [from, to].iter().all(|&offset| offset <= size && bytes <= size - offset);
            assert_eq!(!ranks[0].abort.is_raised(), valid, "{bytes} bytes from {from:#x} to {to:#x}");
            let landed = ranks[1].bytes(0, plan.window).iter().enumerate().filter(|(_, byte)| **byte == 0x11);
            let first = start.wrapping_add(to) as usize;
            let expected = if valid { first..first + bytes as usize } else { 0..0 };
            assert!(landed.map(|(i, _)| i).eq(expected), "{bytes} bytes from {from:#x} to {to:#x}");
        }
    }
}

/// A window of `size` bytes in the memory of every rank, known to rank 0.
fn window_of(ranks: &[Rank], start: u64, size: u64) -> u64 {
    let memories: Vec<_> = ranks.iter().map(|rank| rank.memory.clone()).collect();
    let at = |memory: &Arc<dyn ginrs::device::Physical>| Some(memory.host().unwrap().as_ptr() as u64 + start);
    let addresses = memories.iter().map(at).collect();
    // SAFETY: the region keeps the memories, and the window lies inside them.
    let region = unsafe { Region::new(2, size, 0, addresses, Box::new(memories)) }.unwrap();
    ranks[0].gin.register_region(region, start).unwrap()
}

/// How the transport of these tests behaves.
#[derive(Clone, Copy)]
struct Behaviour {
    /// Pieces under way before it says Full.
    room: usize,
    /// Ends pieces of different peers in any order.
    shuffle: bool,
    /// The n-th completion is an error.
    fail: Option<u64>,
    /// The n-th submission is refused with an error.
    refuse: Option<u64>,
    /// Bytes per piece.
    piece: u64,
}

/// What was delivered: (peer, tag, bytes, signal).
type Log = Arc<Mutex<Vec<Work>>>;

/// A transport that takes its time, as a network does. It moves no bytes; it logs what it delivers.
struct Slow {
    behaviour: Behaviour,
    under_way: VecDeque<Work>,
    log: Log,
    random: Random,
    submitted: u64,
    completed: u64,
    aborted: bool,
}

impl Transport for Slow {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("slow", self.behaviour.piece)
    }
    fn register(&mut self, _: &Region) -> Result<()> {
        Ok(())
    }
    fn deregister(&mut self, _: u32) {}
    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        assert!(!self.aborted, "nothing is submitted after an abort");
        assert!(work.bytes <= self.behaviour.piece);
        self.submitted += 1;
        if self.behaviour.refuse == Some(self.submitted) {
            return Err(Error::new(Code::RemoteError, 36, "planted refusal"));
        }
        if self.under_way.len() >= self.behaviour.room {
            return Ok(Submitted::Full);
        }
        self.under_way.push_back(*work);
        Ok(Submitted::Pending)
    }
    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        if self.under_way.is_empty() {
            return Ok(false);
        }
        let mut at = 0;
        if self.behaviour.shuffle {
            // The oldest piece of a random peer: order holds within a peer only.
            let peer = self.under_way[self.random.below(self.under_way.len() as u64) as usize].peer;
            at = self.under_way.iter().position(|work| work.peer == peer).unwrap();
        }
        let work = self.under_way.remove(at).unwrap();
        self.completed += 1;
        let failed = self.behaviour.fail == Some(self.completed);
        self.log.lock().unwrap().push(work);
        let result = if failed { Err(Error::new(Code::RemoteError, 36, "planted failure")) } else { Ok(()) };
        done.push((work.tag, result));
        Ok(true)
    }
    fn abort(&mut self) {
        self.aborted = true;
        self.under_way.clear();
    }
}

const CALM: Behaviour = Behaviour { room: 4, shuffle: false, fail: None, refuse: None, piece: 1000 };

fn slow_fabric(plan: Plan, behaviour: Behaviour) -> (Vec<Rank>, Log) {
    let log = Log::default();
    let ranks = fabric_over(plan, |plan, rank| {
        // Rank 0's is watched, the others post nothing.
        let log = if rank == 0 { log.clone() } else { Log::default() };
        let slow =
            Slow { behaviour, under_way: VecDeque::new(), log, random: Random(77), submitted: 0, completed: 0, aborted: false };
        Routes { transports: vec![Box::new(slow)], by_peer: vec![0; plan.ranks as usize] }
    });
    (ranks, log)
}

/// Target offset, bytes and signal.
type Piece = (u64, u64, Option<(u64, u64)>);

/// Full is a state; pieces are exact; the signal rides on the last one; counter before index, index in order.
#[test]
fn a_transport_that_fills_up_loses_nothing() {
    for shuffle in [false, true] {
        let plan = Plan { ranks: 3, depth: 8, start: u32::MAX - 10, threads: false, ..Plan::default() };
        let (ranks, log) = slow_fabric(plan, Behaviour { shuffle, ..CALM });
        let kernel = ranks[0].kernel(0);
        let first = [0, 1, 2].map(|peer| kernel.claimed(peer));
        let mut random = Random(99);
        let mut expected: Vec<Vec<Piece>> = vec![Vec::new(); 3];
        let mut posted = [0u64; 3];
        for i in 0..300u64 {
            let peer = random.below(3) as usize;
            let bytes = random.below(3500);
            let mut put = Descriptor { counter: Some(peer as u16), ..ranks[0].put(0, i, bytes) };
            put.signal = (random.below(2) == 0).then_some((1, SignalOp::Add(i)));
            assert!(kernel.post(peer as u32, &put, || {
                ranks[0].gin.step();
                for peer in 0..3 {
                    // The credit never runs ahead of the counters.
                    let done = kernel.counter(peer).load(Acquire);
                    let first = first[peer as usize];
                    assert!(kernel.flushed(peer, first) && !kernel.flushed(peer, first.wrapping_add(done as u32 + 1)));
                }
            }));
            posted[peer] += 1;
            let signal = put.signal.map(|_| (8, i));
            let mut at = 0;
            while bytes - at > 1000 {
                expected[peer].push((i + at, 1000, None));
                at += 1000;
            }
            if bytes > at || signal.is_some() {
                expected[peer].push((i + at, bytes - at, signal));
            }
        }
        assert!(kernel.flush(|| _ = ranks[0].gin.step()));
        for peer in 0..3 {
            assert_eq!(kernel.counter(peer).load(Acquire), posted[peer as usize]);
            let log = log.lock().unwrap();
            let seen: Vec<_> = log
                .iter()
                .filter(|work| work.peer == peer)
                .map(|work| {
                    let target = if work.bytes == 0 { expected_target(&expected[peer as usize], work) } else { work.target.1 };
                    (target, work.bytes, work.signal)
                })
                .collect();
            assert_eq!(seen, expected[peer as usize], "peer {peer}, in order");
        }
        assert!(ranks[0].abort.cause().is_none());
    }
}

/// A bare signal has no target; its place in the list is told by its value.
fn expected_target(expected: &[Piece], work: &Work) -> u64 {
    expected.iter().find(|entry| entry.2 == work.signal).unwrap().0
}

/// D1: an error of any completion or submission ends the communicator and releases every waiter.
#[test]
fn no_error_disappears() {
    for k in [1, 2, 7, 40] {
        for (fail, refuse) in [(Some(k), None), (None, Some(k))] {
            let (ranks, _) = slow_fabric(Plan { depth: 8, ..Plan::default() }, Behaviour { fail, refuse, ..CALM });
            let kernel = ranks[0].kernel(0);
            let begin = std::time::Instant::now();
            for i in 0..100 {
                let index = kernel.claim(1);
                eventually("credit", || kernel.has_credit(1, index) || ranks[0].gin.step());
                eventually("credit", || kernel.has_credit(1, index));
                kernel.write(1, index, &ranks[0].put(0, i, 100).encode().unwrap());
            }
            eventually("abort", || ranks[0].abort.is_raised());
            assert!(begin.elapsed() < support::hang_limit::HANG_LIMIT, "{:?}", begin.elapsed());
            let cause = ranks[0].abort.cause().unwrap();
            assert_eq!((cause.id, cause.code), (50, Code::RemoteError));
            assert!(cause.text.contains("rank 0, context 0, operation") && cause.text.contains("planted"), "{cause}");
            let claimed = kernel.claimed(1);
            eventually("flush", || kernel.flushed(1, claimed));
        }
    }
}

/// A window that goes while a put is half submitted.
#[test]
fn deregistering_under_a_put_is_told() {
    let (ranks, _) = slow_fabric(Plan { threads: false, ..Plan::default() }, Behaviour { room: 1, ..CALM });
    ranks[0].kernel(0).post(1, &ranks[0].put(0, 0, 5000), || ());
    ranks[0].gin.step();
    ranks[0].gin.deregister(ranks[0].handle);
    let cause = ranks[0].abort.cause().unwrap();
    assert_eq!(cause.id, 51);
    assert!(cause.text.contains("rank 0, context 0, operation") && cause.text.contains("to rank 1"), "{cause}");
}

/// A transport that panics: the communicator fails with its words, and queues go on being emptied.
#[test]
fn a_panic_in_a_step_is_an_abort() {
    struct Panics(bool);
    impl Transport for Panics {
        fn capabilities(&self) -> Capabilities {
            Capabilities::of("panics", 1 << 20)
        }
        fn register(&mut self, _: &Region) -> Result<()> {
            Ok(())
        }
        fn deregister(&mut self, _: u32) {}
        fn submit(&mut self, _: &Work) -> Result<Submitted> {
            panic!("planted {}", self.0)
        }
        fn progress(&mut self, _: &mut Vec<Completion>) -> Result<bool> {
            Ok(false)
        }
        fn abort(&mut self) {}
    }
    let ranks = fabric_over(Plan::default(), |_, _| Routes { transports: vec![Box::new(Panics(true))], by_peer: vec![0, 0] });
    let kernel = ranks[0].kernel(0);
    for _ in 0..100 {
        let index = kernel.claim(1);
        eventually("credit", || kernel.has_credit(1, index));
        kernel.write(1, index, &signal(0, SignalOp::Inc).encode().unwrap());
    }
    let claimed = kernel.claimed(1);
    eventually("flush", || kernel.flushed(1, claimed));
    assert!(ranks[0].abort.cause().unwrap().text.contains("planted true"));
}

/// A rank that leaves: its memory may go when stop returns, so no step follows, on whichever thread, and nothing keeps it.
#[test]
fn after_stop_no_step_comes_and_no_region_is_known() {
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    #[derive(Default)]
    struct Seen {
        closed: AtomicBool,
        late: AtomicBool,
        regions: AtomicUsize,
    }
    struct Watched(Arc<Seen>);
    impl Transport for Watched {
        fn capabilities(&self) -> Capabilities {
            Capabilities { polled: true, ..Capabilities::of("watched", 1 << 20) }
        }
        fn register(&mut self, _: &Region) -> Result<()> {
            self.0.regions.fetch_add(1, Relaxed);
            Ok(())
        }
        fn deregister(&mut self, _: u32) {
            self.0.regions.fetch_sub(1, Relaxed);
        }
        fn submit(&mut self, _: &Work) -> Result<Submitted> {
            Ok(Submitted::Done)
        }
        fn progress(&mut self, _: &mut Vec<Completion>) -> Result<bool> {
            self.0.late.fetch_or(self.0.closed.load(Relaxed), Relaxed);
            Ok(false)
        }
        fn close(&mut self, _: std::time::Duration) -> Result<()> {
            self.0.closed.store(true, Relaxed);
            Ok(())
        }
        fn abort(&mut self) {}
    }
    let end = std::time::Instant::now() + std::time::Duration::from_millis(1500);
    let mut rounds = 0;
    while rounds < 5 || std::time::Instant::now() < end {
        rounds += 1;
        let seen = Arc::new(Seen::default());
        let ranks = fabric_over(Plan { ranks: 1, threads: rounds % 2 == 0, ..Plan::default() }, |_, _| Routes {
            transports: vec![Box::new(Watched(seen.clone()))],
            by_peer: vec![0],
        });
        assert_eq!(seen.regions.load(Relaxed), 2, "signals and the window");
        let (over, go) = (AtomicBool::new(false), std::sync::Barrier::new(4));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    go.wait();
                    while !over.load(Relaxed) {
                        ranks[0].gin.step();
                    }
                });
            }
            go.wait();
            ranks[0].gin.stop();
            std::thread::yield_now();
            over.store(true, Relaxed);
        });
        assert!(!seen.late.load(Relaxed), "a step after stop, round {rounds}");
        assert_eq!(seen.regions.load(Relaxed), 0, "round {rounds}");
        assert!(Arc::strong_count(&ranks[0].memory) <= 2, "the test's own, and none of the engine's");
    }
}

/// Stop ends every step: posted work stays where it is.
#[test]
fn nothing_moves_after_stop() {
    let ranks = fabric(Plan::default());
    ranks[0].gin.stop();
    ranks[0].gin.stop();
    ranks[0].kernel(0).post(1, &signal(0, SignalOp::Inc), || ());
    assert!(!ranks[0].gin.step());
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!(ranks[1].kernel(0).signal(0).load(Relaxed), 0);
}
