//! Programs on machines that share nothing but a network: network namespaces, each rank started there by `ginrs-run --hosts`. Skipped where
//! namespaces are not permitted. And what a job needs of the system that a container may lack.

#[path = "../../tests/netns/mod.rs"]
mod netns;

use abi_tests::{prefix, root, text};
use netns::Machines;
use std::os::unix::fs::PermissionsExt;
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

#[test]
fn the_examples_run_over_a_network() {
    let folder = tempfile::tempdir().unwrap();
    // As ssh: a host and words for the shell there.
    let rsh = folder.path().join("rsh");
    std::fs::write(&rsh, "#!/bin/sh\nhost=$1\nshift\nexec ip netns exec $host sh -c \"$*\"\n").unwrap();
    std::fs::set_permissions(&rsh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let programs: Vec<PathBuf> = ["01-hello", "02-ring", "03-gin-alltoall", "04-hybrid-alltoall"]
        .iter()
        .map(|example| compile(folder.path(), &format!("examples-c/{example}/main.cu")))
        .collect();
    for (machines, ranks) in [(2, 4), (3, 3)] {
        let Some(machines) = Machines::new(machines) else { return };
        let count = if ranks == 4 { 2 } else { 3 };
        let hosts: Vec<&str> = (0..count).map(|i| machines.name(i)).collect();
        for program in &programs {
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "120"]).arg(prefix().join("bin/ginrs-run"));
            command.args(["-n", &ranks.to_string(), "--hosts", &hosts.join(","), "--rsh"]).arg(&rsh).arg(program);
            let output = command
                .env("GINRS_CPU_DEVICES", "4")
                .env("NCCL_SOCKET_IFNAME", "=eth0")
                .env("NCCL_DEBUG", "WARN")
                .output()
                .unwrap();
            let said = text(&output);
            assert!(output.status.success(), "{} on {hosts:?}: {}\n{said}", program.display(), output.status);
            assert_eq!(said.matches(": ok, ").count(), ranks, "{said}");
        }
    }
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
