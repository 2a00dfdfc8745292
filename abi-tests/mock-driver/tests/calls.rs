//! What facts.c cannot ask a real driver: planned failures, a context that breaks, order under delays, devices that do not reach
//! each other, a forked child. Each case is a process of its own, for the environment is read once.

use mock_cuda::{
    access::*, batch::*, context::*, copy::*, device::*, entry::*, handle::*, memops::*, pinned::*, space::*, stream::*,
};
use std::ffi::c_void;
use std::process::Command;
use std::ptr::{null, null_mut};

/// Runs the ignored test `case` in a process with this environment.
fn process(case: &str, env: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", case, "--ignored", "--nocapture"]).env_remove("CUDA_VISIBLE_DEVICES").envs(env.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{case} {env:?}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

const MIB: usize = 1 << 20;

fn prop(device: i32) -> Prop {
    let location = Location { kind: 1, id: device };
    Prop { kind: 1, handle_types: 1, location, meta: null_mut(), compression: 0, rdma: 0, usage: 0, reserved: [0; 4] }
}

#[track_caller]
fn ok(result: i32) {
    assert_eq!(result, 0);
}

fn start(device: i32) {
    ok(cuInit(0));
    let mut context: *mut c_void = null_mut();
    // SAFETY: here and below, valid places to write to.
    unsafe {
        ok(cuDevicePrimaryCtxRetain(&mut context, device));
        ok(cuCtxSetCurrent(context));
    }
}

/// 2 MiB of device `owner`, mapped for `by`.
fn mapped(owner: i32, by: i32) -> Result<u64, i32> {
    let (mut handle, mut at) = (0, 0);
    let access = Access { location: Location { kind: 1, id: by }, flags: 3 };
    // SAFETY: as above.
    unsafe {
        match cuMemCreate(&mut handle, 2 * MIB, &prop(owner), 0) {
            0 => {}
            code => return Err(code),
        }
        ok(cuMemAddressReserve(&mut at, 2 * MIB, 0, 0, 0));
        ok(cuMemMap(at, 2 * MIB, 0, handle, 0));
        match cuMemSetAccess(at, 2 * MIB, &access, 1) {
            0 => Ok(at),
            code => Err(code),
        }
    }
}

fn stream() -> *mut c_void {
    let mut stream = 0;
    // SAFETY: as above.
    ok(unsafe { cuStreamCreate(&mut stream, 1) });
    stream as *mut c_void
}

#[test]
#[ignore = "run by planned_failures"]
fn case_planned() {
    start(0);
    assert_eq!([mapped(0, 0).err(), mapped(0, 0).err(), mapped(0, 0).err()], [None, Some(2), None]);
    let (at, stream) = (mapped(0, 0).unwrap(), stream());
    ok(cuMemcpyAsync(at, at + 64, 64, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuMemcpyAsync(at, at + 64, 64, stream));
    assert_eq!(cuStreamSynchronize(stream), 700);
    // The context is gone for good, for calls of every kind.
    assert_eq!(cuMemcpyAsync(at, at + 64, 64, stream), 700);
    assert_eq!(cuStreamQuery(stream), 700);
    assert_eq!(cuCtxSynchronize(), 700);
    let mut at = null_mut();
    // SAFETY: as above.
    assert_eq!(unsafe { cuMemHostAlloc(&mut at, 64, 0) }, 700);
}

#[test]
fn planned_failures() {
    process("case_planned", &[("GINRS_MOCK_FAIL", "cuMemCreate:2:2,copy:2:700")]);
}

#[test]
#[ignore = "run by no_peer_access"]
fn case_no_peers() {
    start(0);
    let mut can = 9;
    // SAFETY: as above.
    ok(unsafe { cuDeviceCanAccessPeer(&mut can, 0, 1) });
    assert_eq!((can, mapped(1, 0).is_err(), mapped(0, 0).is_ok()), (0, true, true));
}

#[test]
fn no_peer_access() {
    process("case_no_peers", &[("GINRS_MOCK_NO_P2P", "1")]);
}

#[test]
#[ignore = "run by visible_devices"]
fn case_visible() {
    start(0);
    let (mut count, mut bus) = (0, [0; 16]);
    // SAFETY: as above; the text has room for 16.
    unsafe {
        ok(cuDeviceGetCount(&mut count));
        ok(cuDeviceGetPCIBusId(bus.as_mut_ptr(), 16, 0));
    }
    let bus: String = bus.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect();
    assert_eq!((count, bus.as_str()), (2, "0000:3B:00.0"));
}

#[test]
fn visible_devices() {
    process("case_visible", &[("CUDA_VISIBLE_DEVICES", "2,0,9,1")]);
}

/// One batch has no order, but a write after it comes after all of it, and a batch after another after that.
#[test]
#[ignore = "run by order_of_a_stream"]
fn case_order() {
    start(0);
    let (at, stream) = (mapped(0, 0).unwrap(), stream());
    let mut words: *mut c_void = null_mut();
    // SAFETY: as above.
    ok(unsafe { cuMemHostAlloc(&mut words, 4096, 0) });
    let word = |i: usize| {
        // SAFETY: inside the 4096 bytes; the stream's thread writes it as an atomic.
        unsafe { (*words.cast::<std::sync::atomic::AtomicU64>().add(i)).load(std::sync::atomic::Ordering::SeqCst) }
    };
    ok(cuMemsetD8_v2(at, 0, 2 * MIB));
    // SAFETY: `at` is mapped for the host too.
    unsafe { std::slice::from_raw_parts_mut(at as *mut u64, 64).fill(7) };
    let (to, from): (Vec<u64>, Vec<u64>) = (0..64).map(|i| (at + 4096 + 8 * i, at + 8 * i)).unzip();
    let bytes = vec![8usize; 64];
    let mut attributes = [0u32; 6];
    attributes[0] = 1;
    for round in 1..20 {
        let index = 0;
        // SAFETY: arrays of 64, one attribute.
        unsafe {
            ok(cuMemcpyBatchAsync_v2(
                to.as_ptr(),
                from.as_ptr(),
                bytes.as_ptr(),
                64,
                attributes.as_ptr().cast(),
                &index,
                1,
                stream,
            ));
        }
        ok(cuStreamWriteValue64_v2(stream, words as u64, round, 0));
        ok(cuMemsetD8Async(at + 4096, 0, 512, stream));
        ok(cuStreamWriteValue64_v2(stream, words as u64 + 8, round, 0));
    }
    ok(cuStreamSynchronize(stream));
    assert_eq!((word(0), word(1)), (19, 19));
    assert_eq!(cuMemcpyAsync(at, 0, 8, stream), 1);
}

#[test]
fn order_of_a_stream() {
    process("case_order", &[("GINRS_MOCK_DELAY_US", "200")]);
}

#[test]
#[ignore = "run by a_forked_child_has_no_driver"]
fn case_fork() {
    start(0);
    // SAFETY: the child only asks, and leaves without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut count = 0;
        // SAFETY: as above.
        let refused = unsafe { cuDeviceGetCount(&mut count) == 3 && cuInit(0) == 3 };
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 1;
    // SAFETY: a child of ours.
    assert_eq!((unsafe { libc::waitpid(child, &mut status, 0) }, status), (child, 0));
}

#[test]
fn a_forked_child_has_no_driver() {
    process("case_fork", &[]);
}

#[test]
#[ignore = "run by memory_limits"]
fn case_limits() {
    start(0);
    let (mut one, mut two) = (0, 0);
    // SAFETY: as above.
    unsafe {
        ok(cuMemCreate(&mut one, 6 * MIB, &prop(0), 0));
        assert_eq!(cuMemCreate(&mut two, 4 * MIB, &prop(0), 0), 2);
        ok(cuMemCreate(&mut two, 4 * MIB, &prop(1), 0));
        ok(cuMemRelease(one));
        ok(cuMemCreate(&mut one, 8 * MIB, &prop(0), 0));
        let mut bytes = 0;
        ok(cuDeviceTotalMem_v2(&mut bytes, 0));
        assert_eq!(bytes, 8 * MIB);
        assert_eq!(cuMemcpyHtoD_v2(0, null(), 0), 0);
    }
}

#[test]
fn memory_limits() {
    process("case_limits", &[("GINRS_MOCK_MEMORY", "8")]);
}
