//! `make install` into a folder of its own, moved afterwards, and used with nothing but PATH and pkg-config.

use abi_tests::{root, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Each `make install` makes build/lib anew, which all that is installed is made of: one at a time.
static BUILD: Mutex<()> = Mutex::new(());

/// The same of what is built already, and without the prefix.
fn stage(into: &Path) {
    let _alone = BUILD.lock().unwrap_or_else(PoisonError::into_inner);
    run(Command::new(root().join("scripts/stage.sh")).arg(into).arg(env!("CARGO_PKG_VERSION")).current_dir(root()));
}

fn make_install(into: &Path) {
    let _alone = BUILD.lock().unwrap_or_else(PoisonError::into_inner);
    let destdir = format!("DESTDIR={}", into.display());
    // What cargo sets for this test must not reach the cargo that make starts.
    run(Command::new("make").args(["-s", "install", "PREFIX=/opt/ginrs", &destdir]).current_dir(root()).env_remove("RUSTFLAGS"));
}

#[test]
fn the_installed_tree_is_complete_and_works_where_it_is_moved() {
    let folder = tempfile::tempdir().unwrap();
    make_install(folder.path());
    let moved = folder.path().join("elsewhere/deep");
    std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
    std::fs::rename(folder.path().join("opt/ginrs"), &moved).unwrap();
    for path in [
        "lib/libginrs.so",
        "lib/libginrs.so.0",
        "lib/libginrs.a",
        "lib/libginrs_cpu.so",
        "lib/libginrs_cpu.so.0",
        "lib/pkgconfig/ginrs.pc",
        "lib/cmake/ginrs/ginrsConfig.cmake",
        "lib/cmake/NCCL/NCCLConfigVersion.cmake",
        "lib/ginrs/compat/libnccl.so.2",
        "lib/ginrs/cpu/include/cuda_runtime.h",
        "include/ginrs/nccl.h",
        "include/ginrs/ginrs.h",
        "include/ginrs/ginrs_bootstrap.h",
        "include/ginrs/nccl_device.h",
        "include/ginrs/nccl_device/gin.h",
        "bin/ginrs-cc",
        "bin/ginrs-run",
        "bin/ginrs-info",
        "bin/ginrs-gdb",
        "lib/ginrs/ginrs-gdb.py",
        "share/doc/ginrs/MATRIX.md",
        "share/doc/ginrs/docs/user/porting.md",
        "share/doc/ginrs/examples-c/02-ring/main.cu",
        "lib/ginrs/cuda/bin/nvcc",
        "lib/ginrs/compat/lib/libnccl.so",
    ] {
        assert!(moved.join(path).exists(), "{path} is not installed");
    }
    // CUDA's own names would shadow a real toolkit through pkg-config.
    assert!(!moved.join("include/ginrs/cuda_runtime.h").exists());
    for file in [moved.join("lib/pkgconfig/ginrs.pc"), moved.join("bin/ginrs-cc"), moved.join("lib/libginrs.so")] {
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("/opt/ginrs"), "{} names its prefix", file.display());
    }

    let flags = |extra: &[&str]| {
        let output = run(Command::new("pkg-config").args(extra).arg("ginrs").env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig")));
        output.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let source = folder.path().join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = folder.path().join("program");
    run(Command::new("gcc").arg("-o").arg(&program).arg(&source).args(flags(&["--cflags", "--libs"])));
    assert_eq!(run(Command::new(&program).env("LD_LIBRARY_PATH", moved.join("lib"))), "22809\n");

    let archive = moved.join("lib/libginrs.a");
    let private: Vec<String> = flags(&["--static", "--libs"]).into_iter().filter(|word| word != "-lginrs").collect();
    run(Command::new("gcc").arg("-o").arg(&program).arg(&source).args(flags(&["--cflags"])).arg(archive).args(private));
    assert_eq!(run(&mut Command::new(&program)), "22809\n");

    // A collective's kernels are on board of both libraries: the CPU device's in libginrs_cpu.so, GPUs' in libginrs itself.
    std::fs::write(&source, COLLECTIVE).unwrap();
    let cpu = ["-Wl,--no-as-needed", "-lginrs_cpu"];
    let run_it = |program: &Path| {
        let mut command = Command::new("timeout");
        run(command.arg("240").arg(program).envs([("GINRS_CPU_DEVICES", "2")]).env("LD_LIBRARY_PATH", moved.join("lib")))
    };
    run(Command::new("gcc").arg("-o").arg(&program).arg(&source).args(flags(&["--cflags", "--libs"])).args(cpu));
    assert_eq!(run_it(&program), "3 3\n");
    let all = flags(&["--cflags", "--static", "--libs"]).into_iter().filter(|word| word != "-lginrs");
    run(Command::new("gcc").arg("-o").arg(&program).arg(&source).arg(moved.join("lib/libginrs.a")).args(all).args(cpu));
    assert_eq!(run_it(&program), "3 3\n");
    // As `make install` just did: where there is no nvcc it prints no name.
    let mut kernels = Command::new(root().join("scripts/build-kernels.sh"));
    let fatbin = run(kernels.args(["gpu", "build/kernels/collectives.fatbin"]).current_dir(root()));
    if !fatbin.trim().is_empty() {
        let fatbin = std::fs::read(fatbin.trim()).unwrap();
        for library in ["lib/libginrs.so", "lib/libginrs.a"] {
            let bytes = std::fs::read(moved.join(library)).unwrap();
            let head = &fatbin[..fatbin.len().min(4096)];
            assert!(bytes.windows(head.len()).any(|window| window == head), "{library} has no GPU kernels");
        }
    }

    let kernel = folder.path().join("kernel.cu");
    std::fs::write(&kernel, KERNEL).unwrap();
    let path = format!("{}:{}", moved.join("bin").display(), std::env::var("PATH").unwrap());
    run(Command::new("ginrs-cc").arg("-o").arg(&program).arg(&kernel).env("PATH", &path));
    // The loader does not know this prefix; ginrs-cc may know it, LD_LIBRARY_PATH does.
    let output = run(Command::new("ginrs-run")
        .args(["-n", "2"])
        .arg(&program)
        .env("PATH", &path)
        .env("LD_LIBRARY_PATH", moved.join("lib")));
    assert_eq!(output.matches("kernel ran: 42").count(), 2, "{output}");
}

/// Only empty folders stay.
#[test]
fn uninstall_takes_back_what_install_put_there() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = format!("PREFIX={}", folder.path().display());
    stage(folder.path());
    run(Command::new("make").args(["-s", "uninstall", &prefix]).current_dir(root()).env_remove("MAKEFLAGS"));
    assert_eq!(run(Command::new("find").arg(folder.path()).args(["!", "-type", "d"])), "");
}

/// Who builds for the CPU device may have our nvcc in PATH, NVCC or CUDA_HOME: it is no compiler for GPUs.
#[test]
fn our_own_nvcc_builds_no_kernels_for_gpus() {
    let folder = tempfile::tempdir().unwrap();
    let home = abi_tests::prefix().join("lib/ginrs/cuda");
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
    let nvcc = home.join("bin/nvcc");
    for variable in [("PATH", path.as_ref()), ("NVCC", nvcc.as_os_str()), ("CUDA_HOME", home.as_os_str())] {
        let mut script = Command::new(root().join("scripts/build-kernels.sh"));
        script
            .arg("gpu")
            .arg(folder.path().join("out.fatbin"))
            .env_remove("NVCC")
            .env_remove("CUDA_HOME")
            .env(variable.0, variable.1);
        let output = script.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("-fatbin"), "{}: {said}", variable.0);
    }
}

