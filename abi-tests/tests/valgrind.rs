//! Valgrind on the installed library: it knows the stacks of CUDA threads, says nothing of a program without faults, and names the line of one.

use abi_tests::programs::{compiled_as, job_folder};
use abi_tests::text;
use std::path::Path;
use std::process::Command;

/// What it says of a program, and the status: 9 where there was an error.
fn valgrind(program: &Path, arguments: &[&str]) -> Option<(i32, String)> {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no valgrind | fix: make deps");
        return None;
    }
    let folder = job_folder();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "200", "valgrind", "-q", "--error-exitcode=9"]).arg(program).args(arguments);
    let output = command.env("GINRS_RUN_ID", folder.path()).output().unwrap();
    Some((output.status.code().unwrap_or(-1), text(&output)))
}

#[test]
fn a_program_without_faults_is_clean() {
    let program = compiled_as("examples-c/02-ring/main.cu", &["-g".into()]);
    let Some((status, said)) = valgrind(&program, &["--threads", "2"]) else { return };
    assert!(status == 0 && said.contains("rank 1 of 2: ok"), "{status}\n{said}");
    assert!(!said.contains("client switching stacks") && !said.contains("=="), "{said}");
}

#[test]
fn a_write_behind_memory_is_named_with_its_line() {
    let program = compiled_as("abi-tests/sanitizers/planted_valgrind.cu", &["-g".into()]);
    let Some((status, said)) = valgrind(&program, &[]) else { return };
    let wanted = ["Invalid write of size 4", "planted_valgrind.cu:9", "0 bytes after a block of size 16 alloc'd"];
    assert!(status == 9 && wanted.iter().all(|wanted| said.contains(wanted)), "{status}\n{said}");
    assert!(!said.contains("client switching stacks"), "{said}");
}
