//! A plain C program without any toolkit that does everything wrong.

use abi_tests::{prefix, root, run};
use std::process::Command;

#[test]
fn everything_wrong_gives_a_code_and_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("misuse");
    let prefix = prefix();
    run(Command::new("gcc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-o"])
        .arg(&program)
        .arg(root().join("abi-tests/misuse/misuse.c"))
        .arg(format!("-I{}", prefix.join("include/ginrs").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .args(["-lginrs", &format!("-Wl,-rpath,{}", prefix.join("lib").display())]));
    let output = run(Command::new("timeout").arg("60").arg(&program).env("GINRS_DEVICE", "cpu"));
    assert_eq!(output.trim(), "misuse ok");
}

/// A fork copies handles but neither threads nor links: the child is told so.
#[test]
fn a_forked_child_may_not_use_its_parents_communicator() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("fork.c"), folder.path().join("fork"));
    std::fs::write(&source, FORK).unwrap();
    let prefix = prefix();
    run(Command::new("gcc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg(format!("-I{}", prefix.join("include/ginrs").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .args(["-lginrs", &format!("-Wl,-rpath,{}", prefix.join("lib").display())]));
    let output = run(Command::new("timeout").arg("60").arg(&program).env("GINRS_DEVICE", "cpu"));
    assert!(output.contains("child: 5 5") && output.contains("E060") && output.contains("parent: 0"), "{output}");
    assert!(output.contains("late child: 0"), "an id made before fork() serves the children: {output}");
}

const FORK: &str = r#"
#include <nccl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  ncclUniqueId id, later;
  ncclComm_t comm;
  int n, status;
  if (ncclGetUniqueId(&id) != 0 || ncclCommInitRank(&comm, 1, id, 0) != 0) return 1;
  if (fork() == 0) {
    ncclResult_t state;
    printf("child: %d %d ", ncclCommCount(comm, &n), ncclCommGetAsyncError(comm, &state));
    printf("%s\n", ncclGetLastError(NULL));
    return 0;
  }
  wait(&status);
  printf("parent: %d\n", ncclCommCount(comm, &n));
  if (ncclGetUniqueId(&later) != 0) return 1;
  fflush(stdout);
  if (fork() == 0) {
    ncclComm_t own;
    printf("late child: %d\n", ncclCommInitRank(&own, 1, later, 0));
    fflush(stdout);
    _exit(0);
  }
  wait(&status);
  return ncclCommDestroy(comm);
}
"#;
