//! The contract where windows are apart from the CPU, and what is the copies' own.

use super::tests::{HOW, How, connect, ends};
use super::*;
use crate::device::cpu::CpuDevice;
use crate::device::{CopyQueue, Memory, Physical, Transfers};
use crate::hang_limit::{HANG_LIMIT, hang_deadline};
use crate::sync::Mutex;
use crate::transport::contract::apart::{Apart, Reaching};
use crate::transport::delayed::{Delayed, Started};
use crate::transport::{SIGNALS, contract};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn ranks(serves: Vec<bool>, queue: &dyn Fn() -> Result<Box<dyn CopyQueue>>) -> Vec<Box<dyn Transport>> {
    let (mut ranks, said) = ends(&serves, Some(queue));
    connect(&mut ranks, &said);
    ranks.into_iter().map(|rank| Box::new(rank) as _).collect()
}

fn at_once() -> Result<Box<dyn CopyQueue>> {
    Ok(Box::new(Reaching(CpuDevice::new(0).copy_queue()?)))
}

fn apart(_: u32, memory: Arc<dyn Physical>) -> Arc<dyn Physical> {
    Arc::new(Apart(memory))
}

#[test]
fn contract_at_once() {
    contract::all_seen(|serves| ranks(serves, &at_once), apart);
}

#[test]
fn contract_late_and_out_of_order() {
    let late = || Ok(Box::new(Reaching(Box::new(Delayed::new(0x5eed_0007)))) as _);
    contract::all_seen(|serves| ranks(serves, &late), apart);
}

/// Where there are no connections, and messages come in any order.
#[test]
fn contract_over_rxm() {
    HOW.set(How { provider: "tcp;ofi_rxm", mixed: true, ..How::default() });
    contract::all_seen(|serves| ranks(serves, &at_once), apart);
    HOW.set(How::default());
}

/// Every second rank's windows are host memory.
#[test]
fn contract_of_mixed_windows() {
    let seen: [contract::Seen; 2] = [
        |rank, memory| if rank % 2 == 0 { apart(rank, memory) } else { memory },
        |rank, memory| if rank % 2 == 1 { apart(rank, memory) } else { memory },
    ];
    for seen in seen {
        contract::all_seen(|serves| ranks(serves, &|| Ok(Box::new(Reaching(Box::new(Delayed::new(6)))))), seen);
    }
}

#[test]
fn a_peer_that_goes_is_named() {
    contract::failure(|serves| ranks(serves, &at_once), |ranks| drop(ranks.drain(1..)));
}

/// Two ranks with a window and signals each, and what steers their copies: out of rank 0's window, and into it, and rank 1's.
struct Pair {
    ranks: Vec<Ofi>,
    data: Vec<Arc<dyn Physical>>,
    signals: Vec<Arc<dyn Physical>>,
    started: Vec<Arc<Mutex<Started>>>,
    tag: u64,
}

const DATA: u32 = 1;

impl Pair {
    fn new() -> Self {
        let started = RefCell::new(Vec::new());
        let queue = || {
            let delayed = Delayed::new(8);
            started.borrow_mut().push(delayed.started());
            Ok(Box::new(Reaching(Box::new(delayed))) as _)
        };
        let (mut ranks, said) = ends(&[true; 2], Some(&queue));
        connect(&mut ranks, &said);
        let device = CpuDevice::new(0);
        let create = |_| Memory::create(&*device, contract::BYTES).unwrap();
        let (data, signals): (Vec<_>, Vec<_>) = ((0..2).map(create).collect(), (0..2).map(create).collect());
        let mut pair = Self { ranks, data, signals, started: started.into_inner(), tag: 0 };
        let windows: Vec<_> = pair.data.iter().map(|memory| apart(0, memory.clone())).collect();
        pair.register(SIGNALS, &pair.signals.clone());
        pair.register(DATA, &windows);
        pair
    }

