//! What a signal says: its payload and all earlier work of its context and peer are there.

use super::reader::Reader;
use super::{Completion, RANKS, World, reap, word};
use crate::transport::{Source, Work};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) fn signals_add_up(world: &mut World) {
    word(&world.signals[1], 3).store(u64::MAX - 1, Ordering::Relaxed);
    let work: Vec<Work> = (0..1000).map(|i| Work { context: i as u32 % 4, ..world.signal_to(1, 3, i) }).collect();
    world.carry(&work).unwrap();
    assert_eq!(world.signal(1, 3), (999 * 500u64).wrapping_sub(2), "modulo 2^64");
    assert_eq!((world.signal(1, 2), world.signal(1, 4)), (0, 0));
}

/// A reader on another thread: whenever it sees the n-th signal, the first n payloads are there.
pub(super) fn signals_follow_payload(world: &mut World) {
    const ROUNDS: u64 = 20_000;
    let (data, signals, patience) = (world.data[1].clone(), world.signals[1].clone(), 2 * world.patience);
    // Measured from the last signal: the rate of signals depends on the machine.
    let (mut last, mut end) = (0, Instant::now() + patience);
    let reader = Reader::start(move || {
        let seen = word(&signals, 1).load(Ordering::Acquire);
        if seen != last {
            (last, end) = (seen, Instant::now() + patience);
        }
        for i in seen.saturating_sub(64)..seen {
            let payload = word(&data, i as usize).load(Ordering::Acquire);
            assert_eq!(payload, i + 1, "signal {seen} was visible before payload {i}");
        }
        assert!(seen == ROUNDS || Instant::now() < end, "{seen} of {ROUNDS} signals");
        seen < ROUNDS
    });
    for i in 0..ROUNDS {
        let value = Work { source: Source::Inline(i + 1), ..world.put(1, 0, i * 8, 8) };
        // The signal with its own payload, and behind that of earlier work.
        let work = match i % 2 {
            0 => vec![Work { signal: Some((8, 1)), ..value }],
            _ => vec![value, world.signal_to(1, 1, 1)],
        };
        world.carry(&work).unwrap();
        if reader.is_finished() {
            break;
        }
    }
    reader.join();
}

/// As much under way as the transport takes, to all ranks, in several contexts, all sizes mixed: at every moment a signal that
/// is seen has all before it, and in the end everything is there, once.
pub(super) fn deep_pipelines(world: &mut World) {
    const PUTS: u64 = 3000;
    // Each put has a place of its own at the target, behind the values: 1 KiB, of which it fills up to 600 bytes.
    let fill = |i: u64, peer: u32| (i * 31 + u64::from(peer) * 7) as u8 | 1;
    world.bytes(0).iter_mut().enumerate().for_each(|(i, byte)| *byte = fill(i as u64 / 1024, 0));
    let size = |i: u64| 1 + i * 37 % 600;
    let (mut pending, mut done): (Vec<u64>, Vec<Completion>) = Default::default();
    let (mut given, mut full) = (vec![0u64; RANKS as usize], 0u32);
    let mut since = Instant::now();
    while given.iter().any(|&given| given < PUTS) {
        for peer in 1..RANKS {
            let i = given[peer as usize];
            if i == PUTS {
                continue;
            }
            let put = Work { signal: Some((u64::from(peer) * 8, 1)), ..world.put(peer, i * 1024, i * 1024, size(i)) };
            if world.offer(&put, &mut pending).unwrap() {
                given[peer as usize] += 1;
                since = Instant::now();
            } else {
                full += 1;
                world.progress(&mut done).unwrap();
            }
            reap(&mut pending, &mut done).unwrap();
            let seen = world.signal(peer, peer as usize);
            for i in seen.saturating_sub(8)..seen {
                let at = i as usize * 1024;
                assert!(world.bytes(peer)[at + size(i) as usize - 1] == fill(i, 0), "signal {seen} of rank {peer}, put {i}");
            }
        }
        given[0] = PUTS;
        assert!(since.elapsed() < world.patience, "it takes nothing more: {given:?}, {full} times full");
    }
    let end = Instant::now() + world.patience;
    while !pending.is_empty() || world.ranks[0].landing().left() > 0 {
        assert!(Instant::now() < end, "{} pieces never complete", pending.len());
        world.progress(&mut done).unwrap();
        reap(&mut pending, &mut done).unwrap();
        std::thread::sleep(Duration::from_micros(1));
    }
    for peer in 1..RANKS {
        assert_eq!(world.signal(peer, peer as usize), PUTS);
        for i in 0..PUTS {
            let place = &world.bytes(peer)[i as usize * 1024..][..1024];
            let (payload, rest) = place.split_at(size(i) as usize);
            assert!(payload.iter().all(|&byte| byte == fill(i, 0)), "put {i} to rank {peer}");
            assert!(rest.iter().all(|&byte| byte == 0), "beside put {i} to rank {peer}");
        }
    }
}
