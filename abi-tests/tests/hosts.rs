//! `--check=race`: kernels that use memory which host code has made are told, with the line that uses it and the one that has made it, and their mended
//! twins are not; nor are kernels that make memory for themselves. `races/hosts.cu` has a case for each.

use abi_tests::programs::{self, compiled_as};
use abi_tests::{prefix, root, text};
use std::path::PathBuf;
use std::process::{Command, Output};

const SOURCE: &str = "abi-tests/races/hosts.cu";

fn program() -> PathBuf {
    compiled_as(SOURCE, &["--check=race".into(), "-O1".into(), "-w".into(), "--extended-lambda".into()])
}

/// By itself, and as two processes of a job.
fn runs(arguments: &[&str]) -> [Output; 2] {
    [None, Some(prefix().join("bin/ginrs-run"))].map(|runner| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "240"]).current_dir(root());
        if let Some(runner) = runner {
            command.arg(runner).args(["--check=race", "-n", "2"]);
        }
        command.arg(program()).args(arguments).output().unwrap()
    })
}

fn line_of(mark: &str) -> String {
    format!("{SOURCE}:{}", programs::line_of(SOURCE, mark))
}

#[test]
fn memory_of_the_host_in_a_kernel_is_told_and_its_twin_is_not() {
    let (vector, malloc) = (line_of("made for: vector"), line_of("made for: malloc"));
    for (case, mark, memory) in [
        (
            "vector",
            "reads",
            format!("is byte 0 of the 256 bytes of new in host code at {vector}, read there by device 0, block (0,0,0)"),
        ),
        ("result", "writes", "is byte 0 of the 256 bytes of new in host code at".into()),
        ("memcpy", "copies", "is byte 0 of the 256 bytes of new in host code at".into()),
        ("job", "works", "is byte 0 of the 256 bytes of new in host code at".into()),
        ("lambda", "lambda", "is byte 0 of the 256 bytes of new in host code at".into()),
        (
            "malloc",
            "reads",
            format!("is byte 0 of the 256 bytes of malloc in host code at {malloc}, read there by device 0, block"),
        ),
        ("calloc", "reads", "is byte 0 of the 256 bytes of malloc in host code at".into()),
        ("realloc", "reads", "is byte 0 of the 256 bytes of malloc in host code at".into()),
        ("aligned", "reads", "is byte 0 of the 256 bytes of malloc in host code at".into()),
        ("memalign", "writes", "is byte 0 of the 256 bytes of malloc in host code at".into()),
        ("new", "counts", "is byte 0 of the 4 bytes of new in host code at".into()),
        ("array", "reads", "is byte 0 of the 256 bytes of new in host code at".into()),
        ("nothrow", "polls", "is byte 0 of the 4 bytes of new in host code at".into()),
        ("line", "reads", "is byte 0 of the 256 bytes of new in host code at".into()),
        ("unique", "writes", "is byte 0 of the 256 bytes of new in host code at".into()),
        ("mmap", "writes", "is byte 0 of the 256 bytes of mmap in host code at".into()),
        ("global", "reads", "is byte 0 of the 256 bytes of the host's variable global, read there by".into()),
        ("internal", "writes", "is byte 0 of the 256 bytes of the host's variable internal, written there by".into()),
        ("nested", "reads", "is byte 0 of the 256 bytes of the host's variable names::nested, read there by".into()),
        ("member", "reads", "is byte 0 of the 256 bytes of the host's variable Counter::all, read there by".into()),
    ] {
        let begin = format!("a host pointer is used in a kernel at {}: ", line_of(&format!("use of: {mark}")));
        for output in runs(&[case]) {
            let said = text(&output);
            assert_eq!(output.status.code(), Some(66), "{case}: {said}");
            assert!(said.contains(&begin) && said.contains(&memory), "{case}: {begin} {memory}\n{said}");
            assert!(said.matches(": race 1:").count() > 0 && !said.contains(": race 2:"), "{case}: {said}");
        }
        for twin in runs(&[case, "mended"]) {
            assert!(twin.status.success() && !text(&twin).contains("race"), "{case} mended: {}\n{}", twin.status, text(&twin));
        }
    }
}

/// Kernels' own memory, also where the host had some before; registered memory; arguments with memory of their own.
#[test]
fn what_kernels_make_themselves_is_theirs() {
    for output in runs(&["lawful"]) {
        assert!(output.status.success() && !text(&output).contains("race"), "{}\n{}", output.status, text(&output));
    }
}

/// Operators and functions of the program's own are what is called, and what they make is not told where they stand in the .cu file themselves.
#[test]
fn a_program_may_have_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
        #include <cstdio>
        #include <cstdlib>
        #include <new>
        extern "C" void* aligned_alloc(size_t, size_t bytes) noexcept { return malloc(bytes); }
        static int calls;
        void* operator new(size_t bytes) { calls++; return malloc(bytes); }
        void operator delete(void* memory) noexcept { free(memory); }
        void operator delete(void* memory, size_t) noexcept { free(memory); }
        __global__ void k(int* p) { *p = 1; }
        int main() {
          int* made = new int;
          int* device;
          cudaMalloc(&device, 4);
          k<<<1, 1>>>(device);
          cudaDeviceSynchronize();
          delete made;
          puts(calls > 0 && aligned_alloc(8, 8) ? "ok" : "others are called");
        }"#;
    let (file, program) = (folder.path().join("own.cu"), folder.path().join("own"));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new(prefix().join("bin/ginrs-cc"));
    let compiled = compiler.args(["--check=race", "-O1", "-w", "-o"]).arg(&program).arg(&file).output().unwrap();
    assert!(compiled.status.success(), "{}", text(&compiled));
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success() && text(&output).contains("ok"), "{}\n{}", output.status, text(&output));
}
