//! ginrs-cc: compiles `.cu` files for the CPU device with g++ or clang++, taking nvcc's flags.
//!
//! preprocess ([`compile`]) -> rewrite ([`crate::rewrite`]) -> compile ([`compile`]) -> link ([`link`]).

pub mod args;
pub mod clangd;
pub mod compile;
pub mod coverage;
pub mod flags;
pub mod folders;
pub mod link;
pub mod missing;
pub mod nvcc;
pub mod spacing;
pub mod toolchain;
pub mod words;

use args::{Command, Stage};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use toolchain::Toolchain;

/// Runs ginrs-cc with these arguments (without the program's name); the exit status.
pub fn main(arguments: Vec<OsString>) -> i32 {
    run(arguments).unwrap_or_else(|message| {
        crate::tell(message);
        1
    })
}

fn run(arguments: Vec<OsString>) -> Result<i32, String> {
    let error = |e: String| format!("ginrs-cc: error: {e}");
    let shows = arguments.iter().any(|a| flags::lookup(a).is_some_and(|(f, _)| f.meaning.shows()));
    let parsed = Command::parse(arguments);
    let tools = Toolchain::find(parsed.as_ref().unwrap_or(&Command::default())).map_err(error)?;
    if shows {
        // Also if the rest is wrong: CMake asks so.
        nvcc::show_environment(&tools);
    }
    let command = parsed.map_err(error)?;
    let answer = |text: &[u8]| Ok(crate::answer("ginrs-cc", text));
    if command.help {
        return answer(flags::help().as_bytes());
    }
    if command.version {
        return answer(nvcc::version(&tools).as_bytes());
    }
    if let Some(prefix) = command.list {
        return answer(nvcc::architectures(prefix).as_bytes());
    }
    if let Some(home) = command.home {
        let folder = nvcc::home(&tools, home).map_err(error)?;
        return answer(&[folder.as_os_str().as_bytes(), b"\n"].concat());
    }
    if command.clangd {
        let told = clangd::write(&command, &tools).map_err(error)?;
        return answer(format!("{told}\n").as_bytes());
    }
    build(&command, &tools).map(|()| 0)
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
            if tools.shows() && !sources.is_empty() {
                nvcc::show_link(command, tools);
            }
            link::program(command, tools, &objects)
        }
    }
}
