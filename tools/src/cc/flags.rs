//! Every option that ginrs-cc takes: nvcc's names, what they mean here, and what --help says of them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::args::Stage;

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Meaning {
    Ignored,
    IgnoredValue,
    Refused(&'static str),
    Output,
    Stage(Stage),
    RelocatableCompile,
    Relocatable,
    Preprocessor(&'static str),
    PreprocessorPair(&'static str),
    ForcedInclude,
    Library,
    LibraryFolder,
    HostCompiler,
    HostLinker,
    Forwarded,
    ForwardedToLinker,
    ForwardedPair(&'static str),
    Warning,
    WarningsAsErrors,
    NoWarnings,
    Standard,
    Optimization,
    Debug,
    DeviceDebug,
    ExtendedLambda,
    RelaxedConstexpr,
    Shared,
    Check,
    Compiler,
    Language,
    Dependencies,
    DependencyFile,
    DependencyTarget,
    PhonyDependencies,
    Keep,
    KeepFolder,
    Verbose,
    DryRun,
    Version,
    Help,
    Clangd,
    Home(&'static str),
    List(&'static str),
    ForwardUnknown,
    DefaultStream,
    OptionsFile,
}

impl Meaning {
    /// True for the two that show commands.
    pub fn shows(self) -> bool {
        matches!(self, Meaning::Verbose | Meaning::DryRun)
    }
}

/// How an option carries its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// No value.
    Alone,
    /// `-o value`, `-o=value`
    Value,
    /// `-Ivalue`, `-I value`, `-I=value`
    Joined,
    /// `-O`, `-O3`: what follows belongs to it, nothing else does.
    Suffix,
    /// Any option with this beginning, taken whole.
    Prefix,
    /// `-Werror`, `-Werror=kind`: there may be a value.
    Optional,
}

/// One line of the table.
#[derive(Debug)]
pub struct Flag {
    names: &'static [&'static str],
    shape: Shape,
    /// What it does.
    pub meaning: Meaning,
    help: &'static str,
}

impl Flag {
    /// The next argument is its value if none came with it.
    pub fn takes_value(&self) -> bool {
        matches!(self.shape, Shape::Value | Shape::Joined)
    }
}

/// Libraries that libginrs and libginrs_cpu stand in for.
pub const REPLACED_LIBRARIES: &[&str] =
    &["cudart", "cudart_static", "cuda", "cudadevrt", "nvToolsExt", "nvidia-ml", "nccl", "nccl_static", "ginrs", "ginrs_cpu"];

const NO_GPU_CODE: &str = "there is no GPU code on the CPU device";

macro_rules! flag {
    ($shape:ident, $meaning:expr, $help:literal, $($name:literal)+) => {
        Flag { names: &[$($name),+], shape: Shape::$shape, meaning: $meaning, help: $help }
    };
}

use Meaning as M;
const FLAGS: &[Flag] = &[
    flag!(Value, M::Output, "FILE: what to write", "-o" "--output-file"),
    flag!(Alone, M::Stage(Stage::Compile), "compile, do not link", "-c" "--compile" "-dw" "--device-w"),
    flag!(Alone, M::RelocatableCompile, "compile with -rdc=true", "-dc" "--device-c"),
    flag!(Alone, M::Stage(Stage::DeviceLink), "write an empty object: nothing is left to link", "-dlink" "--device-link"),
    flag!(Alone, M::Stage(Stage::Preprocess), "preprocess to the output", "-E" "--preprocess"),
    flag!(Alone, M::Stage(Stage::Link), "make a program (the default)", "-link" "--link"),
    flag!(
        Value,
        M::Check,
        "race: kernels tell of each access, and the program of races between them and puts (docs/user/races.md)",
        "--check"
    ),
    flag!(Alone, M::Shared, "make a shared library", "-shared" "--shared"),
    flag!(Value, M::Relocatable, "true|false: device functions and variables shared between files", "-rdc" "--relocatable-device-code"),
    flag!(Joined, M::PreprocessorPair("-isystem"), "DIR: headers of others", "-isystem" "--system-include"),
    flag!(Joined, M::PreprocessorPair("-iquote"), "DIR: for #include \"...\"", "-iquote"),
    flag!(Joined, M::PreprocessorPair("-idirafter"), "DIR: searched last", "-idirafter"),
    flag!(Value, M::ForcedInclude, "FILE: included first", "-include" "--pre-include"),
    flag!(Joined, M::Preprocessor("-I"), "DIR: headers", "-I" "--include-path"),
    flag!(Joined, M::Preprocessor("-D"), "NAME[=VALUE]", "-D" "--define-macro"),
    flag!(Joined, M::Preprocessor("-U"), "NAME", "-U" "--undefine-macro"),
    flag!(Alone, M::Dependencies, "dependencies instead of / beside the output, as g++ writes them",
        "-M" "-MM" "-MD" "-MMD" "--generate-dependencies" "--generate-nonsystem-dependencies" "--generate-dependencies-with-compile"),
    flag!(Value, M::DependencyFile, "FILE: where they go", "-MF" "--dependency-output"),
    flag!(Value, M::DependencyTarget, "NAME: what depends", "-MT" "-MQ" "--dependency-target-name"),
    flag!(Alone, M::PhonyDependencies, "a rule for each header", "-MP" "--generate-dependency-targets"),
    flag!(Value, M::DefaultStream, "legacy: the only one", "-default-stream" "--default-stream"),
    flag!(Alone, M::Ignored, "accepted: line information is always there with -g", "-lineinfo" "--generate-line-info"),
    flag!(Joined, M::LibraryFolder, "DIR: libraries", "-L" "--library-path"),
    flag!(Joined, M::Library, "NAME: a library; cudart, cuda, cudadevrt and nccl are replaced by ginrs", "-l" "--library"),
    flag!(Value, M::HostCompiler, "LIST: options for g++, at every step", "-Xcompiler" "--compiler-options"),
    flag!(Value, M::HostLinker, "LIST: options for the linker", "-Xlinker" "--linker-options"),
    flag!(Value, M::IgnoredValue, "accepted: options of tools that have no part here",
        "-Xptxas" "--ptxas-options" "-Xcudafe" "-Xnvlink" "--nvlink-options" "-Xfatbin" "--fatbin-options" "-Xarchive" "--archive-options"
        "-arch" "--gpu-architecture" "-code" "--gpu-code" "-gencode" "--generate-code" "-cudart" "--cudart" "-cudadevrt" "--cudadevrt"
        "-maxrregcount" "--maxrregcount" "-t" "--threads" "-fmad" "--fmad" "-ftz" "--ftz" "-prec-div" "--prec-div" "-prec-sqrt" "--prec-sqrt"
        "-diag-suppress" "--diag-suppress" "-diag-warn" "--diag-warn" "-diag-error" "--diag-error" "--machine"
        "-split-compile" "--split-compile" "-compress-mode" "--compress-mode"
        "-static-global-template-stub" "--static-global-template-stub"),
    flag!(Alone, M::Ignored, "accepted: they choose among GPUs, tools or speeds that have no part here",
        "-use_fast_math" "--use_fast_math" "-restrict" "--restrict" "-extra-device-vectorization" "--extra-device-vectorization"
        "-m64" "-t0" "-dlto" "--dlink-time-opt" "-res-usage" "--resource-usage" "-allow-unsupported-compiler" "--allow-unsupported-compiler"
        "-Wno-deprecated-gpu-targets" "--Wno-deprecated-gpu-targets" "-Wreorder" "-Wdefault-stream-launch" "-Wmissing-launch-bounds"
        "-Wext-lambda-captures-this" "-clean" "--clean-targets" "-nodlink" "--no-device-link" "-display-error-number"
        "--display-error-number" "-no-display-error-number" "--no-display-error-number" "-source-in-ptx" "--source-in-ptx"
        "--no-compress" "-no-compress" "-keep-device-functions" "--keep-device-functions" "-lto" "--lto"),
    flag!(Optional, M::WarningsAsErrors, "[=KINDS] warnings are errors", "-Werror" "--Werror"),
    flag!(Alone, M::NoWarnings, "no warnings", "-w" "--disable-warnings"),
    flag!(Value, M::Standard, "c++17 (the least), c++20, c++23", "-std" "--std"),
    flag!(Alone, M::Debug, "debug information", "-g" "--debug"),
    flag!(Alone, M::DeviceDebug, "the same, and -O0 unless -O is given", "-G" "--device-debug"),
    flag!(Suffix, M::Optimization, "LEVEL; -O2 unless given", "-O"),
    flag!(Value, M::Optimization, "LEVEL", "--optimize"),
    flag!(Alone, M::ExtendedLambda, "lambdas in device code (always possible here)",
        "--extended-lambda" "-extended-lambda" "--expt-extended-lambda" "-expt-extended-lambda"),
    flag!(Alone, M::RelaxedConstexpr, "constexpr functions in device code (always possible here)",
        "--expt-relaxed-constexpr" "-expt-relaxed-constexpr"),
    flag!(Value, M::Compiler, "g++, clang++ or a path; else GINRS_CXX, else g++", "-ccbin" "--compiler-bindir"),
    flag!(Value, M::Language, "cu, c++ or c: how to read the files that follow", "-x" "--x"),
    flag!(Alone, M::Keep, "keep the preprocessed (.ii) and the rewritten (.ginrs.ii) text", "-keep" "--keep" "-save-temps" "--save-temps"),
    flag!(Value, M::KeepFolder, "DIR: where", "-keep-dir" "--keep-dir"),
    flag!(Alone, M::Verbose, "print the commands", "-v" "--verbose"),
    flag!(Alone, M::DryRun, "print the commands, run none", "-dryrun" "--dryrun" "--dry-run"),
    flag!(Alone, M::Version, "", "-V" "--version"),
    flag!(Alone, M::Help, "", "-h" "--help"),
    flag!(Alone, M::List("compute"), "", "-arch-ls" "--list-gpu-arch"),
    flag!(Alone, M::List("sm"), "", "-code-ls" "--list-gpu-code"),
    flag!(
        Alone,
        M::Clangd,
        "write .clangd (or what -o names): clangd then reads the .cu files of this folder and below with these -I, -D, -std",
        "--clangd"
    ),
    flag!(
        Alone,
        M::Home(super::nvcc::CUDA_HOME),
        "print the folder that serves as CUDA_HOME: make CUDA_HOME=$(ginrs-cc --cuda-home)",
        "--cuda-home"
    ),
    flag!(Alone, M::Home(super::nvcc::NCCL_HOME), "print the folder that serves as NCCL_HOME", "--nccl-home"),
    flag!(Alone, M::ForwardUnknown, "unknown options go to g++",
        "-forward-unknown-to-host-compiler" "--forward-unknown-to-host-compiler" "-forward-unknown-opts" "--forward-unknown-opts"),
    flag!(Value, M::OptionsFile, "FILE: options in a file, also @FILE", "-optf" "--options-file"),
    flag!(Alone, M::Refused(NO_GPU_CODE), "", "-ptx" "--ptx" "-cubin" "--cubin" "-fatbin" "--fatbin" "-optix-ir" "--optix-ir" "-cuda" "--cuda"),
    flag!(Alone, M::Refused("make a library from -c objects with ar"), "", "-lib" "--lib"),
    flag!(Alone, M::Refused("run the program yourself, or with ginrs-run"), "", "-run" "--run"),
    flag!(Prefix, M::Refused("the CPU device needs 64 bits"), "", "-m32"),
    flag!(Prefix, M::ForwardedToLinker, "as g++ takes them", "-Wl," "-rdynamic" "-static-lib" "-nostdlib" "-rpath"),
    flag!(Alone, M::ForwardedToLinker, "as g++ takes them", "-pie" "-no-pie" "-nopie" "-static-pie" "-nostartfiles" "-nodefaultlibs"),
    flag!(Alone, M::Forwarded, "count lines that run, for gcov; the notes lie beside the output, as g++ puts them", "--coverage" "-coverage"),
    flag!(Value, M::ForwardedPair("-z"), "WORD: as g++ takes it", "-z"),
    flag!(Value, M::ForwardedPair("-u"), "SYMBOL: as g++ takes it", "-u"),
    flag!(Prefix, M::Warning, "as g++ takes them", "-W"),
    flag!(Prefix, M::Forwarded, "as g++ takes them", "-f" "-m" "-pthread" "-pipe" "-pedantic" "-s" "-nostdinc" "-gdwarf" "-ggdb" "-g1" "-g3"),
];

/// The flag of an argument, and the value that came with it. Names are ASCII, values any bytes.
pub fn lookup(argument: &OsStr) -> Option<(&'static Flag, Option<OsString>)> {
    let bytes = argument.as_bytes();
    let value = |bytes: &[u8]| Some(OsStr::from_bytes(bytes).to_os_string());
    let named = |name: &[u8], shape: &[Shape]| {
        FLAGS.iter().find(|f| shape.contains(&f.shape) && f.names.iter().any(|n| n.as_bytes() == name))
    };
    if let Some(flag) = named(bytes, &[Shape::Alone, Shape::Value, Shape::Joined, Shape::Suffix, Shape::Optional]) {
        return Some((flag, None));
    }
    if let Some(at) = bytes.iter().position(|&b| b == b'=') {
        let (before, after) = (&bytes[..at], &bytes[at + 1..]);
        if let Some(flag) = named(before, &[Shape::Value, Shape::Optional]) {
            return Some((flag, value(after)));
        }
        if let Some(flag) = named(before, &[Shape::Joined]).filter(|_| before.starts_with(b"--")) {
            return Some((flag, value(after)));
        }
    }
    for flag in FLAGS {
        for name in flag.names {
            match (flag.shape, bytes.strip_prefix(name.as_bytes())) {
                (Shape::Joined | Shape::Suffix, Some(rest)) if !name.starts_with("--") => {
                    return Some((flag, value(rest.strip_prefix(b"=").unwrap_or(rest))));
                }
                (Shape::Prefix, Some(_)) => return Some((flag, None)),
                _ => {}
            }
        }
    }
    None
}

/// What --help prints, from the table.
pub fn help() -> String {
    let mut text = String::from(
        "usage: ginrs-cc [options] file...\nCompiles .cu files for the CPU device and links them with ginrs; takes nvcc's options:\n",
    );
    for flag in FLAGS.iter().filter(|f| !f.help.is_empty()) {
        text += &format!("  {}\n        {}\n", flag.names.join(" "), flag.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let meaning = |a: &str| lookup(OsStr::new(a)).map(|(f, v)| (f.meaning, v));
        assert_eq!(meaning("-Ifoo"), Some((M::Preprocessor("-I"), Some("foo".into()))));
        assert_eq!(meaning("-I"), Some((M::Preprocessor("-I"), None)));
        assert_eq!(meaning("-DA=1"), Some((M::Preprocessor("-D"), Some("A=1".into()))));
        assert_eq!(meaning("-O3"), Some((M::Optimization, Some("3".into()))));
        assert_eq!(meaning("-std=c++17"), Some((M::Standard, Some("c++17".into()))));
        assert_eq!(meaning("-arch=sm_90"), Some((M::IgnoredValue, Some("sm_90".into()))));
        assert_eq!(meaning("-lineinfo"), Some((M::Ignored, None)));
        assert_eq!(meaning("-lnccl"), Some((M::Library, Some("nccl".into()))));
        assert_eq!(meaning("-isystem/x"), Some((M::PreprocessorPair("-isystem"), Some("/x".into()))));
        assert_eq!(meaning("-isystem"), Some((M::PreprocessorPair("-isystem"), None)));
        assert_eq!(meaning("-Xcompiler=-Wall"), Some((M::HostCompiler, Some("-Wall".into()))));
        assert_eq!(meaning("-Wall"), Some((M::Warning, None)));
        assert_eq!(meaning("-dlink"), Some((M::Stage(Stage::DeviceLink), None)));
        assert_eq!(meaning("--no-such"), None);
        assert_eq!(meaning("-zonk"), None);
    }

    #[test]
    fn no_name_twice() {
        let mut names: Vec<_> = FLAGS.iter().flat_map(|f| f.names).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
