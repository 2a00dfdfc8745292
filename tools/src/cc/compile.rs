//! From a source file to an object.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::{Command, Input, Language, Stage};
use super::toolchain::{Toolchain, flag};
use super::{coverage, folders, missing, spacing};
use crate::rewrite;

/// nvcc's macros. `__CUDA_ARCH__` is defined in the one pass that there is, so host code sees it too (docs/user/ginrs-cc.md).
pub const DEFINES: &[&str] = &[
    "-D__CUDACC__=1",
    "-D__NVCC__=1",
    "-D__CUDACC_VER_MAJOR__=13",
    "-D__CUDACC_VER_MINOR__=0",
    "-D__CUDACC_VER_BUILD__=0",
    "-D__CUDA_ARCH__=900",
    "-D__CUDA_ARCH_LIST__=900",
    "-D__GINRS_CPU__=1",
];

/// -E, -M and -MM.
pub fn preprocess_only(command: &Command, tools: &Toolchain, input: &Input) -> Result<(), String> {
    let mut arguments = preprocess_arguments(command, tools, input, None, false);
    if command.stage == Stage::Depend {
        arguments.retain(|a| a != "-E");
    }
    if let Some(output) = &command.output {
        arguments.extend(["-o".into(), output.into()]);
    }
    arguments.push(input.path.clone().into());
    tools.run(&arguments, None, false).map(drop)
}

/// With what there is to say of a header that is missing: the same again, for its messages, which went to the terminal.
fn explained(tools: &Toolchain, arguments: &[OsString], error: String) -> String {
    match missing::advice(&tools.messages_of(arguments)) {
        Some(advice) => format!("{advice}\n{error}"),
        None => error,
    }
}

/// Compiles one file into `object`.
pub fn object(command: &Command, tools: &Toolchain, input: &Input, object: &Path) -> Result<(), String> {
    let source: OsString = input.path.clone().into();
    if input.language != Some(Language::Cuda) {
        let mut arguments = preprocess_arguments(command, tools, input, Some(object), false);
        arguments.retain(|a| a != "-E");
        arguments.extend(compile_arguments(command, tools, input, object)?);
        arguments.push(source);
        return tools.run(&arguments, None, false).map(drop).map_err(|error| explained(tools, &arguments, error));
    }
    if command.race && tools.is_clang() {
        return Err(format!("ginrs-cc: error: --check=race needs g++, not {}", tools.compiler.display()));
    }
    let preprocess = |own_first: bool| {
        let mut arguments = preprocess_arguments(command, tools, input, Some(object), own_first);
        arguments.push(source.clone());
        tools.run(&arguments, None, true).map_err(|error| explained(tools, &arguments, error))
    };
    let mut preprocessed = preprocess(false)?;
    if command.race && is_of_another_nccl(&preprocessed) {
        let path = input.path.display();
        eprintln!(
            "ginrs-cc: note: {path}: --check=race sees puts through ginrs' headers: they stand in for those of another NCCL"
        );
        preprocessed = preprocess(true)?;
        if is_of_another_nccl(&preprocessed) {
            return Err(format!(
                "ginrs-cc: error: {path}: it includes nccl_device of another NCCL by path, and --check=race sees puts through ginrs' headers | \
                 fix: #include <nccl_device.h>, and name the folder with -I"
            ));
        }
    }
    keep(command, input, "ii", &preprocessed)?;
    let own_headers = folders::names_of_ours(command, tools);
    let options = rewrite::Options {
        relocatable: command.relocatable,
        own_headers,
        race: command.race,
        address: command.finds_addresses(),
    };
    let users =
        |name: &str| !name.starts_with("/usr/") && !options.own_headers.iter().any(|folder| name.starts_with(folder.as_str()));
    // Only plain files: a pipe has been read by the preprocessor.
    let plain = |name: &str| users(name) && std::fs::metadata(name).is_ok_and(|m| m.is_file());
    let preprocessed = spacing::restore(preprocessed, |name| plain(name).then(|| std::fs::read(name).ok())?);
    let rewritten = rewrite::rewrite(preprocessed, &options)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    keep(command, input, "ginrs.ii", &rewritten)?;
    let mut arguments: Vec<OsString> = ["-x", "c++-cpp-output"].map(Into::into).to_vec();
    // nvcc takes GNU words (`typeof`, in NVIDIA's own headers) whatever the standard; macros have been expanded by the strict one.
    arguments.push(command.standard_flag().replace("=c++", "=gnu++").into());
    // Preemption of CUDA threads that spin on plain variables, and device code's habit of reading one type as another.
    arguments.extend(["-fsanitize-coverage=trace-pc".into(), "-fno-strict-aliasing".into()]);
    if command.race {
        // The compiler's hooks alone: ginrs_cpu/race.h gives them to the CPU device, and nothing is linked with it. It warns that
        // ThreadSanitizer knows no fences (we do), and of writes out of bounds in what it can no longer follow.
        let options = ["-fsanitize=thread", "--param=tsan-distinguish-volatile=1", "-Wno-tsan", "-Wno-stringop-overflow"];
        arguments.extend(options.map(Into::into));
        // A copy that is made in place is not announced: they are calls, of functions that race.h names.
        arguments.extend(["-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"].map(Into::into));
    }
    if command.finds_races() && !tools.is_clang() && !command.race {
        // At every fence of the device headers: the sanitizer knows none, and does not look at kernels.
        arguments.push("-Wno-tsan".into());
    }
    if command.finds_addresses() {
        // Frames that lie elsewhere are given back by whose stack they were on: a thread's, while threads of CUDA change stacks.
        let never =
            if tools.is_clang() { "-fsanitize-address-use-after-return=never" } else { "--param=asan-use-after-return=0" };
        arguments.push(never.into());
    }
    // A large frame is touched page by page, so that one beyond a CUDA thread's stack does not step over the page that guards it.
    arguments.push("-fstack-clash-protection".into());
    if !tools.is_clang() {
        // A note for each vector of 32 bytes that is passed by value: nobody links these functions with GCC 4.5.
        arguments.push("-Wno-psabi".into());
    } else {
        // `int base; if (leader) base = atomicAdd(..); base = __shfl_sync(mask, base, 0)` is everyday CUDA; clang takes an
        // uninitialised argument as a licence to run the branch in every lane.
        arguments.push("-ftrivial-auto-var-init=pattern".into());
    }
    arguments.extend(compile_arguments(command, tools, input, object)?);
    arguments.push("-".into());
    tools.run(&arguments, Some(&rewritten), false).map(drop)
}

