//! The folders that serve as CUDA_HOME and NCCL_HOME: projects that are written for NVIDIA's toolkit, with Makefiles and with
//! CMake's own language CUDA, build against an installed tree that was moved, and their programs run.

use abi_tests::{root, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An installed tree, moved, and the projects beside it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("first");
        let mut stage = Command::new(root().join("scripts/stage.sh"));
        run(stage.arg(&first).arg(env!("CARGO_PKG_VERSION")).current_dir(root()));
        std::fs::rename(first, folder.path().join("prefix")).unwrap();
        run(Command::new("cp").arg("-r").arg(root().join("abi-tests/toolkit")).arg(folder.path()));
        Place { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// What ginrs-cc prints for --cuda-home and --nccl-home.
    fn home(&self, which: &str) -> String {
        run(Command::new(self.at("prefix/bin/ginrs-cc")).arg(which)).trim_end().to_owned()
    }

    fn make(&self, out: &str, arguments: &[&str]) {
        let homes = [("CUDA_HOME", "--cuda-home"), ("NCCL_HOME", "--nccl-home")].map(|(k, w)| format!("{k}={}", self.home(w)));
        let mut make = Command::new("make");
        make.arg("-C").arg(self.at("toolkit/make")).args(homes).arg(format!("OUT={out}")).args(arguments);
        run(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"));
    }
}

const SAYS: &str = "kernel and reduction: 510\n";

fn says(program: &Path, libraries: &str) -> String {
    run(Command::new("timeout").arg("240").arg(program).env("LD_LIBRARY_PATH", libraries))
}

#[test]
fn makefiles_that_are_told_cuda_home_and_nccl_home() {
    let place = Place::new();
    place.make("build", &["-j2"]);
    let program = |name: &str| place.at("toolkit/make/build").join(name);
    // As the project links: by itself where there is a path to the libraries in the program, else as with NVIDIA's.
    for name in ["by_nvcc", "by_host", "by_whole"] {
        assert_eq!(says(&program(name), ""), SAYS, "{name}");
    }
    assert_eq!(says(&program("by_static"), &format!("{}/lib64", place.home("--cuda-home"))), SAYS);
    // One folder in LD_LIBRARY_PATH is enough for what was linked with NCCL_HOME, as for what was linked with NVIDIA's library.
    let found = run(Command::new("ldd").arg(program("by_static")).env("LD_LIBRARY_PATH", place.home("--nccl-home")));
    assert!(!found.contains("not found"), "{found}");
    let rule = std::fs::read_to_string(program("main.d")).unwrap();
    assert!(rule.contains("host.h") && rule.contains("nccl_device.h"), "{rule}");
    // The host's compiler is ours, too: -ccbin names nvcc itself.
    let ours = place.at("prefix/bin/ginrs-cc").display().to_string();
    let both = [format!("CXX={ours}"), format!("NVCC={ours}")];
    place.make("ours", &[&both[0], &both[1], "ours/by_nvcc"]);
    assert_eq!(says(&place.at("toolkit/make/ours/by_nvcc"), ""), SAYS);
}

#[test]
fn cmakes_language_cuda() {
    let place = Place::new();
    let cuda = place.home("--cuda-home");
    let nccl = format!("-DNCCL_HOME={}", place.home("--nccl-home"));
    let configure = |build: &str, compiler: &str| {
        let mut cmake = Command::new("cmake");
        cmake.arg("-S").arg(place.at("toolkit/cmake")).arg("-B").arg(place.at(build)).arg(&nccl);
        cmake.env_remove("CUDACXX").env_remove("CUDA_PATH");
        match compiler {
            "" => cmake.env("PATH", format!("{cuda}/bin:{}", std::env::var("PATH").unwrap())),
            named => cmake.arg(format!("-DCMAKE_CUDA_COMPILER={named}")),
        };
        run(&mut cmake)
    };
    let said = configure("build", &format!("{cuda}/bin/nvcc"));
    assert!(said.contains("The CUDA compiler identification is NVIDIA 13.0.0"), "{said}");
    assert!(said.contains("Found CUDAToolkit"), "{said}");
    run(Command::new("cmake").arg("--build").arg(place.at("build")).arg("-j2"));
    for name in ["separate", "uses_Shared", "uses_Static", "uses_None"] {
        assert_eq!(says(&place.at("build").join(name), ""), SAYS, "{name}");
    }
    assert_eq!(says(&place.at("build/alone"), ""), "alone: 42\n");
    assert_eq!(says(&place.at("build/host_only"), ""), "driver 13000\n");
    configure("found", "");
    run(Command::new("cmake").arg("--build").arg(place.at("found")).args(["--target", "alone"]));
    assert_eq!(says(&place.at("found/alone"), ""), "alone: 42\n");
}

/// What tools read of a toolkit without building: its version in three places, libraries, pkg-config.
#[test]
fn what_others_look_for_in_a_toolkit() {
    let place = Place::new();
    let (cuda, nccl) = (PathBuf::from(place.home("--cuda-home")), PathBuf::from(place.home("--nccl-home")));
    for file in ["bin/nvcc", "include/cuda_runtime.h", "lib/libcudart.so", "lib64/libcudart_static.a", "lib64/stubs/libcuda.so"] {
        assert!(cuda.join(file).exists(), "{file}");
    }
    for file in ["include/nccl.h", "include/nccl_device.h", "lib/libnccl.so", "lib/libnccl_static.a", "lib/libginrs_cpu.so.0"] {
        assert!(nccl.join(file).exists(), "{file}");
    }
    assert!(std::fs::read_to_string(cuda.join("version.json")).unwrap().contains("13.0.0"));
    let asked = |arguments: &[&str]| Command::new(cuda.join("bin/nvcc")).args(arguments).output().unwrap();
    let version = String::from_utf8(asked(&["--version"]).stdout).unwrap();
    assert!(version.contains("release 13.0, V13.0.0"), "{version}");
    assert!(String::from_utf8(asked(&["--list-gpu-arch"]).stdout).unwrap().contains("compute_90\n"));
    // CMake's question: the folders although the command line is wrong.
    let answer = asked(&["-v", "__cmake_determine_cuda"]);
    let text = String::from_utf8_lossy(&answer.stderr);
    assert!(!answer.status.success() && text.contains(&format!("#$ TOP={}\n", cuda.display())), "{text}");
    let flags =
        run(Command::new("pkg-config").args(["--cflags", "--libs", "nccl"]).env("PKG_CONFIG_PATH", nccl.join("lib/pkgconfig")));
    assert!(flags.contains("-lnccl") && flags.contains("/include"), "{flags}");
    // A ginrs-cc that no tree belongs to says so.
    let alone = place.at("alone/bin/ginrs-cc");
    std::fs::create_dir_all(alone.parent().unwrap()).unwrap();
    std::fs::copy(place.at("prefix/bin/ginrs-cc"), &alone).unwrap();
    let output = Command::new(alone).arg("--cuda-home").output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("make install"), "{output:?}");
}
