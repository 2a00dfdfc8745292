//! Memory that is not the program's, under AddressSanitizer: each mistake is reported at its line, each mended twin is clean, and so are the
//! examples. `sanitizers/memory.cu` has a case for each.

use abi_tests::programs::{self, compiled_as};
use abi_tests::{prefix, text};
use std::path::PathBuf;
use std::process::{Command, Output};

const SOURCE: &str = "abi-tests/sanitizers/memory.cu";

fn compiled(source: &str) -> PathBuf {
    compiled_as(source, &["-g".into(), "-O1".into(), "-w".into(), "-fsanitize=address".into()])
}

/// The line of a case.
fn line_of(case: &str) -> String {
    programs::line_of(SOURCE, &format!("touch of: {case}")).to_string()
}

/// As processes, or as threads of one. Leaks are not looked for: that takes ptrace, which containers refuse.
fn run(source: &str, ranks: u32, threads: bool, environment: &[(&str, &str)]) -> Output {
    let ranks = ranks.to_string();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]);
    if threads {
        command.arg(compiled(source)).args(["--threads", &ranks]);
    } else {
        command.arg(prefix().join("bin/ginrs-run")).args(["-n", &ranks]).arg(compiled(source));
    }
    command.env("ASAN_OPTIONS", "detect_leaks=0").envs(environment.iter().copied()).output().unwrap()
}

/// As threads and as processes: the first line of the report's stack that is the program's is that of the case, and `words` follow it.
#[track_caller]
fn is_reported(case: &str, words: &str) {
    for threads in [true, false] {
        let output = run(SOURCE, 2, threads, &[("CASE", case)]);
        let said = text(&output);
        let report =
            said.split_once("ERROR: AddressSanitizer: ").unwrap_or_else(|| panic!("{case}: {}\n{said}", output.status)).1;
        let line = report.split_once("memory.cu:").map_or("", |(_, at)| at.split(|c: char| !c.is_ascii_digit()).next().unwrap());
        assert!(!output.status.success() && line == line_of(case), "{case}: line {line}\n{said}");
        assert!(report.contains(words), "{case}: no {words:?} in {said}");
    }
    for threads in [true, false] {
        let twin = run(SOURCE, 2, threads, &[("CASE", case), ("MENDED", "1")]);
        let said = text(&twin);
        assert!(twin.status.success() && !said.contains("AddressSanitizer"), "{case} mended: {}\n{said}", twin.status);
    }
}

#[test]
fn beside_what_cuda_gave() {
    is_reported("malloc", "is 0 bytes behind the 4004 bytes of cudaMalloc\n");
    is_reported("before", "is 4 bytes before the 4004 bytes of cudaMalloc\n");
    is_reported("async", "is 0 bytes behind the 4004 bytes of cudaMalloc\n");
    is_reported("pinned", "is 0 bytes behind the 4004 bytes of cudaMallocHost\n");
    is_reported("managed", "is 0 bytes behind the 4004 bytes of cudaMallocManaged\n");
    is_reported("large", "is 0 bytes behind the 4194304 bytes of cudaMalloc\n");
    is_reported("variable", "of kernel kernel");
}

#[test]
fn beside_what_nccl_gave() {
    is_reported("nccl", "is 0 bytes behind the 4004 bytes of ncclMemAlloc\n");
    is_reported("nccl-before", "is 4 bytes before the 4004 bytes of ncclMemAlloc\n");
    is_reported("granule", "is 0 bytes behind the 2097152 bytes of ncclMemAlloc\n");
}

#[test]
fn behind_a_window_of_ones_own_or_of_a_peer() {
    is_reported("window", "is 0 bytes behind the 4004 bytes of a window\n");
    is_reported("local", "is 0 bytes behind the 4004 bytes of a window\n");
    is_reported("part", "is 0 bytes behind the 4096 bytes of a window\n");
}

#[test]
fn what_was_freed() {
    is_reported("freed", "heap-use-after-free");
    is_reported("async-freed", "heap-use-after-free");
    is_reported("nccl-freed", "is byte 0 of the 4004 bytes of ncclMemAlloc, which were freed\n");
}

#[test]
fn beside_the_memory_of_a_block_or_a_thread() {
    is_reported("dynamic", "is 0 bytes behind the block's 40 bytes of dynamic shared memory\n");
    is_reported("static", "is beside an array in __shared__ memory of the block\n");
    is_reported("stack", "stack-buffer-overflow");
}

#[test]
fn programs_that_are_right_are_told_nothing() {
    let two_nodes = ["01-hello", "02-ring", "03-gin-alltoall", "04-hybrid-alltoall"];
    for example in two_nodes.into_iter().chain(["05-lsa-allreduce", "06-ll-bcast-reduce"]) {
        let source = format!("examples-c/{example}/main.cu");
        let runs: [(bool, &[_]); 4] =
            [(true, &[]), (false, &[]), (false, &[("GINRS_TRANSPORT", "shm")]), (false, &[("GINRS_FAKE_NODES", "0,0,1,1")])];
        for (threads, environment) in &runs[..if two_nodes.contains(&example) { 4 } else { 3 }] {
            let output = run(&source, 4, *threads, environment);
            let said = text(&output);
            let is_clean = output.status.success() && !said.contains("AddressSanitizer");
            assert!(is_clean, "{source} {environment:?}: {}\n{said}", output.status);
        }
    }
}

/// A program that was not compiled for it.
#[test]
fn without_it_nothing_is_marked() {
    let plain = compiled_as(SOURCE, &["-g".into(), "-O1".into(), "-w".into()]);
    let output = Command::new("timeout").args(["100"]).arg(plain).args(["--threads", "2"]).env("CASE", "nccl").output().unwrap();
    assert!(output.status.success(), "{}\n{}", output.status, text(&output));
}
