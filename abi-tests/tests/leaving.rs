//! A rank leaves in good order while others call on: what needs a call that it never made ends, with that call, long before GINRS_TIMEOUT; what it
//! did call ends well. `programs/leaving.cu` has a case for each; the rank that leaves lives on.

use abi_tests::programs::{compiled, compiled_as, line_of};
use abi_tests::{prefix, text};
use std::path::Path;
use std::process::Command;

/// On machines as GINRS_FAKE_MACHINES has it, or as threads of one process.
const MODES: [&str; 4] = ["0,0,0", "0,0,1", "0,1,2", "threads"];

const PROGRAM: &str = "abi-tests/programs/leaving.cu";

/// What three ranks said. Only a call that is missed ends one before the time is over.
fn said(mode: &str, case: &str) -> String {
    said_of(compiled(PROGRAM), mode, case)
}

fn said_of(program: impl AsRef<Path>, mode: &str, case: &str) -> String {
    let (program, folder) = (program.as_ref(), tempfile::tempdir().unwrap());
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]);
    if mode == "threads" {
        command.arg(program).arg(case).arg(folder.path().join("done")).args(["threads", "3"]).env("GINRS_CPU_DEVICES", "3");
    } else {
        command.arg(prefix().join("bin/ginrs-run")).args(["-n", "3"]).arg(program).arg(case).arg(folder.path().join("done"));
        command.env("GINRS_FAKE_MACHINES", mode);
    }
    let output = command.env("GINRS_TIMEOUT", "600").env("NCCL_DEBUG", "WARN").output().unwrap();
    let said = text(&output);
    assert!(output.status.success() && said.contains("rank 2: ok"), "{case} {mode}: {}\n{said}", output.status);
    said
}

#[track_caller]
fn is_told(case: &str, call: &str, missed: &str) {
    for mode in MODES {
        let said = said(mode, case);
        let line =
            said.lines().find_map(|line| line.split_once("GINRS-E039 ")).unwrap_or_else(|| panic!("{case} {mode}: {said}")).1;
        let who = line.starts_with("rank 2 (pid ") && line.contains(&format!(" waits for it in {call} | "));
        assert!(who && line.contains(missed) && said.contains("rank 0: ended"), "{case} {mode}: {said}");
    }
}

#[test]
fn a_collective_that_a_rank_has_left_without_ends() {
    for (case, call) in [("allreduce", "ncclAllReduce"), ("gather", "ncclAllGather")] {
        is_told(case, call, "that is collective 3 of the communicator, and rank 2 has called 2");
    }
}

#[test]
fn a_message_that_a_rank_has_left_without_ends() {
    for (case, call) in [("messages", "ncclRecv"), ("group", "ncclSend and ncclRecv")] {
        is_told(case, call, "that is message 2 from rank 2 to rank 0, and it has sent 1");
    }
}

#[test]
fn what_a_rank_has_called_before_it_left_ends_well() {
    for mode in MODES {
        let said = said(mode, "matched");
        assert!(
            said.contains("rank 0: ok")
                && said.contains("rank 1: ok")
                && !said.contains("GINRS-E")
                && !said.contains("GINRS-W025"),
            "{mode}: {said}"
        );
    }
}

/// Few bytes go to where they wait for a receiver, so that nothing hangs.
#[test]
fn a_message_that_nobody_has_received_is_told_when_both_have_left() {
    for (mode, case) in [("0,0,0", "lost"), ("threads", "lost"), ("0,0,0", "exit"), ("threads", "exit")] {
        let said = said(mode, case);
        let told = "GINRS-W025 12000 bytes that rank 2 has sent to rank 0 were never received | that is message 2 of these two, and rank 0 has received 1 | ";
        assert!(said.contains(told), "{case} {mode}: {said}");
    }
    for (mode, case) in [("0,0,0", "refused"), ("threads", "refused"), ("0,0,0", "aborted"), ("threads", "aborted")] {
        let said = said(mode, case);
        assert!(!said.contains("GINRS-W025"), "{case} {mode}: {said}");
    }
}

#[test]
fn its_line_is_told_of_a_program_that_is_checked() {
    let program = compiled_as(PROGRAM, &["--check=race".into(), "-O1".into(), "-w".into()]);
    let line = line_of(PROGRAM, "lost");
    for mode in ["0,0,0", "threads"] {
        let said = said_of(&program, mode, "lost");
        assert!(said.contains(&format!("ncclSend called by host code at programs/leaving.cu:{line} | ")), "{mode}: {said}");
    }
}
