//! Tests that every transport must pass. A transport's own tests call [`all`] with a way to make one.

use super::{Completion, Region, SIGNALS, Source, Submitted, Transport, Work};
use crate::device::cpu::CpuDevice;
use crate::device::{DevPtr, Memory, Physical};
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const RANKS: u32 = 3;
const BYTES: usize = 4 << 20;
const DATA: u32 = 1;

/// A transport of rank 0 with one data region and signals, and every rank's memory as its owner sees it.
struct World {
    transport: Box<dyn Transport>,
    /// Those of the other ranks, where a receiver lives in them.
    others: Vec<Box<dyn Transport>>,
    data: Vec<Arc<dyn Physical>>,
    signals: Vec<Arc<dyn Physical>>,
    next: u64,
}

/// `make` gets which ranks the transport serves, and gives rank 0's first; the other ranks' follow where their progress is
/// part of a put.
pub fn all(make: impl Fn(Vec<bool>) -> Vec<Box<dyn Transport>>) {
    let tests: [fn(&mut World); 7] =
        [every_size, to_oneself, values, signals_add_up, signals_follow_payload, bounds, aborted_means_still];
    for test in tests {
        test(&mut World::new(&make));
    }
}

impl World {
    fn new(make: &impl Fn(Vec<bool>) -> Vec<Box<dyn Transport>>) -> Self {
        let device = CpuDevice::new(0);
        let create = |_| device.create(BYTES).unwrap();
        let data: Vec<_> = (0..RANKS).map(create).collect();
        let signals: Vec<_> = (0..RANKS).map(create).collect();
        let mut transports = make(vec![true; RANKS as usize]);
        assert!(transports[0].capabilities().piece >= 8, "an inline value is one piece");
        for (transport, rank) in transports.iter_mut().zip(0..) {
            for (id, memories) in [(SIGNALS, &signals), (DATA, &data)] {
                transport.register(&region(id, rank, memories)).unwrap();
            }
        }
        let others = transports.split_off(1);
        Self { transport: transports.remove(0), others, data, signals, next: 0 }
    }

    fn progress(&mut self, done: &mut Vec<Completion>) -> Result<()> {
        for other in &mut self.others {
            other.progress(&mut Vec::new())?;
        }
        self.transport.progress(done).map(drop)
    }

    fn put(&mut self, peer: u32, from: u64, to: u64, bytes: u64) -> Work {
        self.next += 1;
        let source = Source::Region { region: DATA, offset: from };
        Work { tag: self.next, context: 0, peer, source, bytes, target: (DATA, to), signal: None }
    }

    /// Submits all of it, waiting out Full, and until everything has ended.
    fn carry(&mut self, work: &[Work]) -> Result<()> {
        let mut pending: Vec<u64> = Vec::new();
        let mut done: Vec<Completion> = Vec::new();
        for work in work {
            let piece = self.transport.capabilities().piece;
            assert!(work.bytes <= piece, "the test's own mistake");
            loop {
                match self.transport.submit(work)? {
                    Submitted::Done => break,
                    Submitted::Pending => {
                        pending.push(work.tag);
                        break;
                    }
                    Submitted::Full => self.progress(&mut done)?,
                }
            }
        }
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            for (tag, result) in done.drain(..) {
                let at = pending.iter().position(|&pending| pending == tag);
                pending.remove(at.expect("each piece completes once"));
                result?;
            }
            if pending.is_empty() {
                return Ok(());
            }
            assert!(std::time::Instant::now() < end, "not within ten seconds: {pending:?}");
            self.progress(&mut done)?;
        }
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self, rank: u32) -> &mut [u8] {
        // SAFETY: the mapping is BYTES long, and these tests run one thing at a time.
        unsafe { std::slice::from_raw_parts_mut(self.data[rank as usize].host().unwrap().as_ptr(), BYTES) }
    }

    fn signal(&self, rank: u32, id: usize) -> &AtomicU64 {
        // SAFETY: aligned and within the mapping.
        unsafe { AtomicU64::from_ptr(self.signals[rank as usize].host().unwrap().cast::<u64>().add(id).as_ptr()) }
    }
}

fn region(id: u32, rank: u32, memories: &[Arc<dyn Physical>]) -> Region {
    let addresses = memories.iter().map(|memory| Some(memory.host().unwrap().as_ptr() as DevPtr)).collect();
    // SAFETY: the region keeps the memories.
    let mut region = unsafe { Region::new(u64::from(id), BYTES as u64, rank, addresses, Box::new(memories.to_vec())) }.unwrap();
    region.id = id;
    region
}

fn every_size(world: &mut World) {
    let piece = world.transport.capabilities().piece.min(BYTES as u64 / 2);
    world.bytes(0).iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7 + i / 251) as u8);
    for bytes in (0..70).chain([255, 4095, 4096, 65537, piece - 1, piece]).filter(|&bytes| bytes <= piece) {
        for (from, to) in [(0, 64), (3, 65), (BYTES as u64 - bytes, BYTES as u64 - bytes)] {
            let (begin, end) = (to as usize, (to + bytes) as usize);
            let near = begin - 64..(end + 64).min(BYTES);
            world.bytes(1)[near.clone()].fill(0xee);
            let mut work = world.put(1, from, to, bytes);
            // Zero bytes alone are no work: they come with a signal.
            work.signal = (bytes == 0).then_some((0, 1));
            world.carry(&[work]).unwrap();
            let from = from as usize;
            assert!(world.bytes(1)[begin..end] == world.bytes(0)[from..from + bytes as usize], "{bytes} bytes to {to}");
            let mut beside = world.bytes(1)[near.start..begin].iter().chain(&world.bytes(1)[end..near.end]);
            assert!(beside.all(|&byte| byte == 0xee), "{bytes} bytes to {to} touched what lies beside");
        }
    }
}

