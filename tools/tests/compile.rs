//! ginrs-cc from source to running program, on the stand-in headers and a small runtime.

mod support;

use support::{Prefix, errors};

fn program(name: &str, flags: &[&str]) {
    let prefix = Prefix::get();
    let source = format!("{}/../abi-tests/cpu-kernels/{name}.cu", env!("CARGO_MANIFEST_DIR"));
    let output = format!("{name}{}", flags.concat().replace(['/', '+', ','], "_"));
    prefix.compile(&[&["-o", &output, &source], flags].concat());
    assert_eq!(prefix.run(&output), format!("{name}: ok\n"), "{flags:?}");
}

fn with_clang(test: impl FnOnce()) {
    match std::process::Command::new("clang++").arg("--version").output() {
        Ok(_) => test(),
        Err(_) => eprintln!("skipped: no clang++ (apt-get install clang)"),
    }
}

#[test]
fn launches() {
    program("launch_forms", &["-Xcompiler", "-Wall,-Werror"]);
}

#[test]
fn launches_without_optimization() {
    program("launch_forms", &["-G", "-std=c++20"]);
}

#[test]
fn launches_with_clang() {
    with_clang(|| program("launch_forms", &["-ccbin", "clang++"]));
}

#[test]
fn storage() {
    program("storage", &["-Xcompiler", "-Wall,-Wextra,-Werror"]);
    with_clang(|| program("storage", &["-ccbin", "clang++"]));
}

#[test]
fn storage_shared_between_files() {
    program("storage", &["-rdc=true"]);
}

#[test]
fn ptx() {
    program("ptx", &["-Xcompiler", "-Wall,-Wextra,-Wpedantic,-Werror"]);
    with_clang(|| program("ptx", &["-ccbin", "clang++", "-O0"]));
}

#[test]
fn files_share_device_code_with_rdc() {
    let prefix = Prefix::get();
    prefix.write("rdc.cuh", "extern __device__ int total; __device__ void bump(int by); struct S { static __device__ int n[2]; };\n__global__ void other(int* p);\n");
    prefix.write("rdc1.cu", "#include \"rdc.cuh\"\n__device__ int total = 3; __device__ int S::n[2] = {1, 2};\n__device__ void bump(int by) { total += by; S::n[1] += by; }\n__global__ void other(int* p) { *p += total * 10 + S::n[1]; }\n");
    prefix.write("rdc2.cu", "#include \"rdc.cuh\"\n#include <cstdio>\n__global__ void k() { bump(4); total++; }\nint main() { int v = 0; k<<<1, 2>>>(); other<<<1, 1>>>(&v); printf(\"%d\\n\", v); }\n");
    prefix.compile(&["-rdc=true", "-c", "rdc1.cu"]);
    prefix.compile(&["-dc", "rdc2.cu", "-o", "rdc2.o"]);
    prefix.compile(&["-dlink", "rdc1.o", "rdc2.o", "-o", "rdc_dlink.o"]);
    prefix.compile(&["rdc1.o", "rdc2.o", "rdc_dlink.o", "-lcudart", "-lcudadevrt", "-lnccl", "-o", "rdc"]);
    assert_eq!(prefix.run("rdc"), "140\n");
}

#[test]
fn files_keep_their_own_device_code_without_rdc() {
    let prefix = Prefix::get();
    prefix.write("own.cuh", "__device__ int count = 1; __constant__ float c[2]; __device__ int twice(int x) { return 2 * x; }\n");
    prefix.write("own1.cu", "#include \"own.cuh\"\n__device__ int mine() { return 1; }\n__global__ void a(int* p) { *p = twice(count++) + mine(); }\nint one() { int v; a<<<1, 1>>>(&v); a<<<1, 1>>>(&v); return v; }\n");
    prefix.write("own2.cu", "#include \"own.cuh\"\n#include <cstdio>\n__device__ int mine() { return 100; }\n__global__ void b(int* p) { *p = twice(count++) + mine(); }\nint one();\nint main() { int v; b<<<1, 1>>>(&v); printf(\"%d %d\\n\", one(), v); }\n");
    prefix.compile(&["own1.cu", "own2.cu", "-o", "own"]);
    assert_eq!(prefix.run("own"), "5 102\n");
}

