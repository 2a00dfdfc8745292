//! Where things are, and how other programs are run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use super::args::Command;

/// The installed tree and the compiler.
#[derive(Debug)]
pub struct Toolchain {
    /// The folder above the `bin` that ginrs-cc lies in.
    pub prefix: PathBuf,
    /// g++, clang++ or what GINRS_CXX or -ccbin names.
    pub compiler: String,
    verbose: bool,
    dry_run: bool,
}

impl Toolchain {
    /// The tree that the running executable belongs to.
    pub fn find(command: &Command) -> Result<Toolchain, String> {
        let executable = std::fs::read_link("/proc/self/exe").map_err(|e| format!("/proc/self/exe: {e}"))?;
        let prefix = executable.parent().and_then(Path::parent).ok_or("its own folder has no parent")?.to_path_buf();
        let mut compiler = match (&command.compiler, std::env::var("GINRS_CXX")) {
            (Some(given), _) => given.clone(),
            (None, Ok(given)) if !given.is_empty() => given,
            _ => "g++".to_string(),
        };
        // nvcc's -ccbin also takes a folder.
        if Path::new(&compiler).is_dir() {
            compiler = Path::new(&compiler).join("g++").display().to_string();
        }
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

    /// Runs the compiler; its output if `capture`. Its messages go to our stderr. None if this is a dry run.
    pub fn run(&self, arguments: &[String], input: Option<&[u8]>, capture: bool) -> Result<Vec<u8>, String> {
        if self.verbose || self.dry_run {
            eprintln!("{} {}", self.compiler, arguments.join(" "));
        }
        if self.dry_run {
            return Ok(Vec::new());
        }
        let mut process = Process::new(&self.compiler);
        process.args(arguments);
        process.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        if capture {
            process.stdout(Stdio::piped());
        }
        let mut child = process.spawn().map_err(|e| {
            format!("ginrs-cc: error: cannot run the compiler `{}`: {e}; install g++ or set GINRS_CXX", self.compiler)
        })?;
        if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
            // A compiler that stops early closes its end; its status tells.
            let _ = pipe.write_all(text);
        }
        let output = child.wait_with_output().map_err(|e| format!("ginrs-cc: error: {}: {e}", self.compiler))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!("ginrs-cc: error: {} failed ({})", self.compiler, output.status))
        }
    }
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
