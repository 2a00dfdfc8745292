//! ginrs-run: starts the ranks of a job on this machine and ends them together.
//!
//! [`args`] understands the command line, [`rank`] starts one process, [`output`] prints its lines, [`job`] waits.

pub mod args;
pub mod job;
pub mod output;
pub mod rank;

use args::{Asked, Options};

/// Runs ginrs-run with these arguments (without the program's name); the exit status.
pub fn main(arguments: Vec<String>) -> i32 {
    let options = match Options::parse(arguments) {
        Ok(Asked::Run(options)) => options,
        Ok(Asked::Help) => {
            print!("{}", args::HELP);
            return 0;
        }
        Ok(Asked::Version) => {
            println!("ginrs-run {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        Err(message) => {
            eprintln!("ginrs-run: {message}; see ginrs-run --help");
            return 2;
        }
    };
    match job::run(&options) {
        Ok(status) => status,
        Err(message) => {
            eprintln!("ginrs-run: {message}");
            1
        }
    }
}
