//! The order of work: streams, events, host functions, capture.
#![allow(clippy::undocumented_unsafe_blocks, reason = "kernels are given the state that their launch names")]

mod common;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};

use common::*;

/// Numbers in the order in which they were added.
struct Log(parking_lot::Mutex<Vec<u32>>);

/// Action of a kernel before it adds its number.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    /// Sleeps for so many milliseconds: a kernel that does not wait for it is first.
    Sleeps(u64),
    /// Waits for this number of a kernel that must not wait for it.
    Sees(u32),
}
use Before::*;

struct Entry<'a> {
    log: &'a Log,
    number: u32,
    before: Before,
}

/// Waits as a kernel does until `so`; false if that is a hang.
fn wait(so: impl Fn() -> bool) -> bool {
    let end = hang_limit::hang_deadline();
    while !so() {
        if Instant::now() > end {
            return false;
        }
        ginrs_cpu_yield(1);
    }
    true
}

unsafe extern "C" fn append(p: *mut c_void) {
    let entry: &Entry = unsafe { state(p) };
    match entry.before {
        Nothing => {}
        Sleeps(ms) => std::thread::sleep(Duration::from_millis(ms)),
        Sees(number) => _ = wait(|| entry.log.0.lock().contains(&number)),
    }
    entry.log.0.lock().push(entry.number);
}

fn stream(flags: u32) -> *mut c_void {
    let mut stream = null_mut();
    assert_eq!(unsafe { cudaStreamCreateWithFlags(&mut stream, flags) }, 0);
    stream
}

fn event(flags: u32) -> *mut c_void {
    let mut event = null_mut();
    assert_eq!(unsafe { cudaEventCreateWithFlags(&mut event, flags) }, 0);
    event
}

fn run(entries: &[(u32, Before, *mut c_void)]) -> Vec<u32> {
    let log = Log(parking_lot::Mutex::default());
    let states: Vec<_> = entries.iter().map(|&(number, before, _)| Entry { log: &log, number, before }).collect();
    for (entry, &(_, _, stream)) in states.iter().zip(entries) {
        assert_eq!(Launcher::new(1, 1, append, entry).on(stream).queue(), 0);
    }
    assert_eq!(cudaDeviceSynchronize(), 0);
    log.0.into_inner()
}

const LEGACY: *mut c_void = std::ptr::without_provenance_mut(1);
const PER_THREAD: *mut c_void = std::ptr::without_provenance_mut(2);

#[test]
fn the_legacy_stream_and_blocking_streams_order_each_other() {
    device(1);
    let (a, b, free) = (stream(0), stream(0), stream(1));
    let legacy = null_mut();
    assert_eq!(run(&[(1, Sleeps(60), a), (2, Nothing, legacy), (3, Sleeps(30), b), (4, Nothing, LEGACY)]), [1, 2, 3, 4]);
    assert_eq!(run(&[(1, Sleeps(60), legacy), (2, Sees(3), a), (3, Nothing, PER_THREAD)]), [1, 3, 2]);
    assert_eq!(run(&[(1, Sees(2), legacy), (2, Nothing, free)]), [2, 1], "non-blocking streams do not wait");
    assert_eq!(run(&[(1, Sleeps(40), a), (2, Nothing, a), (3, Nothing, a)]), [1, 2, 3]);
    assert_eq!(run(&[(1, Sees(2), a), (2, Nothing, b)]), [2, 1]);
    for s in [a, b, free] {
        assert_eq!(cudaStreamDestroy(s), 0);
    }
    assert_eq!(cudaStreamDestroy(a), 400);
    assert_eq!(cudaGetLastError(), 400);
}

