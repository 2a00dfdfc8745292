//! What fails, how it is told, and that the rest goes on. Each test has a device of its own, for errors stay on it.
#![allow(clippy::undocumented_unsafe_blocks, reason = "kernels are given the state that their launch names")]

mod common;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::*};

use common::*;

/// The last report is the process's: one failing test at a time.
static ONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// Runs a kernel that fails on a device, and checks that the error is sticky there, that other devices work, and that a
/// reset ends it. Returns the report.
fn fails<T: Sync>(launcher: Launcher<T>, code: i32) -> String {
    unsafe extern "C" fn fine(_: *mut c_void) {}
    device(0);
    assert_eq!(launcher.run(), code);
    let report = last_report();
    assert_eq!((cudaGetLastError(), cudaGetLastError()), (code, code), "sticky");
    assert_eq!(Launcher::new(1, 1, fine, &()).run(), code);
    assert_eq!(unsafe { cudaMalloc(&mut std::ptr::null_mut(), 4) }, code);
    device(1);
    assert_eq!(Launcher::new(1, 1, fine, &()).run(), 0);
    device(0);
    assert_eq!(cudaDeviceReset(), 0);
    assert_eq!(cudaGetLastError(), 0);
    assert_eq!(Launcher::new(100, 64, fine, &()).run(), 0);
    report
}

#[test]
fn a_block_that_waits_for_itself_says_where() {
    unsafe extern "C" fn kernel(_: *mut c_void) {
        if me().linear < 40 {
            sync(17);
        } else if me().linear == 50 {
            ginrs_cpu_barrier(2, 64, c"bar.sync".as_ptr(), c"other.cu".as_ptr(), 99);
        } else if me().lane < 20 {
            ginrs_cpu_warp_sync(u32::MAX, c"__syncwarp()".as_ptr(), FILE, 21);
        }
    }
    let _one = ONE.lock();
    let report = fails(Launcher::new(3, 64, kernel, &()), 719);
    for line in [
        "deadlock in kernel kernel (launched at test.cu:1), device 0, block (",
        "none of its 52 live threads can go on",
        "threads 0-39 in __syncthreads() at test.cu:17 (barrier 0: 40 of 52 arrived)",
        "thread 50 in bar.sync at other.cu:99 (barrier 2: 1 of 64 arrived)",
        "threads 40-49, 51 in __syncwarp() at test.cu:21 (mask 0xffffffff",
        "fix:",
    ] {
        assert!(report.contains(line), "{line:?} is not in\n{report}");
    }
}

#[test]
fn a_grid_that_waits_for_blocks_that_ended_says_so() {
    unsafe extern "C" fn kernel(_: *mut c_void) {
        if me().block.x != 2 {
            ginrs_cpu_grid_sync(FILE, 33);
        }
    }
    let _one = ONE.lock();
    let report = fails(Launcher::new(4, 32, kernel, &()).cooperative(), 719);
    assert!(report.contains("3 of 4 blocks wait in grid sync at test.cu:33"), "{report}");
    let report = fails(Launcher::new(4, 32, kernel, &()), 719);
    assert!(report.contains("cudaLaunchCooperativeKernel"), "{report}");
}

#[test]
fn a_trap_ends_the_kernel_and_its_waiting_blocks() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let assertion: &bool = unsafe { state(p) };
        if me().block.x == 30 && me().linear == 5 {
            ginrs_cpu_trap(if *assertion { c"Assertion `x' failed" } else { c"__trap()" }.as_ptr(), FILE, 44);
        }
        loop {
            ginrs_cpu_yield(1);
        }
    }
    let _one = ONE.lock();
    let report = fails(Launcher::new(40, 64, kernel, &false), 719);
    assert!(report.contains("__trap() at test.cu:44") && report.contains("thread (5,0,0) of block (30,0,0)"), "{report}");
    fails(Launcher::new(40, 64, kernel, &true), 710);
}

