//! What a kernel may call on the CPU device, one program per family: each `cpu-kernels/NAME.cu` is compiled by the installed
//! `ginrs-cc`, runs on two devices and must end with "NAME: ok". `NAME.fail.cu` must not compile, and say what its first
//! line, `// expect: text`, promises. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::programs::built;
use abi_tests::text;
use std::path::{Path, PathBuf};
use std::process::Command;

const SECONDS: &str = "170";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cpu-kernels")
}

/// The programs, by whether they are to fail.
fn programs(fail: bool) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("abi-tests/cpu-kernels")
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| file.strip_suffix(".cu").map(str::to_owned))
        .filter(|name| name.ends_with(".fail") == fail)
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no programs in {}", folder().display());
    names
}

/// Compiles and runs one program; what went wrong, if anything.
fn run(name: &str, flags: &[&str], compiler: Option<&str>) -> Result<(), String> {
    let program = built(&format!("abi-tests/cpu-kernels/{name}.cu"), flags, compiler)?;
    let ran = Command::new("timeout")
        .args(["-k", "5", "-s", "ABRT", SECONDS])
        .arg(&program)
        .env("GINRS_CPU_DEVICES", "2")
        .output()
        .map_err(|e| e.to_string())?;
    if !ran.status.success() {
        return Err(format!("{name}: {}\n{}", ran.status, text(&ran)));
    }
    let expected = match std::fs::read_to_string(folder().join(format!("{name}.expected"))) {
        Ok(text) => text,
        Err(_) => format!("{name}: ok\n"),
    };
    if String::from_utf8_lossy(&ran.stdout) != expected {
        return Err(format!("{name} was to print\n{expected}but printed\n{}", text(&ran)));
    }
    Ok(())
}

fn all_well(results: impl Iterator<Item = Result<(), String>>) {
    let problems: Vec<String> = results.filter_map(Result::err).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn programs_run() {
    all_well(programs(false).iter().map(|name| run(name, &["-std=c++17", "-O2", "--extended-lambda"], None)));
}

/// Also without optimisation, where nothing is inlined and every temporary is in memory.
#[test]
fn programs_run_unoptimised() {
    let slow = ["fp_convert", "fp_arithmetic"];
    let names = programs(false);
    let quick = names.iter().filter(|n| !slow.contains(&n.as_str()));
    all_well(quick.map(|name| run(name, &["-O0", "-g", "--extended-lambda"], None)));
}

#[test]
fn programs_run_as_cpp20_with_clang() {
    let clang = Command::new("clang++").arg("--version").output().is_ok_and(|o| o.status.success());
    if !clang {
        println!("clang++ is not installed: left out");
        return;
    }
    let flags = ["-std=c++20", "-O2", "-Xcompiler", "-Wall", "--extended-lambda"];
    all_well(programs(false).iter().map(|name| run(name, &flags, Some("clang++"))));
}

#[test]
fn what_is_not_there_says_so() {
    for name in programs(true) {
        let source = std::fs::read_to_string(folder().join(format!("{name}.cu"))).unwrap();
        let expected = source.lines().next().and_then(|l| l.strip_prefix("// expect: ")).expect("`// expect: text` comes first");
        let Err(told) = built(&format!("abi-tests/cpu-kernels/{name}.cu"), &["-std=c++17"], None) else {
            panic!("{name}.cu compiled");
        };
        assert!(told.contains(expected), "{name}.cu was to fail with\n{expected}\nbut said\n{told}");
    }
}
