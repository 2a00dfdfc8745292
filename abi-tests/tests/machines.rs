//! What a job needs of the machine that a container may lack.

use abi_tests::{prefix, root, text};
use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(folder: &Path, source: &str) -> PathBuf {
    let program = folder.join(source.replace(['/', '.'], "-"));
    let mut command = Command::new(prefix().join("bin/ginrs-cc"));
    command.args(["-std=c++17", "-O2", "-o"]).arg(&program).arg(root().join(source));
    let result = command.output().expect("ginrs-cc starts");
    assert!(result.status.success(), "{source}:\n{}", String::from_utf8_lossy(&result.stderr));
    program
}

/// F9: containers have 64 MiB there, or none.
#[test]
fn a_job_needs_no_dev_shm() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "examples-c/02-ring/main.cu");
    let script = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(prefix().join("bin/ginrs-run")).args(["-n", "2"]).arg(&program);
    let output = command.env("GINRS_CPU_DEVICES", "2").output().unwrap();
    let said = text(&output);
    if said.contains("Operation not permitted") || said.contains("permission denied") {
        return println!("skipped: no mounts here: {}", said.trim());
    }
    assert!(output.status.success() && said.matches(": ok, ").count() == 2, "{}\n{said}", output.status);
}
