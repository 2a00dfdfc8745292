//! ginrs-cc: compiles `.cu` files for the CPU device with g++ or clang++, taking nvcc's flags.
//!
//! preprocess ([`compile`]) -> rewrite ([`crate::rewrite`]) -> compile ([`compile`]) -> link ([`link`]).

pub mod args;
pub mod compile;
pub mod flags;
pub mod link;
pub mod toolchain;

use args::{Command, Stage};
use std::path::PathBuf;
use toolchain::Toolchain;

/// Runs ginrs-cc with these arguments (without the program's name); the exit status.
pub fn main(arguments: Vec<String>) -> i32 {
    match run(arguments) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("{message}");
            1
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), String> {
    let command = Command::parse(arguments).map_err(|e| format!("ginrs-cc: error: {e}"))?;
    if command.help {
        print!("{}", flags::help());
        return Ok(());
    }
    let tools = Toolchain::find(&command).map_err(|e| format!("ginrs-cc: error: {e}"))?;
    if command.version {
        // Makefiles take CUDA's version from "release M.m," of nvcc, and other tools from "VM.m.p".
        println!("ginrs-cc {}, stands in for nvcc of release 13.0, V13.0.0, on the CPU device", env!("CARGO_PKG_VERSION"));
        println!("prefix {}, compiler {}", tools.prefix.display(), tools.compiler);
        return Ok(());
    }
    build(&command, &tools)
}

fn build(command: &Command, tools: &Toolchain) -> Result<(), String> {
    if command.inputs.is_empty() {
        return Err("ginrs-cc: error: no input files; see ginrs-cc --help".into());
    }
    let sources: Vec<_> = command.inputs.iter().filter(|i| i.language.is_some()).collect();
    match command.stage {
        Stage::Preprocess | Stage::Depend => {
            for input in sources {
                compile::preprocess_only(command, tools, input)?;
            }
            Ok(())
        }
        Stage::Compile => {
            if sources.len() > 1 && command.output.is_some() {
                return Err("ginrs-cc: error: -o with -c takes one source file".into());
            }
            for input in sources {
                let object = command.output.clone().unwrap_or_else(|| input.object_name());
                compile::object(command, tools, input, &object)?;
            }
            Ok(())
        }
        Stage::DeviceLink => link::device_link(command, tools),
        Stage::Link => {
            let scratch = toolchain::Scratch::new()?;
            let mut objects: Vec<PathBuf> = Vec::new();
            for (n, input) in command.inputs.iter().enumerate() {
                if input.language.is_some() {
                    let object = scratch.path().join(format!("{n}.o"));
                    compile::object(command, tools, input, &object)?;
                    objects.push(object);
                } else {
                    objects.push(input.path.clone());
                }
            }
            link::program(command, tools, &objects)
        }
    }
}
