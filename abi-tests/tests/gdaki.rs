//! The GDAKI backend by the model of a card: the suite with our headers and with NVIDIA's, and requests that a card refuses. Needs
//! GINRS_PREFIX.

use abi_tests::programs::{compiled, compiled_as, suite_ok};
use abi_tests::{nvidia, prefix, text};
use std::path::Path;
use std::process::Command;

const SUITE: &str = "abi-tests/twice/suite.cu";
const PROGRAMS: &[&str] = &["layout", "graphs", "several", "gin", "ginbarriers", "order", "soak"];

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
}

#[test]
fn kernels_of_nvidias_headers_do_too() {
    let mut options = nvidia("2.28.9").flags();
    // By itself theirs leaves GDAKI out: it asks for CUDA_VERSION before anything has defined it.
    options.extend(["-DTWICE_NO_API", "-DNCCL_GIN_GDAKI_ENABLE=1"].map(String::from));
    let suite = compiled_as(SUITE, "-nvidia", &options);
    all_ok(&suite, PROGRAMS, 2, None, &[]);
    all_ok(&suite, &["gin", "order", "soak"], 2, Some("--threads"), &[("NCCL_GIN_GDAKI_NIC_HANDLER", "2")]);
    all_ok(&suite, &["gin", "order"], 2, None, &[("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
}

/// Every rank is told which queue pair and operation it was, and why.
#[test]
fn what_a_card_refuses_is_not_done_and_is_named() {
    let program = compiled("abi-tests/programs/requests.cu");
    for handler in ["1", "2"] {
        let said = requested(&program, "fine", handler);
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
        ("index of another", "the element says index 0x1, its place is that of 0x0"),
        ("waits for no queue", "WAIT for completion queue 0xffffff"),
    ];
    for (name, why) in cases {
        let said = requested(&program, name, "1");
        let told =
            said.lines().filter(|line| line.contains("told: ") && line.contains("GINRS-E051") && line.contains(why)).count();
        assert!(told == 2 && said.contains("GDAKI context 0"), "{name}, {why}:\n{said}");
    }
}

fn requested(program: &Path, name: &str, handler: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(prefix().join("bin/ginrs-run")).args(["-n", "2"]).arg(program);
    let output =
        command.envs([("REQUEST", name), ("NCCL_GIN_TYPE", "3"), ("NCCL_GIN_GDAKI_NIC_HANDLER", handler)]).output().unwrap();
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
