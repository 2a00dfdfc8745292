//! Blocks and threads: barriers, warps, spins, many of each.
#![allow(clippy::undocumented_unsafe_blocks, reason = "kernels are given the state that their launch names")]

mod common;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Instant;

use common::*;

#[test]
fn every_thread_runs_once_and_knows_who_it_is() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let seen: &Vec<AtomicU32> = unsafe { state(p) };
        assert_eq!(me().lane, me().linear % 32);
        assert_eq!(me().warp, me().linear / 32);
        assert_eq!(me().thread.x, me().linear);
        assert_eq!((me().block_dim.x, me().grid_dim.x), (100, 37));
        seen[global()].fetch_add(1, Relaxed);
    }
    let seen: Vec<AtomicU32> = (0..3700).map(|_| AtomicU32::new(0)).collect();
    assert_eq!(Launcher::new(37, 100, kernel, &seen).run(), 0);
    assert!(seen.iter().all(|n| n.load(Relaxed) == 1));
}

#[test]
fn a_barrier_separates_phases() {
    struct State {
        phase: [AtomicU32; 64],
        torn: AtomicU32,
    }
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let s: &State = unsafe { state(p) };
        let phase = &s.phase[me().block.x as usize];
        for round in 0..20 {
            if phase.load(Relaxed) / me().block_dim.x != round {
                s.torn.fetch_add(1, Relaxed);
            }
            sync(10);
            phase.fetch_add(1, Relaxed);
            sync(12);
        }
    }
    let s = State { phase: [const { AtomicU32::new(0) }; 64], torn: AtomicU32::new(0) };
    assert_eq!(Launcher::new(64, 1024, kernel, &s).run(), 0);
    assert_eq!(s.torn.load(Relaxed), 0);
    assert!(s.phase.iter().all(|n| n.load(Relaxed) == 20 * 1024));
}

#[test]
fn exited_threads_count_as_arrived() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let passed: &AtomicU32 = unsafe { state(p) };
        if me().linear.is_multiple_of(3) {
            return;
        }
        sync(1);
        if me().linear % 3 == 1 {
            return;
        }
        let (what, lanes) = (c"__syncwarp()".as_ptr(), u32::MAX);
        ginrs_cpu_warp_sync(lanes, what, FILE, 2);
        sync(3);
        passed.fetch_add(1, Relaxed);
    }
    let passed = AtomicU32::new(0);
    assert_eq!(Launcher::new(3, 99, kernel, &passed).run(), 0);
    assert_eq!(passed.load(Relaxed), 99);
}

#[test]
fn reductions_and_named_barriers() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let wrong: &AtomicU32 = unsafe { state(p) };
        let what = c"__syncthreads_count()".as_ptr();
        let i = me().linear;
        let check = |right: bool| {
            wrong.fetch_add(u32::from(!right), Relaxed);
        };
        for round in 1..10 {
            check(ginrs_cpu_barrier_reduce(i32::from(i < round), 0, what, FILE, 1) == round as i32);
            check(ginrs_cpu_barrier_reduce(i32::from(i < 95 + round / 9), 1, what, FILE, 2) == i32::from(round == 9));
            check(ginrs_cpu_barrier_reduce(i32::from(i == round), 2, what, FILE, 3) == 1);
            check(ginrs_cpu_barrier_reduce(0, 2, what, FILE, 4) == 0);
        }
        // Producer warp 0 arrives, consumer warp 1 waits; warp 2 has a barrier of its own.
        match me().warp {
            0 => ginrs_cpu_barrier_arrive(3, 64, what, FILE, 5),
            1 => ginrs_cpu_barrier(3, 64, what, FILE, 6),
            _ => ginrs_cpu_barrier(4, 32, what, FILE, 7),
        }
    }
    let wrong = AtomicU32::new(0);
    assert_eq!(Launcher::new(4, 96, kernel, &wrong).run(), 0);
    assert_eq!(wrong.load(Relaxed), 0);
}

