//! Every byte lands where it should and nowhere else.

use super::reader::Reader;
use super::{BYTES, DATA, RANKS, World, word};
use crate::transport::{Source, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn every_size(world: &mut World) {
    let piece = world.piece();
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

pub(super) fn to_oneself(world: &mut World) {
    world.bytes(0)[..16].copy_from_slice(b"to myself, still");
    let mut work = world.put(0, 0, 1000, 16);
    work.signal = Some((16, 5));
    world.carry(&[work]).unwrap();
    assert_eq!(&world.bytes(0)[1000..1016], b"to myself, still");
    assert_eq!(world.signal(0, 2), 5);
}

pub(super) fn values(world: &mut World) {
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

/// A reader polls on a word whose two halves are equal.
pub(super) fn words_land_whole(world: &mut World) {
    if world.capabilities().align < 8 {
        return;
    }
    let (data, stop) = (world.data[1].clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let reader = Reader::start(move || {
        let seen = word(&data, 8).load(Ordering::Acquire);
        assert_eq!(seen >> 32, seen & 0xffff_ffff, "half of a word");
        !stopped.load(Ordering::Relaxed)
    });
    for i in 1..5000u64 {
        word(&world.data[0], 1).store(i << 32 | i, Ordering::Relaxed);
        let put = world.put(1, 8, 64, 8);
        world.carry(&[put]).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    reader.join();
}

pub(super) fn bounds(world: &mut World) {
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
    world.ranks[0].deregister(DATA);
    let stale = world.put(1, 0, 0, 8);
    assert!(world.carry(&[stale]).is_err(), "deregistered");
    assert!(*world.bytes(1) == *untouched);
}
