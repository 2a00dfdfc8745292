//! A rank fails at random moments of a job's life, in every way: no survivor hangs, and whoever is told of a failure is told who it
//! was. Some rounds of `chaos/chaos.cu` for as long as the suite has time; `make chaos` plays hundreds.

#[path = "../../tests/netns/mod.rs"]
mod netns;

use abi_tests::programs::{compiled, compiled_with_theirs};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// One after the other: they share the suite's time, not the cores.
static TURN: Mutex<()> = Mutex::new(());

const SOURCE: &str = "abi-tests/chaos/chaos.cu";

fn play(program: &Path, seconds: u32, more: &[&str]) {
    play_under(None, program, seconds, more);
}

fn play_under(preload: Option<&Path>, program: &Path, seconds: u32, more: &[&str]) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "300"]).arg(program);
    command.args(["--rounds", "20", "--jobs", "3", "--seconds", &seconds.to_string()]).args(more);
    command.envs(preload.map(|library| ("LD_PRELOAD", library)));
    let output = command.env("GINRS_CPU_DEVICES", "4").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(", 0 failed"), "{}:\n{said}", output.status);
    println!("{said}");
}

#[test]
fn whatever_happens_to_a_rank_the_others_end_and_know_who_it_was() {
    play(&compiled(SOURCE), 14, &[]);
}

#[test]
fn so_they_do_on_other_machines() {
    play(&compiled(SOURCE), 10, &["--machines", "2"]);
}

/// Deadlines and silence are counted by the monotonic clock alone.
#[test]
fn so_they_do_whatever_becomes_of_the_wall_clock() {
    let clock = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-{}.so", std::process::id()));
    let source = abi_tests::root().join("abi-tests/chaos/clock.c");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&clock).arg(source).status();
    assert!(made.expect("cc starts").success());
    play_under(Some(&clock), &compiled(SOURCE), 6, &["--machines", "2"]);
    std::fs::remove_file(clock).unwrap();
}

#[test]
fn so_they_do_in_other_networks() {
    let Some(machines) = netns::Machines::new(2) else { return };
    let names = [machines.name(0), machines.name(1)].join(",");
    play(&compiled(SOURCE), 10, &["--networks", &names]);
}

#[test]
fn so_they_do_with_kernels_of_nvidias_headers() {
    let Some(theirs) = compiled_with_theirs(SOURCE) else { return };
    play(&theirs, 7, &[]);
}
