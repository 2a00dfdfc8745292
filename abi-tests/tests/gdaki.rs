//! The GDAKI backend by the model of a card: the suite with our headers and with NVIDIA's, and requests that a card refuses. Needs
//! GINRS_PREFIX.

use abi_tests::programs::{compiled, compiled_as, stand_in, suite_ok};
use abi_tests::{nvidia, prefix, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const SUITE: &str = "abi-tests/twice/suite.cu";
/// Rings and completion queues in the device's memory, carried by its copy engine.
const APART: (&str, &str) = ("GINRS_NIC_RINGS", "gpu");
const PROGRAMS: &[&str] = &["layout", "graphs", "several", "gin", "ginbarriers", "order", "soak"];

fn theirs() -> PathBuf {
    let mut options = nvidia("2.28.9").flags();
    // By itself theirs leaves GDAKI out: it asks for CUDA_VERSION before anything has defined it.
    options.extend(["-O1", "-DTWICE_NO_API", "-DNCCL_GIN_GDAKI_ENABLE=1"].map(String::from));
    compiled_as(SUITE, &options)
}

/// See [`suite_ok`].
#[track_caller]
fn all_ok(suite: &Path, programs: &[&str], ranks: u32, mode: Option<&str>, env: &[(&str, &str)]) {
    suite_ok(suite, programs, ranks, mode, &[env, &[("NCCL_GIN_TYPE", "3")]].concat());
}

#[test]
fn the_suite_runs_on_a_card_that_is_none() {
    let suite = compiled(SUITE);
    all_ok(&suite, PROGRAMS, 3, Some("--threads"), &[]);
    all_ok(&suite, PROGRAMS, 2, None, &[("NCCL_GIN_GDAKI_NIC_HANDLER", "2")]);
    all_ok(&suite, PROGRAMS, 4, Some("--one-thread"), &[("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
    all_ok(&suite, &["gin", "order"], 2, None, &[("NCCL_GIN_GDAKI_NIC_HANDLER", "2"), ("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
    all_ok(&suite, &["gin", "ginbarriers"], 4, None, &[("GINRS_FAKE_MACHINES", "0,0,1,1")]);
    all_ok(&suite, &["layout", "graphs", "several", "gin", "order"], 3, Some("--threads"), &[APART]);
    all_ok(&suite, &["gin", "order"], 2, None, &[APART, ("NCCL_GIN_GDAKI_NIC_HANDLER", "2"), ("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
}

/// Every element has another value, and whole warps write them: one that was taken too early is found out.
#[test]
fn elements_are_taken_once_and_whole() {
    let litmus = compiled("abi-tests/programs/litmus.cu");
    for rings in ["host", "gpu"] {
        for handler in ["1", "2"] {
            all_ok(&litmus, &[], 2, Some("--threads"), &[("GINRS_NIC_RINGS", rings), ("NCCL_GIN_GDAKI_NIC_HANDLER", handler)]);
        }
    }
}

/// Over the driver's stand-in, where a thread carries what the proxy asks for.
#[test]
fn the_copy_engine_carries_rings_of_a_gpu() {
    let driver = stand_in("libmock_cuda.so", &["libcuda.so.1", "libcuda.so"]);
    let gpus = [
        APART,
        ("GINRS_DEVICE", "cuda"),
        ("GINRS_MOCK_DEVICES", "4"),
        ("GINRS_CPU_DEVICES", "4"),
        ("LD_LIBRARY_PATH", driver.path().to_str().unwrap()),
    ];
    let with = |env: &[(&'static str, &'static str)]| [&gpus[..], env].concat();
    let [ours, litmus, requests] = [SUITE, "abi-tests/programs/litmus.cu", "abi-tests/programs/requests.cu"].map(compiled);
    all_ok(&ours, &["gin"], 2, Some("--threads"), &with(&[("NCCL_GIN_GDAKI_NIC_HANDLER", "2")]));
    all_ok(&litmus, &[], 2, Some("--threads"), &with(&[("POSTS", "4000")]));
    for (fault, why) in [
        (("GINRS_NIC_FAULT", "syndrome=0x13,op=add,at=3"), "remote access error (0x13)"),
        (("GINRS_MOCK_FAIL", "cuStreamWriteValue64:20:719"), "rings in GPU memory cannot be copied"),
    ] {
        let said = failing(&ours, &["gin"], &with(&[fault]));
        assert!(said.contains(why), "{fault:?}:\n{said}");
    }
    // Also where the kernel posts nothing more before it hears: it polls for each.
    for fault in ["cuMemcpyBatchAsync:1:719", "cuMemcpyAsync:3:719", "cuStreamWriteValue64:3:719"] {
        let said = failing(&requests, &[], &with(&[("GINRS_MOCK_FAIL", fault)]));
        assert!(said.contains("rings in GPU memory cannot be copied"), "{fault}:\n{said}");
    }
}

#[test]
fn kernels_of_nvidias_headers_do_too() {
    let suite = theirs();
    all_ok(&suite, PROGRAMS, 2, None, &[]);
    all_ok(&suite, &["gin", "order", "soak"], 2, Some("--threads"), &[("NCCL_GIN_GDAKI_NIC_HANDLER", "2")]);
    all_ok(&suite, &["gin", "order"], 2, None, &[("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
    all_ok(&suite, &["gin", "order"], 2, Some("--threads"), &[APART]);
}

/// Every rank is told which queue pair and operation it was, and why.
#[test]
fn what_a_card_refuses_is_not_done_and_is_named() {
    let program = compiled("abi-tests/programs/requests.cu");
    for (handler, rings) in [("1", "host"), ("2", "host"), ("1", "gpu"), ("2", "gpu")] {
        let said = requested(&program, "fine", handler, rings);
        assert!(said.matches(": ok,").count() == 2, "{said}");
    }
    let cases = [
        ("remote key of another rank", "target key"),
        ("no remote key", "target key 0x78563412 names no memory"),
        ("behind the target's end", "bytes 0xffc1 to 0xffc1+0x40 of 0x10000"),
        ("no local key", "source key 0x0 names no memory"),
        ("behind the source's end", "bytes 0x10000 to 0x10000+0x40 of 0x10000"),
        ("all ones", "target key 0xffffffff names no memory"),
        ("read", "opcode 0x10 is not modelled"),
        ("add to a window", "target key"),
        ("add to no signal", "byte 0x10000000000 of a table of"),
        ("signal of nobody", "signal 1, the device communicator has 1"),
        ("counter of nobody", "counter 1, the device communicator has 1"),
        ("index of another", "the element says index 0x1, its place is that of 0x0"),
        ("waits for no queue", "WAIT for completion queue 0xffffff"),
    ];
    for ((name, why), rings) in cases.into_iter().zip(["host", "gpu"].into_iter().cycle()) {
        let said = requested(&program, name, "1", rings);
        let told =
            said.lines().filter(|line| line.contains("told: ") && line.contains("GINRS-E051") && line.contains(why)).count();
        assert!(told == 2 && said.contains("GDAKI context 0"), "{name}, {why}:\n{said}");
    }
}

/// Whatever operation fails, and however: all waits end, and every rank is told which queue pair and operation it was.
#[test]
fn a_card_fails_where_it_is_told_to() {
    let ours = compiled(SUITE);
    let ops = [("write", "RDMA_WRITE raddr"), ("inline", "inline 0x"), ("add", "ATOMIC_FA raddr"), ("wait", "WAIT cqn")];
    for (op, called) in ops {
        for (at, (syndrome, name)) in [
            ("0x02", "local QP operation error (0x2)"),
            ("0x04", "local protection error (0x4)"),
            ("0x13", "remote access error (0x13)"),
            ("0x15", "transport retry counter exceeded (0x15)"),
        ]
        .into_iter()
        .enumerate()
        {
            let fault = format!("syndrome={syndrome},op={op},rank=1,at=3");
            let rings = ["host", "gpu"][at % 2];
            fails_at(&ours, "gin", (&fault, rings), &["rank 1", "queue pair 0x", called, name]);
        }
    }
    fails_at(&ours, "order", ("syndrome=0x15,one-in=50,seed=3", "gpu"), &["(0x15), which GINRS_NIC_FAULT asks for"]);
    // Their waits for a few low bits of a signal, which `gin` has, end by no word that a library could move.
    let theirs = theirs();
    for (op, called) in &ops[..3] {
        fails_at(&theirs, "order", (&format!("syndrome=0x13,op={op},at=5"), "host"), &["queue pair 0x", called]);
    }
    let said = failing(&ours, &["gin"], &[("GINRS_NIC_FAULT", "syndrome=0x15,op=read")]);
    assert!(said.contains("GINRS-E113") && said.contains("\"op=read\""), "{said}");
}

#[track_caller]
fn fails_at(suite: &Path, program: &str, (fault, rings): (&str, &str), parts: &[&str]) {
    let said = failing(suite, &[program], &[("GINRS_NIC_FAULT", fault), ("GINRS_NIC_RINGS", rings)]);
    let told = |line: &str| line.contains("GINRS-E051") && parts.iter().all(|part| line.contains(part));
    assert!(said.lines().any(told), "{fault}:\n{said}");
}

/// What a program says that ends with an error, and ends.
#[track_caller]
fn failing(suite: &Path, programs: &[&str], env: &[(&str, &str)]) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(suite).args(["--threads", "3"]).args(programs);
    let output = command.env("NCCL_GIN_TYPE", "3").envs(env.iter().copied()).output().expect("timeout starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{env:?}: {}\n{said}", output.status);
    said
}

fn requested(program: &Path, name: &str, handler: &str, rings: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(prefix().join("bin/ginrs-run")).args(["-n", "2"]).arg(program);
    command.envs([("REQUEST", name), ("NCCL_GIN_TYPE", "3"), ("NCCL_GIN_GDAKI_NIC_HANDLER", handler)]);
    let output = command.env("GINRS_NIC_RINGS", rings).output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{name}: {}\n{said}", output.status);
    said
}

#[test]
fn settings_that_contradict_each_other_are_told() {
    let program = compiled("examples-c/02-ring/main.cu");
    for (name, value, what) in [
        ("NCCL_GIN_BACKEND", "proxy", "GINRS-E082"),
        ("NCCL_GIN_BACKEND", "direct", "GINRS-E082"),
        ("NCCL_GIN_GDAKI_NIC_HANDLER", "3", "GINRS-E030"),
    ] {
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        let output = command.args(["-n", "2"]).arg(&program).env("NCCL_GIN_TYPE", "3").env(name, value).output().unwrap();
        let said = text(&output);
        assert!(!output.status.success() && said.contains(what), "{name}={value}:\n{said}");
    }
}
