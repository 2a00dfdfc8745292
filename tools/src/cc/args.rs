//! nvcc's command line. The flags themselves are the table of [`super::flags`].

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::flags::{self, Meaning};
use super::words::{commas, words};

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

/// One word of the link.
#[derive(Clone, PartialEq, Debug)]
pub enum Linked {
    /// The object of this input, or the input itself.
    Input(usize),
    /// `-L`, `-l`, `-Xlinker` and their kin.
    Word(OsString),
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
    pub preprocessor: Vec<OsString>,
    /// `-include`
    pub forced_includes: Vec<OsString>,
    /// `-Xcompiler` and what g++ knows by itself: for every step.
    pub host_flags: Vec<OsString>,
    /// `-W...`
    pub warnings: Vec<OsString>,
    /// What the linker gets, in order: `--whole-archive` means the files behind it.
    pub linker: Vec<Linked>,
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
    /// `--check=race`
    pub race: bool,
    /// `-ccbin`
    pub compiler: Option<OsString>,
    /// `-M`, `-MM`, `-MD`, `-MMD`
    pub dependencies: Option<String>,
    /// `-MF`
    pub dependency_file: Option<OsString>,
    /// `-MT`
    pub dependency_target: Option<OsString>,
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
    /// `--clangd`
    pub clangd: bool,
    /// `--cuda-home`, `--nccl-home`: the folder to print, below the prefix.
    pub home: Option<&'static str>,
    /// `--list-gpu-arch`, `--list-gpu-code`: what stands before the numbers.
    pub list: Option<&'static str>,
    language: Option<Language>,
    keep_folder: Option<PathBuf>,
    forward_unknown: bool,
}

impl Command {
    /// Understands the arguments or names the one that it does not know.
    pub fn parse(arguments: Vec<OsString>) -> Result<Command, String> {
        let mut command = Command::default();
        let mut rest: VecDeque<OsString> = arguments.into();
        let mut files = 0;
        command.forward_unknown = rest.iter().any(|a| a.as_bytes().ends_with(b"-forward-unknown-to-host-compiler"));
        while let Some(argument) = rest.pop_front() {
            if let Some(file) = argument.as_bytes().strip_prefix(b"@").filter(|f| !f.is_empty()) {
                options_file(OsStr::from_bytes(file), &mut rest, &mut files)?;
                continue;
            }
            if argument == "-" || !argument.as_bytes().starts_with(b"-") {
                command.input(argument)?;
                continue;
            }
            let value = match flags::lookup(&argument) {
                Some((flag, None)) if flag.takes_value() => {
                    (flag, rest.pop_front().ok_or_else(|| format!("`{}` needs a value", argument.display()))?)
                }
                Some((flag, value)) => (flag, value.unwrap_or_default()),
                None if command.forward_unknown => {
                    command.host_flags.push(argument);
                    continue;
                }
                None => {
                    return Err(format!(
                        "unknown option `{}`; ginrs-cc --help lists what it takes, and -Xcompiler hands an option to g++",
                        argument.display()
                    ));
                }
            };
            if value.0.meaning == Meaning::OptionsFile {
                options_file(&value.1, &mut rest, &mut files)?;
            } else {
                command.apply(value.0.meaning, &argument, value.1, &mut rest)?;
            }
        }
        if command.keep.is_some() {
            command.keep = Some(command.keep_folder.clone().unwrap_or_default());
        }
        Ok(command)
    }

    /// Whether AddressSanitizer is asked for.
    pub fn finds_addresses(&self) -> bool {
        self.sanitizes("address")
    }

    /// Whether ThreadSanitizer is.
    pub fn finds_races(&self) -> bool {
        self.sanitizes("thread")
    }

