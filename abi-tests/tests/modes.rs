//! Communicators of threads, of processes, of one thread with groups, and of all of them mixed.

use abi_tests::{prefix, root, run, text};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

fn program() -> PathBuf {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("modes");
        let lib = prefix().join("lib");
        run(Command::new("gcc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-o"])
            .arg(&program)
            .arg(root().join("abi-tests/modes/modes.c"))
            .arg(format!("-I{}", prefix().join("include/ginrs").display()))
            // The CPU device's runtime too: it has cudaSetDevice.
            .args([&format!("-L{}", lib.display()), "-Wl,--no-as-needed", "-lginrs", "-lginrs_cpu", "-pthread"])
            .arg(format!("-Wl,-rpath,{}", lib.display())));
        (folder, program)
    });
    program.clone()
}

/// One process per part: (number of ranks that it drives, how).
#[track_caller]
fn works(parts: &[(usize, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let ranks: usize = parts.iter().map(|(count, _)| count).sum();
    let mut first = 0;
    let processes: Vec<Child> = parts
        .iter()
        .map(|(count, mode)| {
            let mut command = Command::new("timeout");
            command.arg("240").arg(program()).arg(folder.path().join("id"));
            command.args([ranks.to_string(), first.to_string(), count.to_string()]).arg(mode);
            command.env("GINRS_CPU_DEVICES", ranks.to_string()).env_remove("LOCAL_RANK").env("GINRS_INIT_TIMEOUT", "30");
            first += count;
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{parts:?}: {}", text(&output));
    }
}

#[test]
fn one_rank_alone() {
    works(&[(1, "threads")]);
}

#[test]
fn a_thread_per_rank() {
    works(&[(4, "threads")]);
    works(&[(7, "threads")]);
}

#[test]
fn a_process_per_rank() {
    works(&[(1, "threads"), (1, "threads"), (1, "threads")]);
}

#[test]
fn one_thread_drives_all_in_groups() {
    works(&[(5, "group")]);
    works(&[(4, "all")]);
}

#[test]
fn processes_with_threads_and_groups_mixed() {
    works(&[(2, "threads"), (2, "threads")]);
    works(&[(2, "group"), (1, "threads"), (3, "group")]);
}

#[test]
fn sixty_four_threads() {
    works(&[(64, "threads")]);
}
