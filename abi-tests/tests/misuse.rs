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
        .args(
            ["misuse", "communicator", "collectives", "configs", "children"]
                .map(|n| root().join(format!("abi-tests/misuse/{n}.c"))),
        )
        .arg(format!("-I{}", prefix.join("include/ginrs").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .args(["-lginrs", &format!("-Wl,-rpath,{}", prefix.join("lib").display())]));
    let output = run(Command::new("timeout").arg("240").arg(&program).env("GINRS_DEVICE", "cpu"));
    assert_eq!(output.trim(), "misuse ok");
}

/// A fork copies handles but neither threads nor links: the child is told so.
#[test]
fn a_forked_child_may_not_use_its_parents_communicator() {
    let output = forking(FORK);
    assert!(output.contains("child: 5 5") && output.contains("E060") && output.contains("parent: 0"), "{output}");
    assert!(output.contains("late child: 0"), "an id made before fork() serves the children: {output}");
}

/// A thread that is inside a call when another forks holds locks: the child's calls do not wait for them.
#[test]
fn a_fork_beside_calls_of_other_threads_leaves_a_child_that_can_call() {
    assert_eq!(forking(FORKS).trim(), "0 of 300 children hung, 0 failed");
}

/// What a C program says that is linked with the library.
fn forking(source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("fork.c"), folder.path().join("fork"));
    std::fs::write(&file, source).unwrap();
    let prefix = prefix();
    run(Command::new("gcc")
        .args(["-pthread", "-o"])
        .arg(&program)
        .arg(&file)
        .arg(format!("-I{}", prefix.join("include/ginrs").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .args(["-lginrs", &format!("-Wl,-rpath,{}", prefix.join("lib").display())]));
    run(Command::new("timeout").arg("240").arg(&program).env("GINRS_DEVICE", "cpu"))
}

const FORKS: &str = r#"
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static ncclComm_t comm;
static volatile int over;
static void* call(void* unused) {
  int n;
  ncclResult_t state;
  while (!over) {
    ncclCommCount(comm, &n);
    ncclCommGetAsyncError(comm, &state);
  }
  return unused;
}
int main(void) {
  ncclUniqueId id;
  pthread_t threads[2];
  int n, status, hung = 0, failed = 0;
  if (ncclGetUniqueId(&id) != 0 || ncclCommInitRank(&comm, 1, id, 0) != 0) return 1;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, call, NULL);
  for (int i = 0; i < 300 && hung < 3; i++) {
    if (fork() == 0) {
      ncclComm_t own;
      alarm(5);
      if (ncclCommCount(comm, &n) != ncclInvalidUsage) _exit(1);
      if (i % 30 == 0 && (ncclGetUniqueId(&id) != 0 || ncclCommInitRank(&own, 1, id, 0) != 0)) _exit(2);
      _exit(0);
    }
    wait(&status);
    hung += WIFSIGNALED(status);
    failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
  }
  over = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  printf("%d of 300 children hung, %d failed\n", hung, failed);
  return 0;
}
"#;

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

/// What makes calls of CUDA is refused in a host function of a stream by its own name, whether or not it needs them here, and changes nothing.
#[test]
fn a_host_function_of_a_stream_makes_no_calls_that_cuda_forbids() {
    let program = abi_tests::programs::compiled("abi-tests/programs/host_function.cu");
    let output = Command::new("timeout").args(["-s", "KILL", "240"]).arg(program).env("GINRS_DEVICE", "cpu").output().unwrap();
    let said = abi_tests::text(&output);
    assert!(output.status.success() && said.contains("\nok\n"), "{}\n{said}", output.status);
    for refused in [
        "ncclAllReduce",
        "ncclBroadcast",
        "ncclSend",
        "ncclCommInitRank",
        "ncclCommInitAll",
        "ncclCommSplit",
        "ncclCommFinalize",
        "ncclCommDestroy",
        "ncclCommAbort",
        "ncclMemAlloc",
        "ncclMemFree",
        "ncclCommWindowRegister",
        "ncclCommWindowDeregister",
        "ncclDevCommCreate",
        "ncclDevCommDestroy",
    ] {
        let cause = format!("where CUDA forbids what it does | {refused} |");
        assert!(said.contains(&format!("{refused}: 1\n")) && said.contains(&cause), "{refused}: {said}");
    }
    assert!(said.contains("a group: 1\n") && said.contains("GINRS-E067"), "{said}");
    for allowed in ["ncclGetUniqueId", "ncclCommCount", "ncclCommGetAsyncError", "an empty group"] {
        assert!(said.contains(&format!("{allowed}: 0\n")), "{allowed}: {said}");
    }
}
