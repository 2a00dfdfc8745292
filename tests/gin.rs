//! GIN over loopback and shm with Rust producers in place of kernels: every byte, signal and counter is checked.

mod support;

use ginrs::gin::Backend;
use ginrs::gin::descriptor::{Descriptor, SignalOp};
use ginrs::gin::signal::RELEASE;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use support::{Plan, Random, Rank, eventually, fabric, signal};

/// Puts and values of random sizes between all pairs over all contexts, each into a place of its own and each with a
/// signal; a receiver that has seen the n-th signal of a sender checks all that came before it.
fn torture(plan: Plan, rounds: u32, seed: u64) {
    println!("seed {seed:#x}");
    let ranks = fabric(plan);
    let cell = plan.window as u64 / (2 * u64::from(plan.ranks * plan.contexts));
    std::thread::scope(|scope| {
        for (me, rank) in ranks.iter().enumerate() {
            let ranks = &ranks;
            scope.spawn(move || sender(plan, ranks, me as u32, rank, cell, rounds, seed));
        }
    });
    for rank in &ranks {
        assert!(rank.abort.cause().is_none(), "{:?}", rank.abort.cause());
        rank.gin.stop();
    }
}

fn sender(plan: Plan, ranks: &[Rank], me: u32, rank: &Rank, cell: u64, rounds: u32, seed: u64) {
    let mut random = Random(seed ^ (u64::from(me) + 1));
    let half = plan.window as u64 / 2;
    let mut posted = vec![0u64; plan.contexts as usize];
    for round in 1..=rounds {
        for context in 0..plan.contexts {
            let mut kernel = rank.kernel(context);
            kernel.hints = random.below(2) == 0;
            for peer in 0..plan.ranks {
                // Sources lie in the lower half, one cell for each peer and context; targets in the upper, one for each sender.
                let from = cell * u64::from(peer * plan.contexts + context);
                let to = half + cell * u64::from(me * plan.contexts + context);
                let bytes = 1 + random.below(cell - 16);
                let salt = random.next();
                let source = rank.bytes(from as usize, bytes as usize);
                source.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(salt, i));
                let mut put = rank.put(from, to + 16, bytes);
                put.counter = Some(context as u16);
                assert!(kernel.post(peer, &put, || _ = rank.gin.step()));
                // What the target needs to check goes by value, behind the payload and in front of the signal.
                assert!(kernel.post(peer, &rank.value(to, 8, salt), std::thread::yield_now));
                let last = Descriptor { signal: Some((me as u16, SignalOp::Inc)), ..rank.value(to + 8, 8, bytes) };
                assert!(kernel.post(peer, &last, || _ = rank.gin.step()));
                posted[context as usize] += 1;
            }
        }
        for context in 0..plan.contexts {
            let kernel = rank.kernel(context);
            for peer in 0..plan.ranks {
                let word = kernel.signal(peer);
                eventually("signal", || {
                    rank.gin.step();
                    word.load(Acquire) >= u64::from(round)
                });
                let at = (half + cell * u64::from(peer * plan.contexts + context)) as usize;
                let head = rank.bytes(at, 16);
                let salt = u64::from_le_bytes(head[..8].try_into().unwrap());
                let bytes = u64::from_le_bytes(head[8..].try_into().unwrap()) as usize;
                let wrong = rank.bytes(at + 16, bytes).iter().enumerate().position(|(i, &byte)| byte != pattern(salt, i));
                assert_eq!(wrong, None, "rank {me} round {round}: payload of {bytes} bytes from rank {peer}");
            }
            assert!(kernel.flush(|| _ = rank.gin.step()));
            let counted = kernel.counter(context).load(Acquire);
            assert_eq!(counted, posted[context as usize], "rank {me}: flushed, so every counter has risen");
        }
        // A round's targets are read before the next round writes them: a barrier out of signals.
        let kernel = rank.kernel(0);
        for peer in 0..plan.ranks {
            kernel.post(peer, &signal(63, SignalOp::Add(1)), || _ = rank.gin.step());
        }
        eventually("barrier", || {
            rank.gin.step();
            kernel.signal(63).load(Acquire) >= u64::from(round * plan.ranks)
        });
        assert_eq!(ranks.len() as u32, plan.ranks);
    }
}

fn pattern(salt: u64, i: usize) -> u8 {
    (salt.rotate_left(i as u32 % 64) as u8).wrapping_add(i as u8)
}

#[test]
fn torture_loopback() {
    torture(Plan { ranks: 3, contexts: 2, ..Plan::default() }, 60, 0x5eed_0001);
}

#[test]
fn torture_shm_across_the_wrap() {
    let plan = Plan { ranks: 4, contexts: 4, depth: 8, start: u32::MAX - 100, shm: true, ..Plan::default() };
    torture(plan, 40, 0x5eed_0002);
}

#[test]
fn a_queue_of_one_slot() {
    torture(Plan { depth: 1, start: u32::MAX - 3, ..Plan::default() }, 20, 0x5eed_0003);
}

