//! Compilers of a machine, as the header tests use them: the host's, nvcc where there is one, and the CPU device's build
//! of device code.

pub use abi_tests::root;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Ends a compiler or program that hangs.
const LIMIT_SECONDS: &str = "600";

/// Says why a test does less than it could. Goes to stderr itself, so that libtest does not swallow it.
pub fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "skip: {what}");
}

/// Which set of NCCL headers a source is compiled against.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Headers {
    /// This repository's; defines OURS.
    Ours,
    /// NVIDIA's, to know that a test tells the truth about NCCL.
    Nvidia,
}

impl Headers {
    /// Arguments that select them, or nothing where NVIDIA's are not installed.
    pub fn flags(self) -> Option<Vec<String>> {
        match self {
            Headers::Ours => Some(vec!["-DOURS".into(), format!("-I{}", root().join("include").display())]),
            Headers::Nvidia => {
                let nccl = std::env::var_os("GINRS_NVIDIA_NCCL").map(PathBuf::from).or_else(|| in_venv("nccl"))?;
                let mut flags = vec![format!("-I{}", nccl.join("include").display())];
                flags.extend(cuda_include().map(|dir| format!("-I{}", dir.display())));
                Some(flags)
            }
        }
    }
}

/// nvidia/NAME in the packages of the virtual environment that GINRS_TEST_VENV names, or of the one of `make deps`.
fn in_venv(name: &str) -> Option<PathBuf> {
    let venv = std::env::var_os("GINRS_TEST_VENV").map_or_else(|| root().join("build/venv"), PathBuf::from);
    let pythons = std::fs::read_dir(venv.join("lib")).ok()?;
    pythons.flatten().map(|entry| entry.path().join("site-packages/nvidia").join(name)).find(|dir| dir.is_dir())
}

fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// nvcc of NVCC, PATH or GINRS_TEST_VENV.
pub fn nvcc() -> Option<PathBuf> {
    let named = std::env::var_os("NVCC").map(PathBuf::from);
    named.or_else(|| on_path("nvcc")).or_else(|| in_venv("cu13").map(|dir| dir.join("bin/nvcc")))
}

/// nvcc for a test that needs it; without one the test is skipped with a line that says so.
pub fn nvcc_or_skip(test: &str) -> Option<PathBuf> {
    let found = nvcc();
    if found.is_none() {
        skip(&format!("{test}: no nvcc (`make deps`, or set NVCC or GINRS_TEST_VENV, or put it on PATH)"));
    }
    found
}

fn cuda_include() -> Option<PathBuf> {
    Some(nvcc()?.parent()?.parent()?.join("include"))
}

/// True where clang++ is installed.
pub fn has_clang() -> bool {
    on_path("clang++").is_some()
}

/// A command under a time limit.
pub fn limited(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg(LIMIT_SECONDS).arg(program);
    command
}

/// nvcc with C++17, the toolkit's C++ library and lambdas that are __device__.
pub fn nvcc_command(nvcc: &Path) -> Command {
    let mut command = limited(nvcc);
    let bin = nvcc.parent().expect("nvcc lies in a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).args(["-std=c++17", "--extended-lambda"]);
    if let Some(cccl) = cuda_include().map(|dir| dir.join("cccl")).filter(|dir| dir.is_dir()) {
        command.arg(format!("-I{}", cccl.display()));
    }
    command
}

/// The command's standard output; a panic with all it said if it fails.
pub fn succeed(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
