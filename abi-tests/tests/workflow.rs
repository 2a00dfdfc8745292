//! docs/user/github-workflow.yml does what it says: its commands run here as GitHub would run them, on a repository with one example in it and the
//! installed tree in place of the cached one. Its build is gone through as far as it shows that each command and target is there.

use abi_tests::{prefix, root, run, text};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

struct Step {
    name: String,
    commands: String,
}

/// The page's steps that run commands, and its variables.
fn workflow() -> (Vec<Step>, Vec<(String, String)>) {
    let page = std::fs::read_to_string(prefix().join("share/doc/ginrs/docs/user/github-workflow.yml")).expect("it is installed");
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut steps, mut variables, mut name) = (Vec::new(), Vec::new(), String::new());
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(found) = line.trim_start().strip_prefix("- name: ") {
            name = found.to_owned();
        } else if line.trim() == "env:" {
            while let Some(row) = lines.next_if(|row| indent(row) > indent(line)) {
                let (key, value) = row.trim().split_once(": ").unwrap();
                variables.push((key.to_owned(), value.split(" #").next().unwrap().to_owned()));
            }
        } else if line.trim() == "run: |" {
            let mut commands = String::new();
            while let Some(row) = lines.next_if(|row| row.trim().is_empty() || indent(row) > indent(line)) {
                commands += row.trim_start();
                commands += "\n";
            }
            steps.push(Step { name: name.clone(), commands });
        }
    }
    (steps, variables)
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_step_of_it_runs() {
    let (steps, variables) = workflow();
    assert_eq!(steps.len(), 7, "{:?}", steps.iter().map(|step| &step.name).collect::<Vec<_>>());
    let scratch = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let path = scratch.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let (home, repository, temporary, stubs) = (folder("home"), folder("repository"), folder("temporary"), folder("stubs"));
    symlink(prefix(), home.join("ginrs")).unwrap();
    let source = std::fs::read_to_string(root().join("examples-c/02-ring/main.cu")).unwrap();
    let common = format!("#include \"{}/", root().join("examples-c/common").display());
    std::fs::write(repository.join("main.cu"), source.replace("#include \"../common/", &common)).unwrap();
    // What a test must not do: install, and build for minutes. Whether the target is there, make says without building.
    script(&stubs.join("sudo"), "echo sudo \"$@\"");
    script(&stubs.join("rustup"), "echo rustup \"$@\"");
    script(&stubs.join("make"), "PATH=${PATH#*:} exec make -n \"$@\"");
    let (paths, environment) = (scratch.path().join("path"), scratch.path().join("environment"));
    for file in [&paths, &environment] {
        std::fs::write(file, "").unwrap();
    }
    let git = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["rev-parse", "HEAD"])
        .output()
        .ok()
        .filter(|output| output.status.success());
    for step in &steps {
        let mut command = Command::new("timeout");
        // As GitHub starts it.
        command.args(["-s", "KILL", "300", "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", &step.commands]);
        command.current_dir(&repository).envs(variables.iter().map(|(key, value)| (key, value)));
        command.env("HOME", &home).env("RUNNER_TEMP", &temporary).env("GITHUB_PATH", &paths).env("GITHUB_ENV", &environment);
        if step.name == "build ginrs" {
            let Some(commit) = &git else {
                eprintln!("SKIPPED: the step that clones: this is no git repository");
                continue;
            };
            command.env("GINRS_URL", root()).env("GINRS_VERSION", String::from_utf8_lossy(&commit.stdout).trim());
            // root's clone of another's repository is refused without this.
            command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
        }
        let added = std::fs::read_to_string(&paths).unwrap();
        let path = std::env::var("PATH").unwrap();
        command.env(
            "PATH",
            format!("{}:{}{path}", stubs.display(), added.lines().map(|line| format!("{line}:")).collect::<String>()),
        );
        let set = std::fs::read_to_string(&environment).unwrap();
        command.envs(set.lines().filter_map(|line| line.split_once('=')));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}: {}\n{}", step.name, output.status, text(&output));
        let wanted: &[&str] = match step.name.as_str() {
            "build ginrs" => &["rustup toolchain install 1.95.0", "scripts/stage.sh"],
            "run" | "run on two pretended machines" => &["rank 0 of 4: ok", "rank 3 of 4: ok"],
            "run on an unkind network" => &["GINRS_CHAOS=5\n"],
            "lines that ran" => &["main.cu"],
            _ => &[],
        };
        wanted
            .iter()
            .for_each(|wanted| assert!(text(&output).contains(wanted), "{}: no {wanted} in\n{}", step.name, text(&output)));
    }
    for file in ["timeline.html", "main.cu.gcov"] {
        run(Command::new("test").arg("-s").arg(repository.join(file)));
    }
}
