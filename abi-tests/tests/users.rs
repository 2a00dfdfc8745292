//! Programs as users write them, `users/`: the installed `ginrs-cc` compiles each unchanged, it runs on the CPU device and must
//! end with "NAME: ok". Compiled with -DPLANT one result of each is wrong, and it must say so. nvcc compiles and links the
//! same files with our headers and with NVIDIA's (`cargo test -p abi-tests --test users -- --ignored`). Needs GINRS_PREFIX.

use abi_tests::{prefix, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How a program is run: arguments, environment, and whether `ginrs-run` starts its ranks (then the first argument says
/// how many, and the second is a folder of its own).
struct Run {
    arguments: &'static str,
    environment: &'static [(&'static str, &'static str)],
    launched: bool,
}

const fn run(arguments: &'static str) -> Run {
    Run { arguments, environment: &[], launched: false }
}

const fn on_nodes(arguments: &'static str, environment: &'static [(&'static str, &'static str)]) -> Run {
    Run { arguments, environment, launched: false }
}

const fn launched(arguments: &'static str) -> Run {
    Run { arguments, environment: &[], launched: true }
}

struct Program {
    name: &'static str,
    sources: &'static [&'static str],
    flags: &'static [&'static str],
    /// The first one also with a planted fault.
    runs: &'static [Run],
}

const TWO_NODES: &[(&str, &str)] = &[("GINRS_FAKE_NODES", "0,0,1,1")];
const FOUR_NODES: &[(&str, &str)] = &[("GINRS_FAKE_NODES", "per-rank")];

const PROGRAMS: &[Program] = &[
    Program { name: "ring", sources: &["ring.c"], flags: &[], runs: &[run("2"), run("1"), run("5")] },
    Program { name: "collectives", sources: &["collectives.cc"], flags: &["-std=c++17"], runs: &[run("2"), run("1"), run("4")] },
    Program {
        name: "shared_signal",
        sources: &["shared_signal.cu"],
        flags: &["-O2"],
        runs: &[run("4"), run("1"), on_nodes("4 hybrid", TWO_NODES)],
    },
    Program {
        name: "fused_norm",
        sources: &["fused_norm.cu"],
        flags: &["-std=c++17", "-O3"],
        runs: &[run("2"), run("1"), run("4")],
    },
    Program {
        name: "fp8_exchange",
        sources: &["fp8_exchange.cu"],
        flags: &["-std=c++17"],
        runs: &[launched("2"), launched("1"), launched("4")],
    },
    Program { name: "stencil", sources: &["stencil.cu"], flags: &["-std=c++20", "-O3"], runs: &[run("2"), run("1"), run("4")] },
    Program {
        name: "process_group",
        sources: &["process_group.cc"],
        flags: &["-std=c++20"],
        runs: &[run("2"), run("1"), run("4")],
    },
    Program {
        name: "search",
        sources: &["search.cu"],
        flags: &["-std=c++17", "--expt-relaxed-constexpr"],
        runs: &[run("2"), on_nodes("4", TWO_NODES), on_nodes("4", FOUR_NODES)],
    },
    Program {
        name: "bench",
        sources: &["bench.cu", "bench_check.cu", "bench_kernels.cu"],
        flags: &["-std=c++17", "-O3", "-gencode", "arch=compute_90,code=sm_90", "-lcudart", "-lnccl"],
        runs: &[run("-n 2"), run("-n 1 -c 5"), run("-n 3 -g 2 -b 3")],
    },
];

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("users").join(file)
}

fn compile(program: &Program, more: &[&str], out: &Path) {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120"]).arg(prefix().join("bin/ginrs-cc"));
    command.args(program.sources.iter().map(|s| source(s))).args(program.flags).args(more).arg("-o").arg(out);
    let output = command.output().expect("timeout and ginrs-cc start");
    assert!(output.status.success(), "{} does not compile:\n{}", program.name, text(&output));
}

fn start(program: &Path, how: &Run) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "-s", "ABRT", "100"]);
    if how.launched {
        command.arg(prefix().join("bin/ginrs-run")).args(["--no-prefix", "-n", how.arguments]).arg(program).arg(folder.path());
    } else {
        command.arg(program).args(how.arguments.split(' '));
    }
    command.envs(how.environment.iter().copied()).output().expect("timeout starts")
}