    fn register(&mut self, id: u32, memories: &[Arc<dyn Physical>]) {
        let ranks = &mut self.ranks;
        let words: Vec<Words> =
            ranks.iter_mut().zip(memories).map(|(rank, memory)| contract::prepare(rank, id, memory)).collect();
        for (rank, number) in ranks.iter_mut().zip(0..) {
            rank.register(&contract::region(id, number, memories, false).with_words(words.clone())).unwrap();
        }
    }

    fn put(&mut self, from: u64, to: u64, bytes: u64) -> Work {
        self.tag += 1;
        let source = Source::Region { region: DATA, offset: from };
        Work { tag: self.tag, context: 0, peer: 1, source, bytes, target: (DATA, to), signal: Some((0, 1)) }
    }

    /// Both step once; the tags that are done.
    fn step(&mut self) -> Result<Vec<u64>> {
        let mut done = Vec::new();
        self.ranks[0].progress(&mut done)?;
        if let Some(target) = self.ranks.get_mut(1) {
            target.progress(&mut Vec::new())?;
        }
        Ok(done.into_iter().map(|(tag, result)| result.map(|()| tag).unwrap()).collect())
    }

    fn until(&mut self, what: &str, mut so: impl FnMut(&Self) -> bool) -> Result<()> {
        let end = hang_deadline();
        while !so(self) {
            self.step()?;
            assert!(Instant::now() < end, "{what}");
        }
        Ok(())
    }

    fn submit(&mut self, work: &Work) {
        let end = hang_deadline();
        while self.ranks[0].submit(work).unwrap() == Submitted::Full {
            self.step().unwrap();
            assert!(Instant::now() < end, "full for ever");
        }
    }

    fn signal(&self, rank: usize) -> u64 {
        contract::word(&self.signals[rank], 0).load(Ordering::Acquire)
    }

    fn bytes(&mut self, rank: usize) -> &mut [u8] {
        // SAFETY: the mapping has so many bytes, and this thread alone copies.
        unsafe { std::slice::from_raw_parts_mut(self.data[rank].host().unwrap().as_ptr(), contract::BYTES) }
    }

    fn go(&self, queues: std::ops::Range<usize>, go: bool) {
        self.started[queues].iter().for_each(|started| started.lock().go = go);
    }
}

/// Queues as they are made: rank 0's out of its window and into it, then rank 1's.
const SOURCE: std::ops::Range<usize> = 0..1;
const TARGET: std::ops::Range<usize> = 3..4;

/// Around the size of a piece, at odd offsets, over all four streams at once.
#[test]
fn four_streams_of_odd_pieces() {
    let mut pair = Pair::new();
    let piece = pair.ranks[0].piece;
    assert_eq!(piece, 128 << 10, "of two ranks");
    pair.bytes(0).iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7 + i / 251) as u8);
    let (mut at, mut puts) = (1u64, Vec::new());
    for context in 0..4 {
        for bytes in [0, 1, 7, 8, 4096, piece - 1, piece, 4096 + context * 3] {
            puts.push(Work { context: context as u32, ..pair.put(at ^ 4, at, bytes) });
            at += bytes + 3;
        }
    }
    puts.iter().for_each(|put| pair.submit(put));
    pair.until("all land", |pair| pair.signal(1) == puts.len() as u64 && pair.ranks[0].landing().left() == 0).unwrap();
    assert_eq!(pair.ranks[0].links.len(), 4);
    let source = pair.bytes(0).to_vec();
    let mut expected = vec![0; contract::BYTES];
    for put in &puts {
        let Source::Region { offset, .. } = put.source else { unreachable!() };
        let (from, to, bytes) = (offset as usize, put.target.1 as usize, put.bytes as usize);
        expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
    }
    assert!(*pair.bytes(1) == *expected, "what landed, and what lies beside it");
    let too_large = pair.put(0, 0, piece + 1);
    assert!(pair.ranks[0].submit(&too_large).is_err());
}