/// A stand-in for nvcc that knows fewer architectures, and keeps what it was asked.
#[test]
fn an_older_nvcc_builds_kernels_for_what_it_knows() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (nvcc, out) = (folder.path().join("nvcc"), folder.path().join("out.fatbin"));
    let script = r#"#!/bin/bash
if [ "$1" = --version ]; then echo 'nvcc: NVIDIA (R) Cuda compiler driver'; exit; fi
if [ "$1" = --list-gpu-arch ]; then printf 'compute_%s\n' 70 75 80 87 90; exit; fi
while [ "$1" != -o ]; do printf '%s ' "$1"; shift; done > "$2"
"#
    .replace("> \"$2\"", &format!("> {0}.asked; echo > {0}.new", out.display()));
    std::fs::write(&nvcc, script).unwrap();
    std::fs::set_permissions(&nvcc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let build = |archs: &str| {
        let mut script = Command::new(root().join("scripts/build-kernels.sh"));
        run(script.arg("gpu").arg(&out).env("NVCC", &nvcc).env("GINRS_GPU_ARCHS", archs));
        std::fs::read_to_string(out.with_extension("fatbin.asked")).unwrap()
    };
    let asked = build("");
    assert_eq!(asked.matches("code=").count(), 4, "{asked}");
    for code in ["sm_75 ", "sm_80 ", "sm_90 ", "compute_90 "] {
        assert!(asked.contains(&format!("code={code}")), "{asked}");
    }
    assert!(build("87").contains("arch=compute_87,code=sm_87 "));
    // Architectures between share the front end's output of one that is in the list.
    assert!(build("80,87").contains("arch=compute_80,code=sm_87 "));
    for unknown in ["120", "hopper"] {
        let mut script = Command::new(root().join("scripts/build-kernels.sh"));
        let output = script.arg("gpu").arg(&out).env("NVCC", &nvcc).env("GINRS_GPU_ARCHS", unknown).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("must be 'all', 'native', or numbers of 70 75 80 87 90"), "{said}");
        assert!(said.contains("| fix: ") && said.contains(unknown), "{said}");
    }
}

