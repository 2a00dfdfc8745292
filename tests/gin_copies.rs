//! GIN over transports that let the device move the bytes: the torture of `gin.rs` over copy queues.

mod support;

use ginrs::device::Transfers;
use ginrs::device::cpu::CpuDevice;
use ginrs::gin::descriptor::{Descriptor, SignalOp};
use ginrs::gin::proxy::Routes;
use ginrs::transport::nvlink::Nvlink;
use std::sync::atomic::Ordering::Acquire;
use support::{Plan, Rank, eventually, fabric_over};

fn nvlink(plan: Plan) -> Vec<Rank> {
    fabric_over(plan, |plan, rank| {
        let device = CpuDevice::new(rank as i32);
        let nvlink = Nvlink::new(&*device, vec![true; plan.ranks as usize], || device.copy_queue()).unwrap();
        Routes { transports: vec![Box::new(nvlink)], by_peer: vec![0; plan.ranks as usize] }
    })
}

/// Every context of rank 0 streams numbered values to every peer, with a signal each; who sees n signals sees n values, and
/// counters and credit come back for all of them.
fn stream(plan: Plan, ranks: &[Rank], rounds: u64) {
    std::thread::scope(|scope| {
        for context in 0..plan.contexts {
            let (rank, ranks) = (&ranks[0], &ranks);
            scope.spawn(move || {
                let kernel = rank.kernel(context);
                let at = |round: u64| 4096 + u64::from(context) * 65536 + (round % 4096) * 8;
                for round in 0..rounds {
                    for peer in 0..plan.ranks {
                        let value = Descriptor { counter: Some(3), ..rank.value(at(round), 8, round + 1) };
                        assert!(kernel.post(peer, &value, std::thread::yield_now));
                        let bulk = rank.put(0, 1 << 19, 1 + round % 70);
                        let bulk = Descriptor { signal: Some((2, SignalOp::Inc)), ..bulk };
                        assert!(kernel.post(peer, &bulk, std::thread::yield_now));
                    }
                    if round % 1024 == 1023 {
                        for (peer, target) in ranks.iter().enumerate() {
                            let word = target.kernel(context).signal(2);
                            eventually("signals", || word.load(Acquire) == round + 1);
                            for past in round - 1023..=round {
                                let seen = target.bytes(at(past) as usize, 8);
                                assert_eq!(seen, (past + 1).to_le_bytes(), "round {past}, to rank {peer}");
                            }
                        }
                    }
                }
                assert!(kernel.flush(std::thread::yield_now));
                assert_eq!(kernel.counter(3).load(Acquire), rounds * u64::from(plan.ranks), "flushed, so all have risen");
            });
        }
    });
    for rank in ranks {
        assert!(rank.abort.cause().is_none(), "{:?}", rank.abort.cause());
        rank.gin.stop();
    }
}

#[test]
fn a_stream_over_nvlink() {
    let plan = Plan { ranks: 3, contexts: 2, depth: 64, ..Plan::default() };
    stream(plan, &nvlink(plan), 4096);
}

#[test]
fn a_stream_over_nvlink_across_the_wrap() {
    let plan = Plan { contexts: 4, depth: 8, start: u32::MAX - 100, ..Plan::default() };
    stream(plan, &nvlink(plan), 2048);
}
