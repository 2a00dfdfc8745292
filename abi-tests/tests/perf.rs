//! ginrs-perf on the CPU device: every benchmark runs, finds nothing wrong and writes JSON; mistakes are answered in words.
//! Needs GINRS_PREFIX (`make test` sets it). Speed is for `make bench` and `make gpu-bench`.

use abi_tests::programs::compiled;
use abi_tests::{prefix, run, text};
use std::path::PathBuf;
use std::process::{Command, Output};

fn program() -> PathBuf {
    compiled("perf/main.cu")
}

fn start(command: &mut Command) -> Output {
    command.output().expect("it starts")
}

/// Few operations of small sizes: this asks whether it is right, not how fast.
const SMALL: [&str; 11] = ["-n", "8", "-w", "2", "-r", "1", "-b", "64", "-e", "4K", "--quick"];

fn names() -> Vec<String> {
    let list = run(Command::new(program()).arg("--list"));
    list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn check(output: Output, json: &std::path::Path) {
    let said = text(&output);
    assert!(output.status.success(), "{}\n{said}", output.status);
    assert!(said.contains("# Out of bounds values : 0 OK"), "{said}");
    let written = std::fs::read_to_string(json).expect("the JSON file");
    // Python is there wherever the venv of `make deps` is; it is the reader that report.py uses.
    let parse = "import json, sys; run = json.load(open(sys.argv[1])); print(*sorted({r['bench'] for r in run['rows']})); \
                 assert not run['not_available'] and all(r['us'] > 0 and not r.get('wrong') for r in run['rows'])";
    let benches = run(Command::new("python3").args(["-c", parse]).arg(json));
    let mut wanted = names();
    wanted.sort();
    assert_eq!(benches.split_whitespace().collect::<Vec<_>>(), wanted, "{written}");
}

#[test]
fn every_benchmark_between_processes() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("rows.json");
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["-n", "2", "--timeout", "240"]).arg(program()).args(SMALL).arg("--json").arg(&json);
    check(start(&mut command), &json);
}

#[test]
fn every_benchmark_between_threads_and_by_the_kernels_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("rows.json");
    let mut command = Command::new(program());
    command.args(["-g", "3", "-T", "100"]).args(SMALL).arg("--json").arg(&json).env("NCCL_GIN_BACKEND", "direct");
    check(start(&mut command), &json);
}

#[test]
fn mistakes_are_named() {
    for (arguments, said) in [
        (&["--frobnicate", "1"][..], "--frobnicate is unknown"),
        (&["-b", "many"], "-b many is no valid value"),
        (&["-n"], "-n is unknown, or its value is missing"),
        (&["put_everything"], "there is no benchmark put_everything"),
        (&["-g", "60"], "one per GPU"),
    ] {
        let output = start(Command::new(program()).args(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{arguments:?}: {}", text(&output));
    }
    let late = start(Command::new(program()).args(["-g", "2", "-T", "1", "-n", "100000000", "lsa_barrier"]));
    assert_eq!(late.status.code(), Some(124), "{}", text(&late));
    assert!(text(&late).contains("in lsa_barrier"), "{}", text(&late));
}
