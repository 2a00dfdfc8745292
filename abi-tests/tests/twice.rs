//! The programs of `abi-tests/twice`, which `make gpu-test` runs on GPUs in the four combinations, on the CPU device: as threads,
//! as processes and with one thread for all ranks. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::programs::{compiled, suite_ok};

const PROGRAMS: &[&str] = &["windows", "layout", "barriers", "ll", "graphs", "several", "gin", "ginbarriers", "order", "soak"];

/// See [`suite_ok`].
#[track_caller]
fn all_ok(programs: &[&str], ranks: u32, mode: Option<&str>, env: &[(&str, &str)]) {
    suite_ok(&compiled("abi-tests/twice/suite.cu"), programs, ranks, mode, env);
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
