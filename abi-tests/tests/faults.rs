//! Waits that end, on the CPU device: `twice/fault.cu` makes a rank fail in every way, with kernels that look at the abort word
//! and with kernels that do not: blind ones of our headers, and those of NVIDIA's.

use abi_tests::programs::{compiled, compiled_with_theirs};
use abi_tests::{prefix, text};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "abi-tests/twice/fault.cu";

/// What the cases wrote on stderr.
#[track_caller]
fn all_pass(program: &Path, arguments: &[&str], cases: usize) -> String {
    all_pass_with(program, arguments, cases, &[])
}

#[track_caller]
fn all_pass_with(program: &Path, arguments: &[&str], cases: usize, more: &[(&str, &str)]) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "170"]).arg(program).args(["--jobs", "2"]).args(arguments);
    let output = command.env("GINRS_CPU_DEVICES", "4").envs(more.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{arguments:?}:\n{said}");
    assert!(said.contains(&format!("fault: {cases} cases, 0 failed")), "{said}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_wait_ends_whatever_fails() {
    let program = compiled(SOURCE);
    all_pass(&program, &[], 47);
    all_pass(&program, &["--ranks", "3", "leave:lsa", "leave:gin", "leave:recv"], 3);
    let said = all_pass(&program, &["--ranks", "3", "stop:signal"], 1);
    for line in ["W020 rank 2 (pid", "W021 rank 2 (pid"] {
        assert_eq!(said.matches(line).count(), 2, "each of the others says it once: {said}");
    }
    all_pass(&program, &["--ranks", "3", "--blind", "kill", "abort-same:lsa", "abort-same:ll", "trap:signal"], 13);
}

/// F16. The last rank has left; the other two wait for its part, and each is told what the other does.
#[test]
fn ranks_that_wait_in_kernels_are_shown_to_each_other() {
    let program = compiled(SOURCE);
    for (case, what, words, machines) in [
        ("leave-stay:lsa", "an LSA barrier", "waits for LSA barrier", None),
        ("leave-stay:gin", "a wait for a signal or counter", "waits for GIN barrier", Some("0,1,1")),
    ] {
        // A wait is reported after half of this time. On a busy machine the ranks start seconds
        // apart, so their waits end after 10 s.
        let mut more = vec![("GINRS_WAIT_WARN", "2"), ("FAULT_TIMEOUT", "10")];
        more.extend(machines.map(|machines| ("GINRS_FAKE_MACHINES", machines)));
        let said = all_pass_with(&program, &["--ranks", "3", case], 1, &more);
        for (rank, other) in [(0, 1), (1, 0)] {
            let line = said.lines().find(|line| line.contains(&format!("W018 rank {rank} block 0")));
            let line = line.unwrap_or_else(|| panic!("{case}: no line of rank {rank}: {said}"));
            assert!(line.contains(words) && line.contains(&format!("rank {other} (pid")), "{case}: {line}");
            assert!(line.contains("abi-tests/twice/fault.cu:"), "{case}: {line}");
            assert!(line.contains(&format!("is in \"a kernel, {what} for")), "{case}: {line}");
        }
    }
}

#[test]
fn waits_of_nvidias_headers_end_too() {
    let Some(program) = compiled_with_theirs(SOURCE) else { return };
    all_pass(&program, &["kill", "abort-same", "trap", "leave", "leave-stay", "exec", "close"], 33);
}

/// Large collectives end where an abort finds them, between machines and on one, not behind all of their slices.
#[test]
fn what_is_aborted_moves_no_more_slices() {
    let program = compiled("abi-tests/collectives/abandoned.cu");
    for machines in ["0,0,1,1", "0,1,2,3", "0,0,0,0"] {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "240"]).arg(prefix().join("bin/ginrs-run")).args(["-n", "4"]).arg(&program);
        let output = command.env("GINRS_CPU_DEVICES", "4").env("GINRS_FAKE_MACHINES", machines).output().unwrap();
        let said = text(&output);
        assert!(output.status.success() && said.matches(": ok,").count() == 4, "{machines}: {said}");
    }
}
