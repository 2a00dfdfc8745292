//! nvcc's command line. The flags themselves are the table of [`super::flags`].

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::flags::{self, Meaning};

/// What to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// A program or shared library.
    #[default]
    Link,
    /// `-c`, `-dc`, `-dw`.
    Compile,
    /// `-E`.
    Preprocess,
    /// `-M`, `-MM`.
    Depend,
    /// `-dlink`.
    DeviceLink,
}

/// How to read an input file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// `.cu`
    Cuda,
    /// `.c`
    C,
    /// `.cc`, `.cpp`, `.cxx`
    Cpp,
}

/// A file on the command line; the linker's if it has no language.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// As given.
    pub path: PathBuf,
    /// By `-x` or by its extension.
    pub language: Option<Language>,
}

impl Input {
    /// `dir/a.cu` compiles to `a.o`.
    pub fn object_name(&self) -> PathBuf {
        Path::new(self.path.file_name().unwrap_or_default()).with_extension("o")
    }
}

/// The command line, understood.
#[derive(Debug, Default)]
pub struct Command {
    /// What to make.
    pub stage: Stage,
    /// `-o`
    pub output: Option<PathBuf>,
    /// In order.
    pub inputs: Vec<Input>,
    /// `-I`, `-D` and their kin, in order.
    pub preprocessor: Vec<String>,
    /// `-include`
    pub forced_includes: Vec<String>,
    /// `-Xcompiler` and what g++ knows by itself: for every step.
    pub host_flags: Vec<String>,
    /// `-W...`
    pub warnings: Vec<String>,
    /// `-L`, `-l`, `-Xlinker`, in order.
    pub linker: Vec<String>,
    /// `-std=`; C++17 is the least.
    pub standard: Option<String>,
    /// `-O`
    pub optimization: Option<String>,
    /// `-g`, `-G`
    pub debug: bool,
    /// `-G`
    pub device_debug: bool,
    /// `-rdc=true`, `-dc`
    pub relocatable: bool,
    /// `--extended-lambda`
    pub extended_lambda: bool,
    /// `--expt-relaxed-constexpr`
    pub relaxed_constexpr: bool,
    /// `-shared`
    pub shared: bool,
    /// `-ccbin`
    pub compiler: Option<String>,
    /// `-M`, `-MM`, `-MD`, `-MMD`
    pub dependencies: Option<String>,
    /// `-MF`
    pub dependency_file: Option<String>,
    /// `-MT`
    pub dependency_target: Option<String>,
    /// `-MP`
    pub phony_dependencies: bool,
    /// `-keep`: where to.
    pub keep: Option<PathBuf>,
    /// `-v`
    pub verbose: bool,
    /// `--dryrun`
    pub dry_run: bool,
    /// `--version`
    pub version: bool,
    /// `--help`
    pub help: bool,
    language: Option<Language>,
    keep_folder: Option<PathBuf>,
    forward_unknown: bool,
}

impl Command {
    /// Understands the arguments or names the one that it does not know.
    pub fn parse(arguments: Vec<String>) -> Result<Command, String> {
        let mut command = Command::default();
        let mut rest: VecDeque<String> = arguments.into();
        command.forward_unknown = rest.iter().any(|a| a.trim_start_matches('-') == "forward-unknown-to-host-compiler");
        while let Some(argument) = rest.pop_front() {
            if argument == "-" || !argument.starts_with('-') {
                command.input(argument)?;
                continue;
            }
            match flags::lookup(&argument) {
                Some((flag, None)) if flag.takes_value() => {
                    let value = rest.pop_front().ok_or_else(|| format!("`{argument}` needs a value"))?;
                    command.apply(flag.meaning, &argument, value, &mut rest)?;
                }
                Some((flag, value)) => command.apply(flag.meaning, &argument, value.unwrap_or_default(), &mut rest)?,
                None if command.forward_unknown => command.host_flags.push(argument),
                None => {
                    return Err(format!(
                        "unknown option `{argument}`; ginrs-cc --help lists what it takes, and -Xcompiler hands an option to g++"
                    ));
                }
            }
        }
        if command.keep.is_some() {
            command.keep = Some(command.keep_folder.clone().unwrap_or_default());
        }
        Ok(command)
    }

