//! Waits that end, on the CPU device: `twice/fault.cu` makes a rank fail in every way, with kernels that look at the abort word
//! and with kernels that do not: blind ones of our headers, and those of NVIDIA's.

use abi_tests::{nvidia_headers, prefix, root};
use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(folder: &Path, name: &str, include: Option<&Path>) -> PathBuf {
    let out = folder.join(name);
    let mut command = Command::new(prefix().join("bin/ginrs-cc"));
    command.args(["-std=c++17", "-O2", "-o"]).arg(&out);
    if let Some(include) = include {
        command.arg("-I").arg(include);
    }
    let result = command.arg(root().join("abi-tests/twice/fault.cu")).output().expect("ginrs-cc starts");
    assert!(result.status.success(), "fault.cu, {name}:\n{}", String::from_utf8_lossy(&result.stderr));
    out
}

/// What the cases wrote on stderr.
#[track_caller]
fn all_pass(program: &Path, arguments: &[&str], cases: usize) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "170"]).arg(program).args(["--jobs", "2"]).args(arguments);
    let output = command.env("GINRS_CPU_DEVICES", "4").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{arguments:?}:\n{said}");
    assert!(said.contains(&format!("fault: {cases} cases, 0 failed")), "{said}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_wait_ends_whatever_fails() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "ours", None);
    all_pass(&program, &[], 47);
    all_pass(&program, &["--ranks", "3", "leave:lsa", "leave:gin", "leave:recv"], 3);
    let said = all_pass(&program, &["--ranks", "3", "stop:signal"], 1);
    for line in ["W020 rank 2 (pid", "W021 rank 2 (pid"] {
        assert_eq!(said.matches(line).count(), 2, "each of the others says it once: {said}");
    }
    all_pass(&program, &["--ranks", "3", "--blind", "kill", "abort-same:lsa", "abort-same:ll", "trap:signal"], 13);
}

#[test]
fn waits_of_nvidias_headers_end_too() {
    let Some((nvidia, _)) = nvidia_headers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "nvidia", Some(&nvidia));
    all_pass(&program, &["kill", "abort-same", "trap", "leave", "leave-stay", "exec", "close"], 33);
}