const PROGRAM: &str = "#include <ginrs_bootstrap.h>\n#include <nccl.h>\n#include <stdio.h>\nint main(void) { int v = 0; ncclGetVersion(&v); printf(\"%d\\n\", v); return 0; }\n";

/// An all-reduce of two ranks of one process; the CPU device's memory can be read here.
const COLLECTIVE: &str = r#"
#include <nccl.h>
#include <stdio.h>
#include <time.h>
int main(void) {
  ncclComm_t comms[2];
  volatile float* at[2];
  if (ncclCommInitAll(comms, 2, NULL) != ncclSuccess) return 1;
  for (int i = 0; i < 2; i++) {
    if (ncclMemAlloc((void**)&at[i], 4096) != ncclSuccess) return 2;
    at[i][0] = i + 1;
  }
  ncclGroupStart();
  for (int i = 0; i < 2; i++) {
    float* buffer = (float*)at[i];
    if (ncclAllReduce(buffer, buffer, 1024, ncclFloat, ncclSum, comms[i], NULL) != ncclSuccess) return 3;
  }
  if (ncclGroupEnd() != ncclSuccess) return 4;
  struct timespec nap = {0, 1000000};
  while (at[0][0] != 3 || at[1][0] != 3) nanosleep(&nap, NULL);
  printf("%g %g\n", at[0][0], at[1][0]);
  for (int i = 0; i < 2; i++)
    if (ncclCommDestroy(comms[i]) != ncclSuccess || ncclMemFree((void*)at[i]) != ncclSuccess) return 5;
  return 0;
}
"#;

const KERNEL: &str = r#"
#include <cuda_runtime.h>
#include <nccl_device.h>
#include <stdio.h>
__global__ void answer(int* out) { *out = 42; }
int main() {
  int* at;
  cudaMallocManaged(&at, sizeof(int));
  answer<<<1, 1>>>(at);
  cudaDeviceSynchronize();
  printf("kernel ran: %d\n", *at);
  return 0;
}
"#;