#[test]
fn events_order_streams_of_different_devices_and_have_a_time() {
    device(2);
    let (a, begin, end) = (stream(0), event(0), event(0));
    let log = Log(parking_lot::Mutex::default());
    // The first ends 50 ms after it has begun and been seen to run.
    unsafe extern "C" fn first(p: *mut c_void) {
        let (log, seen): &(&Log, AtomicU32) = unsafe { state(p) };
        wait(|| seen.load(Acquire) == 1);
        std::thread::sleep(Duration::from_millis(50));
        log.0.lock().push(1);
    }
    let (one, two) = ((&log, AtomicU32::new(0)), Entry { log: &log, number: 2, before: Nothing });
    assert_eq!(cudaEventQuery(begin), 0, "never recorded");
    assert_eq!(cudaEventRecord(begin, a), 0);
    assert_eq!(Launcher::new(1, 1, first, &one).on(a).queue(), 0);
    assert_eq!(cudaEventRecord(end, a), 0);
    assert_eq!((cudaEventQuery(end), cudaStreamQuery(a)), (600, 600));
    one.1.store(1, Release);
    device(3);
    let b = stream(1);
    assert_eq!(cudaStreamWaitEvent(b, end, 0), 0);
    assert_eq!(Launcher::new(1, 1, append, &two).on(b).queue(), 0);
    assert_eq!(Launcher::new(1, 1, append, &two).on(a).queue(), 400, "a stream of another device");
    assert_eq!(cudaStreamSynchronize(b), 0);
    assert_eq!(*log.0.lock(), [1, 2]);
    let mut ms = 0.0;
    assert_eq!(unsafe { cudaEventElapsedTime(&mut ms, begin, end) }, 0);
    assert!((49.0..120_000.0).contains(&ms), "{ms}");
    assert_eq!(unsafe { cudaEventElapsedTime(&mut ms, begin, event(2)) }, 400);
    assert_eq!(unsafe { cudaEventElapsedTime(&mut ms, begin, event(0)) }, 400);
    assert_eq!((cudaEventDestroy(begin), cudaEventDestroy(begin)), (0, 400));
    cudaGetLastError();
}

#[test]
fn host_functions_and_copies_keep_the_order() {
    unsafe extern "C" fn add(p: *mut c_void) {
        let n: &AtomicU32 = unsafe { state(p) };
        n.fetch_add(global() as u32 + 1, Relaxed);
    }
    unsafe extern "C" fn double(p: *mut c_void) {
        let n: &AtomicU32 = unsafe { state(p) };
        n.store(n.load(Relaxed) * 2, Relaxed);
    }
    unsafe extern "C" fn callback(stream: *mut c_void, status: i32, p: *mut c_void) {
        let n: &AtomicU32 = unsafe { state(p) };
        assert!(!stream.is_null() && status == 0);
        n.fetch_add(1000, Relaxed);
    }
    device(4);
    let s = stream(1);
    let mut memory = null_mut();
    assert_eq!(unsafe { cudaMalloc(&mut memory, 8) }, 0);
    let n: &AtomicU32 = unsafe { state(memory) };
    for round in 0..50 {
        let mut back = [0u32; 2];
        let out = back.as_mut_ptr().cast::<c_void>();
        unsafe {
            assert_eq!(cudaMemsetAsync(memory, 0, 8, s), 0);
            assert_eq!(Launcher::new(1, 2, add, n).on(s).queue(), 0); // 3
            assert_eq!(cudaLaunchHostFunc(s, Some(double), memory), 0); // 6
            assert_eq!(cudaMemcpyAsync(out, memory, 4, 2, s), 0);
            assert_eq!(cudaStreamAddCallback(s, Some(callback), memory, 0), 0); // 1006
            assert_eq!(cudaMemcpyAsync(out.add(4), memory, 4, 4, s), 0);
        }
        assert_eq!(cudaStreamSynchronize(s), 0);
        assert_eq!(back, [6, 1006], "round {round}");
    }
    unsafe {
        assert_eq!(cudaMemset(memory, 0, 9), 1, "over the end");
        assert_eq!(cudaMemcpy(memory, memory, 4, 7), 21);
    }
    assert_eq!((cudaFree(memory), cudaFree(memory)), (0, 1));
    cudaGetLastError();
}

#[test]
fn two_dimensional_copies_leave_the_gaps() {
    device(4);
    let from: Vec<u8> = (0..60).collect();
    let mut to = [0xffu8; 50];
    let (p, q) = (to.as_mut_ptr().cast::<c_void>(), from.as_ptr().cast::<c_void>());
    assert_eq!(unsafe { cudaMemcpy2D(p, 10, q, 12, 7, 5, 0) }, 0);
    for (i, byte) in to.iter().enumerate() {
        let expected = if i % 10 < 7 { (i / 10 * 12 + i % 10) as u8 } else { 0xff };
        assert_eq!(*byte, expected, "byte {i}");
    }
    assert_eq!(unsafe { cudaMemcpy2D(p, 6, q, 12, 7, 5, 0) }, 12);
    cudaGetLastError();
}

