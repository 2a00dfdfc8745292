//! Programs of several ranks, compiled by the installed `ginrs-cc`.

use super::{prefix, root, run, text};
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

/// The program of `source`, a path within the repository; each is compiled once for all tests of a file. Programs lie beside the
/// test's own binary, where the next run overwrites them.
#[track_caller]
pub fn compiled(source: &str) -> PathBuf {
    compiled_as(source, "", &[])
}

/// The same with more options for the compiler, under a name of its own: `suffix` tells it from those with others.
#[track_caller]
pub fn compiled_as(source: &str, suffix: &str, options: &[String]) -> PathBuf {
    type Once = Arc<OnceLock<PathBuf>>;
    static BUILT: Mutex<Option<HashMap<String, Once>>> = Mutex::new(None);
    let once = BUILT.lock().unwrap().get_or_insert_default().entry(format!("{source}{suffix}")).or_default().clone();
    once.get_or_init(|| {
        let folder = std::env::current_exe().expect("a test knows its binary").with_extension("programs");
        std::fs::create_dir_all(&folder).expect("the folder of the test's binary takes files");
        let out = folder.join(source.trim_end_matches(".cu").replace('/', "_") + suffix);
        let mut compiler = Command::new(prefix().join("bin/ginrs-cc"));
        run(compiler.args(["-std=c++17", "-O2", "--extended-lambda"]).args(options).arg("-o").arg(&out).arg(root().join(source)));
        out
    })
    .clone()
}

/// What GINRS_RUN_ID names for ranks that no launcher started: a folder that nobody else can enter.
pub fn job_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o700))
        .tempdir()
        .expect("the folder for temporary files takes one")
}

/// Runs `programs` of a compiled abi-tests/twice/suite.cu as `mode` says (None: as processes) and wants every rank's "ok".
#[track_caller]
pub fn suite_ok(suite: &Path, programs: &[&str], ranks: u32, mode: Option<&str>, env: &[(&str, &str)]) {
    let count = ranks.to_string();
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100"]);
    match mode {
        Some(mode) => command.arg(suite).args([mode, &count]),
        None => command.arg(prefix().join("bin/ginrs-run")).args(["-n", &count]).arg(suite),
    };
    command.args(programs).env("SOAK", "seconds=1 blocks=3 threads=64 strip=4096");
    let output = command.envs(env.iter().copied()).output().expect("timeout starts");
    let said = text(&output);
    let ok = |program: &&&str| (0..ranks).all(|rank| said.contains(&format!("{program} rank {rank} of {ranks}: ok,")));
    let bad: Vec<_> = programs.iter().filter(|program| !ok(program)).collect();
    assert!(output.status.success() && bad.is_empty(), "{bad:?} on {ranks} {mode:?} {env:?}: {}\n{said}", output.status);
}
