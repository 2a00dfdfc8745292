//! The contract on both queues, and what is nvlink's own: when signals go, values under way, failures.

use super::*;
use crate::device::courier;
use crate::device::cpu::CpuDevice;
use crate::device::{Memory, Physical, Transfers};
use crate::hang_limit::{HANG_LIMIT, hang_deadline};
use crate::sync::Mutex;
use crate::transport::contract;
use crate::transport::delayed::{Delayed, Started};
use crate::transport::{SIGNALS, Source};
use std::cell::RefCell;
use std::sync::Arc;

fn delayed(serves: Vec<bool>, seed: u64) -> Nvlink {
    Nvlink::new(&*CpuDevice::new(0), serves, || Ok(Box::new(Delayed::new(seed)))).unwrap()
}

#[test]
fn contract_at_once() {
    contract::all(|serves| {
        let device = CpuDevice::new(0);
        vec![Box::new(Nvlink::new(&*device, serves, || device.copy_queue()).unwrap())]
    });
}

#[test]
fn contract_late_and_out_of_order() {
    for seed in [3, 0x5eed_0007, 0x5eed_0008, 0xdead_beef, 0xdead_bee0] {
        contract::all(|serves| vec![Box::new(delayed(serves, seed))]);
    }
}

/// One courier for all peers, which comes and goes, beside copy engines that are late.
#[test]
fn contract_with_a_courier() {
    for seed in [1, 2, 0x5eed_0009] {
        contract::all(|serves| {
            let courier = courier::fakes::beside(seed, Box::new(Delayed::new(seed)));
            let queue =
                || Ok(Box::new(courier::Carried::new(Box::new(Delayed::new(seed)), courier.clone())) as Box<dyn CopyQueue>);
            vec![Box::new(Nvlink::new(&*CpuDevice::new(0), serves, queue).unwrap())]
        });
    }
}

/// The device fails with copies of several peers under way.
#[test]
fn a_failure_is_told_by_its_peer() {
    let queues = RefCell::new(Vec::new());
    let make = |serves: Vec<bool>| {
        let queue = || {
            let queue = Delayed::new(3);
            queues.borrow_mut().push(queue.started());
            Ok(Box::new(queue) as Box<dyn CopyQueue>)
        };
        vec![Box::new(Nvlink::new(&*CpuDevice::new(0), serves, queue).unwrap()) as Box<dyn Transport>]
    };
    contract::failure(make, |_| queues.borrow()[1].lock().good = Some(0));
}

/// Rank 0 of two, over a queue that stands still until the test lets it go.
struct Still {
    transport: Nvlink,
    started: Arc<Mutex<Started>>,
    memory: Arc<dyn Physical>,
    done: Vec<Completion>,
}

impl Still {
    fn new() -> Self {
        let device = CpuDevice::new(0);
        let memory = device.create(1 << 20).unwrap();
        let queue = Delayed::stopped();
        let started = queue.started();
        let mut queue: Option<Box<dyn CopyQueue>> = Some(Box::new(queue));
        let mut transport = Nvlink::new(&*device, vec![false, true], || Ok(queue.take().unwrap())).unwrap();
        let at = memory.host().unwrap().as_ptr() as DevPtr;
        for id in [SIGNALS, 1] {
            // Signals in the first half, which no payload of these tests touches.
            // SAFETY: the region keeps the memory.
            let region = unsafe { Region::new(u64::from(id), 1 << 20, 0, vec![Some(at), Some(at)], Box::new(memory.clone())) };
            let mut region = region.unwrap();
            region.id = id;
            transport.register(&region).unwrap();
        }
        Self { transport, started, memory, done: Vec::new() }
    }

    fn word(&self, offset: usize) -> u64 {
        // SAFETY: aligned and within the mapping.
        unsafe { AtomicU64::from_ptr(self.memory.host().unwrap().as_ptr().add(offset).cast()) }.load(Ordering::Acquire)
    }

    fn finish(&mut self) -> Vec<u64> {
        self.started.lock().go = true;
        let end = hang_deadline();
        while !self.transport.busy.is_empty() {
            self.transport.progress(&mut self.done).unwrap();
            assert!(Instant::now() < end);
        }
        self.started.lock().go = false;
        self.done.drain(..).map(|(tag, result)| result.map(|()| tag).unwrap()).collect()
    }
}

fn value(tag: u64, context: u32, to: u64, value: u64) -> Work {
    Work { tag, context, peer: 1, source: Source::Inline(value), bytes: 8, target: (1, to), signal: None }
}

