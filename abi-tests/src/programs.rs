//! Programs of several ranks, compiled by the installed `ginrs-cc`.

use super::{nvidia_headers, prefix, root, run, text};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

/// The program of `source`, a path within the repository. Each is compiled once for the tests of all files, and again when the
/// installed tree or a source is newer.
#[track_caller]
pub fn compiled(source: &str) -> PathBuf {
    compiled_as(source, &[])
}

/// The same with NVIDIA's headers; None, with a line that says so, where they are not there.
#[track_caller]
pub fn compiled_with_theirs(source: &str) -> Option<PathBuf> {
    let (nccl, _) = nvidia_headers()?;
    Some(compiled_as(source, &[format!("-I{}", nccl.display())]))
}

/// The same with more options for the compiler.
#[track_caller]
pub fn compiled_as(source: &str, options: &[String]) -> PathBuf {
    type Once = Arc<OnceLock<PathBuf>>;
    static BUILT: Mutex<Option<HashMap<PathBuf, Once>>> = Mutex::new(None);
    // Beside the tests' own binaries.
    let folder = std::env::current_exe().expect("a test knows its binary").with_file_name("programs");
    let mut hasher = DefaultHasher::new();
    (prefix(), options).hash(&mut hasher);
    let name = source.trim_end_matches(".cu").replace('/', "_");
    let out = folder.join(format!("{name}-{:08x}", hasher.finish() as u32));
    let once = BUILT.lock().unwrap().get_or_insert_default().entry(out.clone()).or_default().clone();
    once.get_or_init(|| {
        if modified(&out).is_none_or(|built| built < newest_source()) {
            std::fs::create_dir_all(&folder).expect("the folder of the test's binary takes files");
            // Another test's process may make or run the same one.
            let unfinished = out.with_extension(std::process::id().to_string());
            let mut compiler = Command::new(prefix().join("bin/ginrs-cc"));
            compiler.args(["-std=c++17", "-O2", "--extended-lambda"]).args(options).arg("-o").arg(&unfinished);
            run(compiler.arg(root().join(source)));
            std::fs::rename(&unfinished, &out).expect("a folder of ours");
        }
        out
    })
    .clone()
}

/// The number of the line of `source` that ends with the comment `// mark`.
#[track_caller]
pub fn line_of(source: &str, mark: &str) -> usize {
    let text = std::fs::read_to_string(root().join(source)).unwrap_or_else(|error| panic!("{source}: {error}"));
    let mark = format!("// {mark}");
    1 + text.lines().position(|line| line.ends_with(&mark)).unwrap_or_else(|| panic!("{source} has no line with {mark}"))
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// When the newest of what programs are made of was written: the installed tree, and the sources of tests, examples and benchmarks.
fn newest_source() -> SystemTime {
    fn newest(folder: &Path) -> SystemTime {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let time = |path: PathBuf| if path.is_dir() { newest(&path) } else { modified(&path).unwrap_or(SystemTime::UNIX_EPOCH) };
        entries.flatten().map(|entry| time(entry.path())).max().unwrap_or(SystemTime::UNIX_EPOCH)
    }
    static NEWEST: OnceLock<SystemTime> = OnceLock::new();
    let folders = || {
        let sources = ["abi-tests", "examples-c", "perf"].map(|part| root().join(part));
        ["bin", "include", "lib"].map(|part| prefix().join(part)).into_iter().chain(sources)
    };
    *NEWEST.get_or_init(|| folders().map(|folder| newest(&folder)).max().expect("folders there are"))
}

/// What GINRS_RUN_ID names for ranks that no launcher started: a folder that nobody else can enter.
pub fn job_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o700))
        .tempdir()
        .expect("the folder for temporary files takes one")
}

/// A folder with a library that was built with the calling test, whose package depends on it, under the names that the loader is asked for.
pub fn stand_in(library: &str, names: &[&str]) -> tempfile::TempDir {
    let library = std::env::current_exe().expect("a test knows its binary").with_file_name(library);
    assert!(library.exists(), "{} is built with this test", library.display());
    let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
    for name in names {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).expect("a folder of ours");
    }
    folder
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
