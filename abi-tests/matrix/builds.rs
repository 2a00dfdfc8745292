//! How a choice of cases is compiled: by whom, against whose headers, with which options.

use crate::compilers::{Headers, limited, nvcc, nvcc_command};
use crate::table::{Case, Kind, folder};
use std::process::{Command, Output};

/// What users pass beside the architecture and the standard.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    Plain,
    /// Machine code too, and the host's half: all that `nvcc -c` does.
    Object,
    Both,
    ProxyAlone,
    GdakiAlone,
    NoBackend,
    Relocatable,
    Debug,
}

pub const MODES: [Mode; 7] =
    [Mode::Plain, Mode::Both, Mode::ProxyAlone, Mode::GdakiAlone, Mode::NoBackend, Mode::Relocatable, Mode::Debug];

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Compiler {
    Nvcc {
        arch: u32,
        mode: Mode,
    },
    /// ginrs-cc with the named compiler.
    Cpu(&'static str),
    /// Without CUDA.
    Host(&'static str),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Build {
    pub compiler: Compiler,
    pub standard: &'static str,
    pub headers: Headers,
}

impl Build {
    pub fn nvcc(arch: u32, mode: Mode, standard: &'static str, headers: Headers) -> Build {
        Build { compiler: Compiler::Nvcc { arch, mode }, standard, headers }
    }

    /// sm_90 c++17 Debug
    pub fn name(&self) -> String {
        let by = match self.compiler {
            Compiler::Nvcc { arch, mode } => format!("nvcc sm_{arch} {mode:?}"),
            Compiler::Cpu(compiler) => format!("CPU device by {compiler}"),
            Compiler::Host(compiler) => compiler.to_owned(),
        };
        format!("{by} {} {:?}", self.standard, self.headers)
    }

    /// Does the case say anything of this build?
    pub fn fits(&self, case: &Case) -> bool {
        let is_host = case.how.starts_with("host.c");
        let mode = match self.compiler {
            Compiler::Host(_) => return is_host && (case.how == "host.c") == (self.standard == "c11"),
            Compiler::Cpu(_) => Mode::Plain,
            Compiler::Nvcc { mode, .. } => mode,
        };
        /* With no backend NVIDIA's reads do not compile, which is T017's second part; nothing else says anything there. */
        let is_none = mode == Mode::NoBackend;
        match (self.headers, case.name().as_str()) {
            _ if is_host => false,
            (Headers::Ours, _) => true,
            (Headers::Nvidia, "T017 N 1701") => is_none,
            (Headers::Nvidia, _) => !is_none || case.number == "T017",
        }
    }

    /// The command for these cases together; all of a source's, or of all.cu, where none are named.
    pub fn command(&self, source: &str, chosen: &[String], out: &std::path::Path) -> Command {
        let path = folder().join(source);
        let ours = self.headers == Headers::Ours;
        let mut command = match self.compiler {
            Compiler::Nvcc { arch, mode } => {
                let mut command = nvcc_command(&nvcc().expect("nvcc"));
                /* NVIDIA's device verbs are there in the device pass alone, and that is what an N of T114 is about. */
                let device_pass = !ours && mode == Mode::Plain && !chosen.iter().any(|choice| choice.starts_with("-DRUN_N"));
                command.args(nvcc_flags(arch, mode).iter().map(|flag| if device_pass && flag == "-c" { "-ptx" } else { flag }));
                /* With no backend NVIDIA's gin_gdaki_device_host_common.h misses an include. */
                if !ours && mode == Mode::NoBackend {
                    command.args(["-include", "cstdint"]);
                }
                /* In one TU with debug code of all cases, nvcc warns of its size. */
                if ours && mode != Mode::Debug {
                    command.args(["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra"]);
                }
                command
            }
            Compiler::Cpu(compiler) => {
                let mut command = limited(abi_tests::prefix().join("bin/ginrs-cc"));
                command.env("GINRS_CXX", compiler).args(["-c", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]);
                if compiler == "clang++" {
                    command.args(["-Wno-missing-braces", "-Wno-unused-command-line-argument"]);
                }
                command
            }
            Compiler::Host(compiler) => {
                let mut command = limited(compiler);
                command
                    .args(["-fsyntax-only", "-Werror=implicit-function-declaration"])
                    .args(ours.then_some(["-Wall", "-Wextra", "-Werror"]).into_iter().flatten());
                command
            }
        };
        command.arg(format!("-std={}", self.standard)).args(chosen);
        command.args(self.headers.flags().expect("the headers are there")).arg(path);
        if !matches!(self.compiler, Compiler::Host(_)) {
            command.arg("-o").arg(out);
        }
        command
    }

    /// All cases that fit, in as few commands as there are sources; by case: None, or what the compiler said against it.
    pub fn run(&self, cases: &[&Case], out: &std::path::Path) -> Vec<Option<String>> {
        let mut results = vec![None; cases.len()];
        let (alone, batch): (Vec<usize>, Vec<usize>) = (0..cases.len())
            .partition(|&i| cases[i].how == "includes.cu" || cases[i].kind == Kind::Refused || self.wants_refusal(cases[i]));
        let source = match self.compiler {
            Compiler::Host(_) if self.standard == "c11" => "host.c",
            Compiler::Host(_) => "host.cc",
            _ => "all.cu",
        };
        let together = batch.is_empty() || ended_well(&output(&mut self.command(source, &[], out)));
        for &i in alone.iter().chain(if together { [].iter() } else { batch.iter() }) {
            results[i] = self.run_one(cases[i], out);
        }
        if !together && batch.iter().all(|&i| results[i].is_none()) {
            results[batch[0]] = Some(format!("each case compiles, all together do not: {:?}", self.command(source, &[], out)));
        }
        results
    }

    /// Must this build not take the case?
    pub fn wants_refusal(&self, case: &Case) -> bool {
        match case.kind {
            Kind::Refused => self.headers == Headers::Ours || !case.is_accepted,
            _ => case.kind == Kind::OursAlone && self.headers == Headers::Nvidia && !case.is_accepted,
        }
    }

    pub fn run_one(&self, case: &Case, out: &std::path::Path) -> Option<String> {
        let said = output(&mut self.command(&case.how, &[case.define()], out));
        let text = abi_tests::text(&said);
        let what = format!("{} by {}", case.name(), self.name());
        match (self.wants_refusal(case), said.status.code()) {
            (_, Some(124)) => Some(format!("{what}: no end")),
            (false, Some(0)) => None,
            (false, _) => Some(format!("{what}:\n{text}")),
            (true, Some(0)) => Some(format!("{what}: compiles, and should not")),
            (true, _) => {
                let words = case.words.as_deref().filter(|_| self.headers == Headers::Ours)?;
                (!text.contains(words)).then(|| format!("{what}: refused without \"{words}\":\n{text}"))
            }
        }
    }
}

fn nvcc_flags(arch: u32, mode: Mode) -> Vec<String> {
    let to = if mode == Mode::Object { format!("sm_{arch}") } else { format!("compute_{arch}") };
    let mut flags = vec!["-gencode".into(), format!("arch=compute_{arch},code={to}")];
    let more: &[&str] = match mode {
        Mode::Object => &["-c"],
        Mode::Plain => &["-c"],
        Mode::Both => &["-ptx", "-DNCCL_GIN_PROXY_ENABLE=1", "-DNCCL_GIN_GDAKI_ENABLE=1"],
        Mode::ProxyAlone => &["-ptx", "-DNCCL_GIN_PROXY_ENABLE=1", "-DNCCL_GIN_GDAKI_ENABLE=0"],
        Mode::GdakiAlone => &["-ptx", "-DNCCL_GIN_PROXY_ENABLE=0", "-DNCCL_GIN_GDAKI_ENABLE=1"],
        Mode::NoBackend => &["-ptx", "-DNCCL_GIN_PROXY_ENABLE=0", "-DNCCL_GIN_GDAKI_ENABLE=0"],
        Mode::Relocatable => &["-ptx", "-rdc=true"],
        Mode::Debug => &["-ptx", "-G"],
    };
    flags.extend(more.iter().map(|flag| flag.to_string()));
    /* Debug code is not optimized; of the others, that once is enough. */
    if !matches!(mode, Mode::Object | Mode::Debug) {
        flags.extend(["-Xcicc".into(), "-O0".into()]);
    }
    flags
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn ended_well(output: &Output) -> bool {
    output.status.success()
}
