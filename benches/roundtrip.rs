//! Put-and-signal round trip between two ranks over shm, against the floor: a flag bounced between two threads. The waiting
//! thread steps its own rank's proxy, as a waiting block of the CPU device does.
//!
//! `cargo bench -p ginrs --bench roundtrip`

#[path = "../tests/support/mod.rs"]
mod support;

use ginrs::error::Result;
use ginrs::gin::descriptor::{Descriptor, SignalOp};
use ginrs::gin::proxy::Routes;
use ginrs::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Plan, Rank, fabric};

const ROUNDS: u64 = 20_000;
const TURNS: usize = 15;

#[repr(align(128))]
struct Flag(AtomicU64);

/// Spins a while, then lets others on the core: on a busy machine both sides may share one.
fn wait(mut done: impl FnMut() -> bool) {
    let mut spins = 0u32;
    while !done() {
        spins += 1;
        if spins.is_multiple_of(256) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Nanoseconds per round trip of two plain flags.
fn raw() -> f64 {
    let flags = [Flag(AtomicU64::new(0)), Flag(AtomicU64::new(0))];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=ROUNDS {
                wait(|| flags[0].0.load(Ordering::Acquire) == i);
                flags[1].0.store(i, Ordering::Release);
            }
        });
        let begin = Instant::now();
        for i in 1..=ROUNDS {
            flags[0].0.store(i, Ordering::Release);
            wait(|| flags[1].0.load(Ordering::Acquire) == i);
        }
        begin.elapsed().as_nanos() as f64 / ROUNDS as f64
    })
}

/// Nanoseconds per round trip of an 8-byte put with a signal.
fn gin(ranks: &[Rank], done: u64) -> f64 {
    let side = |me: usize, first: bool| {
        let (rank, kernel) = (&ranks[me], ranks[me].kernel(0));
        let put = Descriptor { signal: Some((0, SignalOp::Inc)), ..rank.put(0, 64, 8) };
        let post = || assert!(kernel.post(1 - me as u32, &put, || _ = rank.gin.step()));
        for i in done + 1..=done + ROUNDS {
            if first {
                post();
            }
            wait(|| {
                let here = kernel.signal(0).load(Ordering::Acquire) >= i;
                if !here {
                    rank.gin.step();
                }
                here
            });
            if !first {
                post();
                rank.gin.step();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| side(1, false));
        let begin = Instant::now();
        side(0, true);
        begin.elapsed().as_nanos() as f64 / ROUNDS as f64
    })
}

/// Something comes when its descriptor is written to.
struct Eventful(Arc<OwnedFd>, Arc<AtomicU64>);

impl Transport for Eventful {
    fn capabilities(&self) -> Capabilities {
        Capabilities { polled: true, ..Capabilities::of("eventful", 8) }
    }
    fn register(&mut self, _: &Region) -> Result<()> {
        Ok(())
    }
    fn deregister(&mut self, _: u32) {}
    fn submit(&mut self, _: &Work) -> Result<Submitted> {
        Ok(Submitted::Done)
    }
    fn progress(&mut self, _: &mut Vec<Completion>) -> Result<bool> {
        let came = rustix::io::read(&*self.0, &mut [0; 8]).is_ok();
        self.1.fetch_add(came.into(), Ordering::Release);
        Ok(came)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
    fn abort(&mut self) {}
}

/// Microseconds from the moment when a transport has something to do until the proxy thread, which sleeps, has done it: sorted.
fn wakes() -> Vec<f64> {
    let (descriptor, seen) = (Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()), Arc::new(AtomicU64::new(0)));
    let transport = || Box::new(Eventful(descriptor.clone(), seen.clone()));
    let routes = |_: &Plan, _| Routes { transports: vec![transport()], by_peer: vec![0] };
    let _rank = support::one_rank_over(Plan { ranks: 1, threads: true, ..Plan::default() }, routes);
    let mut times: Vec<f64> = (1..=200)
        .map(|i| {
            std::thread::sleep(Duration::from_millis(3));
            let ready = Instant::now();
            rustix::io::write(&*descriptor, &1u64.to_ne_bytes()).unwrap();
            wait(|| seen.load(Ordering::Acquire) == i);
            ready.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn main() {
    let wakes = wakes();
    println!(
        "a transport wakes the proxy thread: {:.0} us at best, {:.0} median, wanted at most 100",
        wakes[0],
        wakes[wakes.len() / 2]
    );
    // Odd and even ranks count as different processes: shm in both directions, each memory with a mapping.
    let ranks = fabric(Plan { contexts: 4, depth: 256, shm: true, threads: false, ..Plan::default() });
    let (mut floor, mut ours) = (f64::INFINITY, f64::INFINITY);
    for turn in 0..TURNS {
        floor = floor.min(raw());
        ours = ours.min(gin(&ranks, turn as u64 * ROUNDS));
    }
    let ratio = ours / floor;
    println!(
        "put+signal round trip over shm: {ours:.0} ns; floor (two flags): {floor:.0} ns; ratio {ratio:.2}, wanted at most 4"
    );
    std::process::exit(i32::from(ratio > 4.0));
}
