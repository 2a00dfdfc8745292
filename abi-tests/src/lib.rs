//! Programs and checks over the installed tree; see `tests/`. This is what those share.

pub mod dwarf;
pub mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The installed tree that GINRS_PREFIX names; `make test` sets it.
pub fn prefix() -> PathBuf {
    let prefix = std::env::var_os("GINRS_PREFIX").expect("GINRS_PREFIX names the installed tree; `make test` sets it");
    PathBuf::from(prefix).canonicalize().expect("GINRS_PREFIX exists")
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("abi-tests lies in the repository").to_owned()
}

/// A set of headers: where they lie, in the order in which a compiler looks.
pub struct Headers {
    /// For messages.
    pub name: String,
    /// Folders for -I.
    pub include: Vec<PathBuf>,
}

impl Headers {
    /// What a compiler has to be told.
    pub fn flags(&self) -> Vec<String> {
        self.include.iter().map(|folder| format!("-I{}", folder.display())).collect()
    }
}

/// What `make deps` fetched from PyPI.
fn venv() -> PathBuf {
    std::env::var_os("GINRS_TEST_VENV").map_or_else(|| root().join("build/venv"), PathBuf::from)
}

/// `nvidia` among the venv's packages, or of a wheel of another version beside them.
fn packages(version: &str) -> PathBuf {
    if version != "2.28.9" {
        return venv().join(format!("nccl-{version}/nvidia"));
    }
    let python = std::fs::read_dir(venv().join("lib")).ok().and_then(|mut dirs| dirs.next()?.ok());
    python.map_or_else(|| venv().join("lib"), |python| python.path()).join("site-packages/nvidia")
}

/// NVIDIA's headers of one version of NCCL, and the toolkit's.
#[track_caller]
pub fn nvidia(version: &str) -> Headers {
    let include = vec![packages(version).join("nccl/include"), packages("2.28.9").join("cu13/include")];
    for (folder, header) in include.iter().zip(["nccl.h", "cuda_runtime.h"]) {
        assert!(
            folder.join(header).exists(),
            "NVIDIA's headers for NCCL {version}: no {header} in {} | fix: make deps (online), or GINRS_TEST_VENV",
            folder.display()
        );
    }
    Headers { name: version.into(), include }
}

/// As [`nvidia`] for 2.28.9: the folder of nccl.h, and the toolkit's. None, with a line that says so, where they are not there.
pub fn nvidia_headers() -> Option<(PathBuf, PathBuf)> {
    let nvidia = packages("2.28.9");
    if !nvidia.join("nccl/include/nccl.h").exists() {
        eprintln!("SKIPPED: NVIDIA's headers are not in {} | fix: make deps, or GINRS_TEST_VENV", nvidia.display());
        return None;
    }
    Some((nvidia.join("nccl/include"), nvidia.join("cu13/include")))
}

/// NVIDIA's libnccl.so.2 of 2.28.9.
#[track_caller]
pub fn nvidia_library() -> PathBuf {
    let library = packages("2.28.9").join("nccl/lib/libnccl.so.2");
    assert!(library.exists(), "there is no {} | fix: make deps (online), or GINRS_TEST_VENV", library.display());
    library
}

/// Runs a command that has to succeed; its standard output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed ({}):\n{}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both outputs of a command.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The names in exports.map.
pub fn exported() -> Vec<String> {
    let map = std::fs::read_to_string(root().join("exports.map")).expect("exports.map");
    let list = map.split_once("global:").and_then(|(_, rest)| rest.split_once("local:")).expect("global: ... local:").0;
    list.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
