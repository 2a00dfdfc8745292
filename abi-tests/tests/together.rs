//! ginrs and NVIDIA's libnccl in one process, each found by its own loader scope: what each call reaches (together/together.c), and
//! what the loader bound, by its own account (LD_DEBUG=bindings).

use abi_tests::{nvidia_library, prefix, root, run, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the program linked with `library`, or with neither.
fn build(folder: &Path, name: &str, define: &str, library: Option<&Path>) -> PathBuf {
    let program = folder.join(name);
    let mut command = Command::new("gcc");
    command.args(["-Wall", "-Wextra", "-Werror", "-std=gnu11", "-o"]).arg(&program);
    command.arg(root().join("abi-tests/together/together.c")).arg(format!("-D{define}"));
    command.arg(format!("-I{}", prefix().join("include/ginrs").display())).arg("-Wl,--no-as-needed");
    if let Some(library) = library {
        command.arg(library).arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    }
    run(command.arg("-ldl"));
    program
}

/// Runs it; the nccl symbols that the loader bound across the two libraries: NVIDIA's to ours, ours to NVIDIA's.
fn bindings(folder: &Path, program: &Path, how: &str) -> (Vec<String>, Vec<String>) {
    let log = folder.join(format!("{}-{how}", program.file_name().unwrap().to_str().unwrap()));
    let output = Command::new("timeout")
        .arg("240")
        .arg(program)
        .arg(prefix().join("lib/libginrs.so.0"))
        .arg(nvidia_library())
        .arg(how)
        .envs([("GINRS_DEVICE", "cpu"), ("GINRS_CPU_DEVICES", "2"), ("LD_DEBUG", "bindings"), ("LD_BIND_NOW", "1")])
        .env("LD_DEBUG_OUTPUT", &log)
        .output()
        .unwrap();
    assert!(output.status.success(), "{} {how}: {}", program.display(), text(&output));
    assert!(text(&output).contains(&format!("both, {how}")));
    let (mut to_ours, mut to_theirs, mut own) = (Vec::new(), Vec::new(), 0);
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        if !file.path().to_str().unwrap().starts_with(&format!("{}.", log.to_str().unwrap())) {
            continue;
        }
        // "binding file A [0] to B [0]: normal symbol `name'"
        for line in std::fs::read_to_string(file.path()).unwrap().lines() {
            let Some((from, rest)) = line.split_once("binding file ").and_then(|(_, rest)| rest.split_once(" to ")) else {
                continue;
            };
            let Some((to, name)) = rest.split_once(": normal symbol `") else { continue };
            let [from_ours, to_our] = [from, to].map(|file| file.contains("libginrs.so"));
            let [from_nvidia, to_nvidia] = [from, to].map(|file| file.contains("libnccl.so.2"));
            let name = name.split('\'').next().unwrap_or_default().to_owned();
            own += usize::from(from_nvidia && to_nvidia);
            if from_nvidia && to_our {
                to_ours.push(name);
            } else if from_ours && to_nvidia {
                to_theirs.push(name);
            }
        }
    }
    assert!(own + to_ours.len() > 10, "the loader's account of NVIDIA's library was not found");
    (to_ours, to_theirs)
}

#[test]
fn each_library_is_found_by_its_own_scope_and_never_calls_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let neither = build(folder.path(), "neither", "PLAIN", None);
    let ours = build(folder.path(), "ours", "GINRS_LINKED", Some(&prefix().join("lib/libginrs.so.0")));
    let theirs = build(folder.path(), "theirs", "NVIDIA_LINKED", Some(&nvidia_library()));
    for (program, how) in [
        (&neither, "local"),
        (&neither, "deep"),
        (&neither, "namespace"),
        (&ours, "deep"),
        (&ours, "namespace"),
        (&theirs, "local"),
        (&theirs, "deep"),
    ] {
        let (to_ours, to_theirs) = bindings(folder.path(), program, how);
        assert!(to_ours.is_empty() && to_theirs.is_empty(), "{} {how}: {to_ours:?} {to_theirs:?}", program.display());
    }
    // NVIDIA's library calls itself by name. Behind a library of the same names in the global scope these calls go astray, which
    // is what docs/user/abi-policy.md warns of, and what shows that the account above is read rightly. Ours never does.
    let (to_ours, to_theirs) = bindings(folder.path(), &ours, "local");
    assert!(to_ours.iter().any(|name| name == "ncclTeamWorld") && to_theirs.is_empty(), "{to_ours:?} {to_theirs:?}");
}