#[test]
fn objects_link_with_gcc_and_host_files_compile() {
    let prefix = Prefix::get();
    prefix.write(
        "kernel.cu",
        "__global__ void k(int* p) { *p = 5; }\nextern \"C\" int launch() { int v; k<<<1, 1>>>(&v); return v; }\n",
    );
    prefix.write("main.c", "#include <stdio.h>\n#include <cuda_runtime_api.h>\nint launch(void);\nint main(void) { dim3 d = {1, 1, 1}; printf(\"%d\\n\", launch() + (int)d.x); return 0; }\n");
    prefix.write("more.cpp", "#include <cuda_runtime.h>\n#include <vector>\nint more() { return (int)cudaGetLastError(); }\n");
    prefix.compile(&["-c", "kernel.cu", "main.c", "more.cpp"]);
    let library = prefix.work().join("../lib");
    let status = std::process::Command::new("g++")
        .args(["kernel.o", "main.o", "-o", "mixed", "-pthread", "-lginrs", "-lginrs_cpu"])
        .arg(format!("-L{}", library.display()))
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .current_dir(prefix.work())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(prefix.run("mixed"), "6\n");
    prefix.compile(&["-shared", "-Xcompiler", "-fPIC", "-o", "libkernel.so", "kernel.cu"]);
    assert!(prefix.work().join("libkernel.so").exists());
}

#[test]
fn what_cannot_be_compiled_is_named() {
    let prefix = Prefix::get();
    let cases = [
        (
            "nested.cu",
            "__global__ void a() {}\n__global__ void k() {\n  a<<<1, 1>>>();\n}\n",
            "nested.cu:3: error: a launch in device code",
        ),
        ("tex.cu", "__global__ void k(cudaTextureObject_t t) {}\n", "tex.cu:1: error: `cudaTextureObject_t`: textures"),
        ("wmma.cu", "using namespace nvcuda;\nusing namespace nvcuda::wmma;\n", "wmma.cu:2: error: `wmma`: tensor core"),
        (
            "mma.cu",
            "__global__ void k() {\n  asm volatile(\"mma.sync.aligned.m16n8k8 %0;\" :: \"r\"(1));\n}\n",
            "PTX instruction `mma.sync.aligned.m16n8k8 %0`",
        ),
        (
            "mma2.cu",
            "__device__ inline void f() {\n\n  asm volatile(\"wgmma.fence;\");\n}\n__global__ void k() { f(); }\n",
            "mma2.cu:3:",
        ),
        (
            "smem.cu",
            "__global__ void k(int* p) { asm(\"ld.global.u32 %0, [%1];\" : \"=r\"(*p) : \"r\"(3)); }\n",
            "a 32-bit address is one of shared memory",
        ),
        ("reference.cu", "__global__ void k(int& x) { x = 1; }\n", "cannot have a parameter of reference type"),
        ("moved.cu", "#include <memory>\n__global__ void k(std::unique_ptr<int> x) { *x = 1; }\n", "must be copyable"),
        (
            "initial.cu",
            "__global__ void k() {\n  __shared__ int x = 1;\n}\n",
            "initial.cu:2: error: the __shared__ variable `x` has an initializer",
        ),
        ("member.cu", "struct S { __device__ int x; };\n", "cannot be a __device__ variable unless it is static"),
        ("sharedmember.cu", "struct S { __shared__ int x; };\n", "cannot be __shared__"),
        ("variadic.cu", "__global__ void k(int n, ...) {}\n", "variable argument list"),
        ("open.cu", "__global__ void k() {}\nvoid f() { k<<<1, 1>>; }\n", "open.cu:2: error: `<<<` without its `>>>`"),
        ("bare.cu", "__global__ void k() {}\nvoid f() { k<<<1, 1>>>; }\n", "needs its arguments"),
        ("many.cu", "__global__ void k(int) {}\nvoid f() { k<<<1, 1>>>(); }\n", "too few arguments to function"),
        (
            "ptx_index.cu",
            "__global__ void k() { asm volatile(\"st.global.u32 [%0], %1;\" :: \"l\"(0)); }\n",
            "st.global.u32 [%0], %1",
        ),
    ];
    for (name, text, message) in cases {
        prefix.fails(name, text, message);
    }
}

