//! What a switch of fibers costs, by the number of threads: `cargo run --release -p ginrs-cpu --example switch_cost`.

#[path = "../tests/common/mod.rs"]
mod common;
use std::ffi::c_void;

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
        println!("empty: 100000 x {block:4} threads: {:6.1} ns of CPU time a thread", (cpu_ns() - begin) / 1e5 / f64::from(block));
    }
    let begin = std::time::Instant::now();
    for _ in 0..10_000 {
        assert_eq!(Launcher::new(1, 1, nothing, &()).run(), 0);
    }
    println!("launch and synchronize: {:.1} us", begin.elapsed().as_secs_f64() * 100.0);
}