fn is_ok(name: &str, output: &Output) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).lines().last() == Some(&format!("{name}: ok"))
}

#[test]
fn programs_run_unchanged() {
    let build = tempfile::tempdir().unwrap();
    for program in PROGRAMS {
        let out = build.path().join(program.name);
        compile(program, &[], &out);
        for how in program.runs {
            let output = start(&out, how);
            assert!(
                is_ok(program.name, &output),
                "{} {} {:?}: {}\n{}",
                program.name,
                how.arguments,
                how.environment,
                output.status,
                text(&output)
            );
        }
    }
}

#[test]
fn a_planted_fault_is_found() {
    let build = tempfile::tempdir().unwrap();
    for program in PROGRAMS {
        let out = build.path().join(program.name);
        compile(program, &["-DPLANT", "-O0"], &out);
        let output = start(&out, &program.runs[0]);
        assert!(!output.status.success() && !is_ok(program.name, &output), "{} did not find the fault", program.name);
    }
}

/// Compiles `text` as a program of its own and runs it.
fn run_text(program: &str) -> Output {
    let build = tempfile::tempdir().unwrap();
    let (file, out) = (build.path().join("program.cu"), build.path().join("program"));
    std::fs::write(&file, program).unwrap();
    let compiled =
        Command::new(prefix().join("bin/ginrs-cc")).arg("-O2").arg(&file).arg("-o").arg(&out).output().expect("ginrs-cc starts");
    assert!(compiled.status.success(), "{}", text(&compiled));
    Command::new("timeout").args(["-k", "5", "60"]).arg(&out).output().expect("timeout starts")
}

/// The process dies of the signal, after a line that says where.
#[test]
fn an_illegal_address_is_named() {
    let output = run_text(
        "__global__ void poke(float* p) { if (threadIdx.x == 5) p[blockIdx.x] = 1; }\n\
         int main() { poke<<<2, 32>>>((float*)0x1234); return cudaDeviceSynchronize(); }\n",
    );
    let told = text(&output);
    assert!(
        !output.status.success() && told.contains("illegal address 0x123") && told.contains("thread (5,0,0)"),
        "{}\n{told}",
        output.status
    );
    assert!(told.contains("kernel poke (launched at") && told.contains("program.cu:2)"), "{told}");
}

/// As on a GPU, which has no trap for it; once it is told where.
#[test]
fn an_integer_division_by_zero_goes_on() {
    let output = run_text(
        r#"#include <cstdio>
        __global__ void divide(unsigned const* by, long long const* wide, unsigned* out, long long* far) {
          unsigned const i = threadIdx.x;
          out[i] = (100 + i) / by[i];
          far[i] = -7 / wide[i];
        }
        template <typename T> T* make(T first, T rest) {
          T* at;
          cudaMallocManaged(&at, 64 * sizeof(T));
          for (int i = 0; i < 64; i++) at[i] = i ? rest : first;
          return at;
        }
        int main() {
          unsigned *by = make(5u, 0u), *out = make(1u, 1u);
          long long *wide = make(7ll, 0ll), *far = make(1ll, 1ll);
          divide<<<1, 64>>>(by, wide, out, far);
          cudaError_t const error = cudaDeviceSynchronize();
          int wrong = 0;
          for (int i = 0; i < 64; i++) {
            if (out[i] == (i ? ~0u : 20) && far[i] == -1) continue;
            printf("%d: %u %lld\n", i, out[i], far[i]);
            wrong++;
          }
          return error || wrong;
        }"#,
    );
    let told = text(&output);
    assert!(output.status.success(), "{}\n{told}", output.status);
    if cfg!(target_arch = "x86_64") {
        assert!(told.contains("integer division by zero in thread (1,0,0) of block (0,0,0) of kernel divide"), "{told}");
        assert_eq!(told.matches("division by zero").count(), 1, "{told}");
    }
}

/// The host's own division by zero is none of the device's business.
#[test]
fn an_integer_division_by_zero_of_the_host_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let output = run_text(
        "__global__ void idle() {}\n\
         int main(int n, char**) { idle<<<1, 1>>>(); cudaDeviceSynchronize(); int volatile zero = n - 1; return 7 / zero; }\n",
    );
    if cfg!(target_arch = "x86_64") {
        // 8 is SIGFPE; `timeout` passes it on as its own end, or as 128 + 8.
        assert!(output.status.signal() == Some(8) || output.status.code() == Some(136), "{}\n{}", output.status, text(&output));
    }
}

