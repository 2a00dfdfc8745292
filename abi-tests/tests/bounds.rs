//! What a kernel may touch through the proxy ends at its windows' edges and at its device communicator's ids, with our headers
//! and with NVIDIA's own, unmodified. Needs GINRS_PREFIX; the second part also the headers that `make deps` fetches.

use abi_tests::programs::{compiled, compiled_with_theirs};
use abi_tests::text;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "abi-tests/programs/bounds.cu";

#[track_caller]
fn all_pass(program: &Path, arguments: &[&str], cases: usize) {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "500"]).arg(program).args(arguments);
    let output = command.env("GINRS_CPU_DEVICES", "2").output().unwrap();
    let said = text(&output);
    assert!(output.status.success() && said.contains(&format!("bounds: {cases} cases, 0 failed")), "{arguments:?}:\n{said}");
}

const CASES: usize = 44;

#[test]
fn kernels_of_our_headers_stay_inside() {
    let program = compiled(SOURCE);
    all_pass(&program, &["threads"], CASES);
    all_pass(&program, &["processes", "put from over the start", "put to one past the end", "the signal behind the last"], 3);
}

#[test]
fn kernels_of_nvidias_headers_stay_inside() {
    let Some(program) = compiled_with_theirs(SOURCE) else { return };
    all_pass(&program, &["threads"], CASES);
    all_pass(&program, &["processes", "put from over the start", "put to one past the end", "the signal behind the last"], 3);
}
