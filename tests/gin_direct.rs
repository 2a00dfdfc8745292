//! The queue of a direct context: it takes large puts, and refuses what would have the proxy raise a word of the kernels.

mod support;

use ginrs::device::{Device, cpu::CpuDevice};
use ginrs::error::Code;
use ginrs::gin::Backend;
use ginrs::gin::descriptor::{Descriptor, SignalOp};
use ginrs::gin::direct::Signals;
use ginrs::gin::model::Kernel;
use std::sync::atomic::Ordering::{Acquire, Release};
use support::{Plan, Rank, eventually, fabric, signal};

/// Ranks with two direct contexts each, beside the proxied ones.
fn ranks() -> Vec<Rank> {
    let plan = Plan { contexts: 2, signals: 8, counters: 4, threads: false, ..Plan::default() };
    let ranks = fabric(plan);
    for rank in &ranks {
        let memory = CpuDevice::new(0).objects(2 * 8 * 8).unwrap();
        let own = memory.device();
        let signals = Signals { own, first: own, stride: 4 << 30, keep: Box::new(memory) };
        rank.gin.add_direct(signals, 1 << 20).unwrap();
    }
    ranks
}

fn direct(rank: &Rank, context: u32) -> Kernel {
    // SAFETY: the rank outlives the kernel in every test here.
    unsafe { Kernel::attach(rank.gin.context(Backend::Direct, context)) }
}

#[test]
fn puts_without_actions_are_carried_and_flushed() {
    let ranks = ranks();
    ranks[0].bytes(0, 4096).fill(7);
    let (kernel, proxied) = (direct(&ranks[0], 1), ranks[0].kernel(1));
    for i in 0..100 {
        assert!(kernel.post(1, &ranks[0].put(0, 8192 + 40 * i, 40), || _ = ranks[0].gin.step()));
        assert!(
            proxied
                .post(1, &Descriptor { signal: Some((3, SignalOp::Inc)), ..ranks[0].put(0, 0, 0) }, || _ = ranks[0].gin.step())
        );
    }
    assert!(kernel.flush(|| _ = ranks[0].gin.step()) && proxied.flush(|| _ = ranks[0].gin.step()));
    assert!(ranks[1].bytes(8192, 4000).iter().all(|&byte| byte == 7) && ranks[1].bytes(12192, 8) == [0; 8]);
    assert_eq!(ranks[1].kernel(1).signal(3).load(Acquire), 100);
    ranks[0].gin.drain().unwrap();
}

#[test]
fn a_signal_or_counter_in_its_queue_ends_the_communicator_and_says_whose_fault_it_is() {
    type Make = fn(&Rank) -> Descriptor;
    let cases: [(Make, &str); 3] = [
        (|_| signal(5, SignalOp::Inc), "signal 5"),
        (|rank| Descriptor { signal: Some((6, SignalOp::Add(9))), ..rank.put(0, 0, 8) }, "signal 6"),
        (|rank| Descriptor { counter: Some(2), ..rank.put(0, 0, 8) }, "counter 2"),
    ];
    for (make, what) in cases {
        let ranks = ranks();
        let (kernel, peer) = (direct(&ranks[0], 0), direct(&ranks[1], 0));
        kernel.post(1, &make(&ranks[0]), || _ = ranks[0].gin.step());
        eventually("abort", || ranks[0].gin.step() || ranks[0].abort.is_raised());
        let cause = ranks[0].abort.cause().unwrap();
        assert_eq!((cause.code, cause.id), (Code::InvalidUsage, 81));
        for text in [what, "NCCL_GIN_BACKEND", "compiled with other headers", "rank 0, direct context 0"] {
            assert!(cause.text.contains(text), "{text} is missing in {cause}");
        }
        assert_eq!((peer.signal(5).load(Acquire), kernel.aborted()), (0, true));
        eventually("credit after the abort", || kernel.flushed(1, kernel.claimed(1)) || ranks[0].gin.step());
    }
}

#[test]
fn ids_of_both_kinds_are_apart() {
    let ranks = ranks();
    let gin = &ranks[0].gin;
    for backend in [Backend::Proxy, Backend::Direct] {
        assert_eq!((gin.alloc_signals(backend, 8).unwrap(), gin.alloc_counters(backend, 4).unwrap()), (0, 0));
        assert!(gin.alloc_signals(backend, 1).is_err());
    }
    gin.free_signals(Backend::Direct, 0, 8);
    assert!(gin.alloc_signals(Backend::Proxy, 1).is_err() && gin.alloc_signals(Backend::Direct, 1).is_ok());
    let words = gin.kernel_words(Backend::Direct, 2..4, 0..0);
    let kernels = [0, 1].map(|context| direct(&ranks[0], context));
    assert_eq!(words, kernels.each_ref().map(|kernel| (std::ptr::from_ref(kernel.signal(2)) as u64, 2)));
    for kernel in &kernels {
        (0..8).for_each(|id| kernel.signal(id).store(9, Release));
        kernel.counter(1).store(9, Release);
    }
    gin.zero(Backend::Direct, 2..4, 1..2).unwrap();
    for kernel in &kernels {
        let values: Vec<u64> = (0..8).map(|id| kernel.signal(id).load(Acquire)).collect();
        assert_eq!((values, kernel.counter(1).load(Acquire)), (vec![9, 9, 0, 0, 9, 9, 9, 9], 0));
    }
}