/// find_package under both names, from a moved prefix, without and with a version; ginrs-cc as the compiler of a `.cu` file.
#[test]
fn cmake_finds_it_under_both_names() {
    let folder = tempfile::tempdir().unwrap();
    make_install(folder.path());
    let moved = folder.path().join("elsewhere");
    std::fs::rename(folder.path().join("opt/ginrs"), &moved).unwrap();
    std::fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    std::fs::write(folder.path().join("kernel.cu"), KERNEL).unwrap();
    std::fs::write(folder.path().join("CMakeLists.txt"), CMAKE).unwrap();
    let build = folder.path().join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", moved.display());
    let compiler = format!("-DCMAKE_CXX_COMPILER={}", moved.join("bin/ginrs-cc").display());
    run(Command::new("cmake").arg("-S").arg(folder.path()).arg("-B").arg(&build).args([prefix, compiler]));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["ours", "archive", "nccl", "variables"] {
        assert_eq!(run(&mut Command::new(build.join(program))), "22809\n", "{program}");
    }
    assert_eq!(run(&mut Command::new(build.join("kernel"))), "kernel ran: 42\n");
}

const CMAKE: &str = r#"
cmake_minimum_required(VERSION 3.18)
project(consumer C CXX)
find_package(ginrs 0.1 REQUIRED)
find_package(NCCL 2.28 CONFIG REQUIRED)
find_package(NCCL 2.29 CONFIG QUIET)
if(NCCL_FOUND)
  message(FATAL_ERROR "2.28.9 is not 2.29")
endif()
find_package(NCCL 2.19 CONFIG REQUIRED)
foreach(pair "ours;ginrs::ginrs" "archive;ginrs::static" "nccl;NCCL::nccl" "variables;${NCCL_LIBRARIES}")
  list(GET pair 0 name)
  list(GET pair 1 library)
  add_executable(${name} program.c)
  target_include_directories(${name} PRIVATE ${NCCL_INCLUDE_DIRS})
  target_link_libraries(${name} PRIVATE ${library})
endforeach()
add_executable(kernel kernel.cu)
set_source_files_properties(kernel.cu PROPERTIES LANGUAGE CXX)
target_link_libraries(kernel PRIVATE NCCL::nccl)
"#;

/// A binary that was linked against NVIDIA's libnccl.so.2 runs on ginrs; with a stand-in of that name here, so that the test
/// needs no download. Loaded under both names, the library is one.
#[test]
fn a_binary_linked_with_nccl_runs_on_ginrs() {
    let folder = tempfile::tempdir().unwrap();
    make_install(folder.path());
    let installed = folder.path().join("opt/ginrs");
    let fake = folder.path().join("libnccl.so.2");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("fake.c"), "int ncclGetVersion(int* v) { *v = 1; return 0; }\n").unwrap();
    run(Command::new("gcc").args(["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o"]).arg(&fake).arg(at("fake.c")));
    std::fs::write(at("program.c"), BOTH_NAMES).unwrap();
    let program = at("program");
    let include = format!("-I{}", installed.join("include/ginrs").display());
    run(Command::new("gcc").arg("-o").arg(&program).arg(at("program.c")).arg(include).arg(&fake).arg("-ldl"));
    let with = |path: &Path| run(Command::new(&program).env("LD_LIBRARY_PATH", path));
    assert!(with(folder.path()).starts_with("1 "), "the stand-in itself");
    let (compat, lib) = (installed.join("lib/ginrs/compat"), installed.join("lib"));
    let both = std::env::join_paths([&compat, &lib]).unwrap();
    assert_eq!(with(Path::new(&both)), "22809 one library\n");
}

/// Loads what it is told by name or path, and says in which file its ncclGetVersion is.
const ASKS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    void* library = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);
    void* function = library ? dlsym(library, "ncclGetVersion") : NULL;
    Dl_info info;
    if (!function || !dladdr(function, &info)) return fprintf(stderr, "%s\n", dlerror()), 1;
    printf("%s ", strrchr(info.dli_fname, '/') + 1);
  }
  return 0;
}
"#;