#[test]
fn a_captured_graph_runs_as_often_as_it_is_launched() {
    unsafe extern "C" fn add(p: *mut c_void) {
        let n: &AtomicU32 = unsafe { state(p) };
        n.fetch_add(1, Relaxed);
    }
    device(5);
    let (a, b) = (stream(1), stream(1));
    let (fork, join) = (event(2), event(2));
    let mut words = [0u32; 2];
    let word = words.as_mut_ptr();
    let n: &AtomicU32 = unsafe { state(word.cast()) };
    let (mut graph, mut exec, mut status) = (null_mut(), null_mut(), 9);
    unsafe {
        assert_eq!(cudaStreamBeginCapture(null_mut(), 0), 900);
        assert_eq!(cudaStreamBeginCapture(a, 0), 0);
        assert_eq!(Launcher::new(4, 8, add, n).on(a).queue(), 0);
        assert_eq!(cudaEventRecord(fork, a), 0);
        assert_eq!(cudaStreamWaitEvent(b, fork, 0), 0);
        assert_eq!(cudaMemcpyAsync(word.add(1).cast(), word.cast(), 4, 3, b), 0);
        assert_eq!(cudaStreamIsCapturing(b, &mut status), 0);
        assert_eq!(status, 1);
        assert_eq!(cudaEventRecord(join, b), 0);
        assert_eq!(cudaStreamWaitEvent(a, join, 0), 0);
        assert_eq!(Launcher::new(1, 1, add, n).on(a).queue(), 0);
        assert_eq!(cudaStreamEndCapture(a, &mut graph), 0);
        assert_eq!(n.load(Relaxed), 0, "nothing ran");
        assert_eq!(cudaGraphInstantiateWithFlags(&mut exec, graph, 0), 0);
        assert_eq!(cudaGraphDestroy(graph), 0);
        for _ in 0..3 {
            assert_eq!(cudaGraphLaunch(exec, a), 0);
        }
        assert_eq!(cudaStreamSynchronize(a), 0);
        assert_eq!(words, [99, 98]);
        assert_eq!(cudaGraphExecDestroy(exec), 0);
        assert_eq!(cudaGraphLaunch(exec, a), 1);
        // A stream that is not joined back, and a synchronize in between.
        assert_eq!(cudaStreamBeginCapture(a, 0), 0);
        assert_eq!(cudaEventRecord(fork, a), 0);
        assert_eq!(cudaStreamWaitEvent(b, fork, 0), 0);
        assert_eq!(Launcher::new(1, 1, add, n).on(b).queue(), 0);
        assert_eq!(cudaStreamEndCapture(a, &mut graph), 904);
        assert_eq!(cudaStreamBeginCapture(a, 0), 0);
        assert_eq!(cudaStreamSynchronize(a), 900);
        assert_eq!(cudaStreamEndCapture(a, &mut graph), 901);
        assert!(graph.is_null());
        assert_eq!(cudaStreamQuery(b), 0, "free again");
    }
    cudaGetLastError();
}

#[test]
fn a_long_queue_is_no_deep_recursion() {
    unsafe extern "C" fn slow(p: *mut c_void) {
        let queued: &AtomicU32 = unsafe { state(p) };
        wait(|| queued.load(Acquire) == 1);
    }
    device(6);
    let s = stream(0);
    let (mut word, queued) = (0u32, AtomicU32::new(0));
    assert_eq!(Launcher::new(1, 1, slow, &queued).on(s).queue(), 0);
    for i in 0..100_000 {
        assert_eq!(unsafe { cudaMemsetAsync((&raw mut word).cast(), i, 4, s) }, 0);
    }
    queued.store(1, Release);
    assert_eq!(cudaStreamSynchronize(s), 0);
    assert_eq!(word.to_ne_bytes(), [(99_999 % 256) as u8; 4]);
}
