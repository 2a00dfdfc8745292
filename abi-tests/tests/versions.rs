//! Other versions of NCCL's headers: what is served works, what is not is told in one line, when it is compiled where that can be
//! and else when it runs (docs/user/abi-policy.md).

use abi_tests::{Headers, nvidia, prefix, run, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn ours() -> PathBuf {
    prefix().join("include/ginrs")
}

/// A folder with one header of `headers` and nothing else, as a program has it that keeps a copy of nccl.h.
fn alone(folder: &Path, header: &Path) -> PathBuf {
    let at = folder.join("copied");
    std::fs::create_dir_all(&at).unwrap();
    std::os::unix::fs::symlink(header, at.join(header.file_name().unwrap())).unwrap();
    at
}

fn compile(compiler: &str, source: &str, include: &[PathBuf]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    std::fs::write(&file, source).unwrap();
    let language = if compiler.ends_with("++") { "c++" } else { "c" };
    let mut command = Command::new(compiler);
    include.iter().for_each(|path| {
        command.arg("-I").arg(path);
    });
    command.args(["-x", language, "-fsyntax-only", "-w"]).arg(&file).output().unwrap()
}

/// The folder of nccl.h and the toolkit's.
fn parts(headers: &Headers) -> (PathBuf, PathBuf) {
    (headers.include[0].clone(), headers.include[1].clone())
}

#[test]
fn our_device_headers_behind_another_nccl_h() {
    for (version, served) in [("2.28.3", false), ("2.28.7", true), ("2.28.9", true), ("2.29.7", false)] {
        let folder = tempfile::tempdir().unwrap();
        let (nccl, cuda) = parts(&nvidia(version));
        let include = [alone(folder.path(), &nccl.join("nccl.h")), ours(), cuda];
        for (compiler, source) in [
            ("gcc", "#include <nccl.h>\n#include <nccl_device/core.h>\n"),
            ("g++", "#include <nccl.h>\n#include <nccl_device.h>\n"),
            ("g++", "#include <nccl_device/gin.h>\n"),
        ] {
            let output = compile(compiler, source, &include);
            assert_eq!(output.status.success(), served, "{version}, {source}:\n{}", text(&output));
            assert!(served || text(&output).contains("speaks NCCL 2.28.7 to 2.28.9"), "{version}:\n{}", text(&output));
        }
    }
}

#[test]
fn other_device_headers_behind_our_nccl_h() {
    for (version, served) in [("2.28.3", false), ("2.28.7", true), ("2.28.9", true)] {
        let folder = tempfile::tempdir().unwrap();
        let (nccl, cuda) = parts(&nvidia(version));
        let include = [alone(folder.path(), &ours().join("nccl.h")), nccl, cuda];
        let output = compile("g++", "#include <cstddef>\n#include <nccl.h>\n#include <nccl_device.h>\n", &include);
        assert_eq!(output.status.success(), served, "{version}:\n{}", text(&output));
        assert!(served || text(&output).contains("device/ headers of NCCL 2.28.3"), "{version}:\n{}", text(&output));
    }
}

/// Compiled with NVIDIA's headers of that version alone, run with our library on the CPU device.
fn run_with(version: &str, source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("program.cc"), folder.path().join("program"));
    std::fs::write(&file, source).unwrap();
    let lib = prefix().join("lib");
    run(Command::new("g++")
        .args(["-w", "-o"])
        .arg(&program)
        .arg(&file)
        .args(nvidia(version).flags())
        .arg(format!("-L{}", lib.display()))
        .args(["-lginrs", &format!("-Wl,-rpath,{}", lib.display())]));
    let output = Command::new("timeout").arg("240").arg(&program).env("GINRS_DEVICE", "cpu").output().unwrap();
    assert!(output.status.success(), "{version}: {}", text(&output));
    text(&output)
}

/// Prints the result of ncclDevCommCreate, and whether a byte behind the struct of those headers was touched.
const PROGRAM: &str = r#"
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <nccl.h>
#include <nccl_device.h>
int main() {
  ncclUniqueId id;
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRankConfig(&comm, 1, id, 0, &config) != ncclSuccess) return 1;
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements reqs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements reqs;
  memset(&reqs, 0, sizeof reqs);
#endif
  reqs.lsaBarrierCount = 2;
  alignas(8) unsigned char memory[sizeof(ncclDevComm) + 256];
  memset(memory, 0x5a, sizeof memory);
  ncclResult_t result = ncclDevCommCreate(comm, &reqs, (ncclDevComm*)memory);
  bool behind = false;
  for (size_t i = sizeof(ncclDevComm); i < sizeof memory; i++) behind |= memory[i] != 0x5a;
  printf("result %d, nRanks %d, touched behind %d\n", result, result ? 0 : ((ncclDevComm*)memory)->nRanks, behind);
  if (result == ncclSuccess && ncclDevCommDestroy(comm, (ncclDevComm*)memory) != ncclSuccess) return 1;
  return ncclCommDestroy(comm);
}
"#;

#[test]
fn programs_of_other_versions_work_or_are_told() {
    for version in ["2.28.7", "2.28.9"] {
        let output = run_with(version, PROGRAM);
        assert!(output.contains("result 0, nRanks 1, touched behind 0"), "{version}: {output}");
    }
    // 2.29.7's requirements say what they are; of 2.28.3 only the config does.
    for version in ["2.28.3", "2.29.7"] {
        let output = run_with(version, PROGRAM);
        assert!(output.contains("result 5, nRanks 0, touched behind 0"), "{version}: {output}");
        let line = output.lines().find(|line| line.contains("E069")).unwrap_or_else(|| panic!("{version}: {output}"));
        assert!(line.contains(&format!("headers of NCCL {version}, served are 2.28.7 to 2.28.9")), "{line}");
    }
}
