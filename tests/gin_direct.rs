//! The queues of direct contexts: their own takes large puts, the one that kernels of other headers see takes nothing; and the word in
//! which kernels leave what they refused.

mod support;

use ginrs::device::{Memory, cpu::CpuDevice};
use ginrs::error::Code;
use ginrs::gin::Backend;
use ginrs::gin::descriptor::{Descriptor, SignalOp, Source};
use ginrs::gin::direct::Signals;
use std::sync::atomic::Ordering::{Acquire, Release};
use support::kernel::Kernel;
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

/// Everything that a kernel posts in vain ends the communicator, at once and by name, and then is credited.
fn refused(post: impl Fn(&Rank, &Kernel), who: &Kernel, ranks: &[Rank], number: u16, words: &[&str]) {
    post(&ranks[0], who);
    eventually("abort", || ranks[0].gin.step() || ranks[0].abort.is_raised());
    let cause = ranks[0].abort.cause().unwrap();
    assert_eq!((cause.code, cause.id), (Code::InvalidUsage, number), "{cause}");
    for text in words {
        assert!(cause.text.contains(text), "{text} is missing in {cause}");
    }
    let peer = direct(&ranks[1], 0);
    assert_eq!(((0..8).map(|id| peer.signal(id).load(Acquire)).sum::<u64>(), who.aborted()), (0, true));
    assert!(ranks[1].bytes(0, 64).iter().all(|&byte| byte == 0));
    eventually("credit after the abort", || who.flushed(1, who.claimed(1)) || ranks[0].gin.step());
}

type Make = fn(&Rank) -> Descriptor;

fn value(rank: &Rank) -> Descriptor {
    Descriptor { source: Source::Inline(7), ..rank.put(0, 0, 8) }
}

#[test]
fn whatever_a_kernel_of_other_headers_posts_ends_the_communicator_and_says_whose_fault_it_is() {
    let cases: [(Make, &str); 7] = [
        (|rank| rank.put(0, 0, 8), "a put for the proxy"),
        (value, "a putValue for"),
        (|_| signal(5, SignalOp::Inc), "a signal for"),
        (|rank| Descriptor { signal: Some((6, SignalOp::Add(9))), ..rank.put(0, 0, 8) }, "a put with a signal for"),
        (|rank| Descriptor { signal: Some((6, SignalOp::Inc)), ..value(rank) }, "a putValue with a signal for"),
        (|rank| Descriptor { counter: Some(2), ..rank.put(0, 0, 8) }, "a put with a counter for"),
        (|_| Descriptor { counter: Some(2), ..signal(5, SignalOp::Inc) }, "a put with a signal and a counter"),
    ];
    for context in 0..2 {
        for (make, what) in cases {
            let ranks = ranks();
            ranks[0].bytes(0, 64).fill(7);
            // SAFETY: the ranks outlive it.
            let kernel = unsafe { Kernel::attach_foreign(ranks[0].gin.context(Backend::Direct, context)) };
            let post = |rank: &Rank, kernel: &Kernel| _ = kernel.post(1, &make(rank), || _ = rank.gin.step());
            let words = [what, "NCCL_GIN_BACKEND", "compiled with other headers", "rank 0, direct contexts, operation"];
            refused(post, &kernel, &ranks, 81, &words);
        }
    }
}

/// What our own kernels never post.
#[test]
fn signals_and_counters_are_refused_in_the_queue_of_payloads() {
    let cases: [(Make, &str); 2] = [
        (|_| signal(5, SignalOp::Inc), "a signal for"),
        (|rank| Descriptor { counter: Some(2), ..rank.put(0, 0, 8) }, "a put with a counter for"),
    ];
    for (make, what) in cases {
        let ranks = ranks();
        let post = |rank: &Rank, kernel: &Kernel| _ = kernel.post(1, &make(rank), || _ = rank.gin.step());
        refused(post, &direct(&ranks[0], 1), &ranks, 81, &[what, "rank 0, direct context 1, operation"]);
    }
}

#[test]
fn an_id_that_a_kernel_refuses_ends_the_communicator_in_either_kind_of_context() {
    let kinds_and_words = [
        (1, "signal 40, the device communicator has 32"),
        (2, "counter 40, the device communicator has 32"),
        (3, "peer 40, the communicator has 32 ranks"),
    ];
    for (kind, words) in kinds_and_words {
        let both = ranks();
        refused(|_, kernel| kernel.refuse(kind, 40, 32), &direct(&both[0], 1), &both, 51, &[words, "rank 0, direct context 1 |"]);
        let both = ranks();
        refused(|_, kernel| kernel.refuse(kind, 40, 32), &both[0].kernel(1), &both, 51, &[words, "rank 0, context 1 |"]);
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
    let words = gin.kernel_words((Backend::Direct, gin.context(Backend::Direct, 0)), 2..4, 0..0);
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