/// Behind a launch, a kernel's head and attributes, which become longer or shorter.
#[test]
fn messages_name_the_users_columns() {
    let prefix = Prefix::get();
    let cases = [
        ("body.cu", "__global__ void k(int* p) { p[0] = wrong; }\n", "body.cu:1:36: error"),
        (
            "launch.cu",
            "__global__ void k(int* p, int) { *p = 1; }\nint main() {\n\tk<<<1, 32>>>(nullptr, wrong);\n}\n",
            "launch.cu:3:31: error",
        ),
        ("behind.cu", "__global__ void k() {}\nint main() {\n  k<<<1, 1>>>(); return wrong;\n}\n", "behind.cu:3:25: error"),
        ("shared.cu", "__global__ void k() { __shared__ int s; s = wrong; }\n", "shared.cu:1:45: error"),
        ("spaces.cu", "int main() {\n  int   a = 1; /* why */ return   wrong;\n}\n", "spaces.cu:2:35: error"),
        ("device.cu", "__device__ __forceinline__ int f() { return wrong; }\n", "device.cu:1:45: error"),
    ];
    for (name, text, message) in cases {
        prefix.fails(name, text, message);
    }
}

#[test]
fn a_function_with_unknown_ptx_may_stay_unused() {
    let prefix = Prefix::get();
    prefix.write("unused.cu", "__device__ void f() { asm volatile(\"mma.sync;\"); }\ntemplate <class T> __device__ void g() { asm volatile(\"mma.sync;\"); }\nint main() { return 0; }\n");
    prefix.compile(&["unused.cu", "-o", "unused"]);
}

#[test]
fn errors_of_the_compiler_name_the_users_line() {
    let prefix = Prefix::get();
    let text = "__global__ void k(int* p,\n                  int n) {\n  *p = n;\n}\nvoid f(int* p) {\n  k<<<1,\n      1>>>(\n      p, 2);\n  undeclared();\n}\n";
    prefix.fails("lines.cu", text, "lines.cu:9:");
}

#[test]
fn a_kernel_called_like_a_function_says_so() {
    let prefix = Prefix::get();
    prefix.write("called.cu", "__global__ void k() {}\nint main() { k(); }\n");
    prefix.compile(&["called.cu", "-o", "called"]);
    let output = std::process::Command::new(prefix.work().join("called")).output().unwrap();
    assert!(!output.status.success() && errors(&output).contains("kernel k was called like a function"));
}

