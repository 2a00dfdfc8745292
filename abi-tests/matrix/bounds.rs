//! Kernels with launch bounds through ptxas, as users build them: whole programs, relocatable code, debug code. `make test` has a
//! sample, `make abi-full` all of it.

use crate::compilers::{Headers, nvcc, nvcc_command, nvcc_or_skip, root, skip, succeed};
use std::path::Path;

/// Threads of a block, and blocks of a multiprocessor.
const BOUNDS: [(u32, u32); 3] = [(1024, 1), (512, 2), (640, 1)];

fn compile(headers: Headers, arch: u32, (threads, blocks): (u32, u32), options: &[&str], out: &Path) {
    let nvcc = nvcc().expect("nvcc");
    let mut command = nvcc_command(&nvcc);
    command.arg(format!("-arch=sm_{arch}")).arg("-cubin").args(options);
    command.args([format!("-DBOUND_THREADS={threads}"), format!("-DBOUND_BLOCKS={blocks}")]);
    command.args(headers.flags().expect("the headers are there")).arg(root().join("abi-tests/matrix/bounds.cu"));
    succeed(command.arg("-o").arg(out));
}

#[test]
fn relocatable_code_keeps_to_the_bounds() {
    if nvcc_or_skip("launch bounds").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for machine code");
    compile(Headers::Ours, 90, BOUNDS[0], &["-rdc=true"], &folder.path().join("a.cubin"));
}

#[test]
#[ignore = "five minutes on two cores; make abi-full"]
fn every_bound_architecture_and_option() {
    assert!(nvcc().is_some(), "launch bounds need nvcc: make deps");
    let folder = tempfile::tempdir().expect("a folder for machine code");
    let out = folder.path().join("a.cubin");
    let options: [&[&str]; 6] = [
        &["-rdc=true"],
        &["-rdc=false"],
        &["-rdc=true", "-std=c++20"],
        &["-rdc=true", "-DGINRS_DEVICE_CHECKS=1"],
        &["-rdc=true", "-G"],
        &["-rdc=false", "-G"],
    ];
    for arch in [75, 80, 90, 100] {
        for bounds in BOUNDS {
            options.iter().for_each(|options| compile(Headers::Ours, arch, bounds, options, &out));
        }
    }
    if Headers::Nvidia.flags().is_none() {
        return skip("launch bounds with NVIDIA's headers: set GINRS_NVIDIA_NCCL or GINRS_TEST_VENV");
    }
    compile(Headers::Nvidia, 90, BOUNDS[0], &["-rdc=true"], &out);
}