    /// `-std=` for the compiler.
    pub fn standard_flag(&self) -> String {
        format!("-std={}", self.standard.as_deref().unwrap_or("gnu++17"))
    }

    /// As asked, else -O2: nvcc optimises device code too unless told not to.
    pub fn optimization_flag(&self) -> String {
        let level = self.optimization.as_deref().unwrap_or(if self.device_debug { "0" } else { "2" });
        format!("-O{level}")
    }

    fn input(&mut self, argument: String) -> Result<(), String> {
        let path = PathBuf::from(&argument);
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let language = match extension {
            "cu" => Some(Language::Cuda),
            "c" => Some(Language::C),
            "cc" | "cpp" | "cxx" | "C" => Some(Language::Cpp),
            "o" | "obj" | "a" | "lo" => None,
            _ if extension == "so" || argument.contains(".so.") => None,
            _ if self.language.is_some() => None,
            "ptx" | "cubin" | "fatbin" => {
                return Err(format!("`{argument}`: PTX and GPU binaries do not run on the CPU device"));
            }
            _ => return Err(format!("`{argument}`: unknown kind of file; say -x cu, -x c++ or -x c before it")),
        };
        let linkable = matches!(extension, "o" | "obj" | "a" | "lo" | "so") || argument.contains(".so.");
        let language = if linkable { None } else { self.language.or(language) };
        self.inputs.push(Input { path, language });
        Ok(())
    }

    fn apply(&mut self, meaning: Meaning, flag: &str, value: String, rest: &mut VecDeque<String>) -> Result<(), String> {
        match meaning {
            Meaning::Ignored | Meaning::IgnoredValue => {}
            Meaning::Refused(why) => return Err(format!("`{flag}`: {why}")),
            Meaning::Output => self.output = Some(value.into()),
            Meaning::Stage(stage) => self.stage = stage,
            Meaning::RelocatableCompile => {
                self.stage = Stage::Compile;
                self.relocatable = true;
            }
            Meaning::Relocatable => self.relocatable = truth(flag, &value)?,
            Meaning::Preprocessor(name) => self.preprocessor.push(format!("{name}{value}")),
            Meaning::PreprocessorPair(name) => self.preprocessor.extend([name.to_string(), value]),
            Meaning::ForcedInclude => self.forced_includes.push(value),
            Meaning::Library => {
                if !flags::REPLACED_LIBRARIES.contains(&value.as_str()) {
                    self.linker.push(format!("-l{value}"));
                }
            }
            Meaning::LibraryFolder => self.linker.push(format!("-L{value}")),
            Meaning::HostCompiler => self.host_flags.extend(commas(&value)),
            Meaning::HostLinker => self.linker.extend(commas(&value).into_iter().flat_map(|v| ["-Xlinker".to_string(), v])),
            Meaning::Forwarded => self.host_flags.push(flag.to_string()),
            Meaning::ForwardedToLinker => self.linker.push(flag.to_string()),
            Meaning::Warning => self.warnings.push(flag.to_string()),
            Meaning::WarningsAsErrors => {
                // g++'s -Werror stands alone; nvcc's may have its kinds behind a space.
                let value = match rest.front() {
                    Some(kinds) if !flag.contains('=') && kinds.split(',').all(|kind| NVCC_KINDS.contains(&kind)) => {
                        rest.pop_front().expect("looked at above")
                    }
                    _ => value,
                };
                self.warnings.extend(warning_kinds(flag, &value)?);
            }
            Meaning::NoWarnings => self.warnings.push("-w".into()),
            Meaning::Standard => self.standard = Some(standard(&value)?),
            Meaning::Optimization => self.optimization = Some(if value.is_empty() { "1".into() } else { value }),
            Meaning::Debug => self.debug = true,
            Meaning::DeviceDebug => (self.debug, self.device_debug) = (true, true),
            Meaning::ExtendedLambda => self.extended_lambda = true,
            Meaning::RelaxedConstexpr => self.relaxed_constexpr = true,
            Meaning::Shared => self.shared = true,
            Meaning::Compiler => self.compiler = Some(value),
            Meaning::Language => {
                self.language = match value.as_str() {
                    "cu" => Some(Language::Cuda),
                    "c" => Some(Language::C),
                    "c++" => Some(Language::Cpp),
                    _ => return Err(format!("`-x {value}`: the languages are cu, c and c++")),
                }
            }
            Meaning::Dependencies => {
                self.dependencies =
                    Some(flag.replace("--generate-dependencies", "-M").replace("--generate-nonsystem-dependencies", "-MM"));
                if !flag.ends_with('D') && flag != "--generate-dependencies-with-compile" {
                    self.stage = Stage::Depend;
                } else if flag == "--generate-dependencies-with-compile" {
                    self.dependencies = Some("-MD".into());
                }
            }
            Meaning::DependencyFile => self.dependency_file = Some(value),
            Meaning::DependencyTarget => self.dependency_target = Some(value),
            Meaning::PhonyDependencies => self.phony_dependencies = true,
            Meaning::Keep => self.keep = Some(PathBuf::new()),
            Meaning::KeepFolder => self.keep_folder = Some(value.into()),
            Meaning::Verbose => self.verbose = true,
            Meaning::DryRun => self.dry_run = true,
            Meaning::Version => self.version = true,
            Meaning::Help => self.help = true,
            Meaning::ForwardUnknown => self.forward_unknown = true,
            Meaning::DefaultStream => {
                if value != "legacy" {
                    return Err(format!("`{flag}`: the CPU device has the legacy default stream only"));
                }
            }
            Meaning::OptionsFile => {
                let text = std::fs::read_to_string(&value).map_err(|e| format!("options file `{value}`: {e}"))?;
                for word in words(&text).into_iter().rev() {
                    rest.push_front(word);
                }
            }
        }
        Ok(())
    }
}

