//! ginrs-info: what ginrs finds on this machine and in this job, and why it chooses what it chooses; what its variables and its
//! numbers of errors mean. docs/user/ginrs-info.md.
//!
//! `why` puts the tree together: `machine`, `devices` and `transports` ask, `job` meets the other ranks. `settings` and `explain`
//! are tables.

mod check;
mod devices;
mod explain;
mod job;
mod machine;
mod settings;
mod transports;
mod why;

use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;

const HELP: &str = "\
usage: ginrs-info COMMAND [--json]
  --why, why           what this machine has, what would be chosen, and why not the rest, with the fix; started as ranks
                       (`ginrs-run -n 4 ginrs-info --why`, torchrun, mpirun, srun), also for each pair of ranks
  devices              GPUs and the CPU device
  transports           what can carry GIN's puts, and between whom
  env                  every variable: value, where it was set, default, meaning
  lint-env             unknown variables and values that cannot be meant; the status is 1 if there are any
  explain CODE..       what E052 or W001 means, its cause and its fix
  --json               the answer as JSON on standard output
  -h, --help  --version
";

/// What a command has to say, and the exit status.
pub struct Report {
    text: String,
    json: Value,
    status: u8,
}

fn main() -> ExitCode {
    // What is no UTF-8 is no word of ours either.
    let mut words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let json = words.iter().any(|word| word == "--json");
    words.retain(|word| word != "--json");
    let mut out = Out::new();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let report = match words[..] {
        ["--why" | "why"] => why::report(),
        ["devices"] => Ok(devices::report()),
        ["transports"] => Ok(transports::report()),
        ["env"] => Ok(settings::report()),
        ["lint-env"] => Ok(settings::lint()),
        ["explain", ref codes @ ..] if !codes.is_empty() => explain::report(codes),
        ["-h" | "--help"] => return out.write(HELP, 0),
        ["--version"] => return out.write(&format!("ginrs-info {}\n", env!("CARGO_PKG_VERSION")), 0),
        _ => Err("which command? see ginrs-info --help".into()),
    };
    match report {
        // Another rank prints.
        Ok(Report { ref text, status, .. }) if text.is_empty() => ExitCode::from(status),
        Ok(Report { json: value, status, .. }) if json => out.write(&format!("{value:#}\n"), status),
        Ok(Report { text, status, .. }) => out.write(&text, status),
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "ginrs-info: {message}");
            if json { out.write(&format!("{:#}\n", serde_json::json!({"error": message})), 2) } else { ExitCode::from(2) }
        }
    }
}

/// Standard output, for the answer alone: lines of the library's log go to standard error.
struct Out(std::fs::File);

impl Out {
    fn new() -> Self {
        let own = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned();
        let out = own.map(std::fs::File::from).unwrap_or_else(|_| {
            // Standard output is closed: whatever is written to it is lost anyway.
            std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null can be written to")
        });
        let _ = rustix::stdio::dup2_stdout(std::io::stderr());
        Self(out)
    }

    /// Who stops reading has read enough; a full disk is told.
    fn write(&mut self, text: &str, status: u8) -> ExitCode {
        match self.0.write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                let _ = writeln!(std::io::stderr(), "ginrs-info: cannot write to standard output: {error}");
                ExitCode::FAILURE
            }
            _ => ExitCode::from(status),
        }
    }
}