/// D2: many operations over the wrap of every 32-bit index, signals and counters over that of 2^64.
#[test]
fn indices_and_words_wrap() {
    let ranks = fabric(Plan { start: u32::MAX - 100, depth: 16, ..Plan::default() });
    let kernel = ranks[0].kernel(0);
    let target = ranks[1].kernel(0);
    target.signal(3).store(u64::MAX - 99, Relaxed);
    kernel.counter(5).store(u64::MAX - 99, Relaxed);
    for i in 0..200_000u64 {
        let put = Descriptor { signal: Some((3, SignalOp::Inc)), counter: Some(5), ..ranks[0].value(8, 8, i) };
        kernel.post(1, &put, || _ = ranks[0].gin.step());
    }
    assert!(kernel.flush(|| _ = ranks[0].gin.step()));
    assert_eq!(target.signal(3).load(Acquire), 199_900);
    assert_eq!(kernel.counter(5).load(Acquire), 199_900);
    assert_eq!(ranks[1].bytes(8, 8), 199_999u64.to_le_bytes());
}

/// D3 and D4: values of every size at every slot, beside canaries.
#[test]
fn values_of_one_to_eight_bytes_in_every_slot() {
    let ranks = fabric(Plan { depth: 32, ..Plan::default() });
    let kernel = ranks[0].kernel(0);
    for slot in 0..64u64 {
        for bytes in 1..=8u64 {
            let value = 0x8796_a5b4_c3d2_e1f0u64.rotate_left(slot as u32) & (u64::MAX >> (64 - 8 * bytes));
            for (to, seen) in [(64, 1), (67, 2)] {
                ranks[1].bytes(60, 24).fill(0xcc);
                let id = 1 + seen as u16;
                let put = Descriptor { signal: Some((id, SignalOp::Add(seen))), ..ranks[0].value(to, bytes, value) };
                let before = ranks[1].kernel(0).signal(id.into()).load(Acquire);
                kernel.post(1, &put, || _ = ranks[0].gin.step());
                assert!(kernel.flush(|| _ = ranks[0].gin.step()));
                assert_eq!(ranks[1].kernel(0).signal(id.into()).load(Acquire), before + seen, "signal with a value");
                let mut expected = [0xcc; 24];
                let at = to as usize - 60;
                expected[at..at + bytes as usize].copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
                assert_eq!(ranks[1].bytes(60, 24), expected, "{bytes} bytes at {to}");
            }
        }
    }
}

/// D5: the ids at the ends of a full pool.
#[test]
fn the_first_and_last_ids() {
    let ranks = fabric(Plan { signals: 65536, counters: 65536, contexts: 2, ..Plan::default() });
    let kernel = ranks[0].kernel(1);
    for id in [0u16, 1, 65534, 65535] {
        let mut put = signal(id, SignalOp::Add(u64::MAX));
        put.counter = Some(id);
        kernel.post(1, &put, || ());
        kernel.post(1, &signal(id, SignalOp::Add(8)), || ());
    }
    assert!(kernel.flush(|| _ = ranks[0].gin.step()));
    for id in 0..65536 {
        let expected = if [0, 1, 65534, 65535].contains(&id) { (7, 1) } else { (0, 0) };
        assert_eq!((ranks[1].kernel(1).signal(id).load(Acquire), kernel.counter(id).load(Acquire)), expected, "{id}");
        assert_eq!(ranks[1].kernel(0).signal(id).load(Acquire), 0, "contexts have words of their own");
    }
}

/// D6 in small: a put far larger than a piece arrives whole, its signal last, while small ones to another peer pass it.
#[test]
fn large_puts_do_not_stop_other_peers() {
    let size = 64 << 20;
    // With all steps on this thread, what passes what is a fact and not a matter of speed.
    let ranks = fabric(Plan { ranks: 3, window: 2 * size + 4096, threads: false, ..Plan::default() });
    let kernel = ranks[0].kernel(0);
    ranks[0].bytes(0, size).chunks_mut(8).enumerate().for_each(|(i, word)| word.copy_from_slice(&(i as u64).to_le_bytes()));
    let put = Descriptor { signal: Some((1, SignalOp::Inc)), counter: Some(0), ..ranks[0].put(0, size as u64, size as u64) };
    kernel.post(1, &put, || unreachable!());
    kernel.post(1, &signal(2, SignalOp::Inc), || unreachable!());
    kernel.post(2, &signal(2, SignalOp::Inc), || unreachable!());
    ranks[0].gin.step();
    ranks[0].gin.step();
    let (near, far) = (ranks[1].kernel(0), ranks[2].kernel(0));
    assert_eq!(far.signal(2).load(Acquire), 1, "the other peer's signal does not wait");
    assert_eq!((near.signal(1).load(Acquire), near.signal(2).load(Acquire), kernel.counter(0).load(Acquire)), (0, 0, 0));
    while ranks[0].gin.step() {
        if near.signal(2).load(Acquire) == 1 {
            assert_eq!(near.signal(1).load(Acquire), 1, "signals of one peer keep their order");
        }
    }
    assert_eq!((near.signal(1).load(Acquire), near.signal(2).load(Acquire), kernel.counter(0).load(Acquire)), (1, 1, 1));
    assert!(kernel.flush(|| panic!("all is done")));
    assert_eq!(ranks[0].bytes(0, size), ranks[1].bytes(size, size));
}

