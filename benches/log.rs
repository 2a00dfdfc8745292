//! What a log line costs: one that is not chosen, and one that is written.
//!
//! `cargo bench -p ginrs --bench log`; the lines go to /dev/null.

use ginrs::{info, trace};
use std::time::Instant;

/// Nanoseconds of one `call`: the fastest of nine turns.
fn fastest(turns: u32, call: impl Fn(u32)) -> f64 {
    let turn = || {
        let begin = Instant::now();
        (0..turns).for_each(&call);
        begin.elapsed().as_nanos() as f64 / f64::from(turns)
    };
    (0..9).map(|_| turn()).fold(f64::MAX, f64::min)
}

fn main() {
    let set = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "/dev/null"), ("NCCL_DEBUG_SUBSYS", "INIT")];
    if std::env::var_os("GINRS_TEST_INNER").is_none() {
        let own = std::process::Command::new(std::env::current_exe().unwrap()).env("GINRS_TEST_INNER", "1").envs(set).status();
        return assert!(own.unwrap().success());
    }
    let (off, level) = (fastest(1_000_000, |n| info!(NET, "row {n}")), fastest(1_000_000, |n| trace!(INIT, "row {n}")));
    let one = fastest(50_000, |n| info!(INIT, "rank {n} of {}: {} bytes at {:#x}", 8, 4096, 0x7f00_0000u32));
    println!("not chosen: {off:.1} ns by subsystem, {level:.1} ns by level; written: {one:.0} ns, {:.0} lines/s", 1e9 / one);
    let threads = |count: u32| {
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(|| {
                    (0..50_000).for_each(|n| info!(INIT, "rank {n} of {}: {} bytes at {:#x}", 8, 4096, 0x7f00_0000u32))
                });
            }
        });
        f64::from(count) * 50_000.0 / begin.elapsed().as_secs_f64()
    };
    println!("lines/s of 2 threads: {:.0}", threads(2));
}
