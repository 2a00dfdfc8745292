//! `make install` into a folder of its own, moved afterwards, and used with nothing but PATH and pkg-config.

use abi_tests::{root, run};
use std::path::Path;
use std::process::Command;

fn make_install(into: &Path) {
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
        "lib/ginrs/cpu/include/cuda_runtime.h",
        "include/ginrs/nccl.h",
        "include/ginrs/ginrs.h",
        "include/ginrs/nccl_device.h",
        "include/ginrs/nccl_device/gin.h",
        "bin/ginrs-cc",
        "bin/ginrs-run",
        "share/doc/ginrs/MATRIX.md",
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

const PROGRAM: &str =
    "#include <nccl.h>\n#include <stdio.h>\nint main(void) { int v = 0; ncclGetVersion(&v); printf(\"%d\\n\", v); return 0; }\n";

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