    fn sanitizes(&self, wanted: &str) -> bool {
        let kinds = self.host_flags.iter().filter_map(|flag| flag.to_str()?.strip_prefix("-fsanitize="));
        kinds.flat_map(|kinds| kinds.split(',')).any(|kind| kind == wanted)
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

    fn input(&mut self, argument: OsString) -> Result<(), String> {
        let path = PathBuf::from(argument);
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let versioned = path.as_os_str().as_bytes().windows(4).any(|w| w == b".so.");
        let language = match extension {
            "cu" => Some(Language::Cuda),
            "c" => Some(Language::C),
            "cc" | "cpp" | "cxx" | "C" => Some(Language::Cpp),
            "o" | "obj" | "a" | "lo" | "so" => None,
            _ if versioned => None,
            _ if self.language.is_some() => None,
            "ptx" | "cubin" | "fatbin" => {
                return Err(format!("`{}`: PTX and GPU binaries do not run on the CPU device", path.display()));
            }
            _ => return Err(format!("`{}`: unknown kind of file; say -x cu, -x c++ or -x c before it", path.display())),
        };
        let linkable = versioned || matches!(extension, "o" | "obj" | "a" | "lo" | "so");
        let language = if linkable { None } else { self.language.or(language) };
        self.linker.push(Linked::Input(self.inputs.len()));
        self.inputs.push(Input { path, language });
        Ok(())
    }

    fn link_word(&mut self, option: &str, value: &OsStr) {
        self.linker.push(Linked::Word(join(option, value)));
    }

    fn apply(&mut self, meaning: Meaning, flag: &OsStr, value: OsString, rest: &mut VecDeque<OsString>) -> Result<(), String> {
        // Only values that are words of ours need be text.
        let (name, text) = (flag.to_string_lossy(), value.to_string_lossy());
        match meaning {
            Meaning::Ignored | Meaning::IgnoredValue => {}
            Meaning::Refused(why) => return Err(format!("`{name}`: {why}")),
            Meaning::Output => self.output = Some(value.into()),
            Meaning::Stage(stage) => self.stage = stage,
            Meaning::RelocatableCompile => {
                self.stage = Stage::Compile;
                self.relocatable = true;
            }
            Meaning::Relocatable => self.relocatable = truth(&name, &text)?,
            Meaning::Preprocessor(option) => self.preprocessor.push(join(option, &value)),
            Meaning::PreprocessorPair(option) => self.preprocessor.extend([option.into(), value]),
            Meaning::ForcedInclude => self.forced_includes.push(value),
            Meaning::Library => {
                if !flags::REPLACED_LIBRARIES.contains(&&*text) {
                    self.link_word("-l", &value);
                }
            }
            Meaning::LibraryFolder => self.link_word("-L", &value),
            Meaning::HostCompiler => self.host_flags.extend(commas(&value)),
            Meaning::HostLinker => {
                for word in commas(&value) {
                    self.link_word("-Xlinker", OsStr::new(""));
                    self.link_word("", &word);
                }
            }
            Meaning::Forwarded => self.host_flags.push(flag.into()),
            Meaning::ForwardedToLinker => self.link_word("", flag),
            Meaning::ForwardedPair(option) => {
                self.link_word(option, OsStr::new(""));
                self.link_word("", &value);
            }
            Meaning::Warning => self.warnings.push(flag.into()),
            Meaning::WarningsAsErrors => {
                // g++'s -Werror stands alone; nvcc's may have its kinds behind a space.
                let kinds = rest.front().and_then(|kinds| kinds.to_str()).unwrap_or("").to_string();
                let taken = !name.contains('=') && !kinds.is_empty() && kinds.split(',').all(|kind| NVCC_KINDS.contains(&kind));
                if taken {
                    rest.pop_front();
                }
                self.warnings.extend(warning_kinds(&name, if taken { &kinds } else { &text })?);
            }
            Meaning::NoWarnings => self.warnings.push("-w".into()),
            Meaning::Standard => self.standard = Some(standard(&text)?),
            Meaning::Optimization => self.optimization = Some(if text.is_empty() { "1".into() } else { text.into_owned() }),
            Meaning::Debug => self.debug = true,
            Meaning::DeviceDebug => (self.debug, self.device_debug) = (true, true),
            Meaning::ExtendedLambda => self.extended_lambda = true,
            Meaning::RelaxedConstexpr => self.relaxed_constexpr = true,
            Meaning::Shared => self.shared = true,
            Meaning::Check => {
                if text != "race" {
                    return Err(format!("`{name}={text}`: what can be compiled in is race"));
                }
                (self.race, self.debug) = (true, true);
            }
            Meaning::Compiler => self.compiler = Some(value),
            Meaning::Language => {
                self.language = match &*text {
                    "cu" => Some(Language::Cuda),
                    "c" => Some(Language::C),
                    "c++" => Some(Language::Cpp),
                    _ => return Err(format!("`-x {text}`: the languages are cu, c and c++")),
                }
            }
            Meaning::Dependencies => {
                self.dependencies =
                    Some(name.replace("--generate-dependencies", "-M").replace("--generate-nonsystem-dependencies", "-MM"));
                if !name.ends_with('D') && name != "--generate-dependencies-with-compile" {
                    self.stage = Stage::Depend;
                } else if name == "--generate-dependencies-with-compile" {
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
            Meaning::List(prefix) => self.list = Some(prefix),
            Meaning::Clangd => self.clangd = true,
            Meaning::Home(folder) => self.home = Some(folder),
            Meaning::ForwardUnknown => self.forward_unknown = true,
            Meaning::DefaultStream => {
                if text != "legacy" {
                    return Err(format!("`{name}`: the CPU device has the legacy default stream only"));
                }
            }
            Meaning::OptionsFile => unreachable!("read before"),
        }
        Ok(())
    }
}

fn join(option: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(option);
    word.push(value);
    word
}

/// A file of options may name another, and itself.
const MOST_FILES: usize = 1000;

/// Puts the words of a file in front of the rest.
fn options_file(file: &OsStr, rest: &mut VecDeque<OsString>, read: &mut usize) -> Result<(), String> {
    *read += 1;
    if *read > MOST_FILES {
        return Err(format!("options file `{}`: more than {MOST_FILES} files of options; does it name itself?", file.display()));
    }
    let text = std::fs::read(file).map_err(|e| format!("options file `{}`: {e}", file.display()))?;
    for word in words(&OsString::from_vec(text)).into_iter().rev() {
        rest.push_front(word);
    }
    Ok(())
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

fn warning_kinds(flag: &str, value: &str) -> Result<Vec<OsString>, String> {
    let mut out: Vec<OsString> = Vec::new();
    for kind in value.split(',') {
        match kind {
            "" | "all-warnings" => out.push("-Werror".into()),
            "reorder" | "deprecated-declarations" => out.push(format!("-Werror={kind}").into()),
            _ if NVCC_KINDS.contains(&kind) => {}
            _ if flag.starts_with("-Werror=") => out.push(format!("-Werror={kind}").into()),
            _ => return Err(format!("`{flag} {kind}`: unknown kind of warning")),
        }
    }
    Ok(out)
}
