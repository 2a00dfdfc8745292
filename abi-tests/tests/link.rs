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

/// Another Rust library with everything of std that could clash: panics, threads, thread-locals, the panic hook, its allocator.
const OTHER: &str = r#"
use std::cell::RefCell;
thread_local! { static HERE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) }; }

#[unsafe(no_mangle)]
pub extern "C" fn other_catches() -> i32 {
    match std::panic::catch_unwind(|| { if std::env::args().count() > 0 { panic!("other's panic") } }) { Ok(()) => 0, Err(_) => 1 }
}

/// Threads that end well, and threads that end by a panic: how many of each.
#[unsafe(no_mangle)]
pub extern "C" fn other_threads() -> i32 {
    std::panic::set_hook(Box::new(|_| ()));
    let work = |i: usize| {
        HERE.with(|here| here.borrow_mut().push(format!("thread {i}")));
        if i % 2 == 1 { panic!("other's thread {i}") }
        HERE.with(|here| here.borrow().len())
    };
    let threads: Vec<_> = (0..8).map(|i| std::thread::spawn(move || work(i))).collect();
    let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    let well = ended.iter().filter(|end| matches!(end, Ok(1))).count();
    (10 * well + ended.iter().filter(|end| end.is_err()).count()) as i32
}
"#;

/// Panics in both libraries, caught in both, and threads of both at once: ours are those of a communicator of two ranks.
const BOTH: &str = r#"
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int other_catches(void);
int other_threads(void);
static void* others(void* unused) {
  for (int i = 0; i < 20; i++) if (other_threads() != 44 || other_catches() != 1) exit(20);
  return unused;
}
int main(void) {
  pthread_t thread;
  ncclComm_t comms[2];
  int version, count;
  if (other_catches() != 1) return 1;
  if (pthread_create(&thread, NULL, others, NULL)) return 2;
  for (int i = 0; i < 3; i++) {
    if (ncclCommInitAll(comms, 2, NULL) != ncclSuccess) return 3;
    if (ncclGetVersion(&version) != ncclInternalError || !strstr(ncclGetLastError(NULL), "GINRS_FAULT")) return 4;
    for (int k = 0; k < 2; k++) {
      if (ncclCommCount(comms[k], &count) != ncclSuccess || count != 2) return 5;
      if (ncclCommDestroy(comms[k]) != ncclSuccess) return 6;
    }
  }
  if (pthread_join(thread, NULL) || other_threads() != 44) return 7;
  return strcmp(ncclGetErrorString(ncclSuccess), "no error") ? 8 : 0;
}
"#;

#[test]
fn two_rust_archives_in_both_orders_each_with_panics_and_threads() {
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
        // The CPU device is a library of its own, also here.
        run(Command::new("timeout")
            .arg("240")
            .arg(&program)
            .envs([("GINRS_FAULT", "panic:ncclGetVersion"), ("GINRS_DEVICE", "cpu"), ("GINRS_CPU_DEVICES", "2")])
            .env("LD_LIBRARY_PATH", prefix().join("lib")));
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

/// What a program, or a library of it, is made of: whether it calls ncclDevCommCreate, or takes its address, or neither.
const LOADING: &str = r#"
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
ncclResult_t ncclDevCommCreate(ncclComm_t, void const*, void*);
int in_library(void) {
#ifdef CALLS
  return getenv("NEVER") ? ncclDevCommCreate(NULL, NULL, NULL) : 0;
#elif defined(NAMES)
  ncclResult_t (*volatile make)(ncclComm_t, void const*, void*) = ncclDevCommCreate;
  return make == NULL;
#else
  return 0;
#endif
}
#ifndef LIBRARY
int main(void) {
  int version = 0;
#ifndef ALONE
  ncclGetVersion(&version);
#endif
  char const* loading = getenv("CUDA_MODULE_LOADING");
  printf("%s\n", loading ? loading : "nothing");
  return in_library();
}
#endif
"#;

const USES_LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int in_library(void);
int main(void) {
  char const* loading = getenv("CUDA_MODULE_LOADING");
  printf("%s\n", loading ? loading : "nothing");
  return in_library();
}
"#;

/// CUDA_MODULE_LOADING=EAGER makes all kernels of all libraries resident: only for who has kernels that put.
#[test]
fn kernels_are_loaded_eagerly_in_programs_that_make_device_communicators() {
    let folder = tempfile::tempdir().unwrap();
    let (source, user) = (write(folder.path(), "loading.c", LOADING), write(folder.path(), "uses.c", USES_LIBRARY));
    let lib = prefix().join("lib");
    let dir = lib.display();
    let flags = [format!("-I{}", prefix().join("include/ginrs").display()), format!("-L{dir}"), format!("-Wl,-rpath-link,{dir}")];
    let path = format!("{}:{}", lib.display(), folder.path().display());
    let built = |name: &str, inputs: &[&Path], more: &[&str]| {
        let out = folder.path().join(name);
        run(Command::new("gcc").arg("-o").arg(&out).args(&flags).args(inputs).args(more));
        out
    };
    let says = |program: &Path, env: &[(&str, &str)]| {
        let mut command = Command::new(program);
        run(command.env_remove("CUDA_MODULE_LOADING").env("LD_LIBRARY_PATH", &path).envs(env.iter().copied()))
    };
    for flag in [
        "-DCALLS",
        "-DNAMES",
        "-DCALLS -fno-plt",
        "-DCALLS -no-pie",
        "-DNAMES -no-pie",
        "-DCALLS -Wl,-z,now",
        "-DCALLS -Wl,--hash-style=sysv",
    ] {
        let flags: Vec<_> = flag.split(' ').chain(["-lginrs"]).collect();
        let program = built("calls", &[&source], &flags);
        assert_eq!(says(&program, &[]), "EAGER\n", "{flag}");
        assert_eq!(says(&program, &[("CUDA_MODULE_LOADING", "LAZY")]), "LAZY\n", "{flag}");
    }
    assert_eq!(says(&built("other", &[&source], &["-lginrs"]), &[]), "nothing\n");
    let ours = lib.join("libginrs.so.0");
    let preloaded = [("LD_PRELOAD", ours.to_str().unwrap())];
    assert_eq!(says(&built("alone", &[&source], &["-DALONE"]), &preloaded), "nothing\n");
    for (library, said) in [("libmoe.so", "EAGER\n"), ("libtorch_cuda.so", "nothing\n")] {
        let library = built(library, &[&source], &["-shared", "-fPIC", "-DLIBRARY", "-DCALLS", "-lginrs"]);
        assert_eq!(says(&built("uses", &[&user, &library], &[]), &[]), said, "{library:?}");
    }
    let system = system_libraries();
    let whole: Vec<_> = system.iter().map(String::as_str).collect();
    assert_eq!(says(&built("whole", &[&source, &lib.join("libginrs.a")], &whole), &[]), "EAGER\n");
}
