//! The contract over queues that copy at once and late, with and without a bounce buffer; and peers that write nonsense.

use super::ring::SLOTS;
use super::*;
use crate::device::cpu::CpuDevice;
use crate::device::{DevPtr, Memory, Physical, Transfers};
use crate::error::Code;
use crate::hang_limit::hang_deadline;
use crate::transport::Source;
use crate::transport::contract;
use crate::transport::delayed::Delayed;
use std::any::Any;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::time::Duration;

/// Memory of another process as a GPU's process sees it: for the host only.
struct HostOnly(Arc<dyn Physical>);

impl Physical for HostOnly {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn export(&self) -> Result<OwnedFd> {
        self.0.export()
    }
    fn host(&self) -> Option<NonNull<u8>> {
        self.0.host()
    }
    fn device_address(&self) -> Option<DevPtr> {
        None
    }
    fn key(&self) -> u64 {
        self.0.key()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The memories by offer.
struct Table(Vec<Arc<dyn Physical>>);

impl Share for Table {
    fn offer(&self, _: &Arc<dyn Physical>) -> Result<[u64; 2]> {
        unreachable!("the test has made them all")
    }
    fn take(&self, _: u32, [at, _]: [u64; 2]) -> Result<Arc<dyn Physical>> {
        Ok(self.0[at as usize].clone())
    }
}

/// A transport for each rank, everyone staging to everyone.
fn ranks(n: usize, bounce: bool, queue: impl Fn() -> Box<dyn CopyQueue>) -> Vec<Staged> {
    let device = CpuDevice::new(0);
    let memories: Vec<_> = (0..n).map(|_| device.create_shared(bytes(n)).unwrap()).collect();
    let seen = |memory: &Arc<dyn Physical>| -> Arc<dyn Physical> {
        if bounce { Arc::new(HostOnly(memory.clone())) } else { memory.clone() }
    };
    let rank = |rank: usize| {
        let paths = Paths { own: memories[rank].clone(), senders: (0..n as u32).collect(), peers: vec![Some(rank); n] };
        let mut staged = Staged::new(rank as u32, paths, || Ok(queue())).unwrap();
        let said = |peer| [peer, 0].into_iter().flat_map(u64::to_le_bytes).collect();
        let words = Arc::new((0..n as u64).map(|peer| contract::words(NAME, said(peer))).collect());
        let share = Table(memories.iter().map(seen).collect());
        staged.connect(&*device, &share, &words).unwrap();
        staged
    };
    (0..n).map(rank).collect()
}

/// Rank 1 says that it has landed what was never sent.
#[test]
fn a_peer_that_writes_nonsense_is_named() {
    let target = RefCell::new(None);
    let make = |serves: Vec<bool>| {
        let ranks = ranks(serves.len(), false, || CpuDevice::new(0).copy_queue().unwrap());
        *target.borrow_mut() = Some(ranks[1].receiver.memory(0));
        boxed(ranks)
    };
    contract::failure(make, |ranks| {
        ranks.truncate(1);
        Ring::new(target.borrow().as_ref().unwrap(), 0, 1).unwrap().take(u64::MAX);
    });
}

fn boxed(ranks: Vec<Staged>) -> Vec<Box<dyn Transport>> {
    ranks.into_iter().map(|rank| Box::new(rank) as Box<dyn Transport>).collect()
}

#[test]
fn contract_at_once() {
    for bounce in [false, true] {
        contract::all(|serves| boxed(ranks(serves.len(), bounce, || CpuDevice::new(0).copy_queue().unwrap())));
    }
}

#[test]
fn contract_late_and_out_of_order() {
    for (seed, bounce) in [(3, false), (0x5eed_0007, true), (0xdead_beef, false)] {
        contract::all(|serves| boxed(ranks(serves.len(), bounce, || Box::new(Delayed::new(seed)))));
    }
}

/// Two ranks with a megabyte of data and of signals each.
struct Pair {
    ranks: Vec<Staged>,
    memories: Vec<[Arc<dyn Physical>; 2]>,
    tag: u64,
}

const BYTES: u64 = 1 << 20;

impl Pair {
    fn new() -> Self {
        let device = CpuDevice::new(0);
        let mut ranks = ranks(2, false, || Box::new(Delayed::new(11)));
        let memory = || [device.create(BYTES as usize).unwrap(), device.create(BYTES as usize).unwrap()];
        let memories = vec![memory(), memory()];
        for (rank, memories) in memories.iter().enumerate() {
            for (id, memory) in memories.iter().enumerate() {
                let mut addresses = vec![None; 2];
                addresses[rank] = Some(memory.host().unwrap().as_ptr() as DevPtr);
                // Only its own memory is mapped, as where this transport is needed.
                // SAFETY: the region keeps the memory.
                let region = unsafe { Region::new(id as u64, BYTES, rank as u32, addresses, Box::new(memory.clone())) };
                let mut region = region.unwrap();
                region.id = id as u32;
                ranks[rank].register(&region).unwrap();
            }
        }
        Self { ranks, memories, tag: 0 }
    }

    fn put(&mut self, bytes: u64) -> Work {
        self.tag += 1;
        let source = Source::Region { region: 1, offset: 0 };
        Work { tag: self.tag, context: 0, peer: 1, source, bytes, target: (1, 0), signal: Some((0, 1)) }
    }

    fn signals(&self, rank: usize) -> u64 {
        // SAFETY: the start of a mapping.
        unsafe { self.memories[rank][0].host().unwrap().cast::<u64>().read_volatile() }
    }

    /// Steps both until the first error.
    fn error(&mut self) -> Error {
        for _ in 0..10_000 {
            for rank in &mut self.ranks {
                if let Err(error) = rank.progress(&mut Vec::new()) {
                    return error;
                }
            }
        }
        panic!("nobody noticed");
    }
}

#[test]
fn credit_is_bounded_and_comes_back_with_the_completion() {
    let mut pair = Pair::new();
    let mut taken = 0;
    loop {
        let work = pair.put(8 + taken);
        if pair.ranks[0].submit(&work).unwrap() == Submitted::Full {
            break;
        }
        taken += 1;
    }
    assert_eq!(taken, SLOTS);
    let mut done = Vec::new();
    while (done.len() as u64) < taken {
        pair.ranks[0].progress(&mut done).unwrap();
        let before = pair.signals(1);
        assert!(done.len() as u64 <= before, "done means landed");
        pair.ranks[1].progress(&mut Vec::new()).unwrap();
    }
    assert!(done.iter().zip(1..).all(|((tag, result), expected)| result.is_ok() && *tag == expected));
    let work = pair.put(0);
    assert_eq!(pair.ranks[0].submit(&work).unwrap(), Submitted::Pending);
}

#[test]
fn a_message_out_of_bounds_is_refused_by_the_target() {
    let good = Header { bytes: 8, value: None, target: (1, 0), signal: Some((0, 1)) };
    let bad = [
        Header { target: (1, BYTES - 7), ..good },
        Header { target: (1, u64::MAX - 3), ..good },
        Header { target: (0, 0), ..good },
        Header { target: (77, 0), ..good },
        Header { signal: Some((BYTES, 1)), ..good },
        Header { signal: Some((4, 1)), ..good },
        Header { signal: Some((u64::MAX - 7, 1)), ..good },
        Header { bytes: PIECE + 1, ..good },
        Header { bytes: 9, value: Some(1), ..good },
    ];
    for header in bad {
        let mut pair = Pair::new();
        let (from, len) = (pair.memories[0][1].host().unwrap().as_ptr() as u64, 8);
        pair.ranks[0].sender.submit(1, &header, Some((from, len)), 1).unwrap();
        let error = pair.error();
        assert_eq!((error.id, error.code), (78, Code::RemoteError), "{header:?}: {error}");
        assert!(error.text.contains("rank 0"), "{error}");
        assert_eq!(pair.signals(1), 0);
    }
}

#[test]
fn indices_that_cannot_be_are_told() {
    for sent in [SLOTS + 1, u64::MAX] {
        let mut pair = Pair::new();
        let ring = Ring::new(&staging(&pair, 1), 0, 1).unwrap();
        ring.send(sent);
        let error = pair.error();
        assert!(error.id == 78 && error.text.contains("rank 0 to this one"), "{error}");
    }
    for taken in [2, u64::MAX] {
        let mut pair = Pair::new();
        let work = pair.put(8);
        pair.ranks[0].submit(&work).unwrap();
        Ring::new(&staging(&pair, 1), 0, 1).unwrap().take(taken);
        let error = pair.ranks[0].progress(&mut Vec::new()).unwrap_err();
        assert!(error.id == 78 && error.text.contains("rank 1"), "{error}");
    }
}

fn staging(pair: &Pair, rank: usize) -> Arc<dyn Physical> {
    pair.ranks[rank].receiver.memory(0)
}

#[test]
fn what_was_deregistered_at_the_target_is_told() {
    let mut pair = Pair::new();
    pair.ranks[1].deregister(1);
    let work = pair.put(8);
    pair.ranks[0].submit(&work).unwrap();
    let error = pair.error();
    assert!(error.text.contains("not registered here"), "{error}");
}

#[test]
fn after_an_abort_neither_end_moves() {
    let mut pair = Pair::new();
    for _ in 0..20 {
        let work = pair.put(4096);
        pair.ranks[0].submit(&work).unwrap();
    }
    for _ in 0..3 {
        pair.ranks[0].progress(&mut Vec::new()).unwrap();
    }
    pair.ranks[1].abort();
    let before = pair.signals(1);
    for _ in 0..100 {
        pair.ranks[0].progress(&mut Vec::new()).unwrap();
        assert!(!pair.ranks[1].progress(&mut Vec::new()).unwrap());
    }
    pair.ranks[0].abort();
    let mut done = Vec::new();
    assert!(!pair.ranks[0].progress(&mut done).unwrap() && done.is_empty());
    assert_eq!(pair.signals(1), before);
}

/// A rank may leave with messages to it on their way: their sender is not to wait for it.
#[test]
fn nobody_waits_for_a_rank_that_has_left() {
    let mut pair = Pair::new();
    for _ in 0..20 {
        let work = pair.put(64);
        pair.ranks[0].submit(&work).unwrap();
    }
    pair.ranks[1].close(Duration::from_millis(1)).unwrap();
    let mut done = Vec::new();
    let end = hang_deadline();
    while done.len() < 20 {
        pair.ranks[0].progress(&mut done).unwrap();
        assert!(Instant::now() < end);
    }
    assert!(!pair.ranks[1].progress(&mut Vec::new()).unwrap());
    assert_eq!(pair.signals(1), 0);
}
