//! Programs of several ranks, compiled by the installed `ginrs-cc`.

use super::{nvidia_headers, prefix, root, text};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The program of `source`, a path within the repository, compiled by the installed `ginrs-cc`.
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
    let all: Vec<&str> =
        ["-std=c++17", "-O2", "--extended-lambda"].into_iter().chain(options.iter().map(String::as_str)).collect();
    built(source, &all, None).unwrap_or_else(|error| panic!("{error}"))
}

/// The output of the installed `ginrs-cc` for `source`, a path within the repository, with these
/// options and this host compiler (None: the default). All tests share the file. It is kept until
/// the compiler or a file that the compiler read is newer. Fails with the compiler's messages.
pub fn built(source: &str, options: &[&str], host_compiler: Option<&str>) -> Result<PathBuf, String> {
    // Next to the tests' own binaries.
    let folder = std::env::current_exe().expect("a test knows its binary").with_file_name("programs");
    std::fs::create_dir_all(&folder).expect("the folder of the test's binary takes files");
    let compiler = prefix().join("bin/ginrs-cc");
    let mut hasher = DefaultHasher::new();
    (&compiler, options, host_compiler).hash(&mut hasher);
    let name = source.trim_end_matches(".cu").replace('/', "_");
    let out = folder.join(format!("{name}-{:016x}", hasher.finish()));
    let with_ending = |ending: &str| folder.join(format!("{name}-{:016x}.{ending}", hasher.finish()));
    // Tests are concurrent processes: one of them compiles, the others wait for it.
    let lock = std::fs::File::create(with_ending("lock")).expect("the folder of the test's binary takes files");
    lock.lock().expect("a lock on a local file");
    let read = with_ending("d");
    if is_current(&out, &compiler, &read) {
        return Ok(out);
    }
    // A running program cannot be overwritten, and an incomplete one must not be used.
    let unfinished = with_ending("new");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "600"]).arg(&compiler).args(options).arg("-MD").arg("-MF").arg(&read).arg("-o").arg(&unfinished);
    command.envs(host_compiler.map(|name| ("GINRS_CXX", name)));
    let started = SystemTime::now();
    let output = command.arg(root().join(source)).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed ({}):\n{}", output.status, text(&output)));
    }
    // As old as the start of the compiler: what was edited since then is newer.
    std::fs::File::options().write(true).open(&unfinished).and_then(|file| file.set_modified(started)).expect("a new file");
    std::fs::rename(&unfinished, &out).expect("a folder of the tests");
    Ok(out)
}

/// Whether `out` is newer than the compiler and all files in `read`, a makefile by the compiler.
fn is_current(out: &Path, compiler: &Path, read: &Path) -> bool {
    let (Some(built), Ok(noted)) = (modified(out), std::fs::read_to_string(read)) else { return false };
    let Some((_, files)) = noted.split_once(": ") else { return false };
    let is_older = |file: &Path| modified(file).is_some_and(|changed| changed < built);
    is_older(compiler) && files.replace("\\\n", " ").split_whitespace().all(|file| is_older(Path::new(file)))
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