/// The source is done with when its copy is, whatever the target does; the target's signal waits for the target's copy.
#[test]
fn each_end_waits_for_its_own_copies() {
    let mut pair = Pair::new();
    pair.go(TARGET, false);
    pair.bytes(0)[..5000].fill(7);
    let put = pair.put(0, 9, 5000);
    pair.submit(&put);
    let end = hang_deadline();
    while !pair.step().unwrap().contains(&put.tag) {
        assert!(Instant::now() < end, "its source is free");
    }
    pair.bytes(0)[..5000].fill(9);
    let held = |pair: &Pair| matches!(pair.ranks[1].links.first(), Some(Link::From(_))) && pair.started[3].lock().len() > 0;
    pair.until("the copy starts", held).unwrap();
    (0..1000).for_each(|_| drop(pair.step().unwrap()));
    assert_eq!((pair.signal(1), pair.ranks[0].landing().left()), (0, 1), "before its payload");
    pair.go(TARGET, true);
    pair.until("it lands", |pair| pair.signal(1) == 1 && pair.ranks[0].landing().left() == 0).unwrap();
    assert!(pair.bytes(1)[9..5009].iter().all(|&byte| byte == 7));
}

/// A target that stands still costs its sender so many messages, and no more of its memory.
#[test]
fn what_waits_is_bounded() {
    let mut pair = Pair::new();
    pair.go(TARGET, false);
    let piece = pair.ranks[0].piece;
    let (mut taken, mut full) = (0, 0);
    while full < 2000 {
        let put = pair.put(0, 0, piece);
        match pair.ranks[0].submit(&put).unwrap() {
            Submitted::Full => full += 1,
            _ => (taken, full) = (taken + 1, 0),
        }
        pair.step().unwrap();
    }
    // Under way, waiting, and the one that gathers.
    assert!((staging::WINDOW..=staging::WINDOW + staging::WAITING as u64 + 1).contains(&taken), "{taken}");
    pair.go(TARGET, true);
    pair.until("all land", |pair| pair.signal(1) == taken && pair.ranks[0].landing().left() == 0).unwrap();
}

/// What a target refuses, by name, before a byte of that record moves.
#[test]
fn a_record_out_of_bounds_is_refused_by_the_target() {
    const END: u64 = contract::BYTES as u64;
    let bad: [fn(Header) -> Header; 7] = [
        |good| Header { target: (good.target.0, END - 7), ..good },
        |good| Header { target: (good.target.0, u64::MAX - 3), ..good },
        |good| Header { target: (good.target.0 ^ 1, 0), ..good },
        |good| Header { target: (0, 0), ..good },
        |good| Header { signal: Some((END, 1)), ..good },
        |good| Header { signal: Some((4, 1)), ..good },
        |good| Header { target: (good.target.0, END - 7), value: Some(1), ..good },
    ];
    for (i, bad) in bad.iter().enumerate() {
        let mut pair = Pair::new();
        let work = Work { signal: None, ..pair.put(0, 64, 8) };
        pair.submit(&work);
        pair.until("a link", |pair| pair.ranks[0].landing().left() == 0).unwrap();
        pair.bytes(1).fill(0xee);
        let Ofi { links, post, batches, memories, .. } = &mut pair.ranks[0];
        let Link::To(to) = &mut links[0] else { panic!("it sends") };
        let header = Header { bytes: 8, value: None, target: (memories.place(DATA, 1, 0).name, 0), signal: Some((0, 1)) };
        to.pack(post, &bad(header), &work, 1, Carried::Host([5u8; 8].as_ptr())).unwrap();
        batches.push(0);
        let error = pair.until("it is refused", |_| false).unwrap_err();
        assert_eq!((error.id, error.culprit), (124, Some(0)), "{i}: {error}");
        assert!(pair.bytes(1).iter().all(|&byte| byte == 0xee) && pair.signal(1) == 0, "{i}");
    }
}