fn truth(flag: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{flag}`: want true or false")),
    }
}

/// The headers behind the rewritten text are C++17; an older standard is raised to it.
fn standard(value: &str) -> Result<String, String> {
    Ok(match value {
        "c++03" | "c++11" | "c++14" | "c++17" => "c++17".into(),
        "gnu++03" | "gnu++11" | "gnu++14" | "gnu++17" => "gnu++17".into(),
        "c++20" | "c++23" | "gnu++20" | "gnu++23" => value.into(),
        _ => return Err(format!("`-std={value}`: the standards are c++03 to c++23 (below c++17 means c++17)")),
    })
}

/// `-Xcompiler -Wall,-Wextra` is two options; a comma behind a backslash is a comma.
fn commas(value: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        let part = parts.last_mut().expect("never empty");
        match c {
            '\\' => part.extend(chars.next()),
            // -Wl,-rpath,/x is one option to g++.
            ',' if !part.starts_with("-Wl") && !part.starts_with("-fsanitize") => parts.push(String::new()),
            c => part.push(c),
        }
    }
    parts.into_iter().flat_map(|p| words(&p)).collect()
}

/// Splits at space outside of double quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

/// What nvcc's -Werror takes.
const NVCC_KINDS: &[&str] = &[
    "all-warnings",
    "reorder",
    "deprecated-declarations",
    "cross-execution-space-call",
    "default-stream-launch",
    "missing-launch-bounds",
    "ext-lambda-captures-this",
];

fn warning_kinds(flag: &str, value: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for kind in value.split(',') {
        match kind {
            "" | "all-warnings" => out.push("-Werror".into()),
            "reorder" | "deprecated-declarations" => out.push(format!("-Werror={kind}")),
            _ if NVCC_KINDS.contains(&kind) => {}
            _ if flag.starts_with("-Werror=") => out.push(format!("-Werror={kind}")),
            _ => return Err(format!("`{flag} {kind}`: unknown kind of warning")),
        }
    }
    Ok(out)
}
