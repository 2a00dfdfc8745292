//! What a switch of fibers costs, by the number of threads: `cargo run --release -p ginrs-cpu --example switch_cost`.
#![allow(clippy::undocumented_unsafe_blocks, reason = "kernels are given the state that their launch names")]

#[path = "../tests/common/mod.rs"]
mod common;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::*};

use common::*;

unsafe extern "C" fn barriers(p: *mut c_void) {
    let rounds: &u32 = unsafe { state(p) };
    for _ in 0..*rounds {
        sync(1);
    }
}

unsafe extern "C" fn shuffles(p: *mut c_void) {
    let rounds: &u32 = unsafe { state(p) };
    let mut out = [0; 32];
    for _ in 0..*rounds {
        unsafe { ginrs_cpu_warp_exchange(u32::MAX, 1, out.as_mut_ptr(), c"shuffle".as_ptr(), FILE, 1) };
    }
}

/// Two blocks hand a word to and fro.
unsafe extern "C" fn ping_pong(p: *mut c_void) {
    let word: &AtomicU32 = unsafe { state(p) };
    let me_ = me().block.x;
    while word.load(Acquire) < TURNS {
        while word.load(Acquire) % 2 != me_ && word.load(Acquire) < TURNS {
            ginrs_cpu_yield(1);
        }
        word.fetch_add(1, AcqRel);
        unsafe { ginrs_cpu_spend(3) }; // as instrumented code does: tells a poll that found something from one that did not
    }
}
unsafe extern "C" {
    fn ginrs_cpu_spend(blocks: i32);
}
const TURNS: u32 = 200_000;

unsafe extern "C" fn nothing(_: *mut c_void) {}

fn cpu_ns() -> f64 {
    // SAFETY: a plain call.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t);
        t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
    }
}

fn main() {
    for (name, kernel) in [("barrier", barriers as Kernel), ("shuffle", shuffles)] {
        for (grid, block, rounds) in [(1, 32, 30_000u32), (1, 256, 4000), (1, 1024, 1000), (64, 1024, 20)] {
            Launcher::new(grid, block, kernel, &1).run();
            let begin = cpu_ns();
            assert_eq!(Launcher::new(grid, block, kernel, &rounds).run(), 0);
            let switches = f64::from(grid * block) * f64::from(rounds);
            println!("{name}: {grid:3} x {block:4} threads: {:6.1} ns of CPU time a thread", (cpu_ns() - begin) / switches);
        }
    }
    for block in [32, 256] {
        let begin = cpu_ns();
        assert_eq!(Launcher::new(100_000, block, nothing, &()).run(), 0);
        println!(
            "empty: 100000 x {block:4} threads: {:6.1} ns of CPU time a thread",
            (cpu_ns() - begin) / 1e5 / f64::from(block)
        );
    }
    let begin = std::time::Instant::now();
    for _ in 0..10_000 {
        assert_eq!(Launcher::new(1, 1, nothing, &()).run(), 0);
    }
    println!("launch and synchronize: {:.1} us", begin.elapsed().as_secs_f64() * 100.0);
    let (word, begin) = (AtomicU32::new(0), std::time::Instant::now());
    assert_eq!(Launcher::new(2, 1, ping_pong, &word).run(), 0);
    println!("two blocks hand a word to and fro: {:.0} ns a round trip", begin.elapsed().as_secs_f64() * 2e9 / f64::from(TURNS));
}
