//! `--check=race`: what the job has to be like for it.

use std::path::Path;

use super::args::Options;

/// Whether the job can be checked: a program that was compiled for it, its ranks on one machine.
///
/// # Errors
/// What is not so, and the command that makes it so.
pub fn check(options: &Options) -> Result<(), String> {
    let program = Path::new(&options.program[0]);
    if !options.hosts.is_empty() {
        return Err("--check=race sees the ranks of one machine: leave out --hosts".into());
    }
    // Only what can be read: a name without a folder may be found on PATH by the system, a script may start another.
    let Ok(bytes) = std::fs::read(program) else { return Ok(()) };
    let mark = b"ginrs_cpu_race_init";
    if bytes.starts_with(b"\x7fELF") && !bytes.windows(mark.len()).any(|at| at == mark) {
        return Err(format!("{} was not built for --check=race; compile it with: ginrs-cc --check=race", program.display()));
    }
    Ok(())
}