/// D8: a producer that dies between two words stops its own queue only.
#[test]
fn half_a_descriptor_stops_nobody_else() {
    let ranks = fabric(Plan { ranks: 3, ..Plan::default() });
    let kernel = ranks[0].kernel(0);
    let index = kernel.claim(1);
    kernel.slot(1, index)[0].store(signal(1, SignalOp::Inc).encode().unwrap()[0], Relaxed);
    for _ in 0..1000 {
        kernel.post(2, &signal(1, SignalOp::Inc), || _ = ranks[0].gin.step());
    }
    eventually("the other queue", || ranks[2].kernel(0).signal(1).load(Acquire) == 1000);
    assert_eq!(ranks[1].kernel(0).signal(1).load(Acquire), 0);
    kernel.write(1, index, &signal(1, SignalOp::Inc).encode().unwrap());
    eventually("the rest of it came", || ranks[1].kernel(0).signal(1).load(Acquire) == 1);
}

/// Without any help from producers: the thread alone serves kernels that put and leave, hints or not.
#[test]
fn the_thread_finds_queues_by_itself() {
    let ranks = fabric(Plan { ranks: 2, contexts: 4, ..Plan::default() });
    for (round, hints) in [true, false, true, false].into_iter().enumerate() {
        std::thread::sleep(std::time::Duration::from_millis(150));
        let mut kernel = ranks[0].kernel(3);
        kernel.hints = hints;
        kernel.post(1, &signal(0, SignalOp::Inc), || ());
        eventually("a single put", || ranks[1].kernel(3).signal(0).load(Acquire) == round as u64 + 1);
    }
}

/// Ids that come back are zero, in every context.
#[test]
fn zeroing_covers_the_range_and_nothing_else() {
    let ranks = fabric(Plan { contexts: 2, ..Plan::default() });
    for context in 0..2 {
        for id in 0..64 {
            ranks[0].kernel(context).signal(id).store(7, Relaxed);
            ranks[0].kernel(context).counter(id).store(9, Relaxed);
        }
    }
    let base = ranks[0].gin.alloc_signals(Backend::Proxy, 10).unwrap();
    ranks[0].gin.zero(Backend::Proxy, base..base + 10, 20..21).unwrap();
    for id in 0..64 {
        for context in 0..2 {
            let kernel = ranks[0].kernel(context);
            assert_eq!(kernel.signal(id).load(Relaxed), if id < 10 { 0 } else { 7 });
            assert_eq!(kernel.counter(id).load(Relaxed), if id == 20 { 0 } else { 9 });
        }
    }
}

/// After an abort: waiters are released, descriptors are consumed and credited, nothing moves.
#[test]
fn an_abort_at_any_point_releases_everybody() {
    for point in (0..400).step_by(7) {
        let ranks = fabric(Plan { start: u32::MAX - 100, depth: 8, ..Plan::default() });
        let kernel = ranks[0].kernel(0);
        ranks[0].gin.alloc_signals(Backend::Proxy, 4).unwrap();
        ranks[0].gin.alloc_counters(Backend::Proxy, 2).unwrap();
        for i in 0..400u64 {
            if i == point {
                let cause = ginrs::error::Error::new(ginrs::error::Code::RemoteError, 40, "rank 1 died").by(1);
                ranks[0].abort.raise(cause);
                eventually("draining", || {
                    ranks[0].gin.step();
                    kernel.signal(3).load(Acquire) == RELEASE
                });
            }
            let put = Descriptor { signal: Some((5, SignalOp::Inc)), ..ranks[0].value(0, 8, i) };
            // As a kernel that knows no abort word: it waits for credit until it has some.
            let words = put.encode().unwrap();
            let index = kernel.claim(1);
            eventually("credit", || {
                ranks[0].gin.step();
                kernel.has_credit(1, index)
            });
            kernel.write(1, index, &words);
        }
        let claimed = kernel.claimed(1);
        eventually("flush", || kernel.flushed(1, claimed));
        let seen = ranks[1].kernel(0).signal(5).load(Acquire);
        assert!(seen <= point, "{seen} arrived, aborted at {point}");
        assert_eq!(kernel.signal(3).load(Acquire), RELEASE, "signals in use are moved once");
        assert_eq!(kernel.signal(4).load(Acquire), 0, "others are not");
        assert_eq!(kernel.counter(1).load(Acquire), RELEASE);
    }
}
