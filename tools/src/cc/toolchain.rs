//! Where things are, and how other programs are run.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use super::args::Command;
use super::words::quoted;

/// More bytes of arguments than this go through a file: execve has a limit, and files of options may hold more.
const LONG: usize = 96 << 10;

/// The installed tree and the compiler.
#[derive(Debug)]
pub struct Toolchain {
    /// The folder above the `bin` that ginrs-cc lies in.
    pub prefix: PathBuf,
    /// g++, clang++ or what GINRS_CXX or -ccbin names.
    pub compiler: OsString,
    verbose: bool,
    dry_run: bool,
}

/// `-I` and its kin with a path joined.
pub fn flag(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

impl Toolchain {
    /// The tree that the running executable belongs to.
    pub fn find(command: &Command) -> Result<Toolchain, String> {
        let executable = std::fs::read_link("/proc/self/exe").map_err(|e| format!("/proc/self/exe: {e}"))?;
        let prefix = executable.parent().and_then(Path::parent).ok_or("its own folder has no parent")?.to_path_buf();
        let asked = [command.compiler.clone(), std::env::var_os("GINRS_CXX")];
        // `make CXX=ginrs-cc` says -ccbin ginrs-cc: what stands behind us then is the next one.
        let compiler =
            asked.into_iter().flatten().filter(|c| !c.is_empty()).map(host_compiler).find(|c| !is_file(c, &executable));
        let compiler = compiler.unwrap_or_else(|| "g++".into());
        Ok(Toolchain { prefix, compiler, verbose: command.verbose, dry_run: command.dry_run })
    }

    /// The CUDA stand-in headers.
    pub fn cuda_include(&self) -> PathBuf {
        self.prefix.join("lib/ginrs/cpu/include")
    }

    /// nccl.h and nccl_device.h.
    pub fn nccl_include(&self) -> PathBuf {
        self.prefix.join("include/ginrs")
    }

    /// libginrs and libginrs_cpu.
    pub fn library_folder(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// True for clang++ under any of its names.
    pub fn is_clang(&self) -> bool {
        self.compiler.to_string_lossy().contains("clang")
    }

    /// True if commands are shown, run or not.
    pub fn shows(&self) -> bool {
        self.verbose || self.dry_run
    }

    /// Runs the compiler; its output if `capture`, when there is no `input`. Its messages go to our stderr. Nothing if this is a dry run.
    pub fn run(&self, arguments: &[OsString], input: Option<&[u8]>, capture: bool) -> Result<Vec<u8>, String> {
        if self.shows() {
            show(&self.compiler, arguments, OsStr::new(""));
        }
        if self.dry_run {
            return Ok(Vec::new());
        }
        let mut process = Process::new(&self.compiler);
        // Lives until the compiler has read it.
        let _file = if arguments.iter().map(|a| a.len() + 1).sum::<usize>() > LONG {
            let scratch = Scratch::new()?;
            let file = scratch.path().join("arguments");
            let words = arguments.iter().flat_map(|a| [quoted(a), b"\n".to_vec()].concat()).collect::<Vec<u8>>();
            std::fs::write(&file, words).map_err(|e| format!("ginrs-cc: error: {}: {e}", file.display()))?;
            process.arg(flag("@", &file));
            Some(scratch)
        } else {
            process.args(arguments);
            None
        };
        process.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        if capture {
            process.stdout(Stdio::piped());
        }
        let compiler = self.compiler.display();
        let mut child = process.spawn().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
                format!("ginrs-cc: error: cannot run the compiler `{compiler}`: {e}; install g++, or name one with GINRS_CXX or -ccbin")
            }
            _ => format!("ginrs-cc: error: cannot run the compiler `{compiler}`: {e}"),
        })?;
        if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
            // A compiler that stops early closes its end; its status tells.
            let _ = pipe.write_all(text);
        }
        let output = child.wait_with_output().map_err(|e| format!("ginrs-cc: error: {compiler}: {e}"))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!("ginrs-cc: error: {compiler} failed ({})", output.status))
        }
    }
}

impl Toolchain {
    /// What the preprocessor says of a compilation with these, in English; nothing if it cannot be run.
    pub fn messages_of(&self, arguments: &[OsString]) -> String {
        let mut process = Process::new(&self.compiler);
        process.args(arguments).args(["-E", "-o", "/dev/null"]).env("LC_ALL", "C").stdin(Stdio::null());
        let output = process.output();
        output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// nvcc's -ccbin also takes a folder.
fn host_compiler(named: OsString) -> OsString {
    if Path::new(&named).is_dir() { Path::new(&named).join("g++").into() } else { named }
}

/// True if running `program` would run `file`.
fn is_file(program: &OsStr, file: &Path) -> bool {
    let same = |path: &Path| path.canonicalize().is_ok_and(|p| p == file);
    if program.as_bytes().contains(&b'/') {
        return same(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.is_file()).is_some_and(|p| same(&p))
}

/// A command as nvcc shows it: `#$ `, then words for a shell, and a tail that is one already.
pub fn show(program: &OsStr, arguments: &[OsString], tail: &OsStr) {
    let mut line = b"#$ ".to_vec();
    line.extend(quoted(program));
    for argument in arguments {
        line.push(b' ');
        line.extend(quoted(argument));
    }
    if !tail.is_empty() {
        line.push(b' ');
        line.extend(tail.as_bytes());
    }
    crate::tell(&line);
}

/// A private folder that goes when the value does.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in TMPDIR.
    pub fn new() -> Result<Scratch, String> {
        crate::private_folder("ginrs-cc").map(Scratch).map_err(|e| format!("ginrs-cc: error: temporary folder: {e}"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