#[test]
fn a_warp_reduces_by_exchanges() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let sums: &[AtomicU64; 8] = unsafe { state(p) };
        let mut value = u64::from(me().linear);
        for step in [16, 8, 4, 2, 1] {
            let mut out = [0; 32];
            let given = unsafe {
                ginrs_cpu_warp_exchange(u32::MAX, value, out.as_mut_ptr(), c"__shfl_xor_sync()".as_ptr(), FILE, step as i32)
            };
            assert_eq!(given, u32::MAX);
            value += out[(me().lane ^ step) as usize];
        }
        if me().lane == 0 {
            sums[me().warp as usize].fetch_add(value, Relaxed);
        }
        // Halves of the warp meet apart, in different order.
        let half = if me().lane < 16 { 0xffff } else { 0xffff_0000 };
        if half == 0xffff {
            ginrs_cpu_yield(0);
        }
        let mut out = [7; 32];
        let given = unsafe { ginrs_cpu_warp_exchange(half, 1, out.as_mut_ptr(), c"x".as_ptr(), FILE, 9) };
        assert_eq!((given, out.iter().sum::<u64>()), (half, 16));
    }
    let sums = [const { AtomicU64::new(0) }; 8];
    assert_eq!(Launcher::new(5, 256, kernel, &sums).run(), 0);
    for (warp, sum) in sums.iter().enumerate() {
        let first = 32 * warp as u64;
        assert_eq!(sum.load(Relaxed), 5 * (first..first + 32).sum::<u64>());
    }
}

#[test]
fn active_mask_is_the_lanes_at_the_call() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let wrong: &AtomicU32 = unsafe { state(p) };
        let lane = me().lane;
        if lane < 4 {
            return;
        }
        if lane.is_multiple_of(5) {
            ginrs_cpu_yield(0); // comes late: the others wait for it
        }
        let (mask, right) = if lane.is_multiple_of(2) {
            (ginrs_cpu_active_mask(FILE, 1), 0x5555_5550)
        } else {
            (ginrs_cpu_active_mask(FILE, 2), 0xaaaa_aaa0)
        };
        wrong.fetch_add(u32::from(mask != right), Relaxed);
        let all = ginrs_cpu_active_mask(FILE, 3);
        wrong.fetch_add(u32::from(all != 0xffff_fff0), Relaxed);
    }
    let wrong = AtomicU32::new(0);
    assert_eq!(Launcher::new(3, 64, kernel, &wrong).run(), 0);
    assert_eq!(wrong.load(Relaxed), 0);
}

#[test]
fn blocks_that_wait_for_each_other_all_run() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let arrived: &AtomicU32 = unsafe { state(p) };
        arrived.fetch_add(1, AcqRel);
        while arrived.load(Acquire) < me().grid_dim.x * me().block_dim.x {
            ginrs_cpu_yield(1);
        }
    }
    // 64 blocks of 1024 threads: 65,536 live fibers.
    let (arrived, begin) = (AtomicU32::new(0), Instant::now());
    assert_eq!(Launcher::new(64, 1024, kernel, &arrived).run(), 0);
    println!("65536 live fibers: {:?}", begin.elapsed());
    let arrived = AtomicU32::new(0);
    assert_eq!(Launcher::new(512, 1, kernel, &arrived).run(), 0);
}

#[test]
fn many_short_blocks_all_run() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let sum: &AtomicU64 = unsafe { state(p) };
        if me().linear == 0 {
            sum.fetch_add(1, Relaxed);
        }
    }
    let (sum, begin) = (AtomicU64::new(0), Instant::now());
    assert_eq!(Launcher::new(262_144, 32, kernel, &sum).run(), 0);
    println!("262144 blocks of 32: {:?}", begin.elapsed());
    assert_eq!(sum.load(Relaxed), 262_144);
}

