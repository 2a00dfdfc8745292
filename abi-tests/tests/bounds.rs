//! What a kernel may touch through the proxy ends at its windows' edges and at its device communicator's ids, with our headers
//! and with NVIDIA's own, unmodified. Needs GINRS_PREFIX; the second part also the headers that `make deps` fetches.

use abi_tests::{nvidia_headers, prefix, root, run, text};
use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(folder: &Path, include: Option<&Path>) -> PathBuf {
    let out = folder.join("bounds");
    let mut command = Command::new(prefix().join("bin/ginrs-cc"));
    command.args(["-std=c++17", "-O1"]).args(include.map(|path| format!("-I{}", path.display())));
    run(command.arg("-o").arg(&out).arg(root().join("abi-tests/programs/bounds.cu")));
    out
}

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
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), None);
    all_pass(&program, &["threads"], CASES);
    all_pass(&program, &["processes", "put from over the start", "put to one past the end", "the signal behind the last"], 3);
}

#[test]
fn kernels_of_nvidias_headers_stay_inside() {
    let Some((nvidia, _)) = nvidia_headers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), Some(&nvidia));
    all_pass(&program, &["threads"], CASES);
    all_pass(&program, &["processes", "put from over the start", "put to one past the end", "the signal behind the last"], 3);
}