fn to_oneself(world: &mut World) {
    world.bytes(0)[..16].copy_from_slice(b"to myself, still");
    let mut work = world.put(0, 0, 1000, 16);
    work.signal = Some((16, 5));
    world.carry(&[work]).unwrap();
    assert_eq!(&world.bytes(0)[1000..1016], b"to myself, still");
    assert_eq!(world.signal(0, 2).load(Ordering::Acquire), 5);
}

fn values(world: &mut World) {
    let value = 0x8877_6655_4433_2211u64;
    for bytes in 1..=8 {
        for to in [40, 43] {
            world.bytes(2)[32..64].fill(0xee);
            let mut work = world.put(2, 0, to, bytes);
            work.source = Source::Inline(value);
            world.carry(&[work]).unwrap();
            let mut expected = [0xee; 32];
            let at = to as usize - 32;
            expected[at..at + bytes as usize].copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
            assert_eq!(world.bytes(2)[32..64], expected);
        }
    }
}

fn signals_add_up(world: &mut World) {
    world.signal(1, 3).store(u64::MAX - 1, Ordering::Relaxed);
    let work: Vec<Work> =
        (0..1000).map(|i| Work { signal: Some((24, i)), context: i as u32 % 4, ..world.put(1, 0, 0, 0) }).collect();
    world.carry(&work).unwrap();
    assert_eq!(world.signal(1, 3).load(Ordering::Acquire), (999 * 500u64).wrapping_sub(2), "modulo 2^64");
    assert_eq!((world.signal(1, 2).load(Ordering::Acquire), world.signal(1, 4).load(Ordering::Acquire)), (0, 0));
}

/// A reader on another thread: whenever it sees the n-th signal, the first n payloads are there.
fn signals_follow_payload(world: &mut World) {
    const ROUNDS: u64 = 20_000;
    let (data, signals) = (world.data[1].clone(), world.signals[1].clone());
    let reader = std::thread::spawn(move || {
        // SAFETY: aligned words within the mappings, accessed atomically on both sides (8-byte values are one store).
        let word = |memory: &Arc<dyn Physical>, i: u64| unsafe {
            AtomicU64::from_ptr(memory.host().unwrap().cast::<u64>().add(i as usize).as_ptr()).load(Ordering::Acquire)
        };
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let seen = word(&signals, 1);
            for i in seen.saturating_sub(64)..seen {
                assert_eq!(word(&data, i), i + 1, "signal {seen} came before payload {i}");
            }
            if seen == ROUNDS {
                return;
            }
            assert!(std::time::Instant::now() < end, "{seen} of {ROUNDS} signals");
            std::thread::yield_now();
        }
    });
    for i in 0..ROUNDS {
        let value = world.put(1, 0, i * 8, 8);
        let value = Work { source: Source::Inline(i + 1), ..value };
        let signal = Work { signal: Some((8, 1)), ..world.put(1, 0, 0, 0) };
        // The signal with its own payload, and behind that of earlier work.
        let work = if i % 2 == 0 { vec![Work { signal: Some((8, 1)), ..value }] } else { vec![value, signal] };
        world.carry(&work).unwrap();
    }
    reader.join().unwrap();
}

fn bounds(world: &mut World) {
    world.bytes(1).fill(0xee);
    let end = BYTES as u64;
    let bad = [
        world.put(1, 0, end - 7, 8),
        world.put(1, end - 7, 0, 8),
        world.put(1, 0, u64::MAX, 8),
        world.put(1, u64::MAX - 3, 0, 8),
        Work { target: (9, 0), ..world.put(1, 0, 0, 8) },
        Work { source: Source::Region { region: 9, offset: 0 }, ..world.put(1, 0, 0, 8) },
        Work { signal: Some((end, 1)), ..world.put(1, 0, 0, 8) },
        Work { signal: Some((4, 1)), ..world.put(1, 0, 0, 8) },
        Work { peer: RANKS, ..world.put(1, 0, 0, 8) },
        Work { source: Source::Inline(0), ..world.put(1, 0, 0, 9) },
    ];
    for work in bad {
        assert!(world.carry(&[work]).is_err(), "{work:?}");
    }
    let untouched = vec![0xee; BYTES];
    assert!(*world.bytes(1) == *untouched, "nothing moves before both ends are checked");
    world.transport.deregister(DATA);
    let stale = world.put(1, 0, 0, 8);
    assert!(world.carry(&[stale]).is_err(), "deregistered");
    assert!(*world.bytes(1) == *untouched);
}

fn aborted_means_still(world: &mut World) {
    let work: Vec<Work> = (0..8).map(|i| world.put(1, 0, i * 4096, 4096)).collect();
    for work in work {
        world.transport.submit(&work).unwrap();
    }
    world.transport.abort();
    world.bytes(1).fill(0xee);
    let mut done = Vec::new();
    for _ in 0..100 {
        let _ = world.transport.progress(&mut done);
    }
    assert!(done.is_empty(), "no completion follows an abort");
    assert!(*world.bytes(1) == *vec![0xee; BYTES], "no byte moves after an abort");
}