/// Whether the device headers in it are not ours.
fn is_of_another_nccl(preprocessed: &[u8]) -> bool {
    has(preprocessed, "/nccl_device/") && !has(preprocessed, "ginrs_device/race.cuh\"")
}

fn has(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|at| at == word.as_bytes())
}

/// `own_first`: ginrs' nccl.h comes before one in a folder that the user names.
fn preprocess_arguments(
    command: &Command,
    tools: &Toolchain,
    input: &Input,
    object: Option<&Path>,
    own_first: bool,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-E".into(), "-x".into()];
    match input.language {
        Some(Language::C) => arguments.push("c".into()),
        _ => arguments.extend(["c++".into(), command.standard_flag().into()]),
    }
    if input.language == Some(Language::Cuda) {
        arguments.extend(DEFINES.iter().map(Into::into));
        let optional = [
            (command.relocatable, "-D__CUDACC_RDC__=1"),
            (command.extended_lambda, "-D__CUDACC_EXTENDED_LAMBDA__=1"),
            (command.relaxed_constexpr, "-D__CUDACC_RELAXED_CONSTEXPR__=1"),
            (command.race, "-D__GINRS_RACE__=1"),
        ];
        arguments.extend(optional.iter().filter(|(on, _)| *on).map(|(_, define)| define.into()));
    }
    // Before the user's folders, so that a toolkit's cuda_runtime.h never comes in.
    arguments.push(flag("-I", &tools.cuda_include()));
    if own_first {
        arguments.push(flag("-I", &tools.nccl_include()));
    }
    arguments.extend(folders::without(&command.preprocessor, &tools.cuda_include()));
    if !own_first {
        arguments.extend(["-isystem".into(), tools.nccl_include().into()]);
    }
    if input.language == Some(Language::Cuda) {
        let race = command.race.then_some("ginrs_cpu/race.h");
        for header in
            ["cuda_runtime.h", "ginrs_cpu/launch.h", "ginrs_cpu/multimem.h", "ginrs_cpu/foreign.h"].into_iter().chain(race)
        {
            arguments.extend(["-include".into(), header.into()]);
        }
    }
    arguments.extend(command.forced_includes.iter().flat_map(|file| ["-include".into(), file.clone()]));
    arguments.extend(command.host_flags.iter().cloned());
    arguments.push(command.optimization_flag().into());
    arguments.push("-pthread".into());
    arguments.extend(dependency_arguments(command, input, object));
    arguments
}

fn dependency_arguments(command: &Command, input: &Input, object: Option<&Path>) -> Vec<OsString> {
    let Some(kind) = &command.dependencies else { return Vec::new() };
    let mut arguments: Vec<OsString> = vec![kind.into()];
    if command.stage == Stage::Depend {
        if let Some(file) = &command.dependency_file {
            arguments.extend(["-MF".into(), file.clone()]);
        }
    } else if let Some(object) = object {
        let named = command.output.clone().unwrap_or_else(|| input.object_name());
        let file = command.dependency_file.clone().unwrap_or_else(|| named.with_extension("d").into());
        arguments.extend(["-MF".into(), file]);
        if command.dependency_target.is_none() {
            let target = if command.stage == Stage::Link { named } else { object.to_path_buf() };
            arguments.extend(["-MT".into(), target.into()]);
        }
    }
    if let Some(target) = &command.dependency_target {
        arguments.extend(["-MT".into(), target.clone()]);
    }
    if command.phony_dependencies {
        arguments.push("-MP".into());
    }
    arguments
}

fn compile_arguments(command: &Command, tools: &Toolchain, input: &Input, object: &Path) -> Result<Vec<OsString>, String> {
    let mut arguments: Vec<OsString> = vec![command.optimization_flag().into(), "-pthread".into()];
    if command.debug {
        arguments.push("-g".into());
    }
    arguments.extend(command.warnings.iter().cloned());
    arguments.extend(command.host_flags.iter().cloned());
    if tools.is_clang() {
        // The preprocess step had a use for them, this one has none.
        arguments.push("-Wno-unused-command-line-argument".into());
    }
    if command.stage == Stage::Link {
        arguments.extend(coverage::notes(command, tools.is_clang(), input)?);
    }
    arguments.extend(["-c".into(), "-o".into(), object.into()]);
    Ok(arguments)
}

/// `-keep`: intermediate text beside the working folder's other files.
fn keep(command: &Command, input: &Input, extension: &str, text: &[u8]) -> Result<(), String> {
    let Some(folder) = &command.keep else { return Ok(()) };
    let stem = input.path.file_stem().map(PathBuf::from).unwrap_or_default();
    let mut path = folder.join(stem).into_os_string();
    path.push(format!(".{extension}"));
    let path = PathBuf::from(path);
    std::fs::write(&path, text).map_err(|e| format!("ginrs-cc: error: {}: {e}", path.display()))
}
