//! `--clangd`: a `.clangd` with which clangd reads .cu files of a folder and those below it as this compiler would take them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::Command;
use super::compile::DEFINES;
use super::toolchain::Toolchain;

/// Options of builds for nvcc that clang does not know; and errors that are none: sides are not told apart here, and registers of PTX are no host's.
const HEAD: &str = r"# Written by ginrs-cc --clangd.
If:
  PathMatch: .*\.cuh?
Diagnostics:
  Suppress: [ref_bad_target, asm_invalid_output_constraint, asm_invalid_input_constraint]
CompileFlags:
  Compiler: clang++
  Remove: [-x, -forward-unknown-to-host-compiler, --generate-code*, -arch*, -gencode*, -rdc*, -dc, --extended-lambda, --expt-*]
  Add:
";

/// Writes `.clangd`, or what -o names, for the flags of this command line; says where.
///
/// # Errors
/// A file that is there and says something else stays.
pub fn write(command: &Command, tools: &Toolchain) -> Result<String, String> {
    if let Some(input) = command.inputs.first() {
        return Err(format!("--clangd takes no files (`{}`): what it writes is for all of the folder", input.path.display()));
    }
    let file = command.output.clone().unwrap_or_else(|| ".clangd".into());
    let text = text(&flags(command, tools)?)?;
    match std::fs::read(&file) {
        Ok(there) if there == text.as_bytes() => return Ok(format!("{} is as it has to be", file.display())),
        Ok(_) => {
            return Err(format!(
                "{} is there and says something else; remove it, or write with -o FILE and put the one into the other",
                file.display()
            ));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(format!("{}: {e}", file.display())),
    }
    std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(format!("{}: for .cu and .cuh files of its folder and below", file.display()))
}

/// Clang reads CUDA itself, once, as host code.
fn flags(command: &Command, tools: &Toolchain) -> Result<Vec<OsString>, String> {
    let mut flags: Vec<OsString> = ["-xcuda", "--cuda-host-only", "-nocudainc", "-nocudalib"].map(Into::into).to_vec();
    // Functions of headers are for both sides, those with `...` too.
    flags.extend(["-Xclang", "-fcuda-allow-variadic-functions", "-Wno-unknown-cuda-version"].map(Into::into));
    flags.push(command.standard_flag().into());
    flags.extend(DEFINES.iter().map(Into::into));
    flags.extend(["-isystem".into(), tools.cuda_include().into()]);
    flags.extend(absolute(&command.preprocessor)?);
    flags.extend(["-isystem".into(), tools.nccl_include().into(), "-include".into(), "ginrs_cpu/clangd.h".into()]);
    for file in &command.forced_includes {
        let path = Path::new(file);
        let named = if path.exists() { whole(path)? } else { path.into() };
        flags.extend(["-include".into(), named.into()]);
    }
    Ok(flags)
}

/// Folders as they are called from anywhere: clangd stands in that of the file.
fn absolute(words: &[OsString]) -> Result<Vec<OsString>, String> {
    let mut out: Vec<OsString> = Vec::new();
    for word in words {
        let text = word.to_string_lossy();
        if out.last().is_some_and(|last| ["-isystem", "-iquote", "-idirafter"].iter().any(|pair| last == pair)) {
            out.push(whole(Path::new(word))?.into());
        } else if let Some(folder) = text.strip_prefix("-I") {
            out.push(super::toolchain::flag("-I", &whole(Path::new(folder))?));
        } else {
            out.push(word.clone());
        }
    }
    Ok(out)
}

fn whole(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn text(flags: &[OsString]) -> Result<String, String> {
    let mut text = String::from(HEAD);
    for flag in flags {
        let flag = flag.to_str().ok_or_else(|| format!("`{}`: a .clangd holds UTF-8", flag.display()))?;
        if flag.contains('\n') {
            return Err(format!("`{flag}`: a line of a .clangd ends there"));
        }
        text += &format!("    - '{}'\n", flag.replace('\'', "''"));
    }
    Ok(text)
}