#[test]
fn a_cooperative_grid_syncs() {
    struct State {
        count: AtomicU32,
        torn: AtomicU32,
    }
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let s: &State = unsafe { state(p) };
        assert_eq!(ginrs_cpu_launch_is_cooperative(), 1);
        let threads = me().grid_dim.x * me().block_dim.x;
        if me().linear == 63 {
            s.count.fetch_add(5, Relaxed);
            return; // an exited thread counts as arrived
        }
        for round in 0..5 {
            s.count.fetch_add(1, Relaxed);
            ginrs_cpu_grid_sync(FILE, 1);
            let least = (round + 1) * (threads - me().grid_dim.x);
            s.torn.fetch_add(u32::from(s.count.load(Relaxed) < least), Relaxed);
            ginrs_cpu_grid_sync(FILE, 2);
        }
    }
    for grid in [1, 33, 300] {
        let s = State { count: AtomicU32::new(0), torn: AtomicU32::new(0) };
        assert_eq!(Launcher::new(grid, 64, kernel, &s).cooperative().run(), 0);
        assert_eq!((s.count.load(Relaxed), s.torn.load(Relaxed)), (grid * 64 * 5, 0));
    }
    let s = State { count: AtomicU32::new(0), torn: AtomicU32::new(0) };
    assert_eq!(Launcher::new(513, 64, kernel, &s).cooperative().run(), 720);
    assert_eq!(cudaGetLastError(), 720);
    assert_eq!(cudaGetLastError(), 0);
}

#[test]
fn two_cooperative_grids_do_not_starve_each_other() {
    unsafe extern "C" fn kernel(_: *mut c_void) {
        for _ in 0..3 {
            ginrs_cpu_grid_sync(FILE, 1);
        }
    }
    device(3);
    let mut streams = [std::ptr::null_mut(); 3];
    for stream in &mut streams {
        assert_eq!(unsafe { cudaStreamCreate(stream) }, 0);
        assert_eq!(Launcher::new(300, 4, kernel, &()).cooperative().on(*stream).queue(), 0);
    }
    assert_eq!(cudaDeviceSynchronize(), 0);
    streams.iter().for_each(|&stream| assert_eq!(cudaStreamDestroy(stream), 0));
}

#[test]
fn waiting_blocks_run_progress_steps() {
    struct State {
        word: AtomicU32,
        steps: AtomicU32,
    }
    unsafe extern "C" fn step(p: *mut c_void) -> i32 {
        let s: &State = unsafe { state(p) };
        assert!(ginrs_cpu::block::current().is_none(), "a step is no CUDA thread");
        if s.steps.fetch_add(1, Relaxed) == 1000 {
            s.word.store(1, Release);
            return 1;
        }
        0
    }
    unsafe extern "C" fn polls(p: *mut c_void) {
        let s: &State = unsafe { state(p) };
        while s.word.load(Acquire) == 0 {
            ginrs_cpu_yield(1);
        }
    }
    unsafe extern "C" fn spins(p: *mut c_void) {
        let s: &State = unsafe { state(p) };
        while s.word.load(Acquire) == 0 {
            // SAFETY: of the shim; a basic block each, as instrumented code does.
            unsafe { ginrs_cpu_spend(1) };
        }
    }
    unsafe extern "C" {
        fn ginrs_cpu_spend(blocks: i32);
    }
    let runtime = ginrs_cpu::device::get(2).unwrap();
    device(2);
    for kernel in [polls as common::Kernel, spins] {
        let s = State { word: AtomicU32::new(0), steps: AtomicU32::new(0) };
        let context = std::ptr::from_ref(&s).cast_mut().cast();
        runtime.add_progress(step, context);
        assert_eq!(Launcher::new(3, 40, kernel, &s).run(), 0);
        runtime.remove_progress(step, context);
        assert!(s.steps.load(Relaxed) > 1000);
        assert_eq!(runtime.kernels_running(), 0);
    }
}
