//! Descriptors per second of the proxy's step with a transport that does nothing, on one core: the time of the steps alone,
//! while the same thread posts between them. The floor, measured in the same run, is a bare ring: look at eight flags, copy
//! 64 bytes, zero them, publish the index.
//!
//! `cargo bench -p ginrs --bench proxy`; GINRS_BENCH_MS changes the time of each of a row's four turns (50).

#[path = "../tests/support/mod.rs"]
mod support;

use ginrs::error::Result;
use ginrs::gin::context;
use ginrs::gin::proxy::Routes;
use ginrs::gin::queue::{self, Index};
use ginrs::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::kernel::Kernel;
use support::{Plan, Rank};

/// As many contexts as a communicator has by default.
const CONTEXTS: u32 = 4;

struct Null;

impl Transport for Null {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("null", 1 << 20)
    }
    fn register(&mut self, _: &Region) -> Result<()> {
        Ok(())
    }
    fn deregister(&mut self, _: u32) {}
    fn submit(&mut self, work: &Work) -> Result<Submitted> {
        black_box(work);
        Ok(Submitted::Done)
    }
    fn progress(&mut self, _: &mut Vec<Completion>) -> Result<bool> {
        Ok(false)
    }
    fn abort(&mut self) {}
}

/// One rank of a communicator of `ranks`; its peers' windows and signals are its own, the transport touches neither.
fn rank(ranks: u32) -> Rank {
    let depth = context::depth(ranks, CONTEXTS, -1).unwrap();
    let plan = Plan { ranks, contexts: CONTEXTS, depth, window: 4096, threads: false, ..Plan::default() };
    let routes = |plan: &Plan, _| Routes { transports: vec![Box::new(Null)], by_peer: vec![0; plan.ranks as usize] };
    support::one_rank_over(plan, routes)
}

const RANKS: [u32; 5] = [2, 8, 64, 256, 1024];

#[derive(Clone, Copy, PartialEq)]
enum Traffic {
    OneActive,
    AllInTurn,
}

struct Row {
    ranks: u32,
    hints: bool,
    traffic: Traffic,
    ns: f64,
}

/// Nanoseconds per descriptor: lower quartile over rounds of up to 1024 descriptors.
fn measure(&Row { ranks, hints, traffic, .. }: &Row) -> f64 {
    let rank = rank(ranks);
    let mut kernels = [0, 1, 2, 3].map(|context| rank.kernel(context));
    kernels.iter_mut().for_each(|kernel| kernel.hints = hints);
    let words = rank.put(0, 8, 8).encode().unwrap();
    let depth = kernels[0].depth;
    let (peers, each): (Vec<u32>, u32) = match traffic {
        Traffic::OneActive => (vec![ranks / 2], depth),
        Traffic::AllInTurn => ((0..ranks).collect(), (1024 / ranks).clamp(1, depth)),
    };
    let total = peers.len() as u32 * each;
    let clock = typical((0..100).map(|_| Instant::now().elapsed().as_nanos() as f64).collect());
    let end = Instant::now() + budget();
    let mut rounds = Vec::new();
    while Instant::now() < end || rounds.len() < 20 {
        let kernel = kernels[rounds.len() % kernels.len()];
        for _ in 0..each {
            for &peer in &peers {
                post(&kernel, peer, &words);
            }
        }
        let last: Vec<(u32, u32)> = peers.iter().map(|&peer| (peer, kernel.claimed(peer))).collect();
        let begin = Instant::now();
        let done = |&(peer, claimed): &(u32, u32)| kernel.flushed(peer, claimed);
        loop {
            rank.gin.step();
            // The look at all queues is no part of the proxy's work: only once the last posted is done.
            if last.last().is_some_and(done) && last.iter().all(done) {
                break;
            }
        }
        let ns = begin.elapsed().as_nanos() as f64;
        rounds.push((ns - clock) / f64::from(total));
    }
    assert!(rank.abort.cause().is_none());
    typical(rounds)
}

fn post(kernel: &Kernel, peer: u32, words: &[u64; 8]) {
    let index = kernel.claim(peer);
    assert!(kernel.has_credit(peer, index));
    kernel.write(peer, index, words);
}

/// The floor: nanoseconds to take a descriptor from a ring of 256 and give the slot back.
fn floor() -> f64 {
    let slots: Vec<[AtomicU64; 8]> = (0..256).map(|_| Default::default()).collect();
    let cis = AtomicU32::new(0);
    let end = Instant::now() + budget();
    let mut rounds = Vec::new();
    while Instant::now() < end || rounds.len() < 20 {
        slots.iter().flatten().for_each(|word| word.store(0x101, Ordering::Relaxed));
        let begin = Instant::now();
        for (i, slot) in slots.iter().enumerate() {
            black_box(queue::take(slot).unwrap());
            cis.publish(i as u32 + 1);
        }
        rounds.push(begin.elapsed().as_nanos() as f64 / 256.0);
    }
    typical(rounds)
}

fn budget() -> Duration {
    let ms = std::env::var("GINRS_BENCH_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(50);
    Duration::from_millis(ms)
}

/// The lower quartile: other tenants of the machine only ever add time.
fn typical(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

fn main() {
    let floor = floor();
    println!(
        "proxy step, 8-byte puts, null transport, one core; floor (bare 64-byte ring): {floor:.1} ns, {:.0} M/s",
        1e3 / floor
    );
    println!("| ranks | traffic | hints | ns | M/s | x floor | against 2 ranks with hints |");
    println!("|---|---|---|---|---|---|---|");
    let row = |traffic, ranks| [true, false].map(|hints| Row { ranks, hints, traffic, ns: f64::INFINITY });
    let all = [Traffic::OneActive, Traffic::AllInTurn].map(|traffic| RANKS.map(|ranks| row(traffic, ranks)));
    let mut rows: Vec<Row> = all.into_iter().flatten().flatten().collect();
    // In rounds, so that a slow spell of the machine does not fall on one row.
    for _ in 0..4 {
        for row in &mut rows {
            row.ns = row.ns.min(measure(row));
        }
    }
    let mut missed = Vec::new();
    for row in &rows {
        let base = rows.iter().find(|base| base.ranks == 2 && base.hints && base.traffic == row.traffic).expect("listed");
        let (rate, flat) = (1e3 / row.ns, base.ns / row.ns);
        let traffic = match row.traffic {
            Traffic::OneActive => "one active",
            Traffic::AllInTurn => "all in turn",
        };
        println!("| {} | {traffic} | {} | {:.1} | {rate:.1} | {:.1} | {flat:.2} |", row.ranks, row.hints, row.ns, row.ns / floor);
        let want = match (row.hints, row.ranks) {
            (true, _) => 10.0,
            (false, ..=64) => 10.0 / 3.0,
            (false, _) => 1.0,
        };
        if rate < want {
            missed.push(format!("{} ranks, {traffic}, hints {}: {rate:.1} M/s, wanted {want:.1}", row.ranks, row.hints));
        }
    }
    println!("all in turn at 256 and 1024 ranks: one to four descriptors a visit, each in a cache line of its own");
    missed.iter().for_each(|line| println!("MISSED: {line}"));
    std::process::exit(i32::from(!missed.is_empty()));
}
