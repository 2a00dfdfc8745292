//! A rank fails at random moments of a job's life, in every way: no survivor hangs, and whoever is told of a failure is told who it
//! was. Some rounds of `chaos/chaos.cu` for as long as the suite has time; `make chaos` plays hundreds.

#[path = "../../tests/netns/mod.rs"]
mod netns;

use abi_tests::{nvidia_headers, prefix, root};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// One after the other: they share the suite's time, not the cores.
static TURN: Mutex<()> = Mutex::new(());

fn play(name: &str, include: Option<&Path>, seconds: u32, more: &[&str]) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    let mut command = Command::new(prefix().join("bin/ginrs-cc"));
    command.args(["-std=c++17", "-O2", "-o"]).arg(&program);
    if let Some(include) = include {
        command.arg("-I").arg(include);
    }
    let result = command.arg(root().join("abi-tests/chaos/chaos.cu")).output().expect("ginrs-cc starts");
    assert!(result.status.success(), "chaos.cu, {name}:\n{}", String::from_utf8_lossy(&result.stderr));
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "300"]).arg(&program);
    command.args(["--rounds", "20", "--jobs", "3", "--seconds", &seconds.to_string()]).args(more);
    let output = command.env("GINRS_CPU_DEVICES", "4").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(", 0 failed"), "{}:\n{said}", output.status);
    println!("{said}");
}

#[test]
fn whatever_happens_to_a_rank_the_others_end_and_know_who_it_was() {
    play("ours", None, 14, &[]);
}

#[test]
fn so_they_do_on_other_machines() {
    play("machines", None, 10, &["--machines", "2"]);
}

#[test]
fn so_they_do_in_other_networks() {
    let Some(machines) = netns::Machines::new(2) else { return };
    let names = [machines.name(0), machines.name(1)].join(",");
    play("networks", None, 10, &["--networks", &names]);
}

#[test]
fn so_they_do_with_kernels_of_nvidias_headers() {
    let Some((nvidia, _)) = nvidia_headers() else { return };
    play("nvidia", Some(&nvidia), 7, &[]);
}
