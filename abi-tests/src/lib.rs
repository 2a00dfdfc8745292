//! Programs and checks over the installed tree; see `tests/`. This is what those share.

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

/// The folder that holds NVIDIA's `nccl.h` of 2.28.9, and the toolkit's include folder; None, with a line that says so, where
/// `make deps` could not get them.
pub fn nvidia_headers() -> Option<(PathBuf, PathBuf)> {
    let venv = std::env::var_os("GINRS_TEST_VENV").map_or_else(|| root().join("build/venv"), PathBuf::from);
    let packages = std::fs::read_dir(venv.join("lib")).ok().and_then(|mut dirs| dirs.next()?.ok());
    let nvidia = packages
        .map(|python| python.path().join("site-packages/nvidia"))
        .filter(|path| path.join("nccl/include/nccl.h").exists());
    if nvidia.is_none() {
        eprintln!("SKIPPED: NVIDIA's headers are not in {} | fix: make deps, or GINRS_TEST_VENV", venv.display());
    }
    nvidia.map(|path| (path.join("nccl/include"), path.join("cu13/include")))
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
