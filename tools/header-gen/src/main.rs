//! Generates what has to agree with the sources: include/nccl.h, include/ginrs.h, MATRIX.md and docs/errors.md.
//!
//! `header-gen write` writes them, `header-gen check` fails and names those that are stale; `header-gen declare` prints the
//! prototype of every export, nccl_device/core.h's too, for comparison with other headers. All run in the repository root.

#[allow(dead_code)] // the library's file: here only the page is made
#[path = "../../../src/codes.rs"]
mod codes;
mod exports;
mod matrix;
mod prototypes;
mod text;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    if mode == "declare" {
        return match declare(Path::new(".")) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("header-gen: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let generated = match generate(Path::new(".")) {
        Ok(generated) => generated,
        Err(error) => {
            eprintln!("header-gen: {error}");
            return ExitCode::FAILURE;
        }
    };
    let stale: Vec<&(&str, String)> =
        generated.iter().filter(|(path, text)| std::fs::read_to_string(path).ok().as_ref() != Some(text)).collect();
    for (path, text) in &stale {
        match mode.as_str() {
            "write" => {
                if let Err(error) = std::fs::write(path, text) {
                    eprintln!("header-gen: {path}: {error}");
                    return ExitCode::FAILURE;
                }
                println!("wrote {path}");
            }
            "check" => eprintln!("header-gen: {path} is stale | fix: make headers, and commit it"),
            _ => {
                eprintln!("usage: header-gen write | check | declare");
                return ExitCode::from(2);
            }
        }
    }
    if mode == "check" && !stale.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

type Files = Vec<(&'static str, String)>;

fn generate(root: &Path) -> Result<Files, String> {
    // In the order of the header.
    const HOST: [&str; 13] = [
        "library",
        "memory",
        "create",
        "split",
        "finish",
        "query",
        "register",
        "window",
        "group",
        "reduction",
        "collective",
        "point_to_point",
        "simulate",
    ];
    let host = prototypes::read(root, &HOST)?;
    let extras = prototypes::read(root, &["extras"])?;
    let exports = exports::read(root)?;
    for function in &host {
        if !exports.contains(&format!("nccl{}", function.stem())) {
            return Err(format!("exports.map lacks nccl{} | fix: add it", function.stem()));
        }
    }
    Ok(vec![
        ("include/nccl.h", header(include_str!("nccl_head.h"), &host)),
        ("include/ginrs.h", header(include_str!("ginrs_head.h"), &extras)),
        ("MATRIX.md", matrix::render(root, &exports)?),
        ("docs/errors.md", codes::page()),
    ])
}

/// Every export as src/abi has it, whatever header declares it.
fn declare(root: &Path) -> Result<String, String> {
    let files = std::fs::read_dir(root.join("src/abi")).map_err(|error| format!("src/abi: {error}"))?;
    let mut names: Vec<String> =
        files.flatten().filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned())).collect();
    names.retain(|name| name != "mod");
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(prototypes::read(root, &names)?.iter().map(prototypes::Function::declare).collect())
}

fn header(head: &str, functions: &[prototypes::Function]) -> String {
    let mut text = format!("{head}\n");
    for function in functions {
        text += &function.declare();
    }
    text + "#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n#endif\n"
}
