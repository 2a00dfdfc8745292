//! ginrsBootstrapUniqueId of ginrs_bootstrap.h: what each launcher's variables say of machines, and where the ranks meet then.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// An ncclGetUniqueId that says where it would meet stands in for the library.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
typedef struct { char internal[128]; } ncclUniqueId;
typedef int ncclResult_t;
enum { ncclSuccess };
static ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const char* point = getenv("NCCL_COMM_ID");
  snprintf(id->internal, sizeof id->internal, "%s", point ? point : "random");
  return point && point[0] == '!' ? 5 : 0;
}
static const char* ncclGetLastError(void* comm) { return comm == NULL ? "because" : ""; }
#include "ginrs_bootstrap.h"
int main(int argc, char** argv) {
  ginrsBootstrap boot;
  ncclUniqueId id;
  (void)argv;
  if (ginrsBootstrapInit(&boot) != 0) return 3;
  if (argc > 1) return ginrsBootstrapBroadcast(&boot, &id, sizeof id) ? 4 : 0;
  if (ginrsBootstrapUniqueId(&boot, &id) != 0) return 5;
  printf("%d %d %d %d %s\n", boot.rank, boot.nRanks, boot.localRank, boot.far, id.internal);
  return 0;
}
"#;

fn program() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("id.c"), folder.path().join("id"));
        std::fs::write(&source, format!("#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n{PROGRAM}")).unwrap();
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../include");
        for (compiler, standard) in [("g++", "-std=c++17"), ("gcc", "-std=c11")] {
            let language = if compiler == "g++" { "c++" } else { "c" };
            let built = Command::new(compiler)
                .args(["-Wall", "-Wextra", "-Werror", standard, "-O1", include, "-x", language, "-o"])
                .args([&program, &source])
                .status();
            assert!(built.unwrap().success(), "{compiler}");
        }
        (folder, program)
    });
    path
}

fn run(environment: &str, words: &[&str]) -> Output {
    let pairs = environment.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    Command::new(program()).args(words).env_clear().envs(pairs).output().unwrap()
}

#[test]
fn ranks_of_several_machines_meet_where_the_launcher_says() {
    for (environment, told) in [
        // torchrun: the port behind MASTER_PORT, which its store has.
        ("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node0 MASTER_PORT=4000", "3 4 1 1 node0:4001"),
        ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=fd00::1 MASTER_PORT=1", "0 2 0 1 [fd00::1]:2"),
        // What the user says wins.
        ("RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1 NCCL_COMM_ID=b:7", "1 2 0 1 b:7"),
        (
            "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=3 NCCL_COMM_ID=b:7",
            "5 6 2 1 b:7",
        ),
        ("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 NCCL_COMM_ID=b:7", "1 2 0 1 b:7"),
        ("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_NUM_NODES=2 NCCL_COMM_ID=b:7", "1 2 0 1 b:7"),
        // One machine: also in a larger allocation of Slurm's.
        ("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_NUM_NODES=1 SLURM_NNODES=4 NCCL_COMM_ID=b:7", "1 2 1 0 b:7"),
        ("", "0 1 0 0 random"),
    ] {
        let output = run(environment, &[]);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), told, "{environment}: {output:?}");
    }
}

#[test]
fn what_is_missing_is_told_at_once() {
    let slurm = "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_NUM_NODES=2";
    let output = run(slurm, &[]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(5) && told.contains("NCCL_COMM_ID=HOST:PORT") && told.contains("GINRS_SECRET_FILE"),
        "{told}"
    );
    let output = run(slurm, &["broadcast"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && told.contains("ginrs-run --hosts"), "{told}");
    let output = run("RANK=0 WORLD_SIZE=1 NCCL_COMM_ID=!", &[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "ginrs bootstrap: rank 0 of 1: ncclGetUniqueId: because\n");
}