/// The window goes at the target while copies into it are under way: they end first, and what comes later is refused.
#[test]
fn a_window_goes_behind_its_copies() {
    let mut pair = Pair::new();
    for i in 0..40 {
        let put = pair.put(0, 4096 * i, 4096);
        pair.submit(&put);
        pair.step().unwrap();
    }
    let landed = pair.signal(1);
    assert!(landed < 40, "some is under way");
    pair.ranks[1].deregister(DATA);
    pair.bytes(1).fill(0xee);
    let refused = pair.until("the rest is refused", |_| false).unwrap_err();
    assert_eq!((refused.id, refused.culprit), (124, Some(0)), "{refused}");
    assert!(pair.bytes(1).iter().all(|&byte| byte == 0xee), "a byte behind its window");
    // At the source the same: nothing reads it any more.
    let mut pair = Pair::new();
    for i in 0..8 {
        let put = pair.put(0, 4096 * i, 4096);
        pair.submit(&put);
    }
    pair.bytes(0).fill(1);
    pair.ranks[0].deregister(DATA);
    pair.bytes(0).fill(2);
    pair.until("what was put lands", |pair| pair.signal(1) == 8).unwrap();
    assert!(pair.bytes(1)[..8 * 4096].iter().all(|&byte| byte == 1));
}

/// A device that finishes nothing holds a deregistration up for a second, not for ever.
#[test]
fn a_device_that_stands_still_is_told() {
    let mut pair = Pair::new();
    pair.go(SOURCE, false);
    let put = pair.put(0, 0, 4096);
    pair.submit(&put);
    pair.step().unwrap();
    let begin = Instant::now();
    let error = pair.ranks[0].drain().unwrap_err();
    assert!(error.id == 125 && begin.elapsed() < HANG_LIMIT, "{error} after {:?}", begin.elapsed());
}

/// A copy fails: an error with its number, and no signal for what was lost; at either end.
#[test]
fn copies_that_fail_are_told() {
    for queue in [SOURCE, TARGET] {
        let mut pair = Pair::new();
        pair.started[queue.start].lock().good = Some(5);
        let mut failed = None;
        for i in 0..2000 {
            let put = pair.put(0, 8 * (i % 100), 64);
            pair.ranks[0].submit(&put).unwrap();
            if let Err(error) = pair.step() {
                failed = Some(error);
                break;
            }
        }
        let error = failed.expect("somebody says so");
        assert!(error.id == 125 && error.text.contains("| fix:"), "{error}");
        let signal = pair.signal(1);
        assert!(signal <= 5, "{signal} signals for 5 copies");
        for _ in 0..100 {
            let _ = pair.step();
        }
        assert!(pair.signal(1) <= 5, "a signal for what was lost");
    }
}

/// The peer goes while the device still copies for it: the places of its messages are nobody else's until that has ended.
#[test]
fn places_of_a_peer_that_has_gone_wait_for_their_copies() {
    let mut pair = Pair::new();
    let first = pair.put(0, 0, 64);
    pair.submit(&first);
    pair.until("a link", |pair| pair.ranks[0].landing().left() == 0).unwrap();
    pair.go(SOURCE, false);
    for _ in 0..3 {
        let put = pair.put(0, 0, pair.ranks[0].piece);
        pair.submit(&put);
        pair.step().unwrap();
    }
    pair.ranks.truncate(1);
    let error = pair.until("it is told", |_| false).unwrap_err();
    assert_eq!((error.id, error.culprit), (122, Some(1)), "{error}");
    let post = &mut pair.ranks[0].post;
    let taken: Vec<u32> = (0..64).map(|_| post.messages.take(&post.net, 9).unwrap()).collect();
    let orphans: Vec<u32> = post.copies.as_mut().unwrap().orphans().collect();
    assert!(orphans.is_empty(), "given back under the copies: {orphans:?}");
    drop(taken);
    pair.go(SOURCE, true);
    let mut back = Vec::new();
    let end = hang_deadline();
    while back.len() < 3 {
        let copies = pair.ranks[0].post.copies.as_mut().unwrap();
        copies.progress(&mut Vec::new(), &mut Vec::new()).unwrap();
        back.extend(copies.orphans());
        assert!(Instant::now() < end, "{back:?}");
    }
}
