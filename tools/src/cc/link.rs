//! Programs and shared libraries: the user's objects with libginrs and libginrs_cpu.

use std::path::{Path, PathBuf};

use super::args::Command;
use super::toolchain::Toolchain;

/// Links everything into the output.
pub fn program(command: &Command, tools: &Toolchain, objects: &[PathBuf]) -> Result<(), String> {
    let output = command.output.clone().unwrap_or_else(|| "a.out".into());
    let mut arguments = vec!["-o".to_string(), output.display().to_string()];
    if command.shared {
        arguments.push("-shared".into());
    }
    arguments.extend(objects.iter().map(|o| o.display().to_string()));
    arguments.extend(command.host_flags.iter().cloned());
    arguments.extend(command.linker.iter().cloned());
    let folder = tools.library_folder().display().to_string();
    arguments.push(format!("-L{folder}"));
    // Both always: libginrs looks for the CPU device in the process and does not ask for it by name.
    arguments.extend(["-Wl,--push-state,--no-as-needed", "-lginrs", "-lginrs_cpu", "-Wl,--pop-state"].map(String::from));
    arguments.push(format!("-Wl,-rpath,{folder}"));
    arguments.extend(["-pthread".into(), "-ldl".into()]);
    tools.run(&arguments, None, false).map(drop)
}

/// `-dlink`: nothing is left to link on the device side; the object that build systems expect is empty.
pub fn device_link(command: &Command, tools: &Toolchain) -> Result<(), String> {
    let output = command.output.clone().unwrap_or_else(|| Path::new("a_dlink.o").to_path_buf());
    let mut arguments: Vec<String> = ["-x", "c++"].map(String::from).to_vec();
    arguments.extend(command.host_flags.iter().cloned());
    arguments.extend(["-c".into(), "-o".into(), output.display().to_string(), "-".into()]);
    tools.run(&arguments, Some(b""), false).map(drop)
}
