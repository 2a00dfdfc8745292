//! Programs and shared libraries: the user's objects with libginrs and libginrs_cpu.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::{Command, Linked};
use super::toolchain::{Toolchain, flag};

/// ThreadSanitizer's functions for memcpy, free and their kin see the libraries' calls, and not what orders those: the libraries are not
/// instrumented. A program's own definition stands instead of this one.
const SUPPRESSIONS: &str = r#"extern "C" __attribute__((weak)) const char* __tsan_default_suppressions() {
  return "called_from_lib:libginrs.so\ncalled_from_lib:libginrs_cpu.so\n";
}
"#;

/// Links everything into the output; `objects` has one file for each input.
pub fn program(command: &Command, tools: &Toolchain, objects: &[PathBuf]) -> Result<(), String> {
    let output = command.output.clone().unwrap_or_else(|| "a.out".into());
    let mut arguments: Vec<OsString> = vec!["-o".into(), output.into()];
    if command.verbose && command.inputs.iter().all(|i| i.language.is_none()) {
        // What CMake asks of the program that links: which libraries come by themselves.
        arguments.push("-v".into());
    }
    if command.shared {
        arguments.push("-shared".into());
    }
    arguments.extend(command.host_flags.iter().cloned());
    arguments.extend(command.linker.iter().map(|word| match word {
        Linked::Input(n) => objects[*n].clone().into(),
        Linked::Word(word) => word.clone(),
    }));
    let folder = tools.library_folder();
    let suppresses = command.finds_races() && !command.shared;
    if suppresses {
        arguments.extend(["-x", "c++", "-", "-x", "none"].map(Into::into));
    }
    arguments.push(flag("-L", &folder));
    // Both always: libginrs looks for the CPU device in the process and does not ask for it by name.
    arguments.extend(["-Wl,--push-state,--no-as-needed", "-lginrs", "-lginrs_cpu", "-Wl,--pop-state"].map(Into::into));
    // Two words: a folder may have a comma in its name.
    arguments.extend(["-Xlinker".into(), "-rpath".into(), "-Xlinker".into(), folder.into()]);
    arguments.extend(["-pthread".into(), "-ldl".into()]);
    tools.run(&arguments, suppresses.then_some(SUPPRESSIONS.as_bytes()), false).map(drop)
}

/// `-dlink`: nothing is left to link on the device side; the object that build systems expect is empty.
pub fn device_link(command: &Command, tools: &Toolchain) -> Result<(), String> {
    let output = command.output.clone().unwrap_or_else(|| Path::new("a_dlink.o").to_path_buf());
    let mut arguments: Vec<OsString> = ["-x", "c++"].map(Into::into).to_vec();
    arguments.extend(command.host_flags.iter().cloned());
    arguments.extend(["-c".into(), "-o".into(), output.into(), "-".into()]);
    tools.run(&arguments, Some(b""), false).map(drop)
}
