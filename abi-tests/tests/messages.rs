//! The suite's programs where ranks have nothing but messages for each other (GINRS_TRANSPORT=messages), and where they are on machines that
//! share nothing (GINRS_FAKE_MACHINES), as processes and as threads: nothing above the transports may count on shared memory between ranks,
//! beyond their node. Needs GINRS_PREFIX.

use abi_tests::programs::compiled;
use abi_tests::{prefix, text};
use std::process::Command;

/// A program, its ranks, its arguments, and which of them share a node or a machine.
type Case = (&'static str, usize, &'static [&'static str], &'static str);

const PER_RANK: &str = "per-rank";
const TWO: &str = "0,0,1,1";

const CASES: &[Case] = &[
    ("examples-c/01-hello/main.cu", 4, &[], TWO),
    ("examples-c/02-ring/main.cu", 4, &[], TWO),
    ("examples-c/03-gin-alltoall/main.cu", 4, &[], PER_RANK),
    ("examples-c/04-hybrid-alltoall/main.cu", 4, &[], TWO),
    ("abi-tests/programs/api.cu", 4, &[], TWO),
    ("abi-tests/programs/api.cu", 3, &[], PER_RANK),
    ("abi-tests/programs/moe.cu", 3, &[], PER_RANK),
    ("abi-tests/programs/torture.cu", 3, &[], PER_RANK),
    ("abi-tests/programs/scalable.cu", 3, &[], PER_RANK),
    ("abi-tests/programs/split.cu", 4, &[], TWO),
    ("abi-tests/programs/shrink.cu", 4, &[], PER_RANK),
    ("abi-tests/programs/nonblocking.cu", 3, &[], PER_RANK),
    ("abi-tests/programs/declined.cu", 3, &[], PER_RANK),
    ("abi-tests/collectives/suite.cu", 4, &["collectives", "streams", "captured", "p2p", "mixed", "groups"], TWO),
    ("abi-tests/collectives/suite.cu", 3, &["collectives", "p2p"], PER_RANK),
];

/// Neighbours by rank on different machines, and on one.
const TURNS: &str = "0,1,0,1";

const MACHINES: &[Case] = &[
    ("examples-c/03-gin-alltoall/main.cu", 4, &[], TURNS),
    ("examples-c/04-hybrid-alltoall/main.cu", 4, &[], TURNS),
    ("abi-tests/programs/api.cu", 4, &[], TURNS),
    ("abi-tests/programs/moe.cu", 4, &[], TWO),
    ("abi-tests/programs/torture.cu", 4, &[], TURNS),
    ("abi-tests/programs/split.cu", 4, &[], TWO),
    ("abi-tests/programs/shrink.cu", 4, &[], TURNS),
    ("abi-tests/programs/nonblocking.cu", 4, &[], TWO),
    ("abi-tests/programs/declined.cu", 4, &[], TURNS),
    ("abi-tests/collectives/suite.cu", 4, &["collectives", "captured", "p2p"], TURNS),
    ("examples-c/02-ring/main.cu", 8, &[], PER_RANK),
    ("abi-tests/programs/multicast.cu", 4, &[], TWO),
    ("abi-tests/programs/multimem.cu", 4, &[], TWO),
];

#[track_caller]
fn all_ok(case: &Case, processes: bool, machines: bool) {
    all_ok_over(None, case, processes, machines);
}

/// The same over a provider of libfabric.
#[track_caller]
fn all_ok_over(provider: Option<&str>, &(source, ranks, arguments, places): &Case, processes: bool, machines: bool) {
    let (program, count) = (compiled(source), ranks.to_string());
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100"]);
    match processes {
        true => command.arg(prefix().join("bin/ginrs-run")).args(["-n", &count]).arg(program),
        false => command.arg(program).args(["--threads", &count]),
    };
    match machines {
        true => command.env("GINRS_FAKE_MACHINES", places),
        false => command.env("GINRS_TRANSPORT", "messages").env("GINRS_FAKE_NODES", places),
    };
    command.args(arguments).env("GINRS_CPU_DEVICES", "8").envs(provider.map(|name| ("GINRS_OFI_PROVIDER", name)));
    command.env("TORTURE", "blocks=2 threads=64 coop=cta strip=65536 largest=5000 rounds=2 seed=43");
    command.env("COLL", "sample=800 big=9001 seed=44").env("GINRS_TIMEOUT", "60");
    let output = command.output().expect("timeout starts");
    let (said, wanted) = (text(&output), ranks * arguments.len().max(1));
    assert!(output.status.success() && said.matches(": ok").count() >= wanted, "{command:?}: {}\n{said}", output.status);
}

#[test]
fn processes() {
    CASES.iter().for_each(|case| all_ok(case, true, false));
}

#[test]
fn threads() {
    // What is left out differs in the launcher's part only, or runs so in `programs.rs`.
    CASES[9..14].iter().for_each(|case| all_ok(case, false, false));
}

#[test]
fn processes_on_machines() {
    MACHINES.iter().for_each(|case| all_ok(case, true, true));
}

#[test]
fn threads_on_machines() {
    // What is left out differs in the launcher's part only.
    MACHINES[2..6].iter().for_each(|case| all_ok(case, false, true));
}

/// What efa and cxi have in place of connections, over providers that are software.
#[test]
fn processes_on_machines_without_connections() {
    let cases: [Case; 2] = [("examples-c/02-ring/main.cu", 4, &[], TURNS), ("abi-tests/programs/api.cu", 4, &[], TURNS)];
    for provider in ["tcp;ofi_rxm", "udp;ofi_rxd"] {
        cases.iter().for_each(|case| all_ok_over(Some(provider), case, true, true));
    }
}