fn signal(tag: u64, context: u32, add: u64) -> Work {
    Work { bytes: 0, signal: Some((0, add)), ..value(tag, context, 0, 0) }
}

#[test]
fn a_signal_waits_for_its_own_context_alone() {
    let mut still = Still::new();
    let submit = |still: &mut Still, work: Work| still.transport.submit(&work).unwrap();
    assert_eq!(submit(&mut still, signal(1, 0, 1)), Submitted::Done, "nothing before it");
    assert_eq!(submit(&mut still, value(2, 0, 1 << 19, 77)), Submitted::Pending);
    assert_eq!(submit(&mut still, signal(3, 0, 10)), Submitted::Pending, "behind a put");
    assert_eq!(submit(&mut still, signal(4, 1, 100)), Submitted::Done, "another context");
    still.transport.progress(&mut Vec::new()).unwrap();
    assert_eq!(submit(&mut still, value(5, 1, (1 << 19) + 8, 78)), Submitted::Pending);
    assert_eq!(submit(&mut still, signal(6, 0, 1000)), Submitted::Pending, "behind a put that was started");
    assert_eq!(still.word(0), 101);
    assert_eq!(still.finish(), [2, 3, 6, 5], "signal 6 goes with the put in front of it, not with the later one");
    assert_eq!((still.word(0), still.word(1 << 19), still.word((1 << 19) + 8)), (1111, 77, 78));
    assert_eq!(submit(&mut still, signal(7, 0, 1)), Submitted::Done);
}

#[test]
fn full_is_a_state_and_values_stay_apart() {
    let mut still = Still::new();
    let (mut taken, mut refused) = (0u64, 0);
    while refused < 3 {
        match still.transport.submit(&value(taken, (taken % 4) as u32, (1 << 19) + taken * 8, taken + 1)).unwrap() {
            Submitted::Full => {
                refused += 1;
                still.transport.progress(&mut Vec::new()).unwrap();
                refused *= u32::from(still.transport.endpoints[1].as_mut().unwrap().pipeline.place().is_none());
            }
            _ => taken += 1,
        }
    }
    assert_eq!(taken as usize, BATCHES * COPIES);
    assert_eq!(still.finish(), (0..taken).collect::<Vec<_>>());
    assert!((0..taken).all(|i| still.word((1 << 19) + i as usize * 8) == i + 1), "no value was overwritten under way");
}

#[test]
fn a_failed_copy_names_the_peer_and_brings_no_signal() {
    let mut still = Still::new();
    for tag in 0..4 {
        let work = Work { signal: Some((0, 1)), ..value(tag, 0, (1 << 19) + tag * 8, 1) };
        still.transport.submit(&work).unwrap();
        still.transport.progress(&mut still.done).unwrap();
    }
    {
        let mut started = still.started.lock();
        (started.go, started.good) = (true, Some(2));
    }
    let error = loop {
        if let Err(error) = still.transport.progress(&mut still.done) {
            break error;
        }
    };
    assert_eq!(error.id, 76);
    assert!(error.text.contains("to rank 1") && error.text.contains("planted"), "{error}");
    assert_eq!(still.word(0), still.done.len() as u64, "a signal for each put that ended, none for the rest");
    assert!(still.done.len() <= 2);
    still.transport.abort();
}

#[test]
fn an_abort_starts_nothing_and_ends_though_the_device_stands_still() {
    let mut still = Still::new();
    for tag in 0..20 {
        still.transport.submit(&value(tag, 0, 1 << 19, tag + 1)).unwrap();
        if tag < 2 {
            still.transport.progress(&mut still.done).unwrap();
        }
    }
    let before = Instant::now();
    still.transport.abort();
    assert!(before.elapsed() < HANG_LIMIT);
    assert_eq!(still.started.lock().len(), 2);
    assert!(!still.transport.progress(&mut still.done).unwrap() && still.done.is_empty());
}

#[test]
fn deregistering_under_a_copy_waits_for_it() {
    let mut still = Still::new();
    still.transport.submit(&Work { signal: Some((0, 1)), ..value(9, 0, 1 << 19, 5) }).unwrap();
    still.started.lock().go = true;
    still.transport.deregister(1);
    assert_eq!((still.word(1 << 19), still.word(0)), (5, 1));
    assert_eq!(still.finish(), [9], "its completion is not lost");
    assert!(still.transport.submit(&value(1, 0, 1 << 19, 1)).is_err());
}