/// NCCL leaves it undefined, and its public benchmark times it: no error, none is left behind, and no line among those of its table.
#[test]
fn an_alltoall_in_place_passes_and_is_told_at_info_once_for_each_communicator() {
    let program = r#"#include <cstdio>
        #include <cstdlib>
        #include "nccl.h"
        int main() {
          if (LEVEL[0]) setenv("NCCL_DEBUG", LEVEL, 1), setenv("NCCL_DEBUG_SUBSYS", "COLL", 1);
          ncclComm_t comms[2];
          float* buffers[2];
          int failed = ncclCommInitAll(comms, 2, NULL);
          for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 2; i++) cudaSetDevice(i), cudaMalloc(&buffers[i], 8192);
            ncclGroupStart();
            for (int i = 0; i < 2; i++) failed |= ncclAlltoAll(buffers[i], buffers[i], 1024, ncclFloat, comms[i], NULL);
            failed |= ncclGroupEnd();
            for (int i = 0; i < 2; i++) cudaSetDevice(i), failed |= cudaDeviceSynchronize();
          }
          printf("last error: '%s'\n", ncclGetLastError(NULL));
          for (int i = 0; i < 2; i++) failed |= ncclCommDestroy(comms[i]);
          return failed;
        }"#;
    for (debug, times) in [("", 0), ("WARN", 0), ("INFO", 2)] {
        let output = run_text(&program.replace("LEVEL", &format!("\"{debug}\"")));
        let told = text(&output);
        assert!(output.status.success() && told.contains("last error: ''"), "{}\n{told}", output.status);
        assert_eq!(told.matches("ncclAlltoAll in place leaves recvbuff undefined").count(), times, "{debug}:\n{told}");
    }
}

/// Minutes of nvcc, and no GPU: `make test` leaves it out.
#[test]
#[ignore = "takes minutes; needs GINRS_TEST_VENV with nvcc and NVIDIA's NCCL"]
fn nvcc_takes_them_with_our_headers_and_with_nvidias() {
    let venv = std::env::var("GINRS_TEST_VENV").expect("GINRS_TEST_VENV names a venv with NVIDIA's wheels");
    let packages = glob_one(&Path::new(&venv).join("lib"), "python").join("site-packages/nvidia");
    let (cuda, nccl) = (packages.join("cu13"), packages.join("nccl"));
    let build = tempfile::tempdir().unwrap();
    let ours = (prefix().join("include/ginrs"), prefix().join("lib/ginrs/compat"));
    let nvidias = (nccl.join("include"), nccl.join("lib"));
    for program in PROGRAMS {
        for (include, library) in [&ours, &nvidias] {
            let mut command = Command::new(cuda.join("bin/nvcc"));
            let links = ["-lnccl", "-lcudart"];
            let flags =
                program.flags.iter().filter(|f| !f.starts_with("-l") && !f.starts_with("-gencode") && !f.starts_with("arch="));
            command.args(flags).args(["-arch=sm_90", "-I"]).arg(include).args(program.sources.iter().map(|s| source(s)));
            command.args(["-Xlinker", "--allow-shlib-undefined"]).arg(format!("-L{}", cuda.join("lib").display()));
            command.arg(format!("-L{}", build.path().display())).arg("-o").arg(build.path().join(program.name));
            for (name, target) in
                [("libnccl.so", library.join("libnccl.so.2")), ("libcudart.so", cuda.join("lib/libcudart.so.13"))]
            {
                let link = build.path().join(name);
                let _ = std::fs::remove_file(&link);
                std::os::unix::fs::symlink(target, link).unwrap();
            }
            let output = command.args(links).output().expect("nvcc starts");
            assert!(output.status.success(), "{} with {}:\n{}", program.name, include.display(), text(&output));
        }
    }
}

/// The entry of `folder` whose name starts so.
fn glob_one(folder: &Path, start: &str) -> PathBuf {
    let mut entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten();
    let found = entries.find(|e| e.file_name().to_string_lossy().starts_with(start));
    found.unwrap_or_else(|| panic!("{}/{start}* is not there", folder.display())).path()
}
