//! The programs of `abi-tests/twice`, which `make gpu-test` runs on GPUs in the four combinations, on the CPU device: as threads,
//! as processes and with one thread for all ranks. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::{prefix, root, run, text};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// All of them in one program; compiled once.
fn suite() -> PathBuf {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("suite");
        let mut command = Command::new(prefix().join("bin/ginrs-cc"));
        command.args(["-std=c++17", "-O2", "--extended-lambda", "-o"]).arg(&out).arg(root().join("abi-tests/twice/suite.cu"));
        run(&mut command);
        (folder, out)
    });
    path.clone()
}

const PROGRAMS: &[&str] = &["windows", "layout", "barriers", "ll", "graphs", "several", "gin", "ginbarriers", "order", "soak"];

/// Runs `programs` as `mode` says (None: as processes) and wants every rank's "ok".
#[track_caller]
fn all_ok(programs: &[&str], ranks: u32, mode: Option<&str>, env: &[(&str, &str)]) {
    let count = ranks.to_string();
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100"]);
    match mode {
        Some(mode) => command.arg(suite()).args([mode, &count]),
        None => command.arg(prefix().join("bin/ginrs-run")).args(["-n", &count]).arg(suite()),
    };
    command.args(programs).env("SOAK", "seconds=1 blocks=3 threads=64 strip=4096");
    let output = command.envs(env.iter().copied()).output().expect("timeout starts");
    let said = text(&output);
    let ok = |program: &&&str| (0..ranks).all(|rank| said.contains(&format!("{program} rank {rank} of {ranks}: ok,")));
    let bad: Vec<_> = programs.iter().filter(|program| !ok(program)).collect();
    assert!(output.status.success() && bad.is_empty(), "{bad:?} on {ranks} {mode:?} {env:?}: {}\n{said}", output.status);
}

#[test]
fn all_by_threads() {
    all_ok(PROGRAMS, 3, Some("--threads"), &[]);
}

#[test]
fn all_by_one_thread() {
    all_ok(PROGRAMS, 4, Some("--one-thread"), &[]);
    all_ok(PROGRAMS, 1, Some("--one-thread"), &[]);
}

#[test]
fn all_by_processes() {
    all_ok(PROGRAMS, 2, None, &[]);
}

#[test]
fn with_direct_contexts() {
    all_ok(
        &["layout", "graphs", "several", "gin", "ginbarriers", "order", "soak"],
        3,
        Some("--threads"),
        &[("NCCL_GIN_BACKEND", "direct")],
    );
    let few = [("NCCL_GIN_BACKEND", "direct"), ("GINRS_DIRECT_LARGEST", "64")];
    all_ok(&["gin", "soak"], 2, Some("--one-thread"), &few);
}

#[test]
fn over_two_nodes() {
    all_ok(&["layout", "gin", "ginbarriers", "soak"], 4, Some("--threads"), &[("GINRS_FAKE_NODES", "0,0,1,1")]);
}

/// Blocks share a context.
#[test]
fn with_few_contexts() {
    all_ok(&["gin", "several", "soak"], 2, Some("--threads"), &[("NCCL_GIN_NCONTEXTS", "1")]);
}