/// As JAX does: another libnccl.so.2 is loaded by its path, and libnccl.so.2 is asked for behind that. The loader gives who asks for a name the library that
/// says to be of that name and was loaded first.
#[test]
fn what_asks_for_nccl_by_name_gets_ginrs_though_another_was_loaded_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    stage(&at("ginrs"));
    std::fs::rename(at("ginrs"), at("moved")).unwrap();
    let (compat, other, program) = (at("moved/lib/ginrs/compat"), at("libnccl.so.2"), at("asks"));
    std::fs::write(at("other.c"), "int ncclGetVersion(int* v) { *v = 1; return 0; }\n").unwrap();
    run(Command::new("gcc").args(["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o"]).arg(&other).arg(at("other.c")));
    std::fs::write(at("asks.c"), ASKS).unwrap();
    run(Command::new("gcc").arg("-o").arg(&program).arg(at("asks.c")).arg("-ldl"));
    let asks = |preloaded: PathBuf| {
        run(Command::new(&program)
            .arg(&other)
            .args(["libnccl.so.2", "libginrs.so.0"])
            .env("LD_PRELOAD", preloaded)
            .env("LD_LIBRARY_PATH", &compat))
    };
    assert_eq!(asks(compat.join("libnccl.so.2")), "libnccl.so.2 libginrs.so.0 libginrs.so.0 ");
    assert_eq!(asks(compat.join("libginrs.so.0")), "libnccl.so.2 libnccl.so.2 libginrs.so.0 ", "the name is the other one's");
    // Whoever loads it would have every stack executable without this, and glibc 2.41 refuses to.
    let headers = run(Command::new("readelf").arg("-lW").arg(compat.join("libnccl.so.2")));
    assert!(headers.lines().any(|line| line.contains("GNU_STACK") && line.contains("RW ")), "{headers}");
}

/// Makefiles that are told NCCL_HOME want include/ and lib/ below it, and link with -lnccl.
#[test]
fn the_compat_folder_is_an_nccl_home() {
    let folder = tempfile::tempdir().unwrap();
    let destdir = folder.path().join("installed");
    stage(&destdir);
    let home = destdir.join("lib/ginrs/compat");
    let (source, program) = (folder.path().join("program.c"), folder.path().join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    run(Command::new("gcc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg(format!("-I{}", home.join("include").display()))
        .arg(format!("-L{}", home.join("lib").display()))
        .arg("-lnccl"));
    assert_eq!(run(Command::new(&program).env("LD_LIBRARY_PATH", home.join("lib"))), "22809\n");
}

const BOTH_NAMES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
int main(void) {
  int version = 0;
  ncclGetVersion(&version);
  void* again = dlopen("libginrs.so.0", RTLD_NOW);
  void* there = again ? dlsym(again, "ncclGetVersion") : NULL;
  printf("%d %s\n", version, there == (void*)ncclGetVersion ? "one library" : "another library");
  return 0;
}
"#;

/// The list that rustc gives for a static library is the one in Libs.private and in the Makefile.
#[test]
fn the_system_libraries_are_rustcs() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.rs");
    std::fs::write(&source, "#[unsafe(no_mangle)] pub extern \"C\" fn empty() {}").unwrap();
    let output = Command::new("rustc")
        .args(["--crate-type=staticlib", "--print=native-static-libs", "--edition=2024", "-o"])
        .arg(folder.path().join("libempty.a"))
        .arg(&source)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let list =
        text.lines().find_map(|line| line.split_once("native-static-libs: ")).expect("rustc prints the list").1.trim().to_owned();
    let pc = std::fs::read_to_string(root().join("pkgconfig/ginrs.pc.in")).unwrap();
    assert!(pc.contains(&format!("Libs.private: {list}\n")), "rustc says {list}");
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    assert!(makefile.contains(&format!("SYSTEM_LIBS := {list}\n")), "rustc says {list}");
}