#[test]
fn nvcc_flags() {
    let prefix = Prefix::get();
    prefix.write("flags.h", "#define FROM_HEADER 2\n");
    prefix.write("flags.cu", "#include <stdio.h>\n#ifndef __CUDA_ARCH__\n#error\n#endif\n#if __CUDA_ARCH__ != 900 || __CUDACC_VER_MAJOR__ != 13 || !defined(__NVCC__) || !defined(__CUDACC__) || !defined(__GINRS_CPU__)\n#error\n#endif\n__global__ void k() { printf(\"%d\\n\", VALUE + FROM_HEADER); }\nint main() { k<<<1, 1>>>(); }\n");
    prefix.compile(&[
        "-std=c++14",
        "-O3",
        "-g",
        "-lineinfo",
        "-arch=sm_90",
        "-gencode",
        "arch=compute_90,code=sm_90",
        "--generate-code=arch=compute_80,code=sm_80",
        "--expt-relaxed-constexpr",
        "--extended-lambda",
        "-Xcompiler",
        "-Wall,-Wextra",
        "-Xcompiler=-fno-math-errno",
        "-Xptxas",
        "-v",
        "-Xcudafe",
        "--diag_suppress=1",
        "-use_fast_math",
        "--maxrregcount=32",
        "-cudart=shared",
        "-rdc=false",
        "-DVALUE=1",
        "-include",
        "flags.h",
        "-I",
        ".",
        "-isystem/usr/include/none",
        "-Xlinker",
        "-rpath,/none",
        "-lcudart",
        "-lcuda",
        "-lnccl",
        "-lm",
        "-t",
        "2",
        "-x",
        "cu",
        "flags.cu",
        "-o",
        "flags",
        "-MD",
    ]);
    assert_eq!(prefix.run("flags"), "3\n");
    let rule = std::fs::read_to_string(prefix.work().join("flags.d")).unwrap();
    assert!(rule.starts_with("flags:") && rule.contains("flags.h"), "{rule}");
    let output = prefix.cc(&["-MM", "-include", "flags.h", "-DVALUE=1", "flags.cu"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("flags.o:"), "{output:?}");
    let output = prefix.cc(&["-E", "-include", "flags.h", "-DVALUE=71", "flags.cu"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("__global__ void k() { printf(\"%d\\n\", 71 + 2)"));
    let output = prefix.cc(&["--dryrun", "-include", "flags.h", "flags.cu", "-o", "none"]);
    assert!(
        output.status.success()
            && errors(&output).contains("-fsanitize-coverage=trace-pc")
            && !prefix.work().join("none").exists()
    );
}

#[test]
fn wrong_command_lines_are_named() {
    let prefix = Prefix::get();
    prefix.write("empty.cu", "");
    for (arguments, message) in [
        (&["--frobnicate", "empty.cu"][..], "unknown option `--frobnicate`"),
        (&["-ptx", "empty.cu"], "no GPU code"),
        (&["empty.cu", "-o"], "`-o` needs a value"),
        (&["empty.xyz"], "`empty.xyz`: unknown kind of file"),
        (&["-std=c++99", "empty.cu"], "-std=c++99"),
        (&["-rdc=maybe", "empty.cu"], "want true or false"),
        (&["-default-stream=per-thread", "empty.cu"], "legacy"),
        (&["-c", "missing.cu"], "missing.cu: No such file"),
        (&[], "no input files"),
        (&["-ccbin", "no-such-compiler", "-c", "empty.cu"], "cannot run the compiler `no-such-compiler`"),
        (&["-Werror=nonsense-kind,", "-Werror", "x", "empty.cu"], "unknown kind of file"),
    ] {
        let output = prefix.cc(arguments);
        assert!(!output.status.success() && errors(&output).contains(message), "{arguments:?}: {}", errors(&output));
    }
    for accepted in [
        &["-Werror", "all-warnings"][..],
        &["--Werror", "cross-execution-space-call,reorder"],
        &["-Werror"],
        &["-t0", "--compress-mode=size", "-static-global-template-stub=false"],
    ] {
        let output = prefix.cc(&[accepted, &["-c", "empty.cu", "-o", "/dev/null"]].concat());
        assert!(output.status.success(), "{accepted:?}: {}", errors(&output));
    }
    let version = prefix.cc(&["--version"]);
    assert!(version.status.success());
    // As makefiles ask nvcc: grep release | sed 's/.*release //; s/,.*//'
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let release = version.split_once("release ").and_then(|(_, rest)| rest.split_once(',')).map(|(release, _)| release);
    assert_eq!(release, Some("13.0"), "{version}");
    assert!(String::from_utf8_lossy(&prefix.cc(&["--help"]).stdout).contains("--expt-relaxed-constexpr"));
}
