//! What build systems ask of nvcc: its version, and the lines of `-v` and `--dryrun` from which CMake takes folders, the program
//! that links and the architecture.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::args::{Command, Linked};
use super::toolchain::{Toolchain, flag, show};

/// Below the prefix: bin/nvcc, include, lib64 with the names of CUDA's libraries (scripts/stage.sh).
pub const CUDA_HOME: &str = "lib/ginrs/cuda";
/// Below the prefix: include, lib with libnccl.
pub const NCCL_HOME: &str = "lib/ginrs/compat";

/// What -gencode may name; all of it means the CPU device.
const ARCHITECTURES: &[u32] = &[75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

/// `--list-gpu-arch` and `--list-gpu-code`.
pub fn architectures(prefix: &str) -> String {
    ARCHITECTURES.iter().map(|arch| format!("{prefix}_{arch}\n")).collect()
}

/// One of the two folders, if this tree has it.
pub fn home(tools: &Toolchain, below: &str) -> Result<PathBuf, String> {
    let folder = tools.prefix.join(below);
    match folder.join("include").is_dir() {
        true => Ok(folder),
        false => Err(format!("{} is not there; run the ginrs-cc of an installed tree (make install)", folder.display())),
    }
}

/// CMake knows nvcc by its first line, Makefiles take CUDA's version from "release M.m," and other tools from "VM.m.p".
pub fn version(tools: &Toolchain) -> String {
    format!(
        "ginrs-cc {}, which takes the command line of nvcc: NVIDIA (R) Cuda compiler driver\n\
         Cuda compilation tools, release 13.0, V13.0.0, on the CPU device\n\
         prefix {}, compiler {}\n",
        env!("CARGO_PKG_VERSION"),
        tools.prefix.display(),
        tools.compiler.display()
    )
}

/// The variables that nvcc shows before it does anything, also if the command line is wrong.
pub fn show_environment(tools: &Toolchain) {
    let top = tools.prefix.join(CUDA_HOME);
    let quoted = |option: &str, below: &str| {
        let mut word = flag(&format!("\"{option}"), &top.join(below));
        word.push("\"");
        word
    };
    let lines: [(&str, OsString); 5] = [
        ("TOP=", top.clone().into()),
        ("NVVMIR_LIBRARY_DIR=", top.join("nvvm/libdevice").into()),
        ("PATH=", std::env::var_os("PATH").unwrap_or_default()),
        ("INCLUDES=", quoted("-I", "include")),
        ("LIBRARIES=", quoted("-L", "lib64")),
    ];
    for (name, value) in lines {
        let mut line = OsString::from(format!("#$ {name}"));
        line.push(value);
        crate::tell(line.as_bytes());
    }
}

/// The link as a command of nvcc's own, before the command that it takes. CMake takes from it what links programs with objects
/// from .cu files: this program, so that they find our libraries without LD_LIBRARY_PATH, as they find the driver on a GPU
/// machine; and the architecture that objects are for.
pub fn show_link(command: &Command, tools: &Toolchain) {
    let top = tools.prefix.join(CUDA_HOME);
    let mut words: Vec<OsString> = vec!["-arch".into(), "compute_90".into(), "-o".into()];
    words.push(command.output.clone().unwrap_or_else(|| "a.out".into()).into());
    words.extend(command.linker.iter().map(|word| match word {
        Linked::Input(n) => match command.inputs[*n].language {
            Some(_) => command.inputs[*n].object_name().into(),
            None => command.inputs[*n].path.clone().into(),
        },
        Linked::Word(word) => word.clone(),
    }));
    // CMake looks for the text of LIBRARIES as it stands there, quotes too.
    let mut libraries = flag("\"-L", &top.join("lib64"));
    libraries.push("\" -lcudadevrt -lcudart_static -lrt -lpthread -ldl");
    show(top.join("bin/nvcc").as_os_str(), &words, &libraries);
}