#[test]
fn misuse_of_barriers_and_masks_is_named() {
    unsafe extern "C" fn counts(_: *mut c_void) {
        ginrs_cpu_barrier(1, if me().linear < 32 { 64 } else { 96 }, c"bar.sync".as_ptr(), FILE, 5);
    }
    unsafe extern "C" fn mask(_: *mut c_void) {
        ginrs_cpu_warp_sync(1, c"__syncwarp()".as_ptr(), FILE, 6);
    }
    unsafe extern "C" fn number(_: *mut c_void) {
        ginrs_cpu_barrier(16, 32, c"bar.sync".as_ptr(), FILE, 7);
    }
    let _one = ONE.lock();
    let report = fails(Launcher::new(1, 128, counts, &()), 719);
    assert!(report.contains("test.cu:5: barrier 1 is counting to 64"), "{report}");
    let report = fails(Launcher::new(1, 32, mask, &()), 719);
    assert!(report.contains("lacks the calling lane 1"), "{report}");
    let report = fails(Launcher::new(1, 32, number, &()), 719);
    assert!(report.contains("there is no barrier 16"), "{report}");
}

#[test]
fn a_stack_overflow_is_seen() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let waits: &AtomicU32 = unsafe { state(p) };
        // Goes down until a few hundred bytes are used of the page below the stack, then waits or ends.
        fn down(depth: usize, bottom: usize, waits: bool) -> usize {
            let frame = std::hint::black_box([depth; 16]);
            if std::ptr::from_ref(&frame) as usize > bottom {
                return down(depth + 1, bottom, waits) + frame[3];
            }
            if waits {
                ginrs_cpu_yield(0);
            }
            frame[5]
        }
        let here = std::ptr::from_ref(&waits) as usize;
        std::hint::black_box(down(0, here - (64 << 10) - 300, waits.load(Relaxed) == 1));
    }
    let _one = ONE.lock();
    for waits in [0, 1] {
        let report = fails(Launcher::new(1, 1, kernel, &AtomicU32::new(waits)), 719);
        assert!(report.contains("stack overflow in thread (0,0,0)") && report.contains("GINRS_CPU_STACK"), "{report}");
    }
}

#[test]
fn a_launch_that_cannot_be_is_refused() {
    unsafe extern "C" fn kernel(_: *mut c_void) {}
    let _one = ONE.lock();
    device(1);
    for (grid, block) in [(0, 1), (1, 0), (1, 1025), (1 << 31, 1)] {
        assert_eq!(Launcher::new(grid, block, kernel, &()).run(), 9, "{grid} {block}");
        assert_eq!((cudaPeekAtLastError(), cudaGetLastError(), cudaGetLastError()), (9, 9, 0));
    }
    let handle = 0x7777usize as *mut c_void;
    assert_eq!(Launcher::new(1, 1, kernel, &()).on(handle).run(), 400);
    let dims = Dim3 { x: 1, y: 1, z: 1 };
    let none = std::ptr::null_mut();
    assert_eq!(unsafe { cudaLaunchKernel(0x1234usize as *const c_void, dims, dims, none, 0, none.cast()) }, 98);
    cudaGetLastError();
}

#[test]
fn too_many_live_threads_are_an_error() {
    unsafe extern "C" fn kernel(p: *mut c_void) {
        let stop: &AtomicU32 = unsafe { state(p) };
        while stop.load(Relaxed) == 0 {
            ginrs_cpu_yield(1);
        }
    }
    // Reserves by threads, so a few blocks on each of many devices would be too slow a test: 3 devices of 200 x 1024.
    let _one = ONE.lock();
    let stop = AtomicU32::new(0);
    for id in 2..5 {
        device(id);
        assert_eq!(Launcher::new(200, 1024, kernel, &stop).queue(), 0);
    }
    let mut failed = 0;
    let begin = std::time::Instant::now();
    while failed == 0 && begin.elapsed() < hang_limit::HANG_LIMIT {
        std::thread::sleep(std::time::Duration::from_millis(50));
        for id in 2..5 {
            device(id);
            failed += i32::from(cudaPeekAtLastError() == 701);
        }
    }
    assert!(last_report().contains("above 524288 live CUDA threads"), "{}", last_report());
    stop.store(1, Relaxed);
    println!("{failed} devices failed after {:?}", begin.elapsed());
    assert!(failed >= 1);
    for id in 2..5 {
        device(id);
        assert_eq!(cudaDeviceReset(), 0);
    }
    device(0);
}
