//! `ginrs-cc --coverage` in one step: gcov finds its notes beside the program, and counts lines of the .cu file.

use abi_tests::{prefix, run, text};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "#include <cuda_runtime.h>
__global__ void kernel(int* out, int n) {
  if (n > 5) {
    out[1] = 1;
  } else {
    atomicAdd(out, 1);
  }
}
int main(int argc, char**) {
  int* out;
  cudaMallocManaged(&out, 8);
  out[0] = 0;
  kernel<<<2, 32>>>(out, argc);
  return cudaDeviceSynchronize() != 0 || out[0] != 64;
}
";

fn ginrs_cc(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(prefix().join("bin/ginrs-cc"));
    command.args(["--coverage", "-O0"]).args(arguments).current_dir(folder);
    command
}

#[test]
fn lines_of_kernels_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["src", "out", "objects"] {
        std::fs::create_dir(path.join(name)).unwrap();
    }
    std::fs::write(path.join("src/halo.cu"), SOURCE).unwrap();
    // One step under another name, one under the same, and two steps: named as g++ names them.
    run(&mut ginrs_cc(path, &["-o", "out/job", "src/halo.cu"]));
    run(&mut ginrs_cc(path, &["-o", "halo", "src/halo.cu"]));
    run(&mut ginrs_cc(path, &["-c", "-o", "objects/halo.o", "src/halo.cu"]));
    run(&mut ginrs_cc(path, &["-o", "objects/linked", "objects/halo.o"]));
    for (program, notes) in [("out/job", "out/job-halo"), ("halo", "halo"), ("objects/linked", "objects/halo")] {
        assert!(path.join(format!("{notes}.gcno")).exists(), "no notes of {program}");
        // From anywhere, several at a time.
        run(Command::new(prefix().join("bin/ginrs-run")).args(["-n", "2"]).arg(path.join(program)).current_dir("/"));
        run(Command::new("gcov").args(["-r", &format!("{notes}.gcda")]).current_dir(path));
        let report = std::fs::read_to_string(path.join("halo.cu.gcov")).unwrap();
        let count = |line: usize| {
            let row = report.lines().find(|row| row.split(':').nth(1).is_some_and(|number| number.trim() == line.to_string()));
            row.unwrap_or_else(|| panic!("{report}")).split(':').next().unwrap().trim().to_owned()
        };
        assert_eq!([3, 4, 6, 13].map(count), ["128", "#####", "128", "2"], "{program}\n{report}");
        std::fs::remove_file(path.join("halo.cu.gcov")).unwrap();
    }
}

#[test]
fn sources_of_one_name_share_no_notes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::create_dir(path.join("other")).unwrap();
    for name in ["halo.cu", "other/halo.cu"] {
        std::fs::write(path.join(name), SOURCE).unwrap();
    }
    let output = ginrs_cc(path, &["-o", "job", "halo.cu", "other/halo.cu"]).output().unwrap();
    let wanted = "halo.cu and other/halo.cu would share one file of notes; compile each with -c -o";
    assert!(!output.status.success() && text(&output).contains(wanted), "{}", text(&output));
}
