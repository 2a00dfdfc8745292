//! The header tests' own sources, and how they are compiled for the CPU device without its library.

use crate::compilers::{limited, root, succeed};
use std::path::{Path, PathBuf};

/// A source of the header tests.
pub fn source(name: &str) -> PathBuf {
    root().join("abi-tests/headers").join(name)
}

/// Compiles device code as the CPU device runs it, in the two steps that ginrs-cc takes; CUDA's qualifiers are all that
/// has to be rewritten in these sources.
pub fn compile_for_cpu(source: &Path, object: &Path, flags: &[&str]) {
    let mut preprocess = limited("g++");
    preprocess.args(["-std=c++17", "-E", "-xc++", "-isystem"]).arg(root().join("cuda/cpu/include"));
    preprocess.arg(format!("-I{}", root().join("include").display()));
    preprocess.args(["-D__CUDACC__=1", "-D__NVCC__=1", "-D__CUDA_ARCH__=900", "-D__GINRS_CPU__=1", "-DOURS"]);
    preprocess.args(["-include", "cuda_runtime.h"]).arg(source);
    let unit = object.with_extension("ii");
    let text = without_multimem(&without_qualifiers(&succeed(&mut preprocess)));
    std::fs::write(&unit, text).expect("write the preprocessed unit");
    succeed(limited("g++").args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]).args(flags).arg(unit));
}

fn without_qualifiers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        match word.as_str() {
            "__host__" | "__device__" | "__global__" | "__constant__" | "__managed__" | "__grid_constant__" | "__noinline__" => {}
            "__forceinline__" => out.push_str("inline __attribute__((always_inline))"),
            "__shared__" => out.push_str("static thread_local"),
            other => out.push_str(other),
        }
        word.clear();
        out.push(c);
    }
    out
}

/// Multimem instructions, which ginrs-cc translates, never run here: where the compiler does not find that out by itself, they trap.
fn without_multimem(text: &str) -> String {
    let mut pieces = text.split("\"multimem.");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + "\"ud2;" + &piece[piece.find('"').expect("a string ends")..])
}
