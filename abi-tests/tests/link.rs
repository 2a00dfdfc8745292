//! The link recipe of scripts/link-library.sh: static archive beside other Rust code, profilers in front, debug builds.

use abi_tests::{exported, prefix, root, run, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of Libs.private.
fn system_libraries() -> Vec<String> {
    let pc = std::fs::read_to_string(prefix().join("lib/pkgconfig/ginrs.pc")).unwrap();
    let line = pc.lines().find_map(|line| line.strip_prefix("Libs.private:")).expect("Libs.private").to_owned();
    line.split_whitespace().map(str::to_owned).collect()
}

fn write(folder: &Path, name: &str, source: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, source).unwrap();
    path
}

const OTHER: &str = r#"
#[unsafe(no_mangle)]
pub extern "C" fn other_catches() -> i32 {
    match std::panic::catch_unwind(|| { if std::env::args().count() > 0 { panic!("other's panic") } }) { Ok(()) => 0, Err(_) => 1 }
}
"#;

/// Panics in both libraries, caught in both: the second library's first, then ours.
const BOTH: &str = r#"
#include <nccl.h>
#include <stdio.h>
#include <string.h>
int other_catches(void);
int main(void) {
  int version;
  if (other_catches() != 1) return 1;
  if (ncclGetVersion(&version) != ncclInternalError) return 2;
  if (!strstr(ncclGetLastError(NULL), "GINRS_FAULT")) return 3;
  if (other_catches() != 1) return 4;
  return strcmp(ncclGetErrorString(ncclSuccess), "no error") ? 5 : 0;
}
"#;

#[test]
fn two_rust_archives_in_both_orders_each_catch_their_panics() {
    let folder = tempfile::tempdir().unwrap();
    let other = write(folder.path(), "other.rs", OTHER);
    let archive = folder.path().join("libother.a");
    run(Command::new("rustc").args(["--edition=2024", "--crate-type=staticlib", "-o"]).arg(&archive).arg(&other));
    let main = write(folder.path(), "both.c", BOTH);
    let ours = prefix().join("lib/libginrs.a");
    for (i, order) in [[&ours, &archive], [&archive, &ours]].into_iter().enumerate() {
        let program = folder.path().join(format!("both{i}"));
        run(Command::new("gcc")
            .arg("-o")
            .arg(&program)
            .arg(&main)
            .arg(format!("-I{}", prefix().join("include/ginrs").display()))
            .args(order)
            .args(system_libraries()));
        run(Command::new("timeout").arg("20").arg(&program).env("GINRS_FAULT", "panic:ncclGetVersion"));
    }
}

const PROFILER: &str = r#"
#include <nccl.h>
#include <stdio.h>
ncclResult_t ncclGetVersion(int* version) {
  printf("profiled ");
  return pncclGetVersion(version);
}
"#;

const PROGRAM: &str = r#"
#include <nccl.h>
#include <stdio.h>
int main(void) {
  int version = 0;
  ncclResult_t result = ncclGetVersion(&version);
  printf("%d\n", version);
  return result;
}
"#;

/// A profiler defines ncclX and calls pncclX: preloaded, and linked in front of either library.
#[test]
fn a_profiler_stands_in_front() {
    let folder = tempfile::tempdir().unwrap();
    let (profiler, source) = (write(folder.path(), "profiler.c", PROFILER), write(folder.path(), "program.c", PROGRAM));
    let include = format!("-I{}", prefix().join("include/ginrs").display());
    let lib = prefix().join("lib");
    let rpath = format!("-Wl,-rpath,{}", lib.display());
    let search = format!("-L{}", lib.display());
    let preload = folder.path().join("libprofiler.so");
    run(Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&preload).arg(&profiler).arg(&include));

    let program = folder.path().join("program");
    run(Command::new("gcc").arg("-o").arg(&program).arg(&source).args([&include, &search, "-lginrs", &rpath]));
    assert_eq!(run(&mut Command::new(&program)), "22809\n");
    assert_eq!(run(Command::new(&program).env("LD_PRELOAD", &preload)), "profiled 22809\n");

    run(Command::new("gcc").arg("-o").arg(&program).args([&source, &profiler]).args([&include, &search, "-lginrs", &rpath]));
    assert_eq!(run(&mut Command::new(&program)), "profiled 22809\n");

    run(Command::new("gcc")
        .arg("-o")
        .arg(&program)
        .args([&source, &profiler, &lib.join("libginrs.a")])
        .arg(&include)
        .args(system_libraries()));
    assert_eq!(run(&mut Command::new(&program)), "profiled 22809\n");
}

/// NVIDIA's library has no symbol versions: a program linked against an unversioned one still finds ours.
#[test]
fn unversioned_references_bind() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = write(folder.path(), "plain.c", "int ncclGetVersion(int* v) { *v = 1; return 0; }");
    let source = write(folder.path(), "program.c", PROGRAM);
    let plain = folder.path().join("libginrs.so.0");
    run(Command::new("gcc").args(["-shared", "-fPIC", "-Wl,-soname,libginrs.so.0", "-o"]).args([&plain, &stand_in]));
    let program = folder.path().join("program");
    let include = format!("-I{}", prefix().join("include/ginrs").display());
    run(Command::new("gcc").arg("-o").arg(&program).args([&source, &plain]).arg(include));
    assert_eq!(run(Command::new(&program).env("LD_LIBRARY_PATH", prefix().join("lib"))), "22809\n");
}

/// Debug builds have many codegen units, in which other ways to alias a symbol silently leave it undefined.
#[test]
fn a_debug_build_links_and_defines_every_name() {
    let target = tempfile::tempdir().unwrap();
    let root = root();
    run(Command::new(env!("CARGO")).args(["build", "-q", "-p", "ginrs", "--lib"]).current_dir(&root));
    let built = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("debug/libginrs.a");
    run(Command::new(root.join("scripts/link-library.sh"))
        .arg(built)
        .arg(root.join("exports.map"))
        .arg(target.path())
        .args(["ginrs", "0.1.0"])
        .args(system_libraries()));
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(target.path().join("libginrs.so.0")));
    for name in exported() {
        assert!(symbols.contains(&format!(" {name}@@GINRS_0.1")), "{name}");
    }
    let source = write(target.path(), "program.c", PROGRAM);
    let program = target.path().join("program");
    run(Command::new("gcc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg(target.path().join("libginrs.so.0"))
        .arg(format!("-I{}", prefix().join("include/ginrs").display())));
    let output = Command::new(&program).env("LD_LIBRARY_PATH", target.path()).output().unwrap();
    assert_eq!(text(&output), "22809\n");
}
