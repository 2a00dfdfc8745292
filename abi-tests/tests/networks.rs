//! The examples and the programs of the suite on 2, 3 and 8 machines, which are network namespaces, with one to eight ranks on each, compiled
//! with our headers and with NVIDIA's. A part runs by default, all of it in `make machines`. Needs GINRS_PREFIX, and root; skipped where
//! namespaces are not permitted.

#[path = "../../tests/netns/mod.rs"]
mod netns;

use abi_tests::programs::{compiled, compiled_with_theirs};
use abi_tests::{nvidia_headers, prefix, text};
use netns::Machines;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// A source, and what of it runs: names of a suite's programs, or none where it is one program.
struct Program {
    source: &'static str,
    parts: &'static [&'static str],
    /// What else it needs of its environment.
    set: (&'static str, &'static str),
    least: usize,
}

const fn program(source: &'static str, parts: &'static [&'static str]) -> Program {
    Program { source, parts, set: ("GINRS_TIMEOUT", "120"), least: 2 }
}

/// Examples 05 and 06 need all ranks on one node, and say so; api.cu puts a double, which NVIDIA's header converts (`mixed.rs`).
const PROGRAMS: &[Program] = &[
    program(
        "abi-tests/twice/suite.cu",
        &["windows", "layout", "barriers", "ll", "graphs", "several", "gin", "ginbarriers", "order"],
    ),
    program("abi-tests/twice/suite.cu", &["hello", "ring", "gin-alltoall", "hybrid-alltoall", "moe", "torture", "soak"]),
    program("abi-tests/collectives/suite.cu", &["collectives", "streams", "captured", "p2p", "mixed", "groups"]),
    program("abi-tests/programs/split.cu", &[]),
    Program { least: 3, ..program("abi-tests/programs/shrink.cu", &[]) },
    program("abi-tests/programs/nonblocking.cu", &[]),
    Program { least: 3, ..program("abi-tests/programs/declined.cu", &[]) },
    program("abi-tests/programs/scalable.cu", &[]),
    Program { set: ("REFUSED", "bounds"), ..program("abi-tests/programs/refused.cu", &[]) },
];

/// Ranks on each machine.
const SHAPES: &[&[usize]] = &[
    &[1, 1],
    &[2, 2],
    &[3, 5],
    &[8, 8],
    &[1, 1, 1],
    &[1, 3, 2],
    &[1; 8],
    &[2; 8],
    &[1, 2, 1, 3, 1, 2, 1, 4],
    &[8, 1, 1, 1, 1, 1, 1, 1],
];

struct Bench {
    _folder: tempfile::TempDir,
    rsh: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rsh = Machines::rsh(folder.path());
        Self { _folder: folder, rsh }
    }

    /// What went wrong, if anything did.
    fn play(&self, program: &Program, shape: &[usize], nvidia: bool, machines: &Machines) -> Result<(), String> {
        let hosts: Vec<String> = (0..).zip(shape).map(|(i, ranks)| format!("{}:{ranks}", machines.name(i))).collect();
        let ranks = shape.iter().sum::<usize>();
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "320"]).arg(prefix().join("bin/ginrs-run"));
        command.args(["-n", &ranks.to_string(), "--timeout", "300", "--hosts", &hosts.join(","), "--rsh"]).arg(&self.rsh);
        let theirs = || compiled_with_theirs(program.source).expect("those that are asked for are there");
        command.arg(if nvidia { theirs() } else { compiled(program.source) }).args(program.parts);
        command.envs([program.set, ("GINRS_CPU_DEVICES", "8"), ("NCCL_SOCKET_IFNAME", "=eth0"), ("NCCL_DEBUG", "WARN")]);
        command.env("TORTURE", "blocks=2 threads=64 coop=cta strip=65536 largest=5000 rounds=2 seed=43");
        command.env("SOAK", "seconds=1 blocks=3 threads=64 strip=4096").env("COLL", "sample=4000 big=9001 seed=44");
        let begun = Instant::now();
        let output = command.output().unwrap();
        let (said, wanted) = (text(&output), ranks * program.parts.len().max(1));
        let found = said.matches(": ok,").count();
        println!("{shape:?} {}{} {:.1?}", program.source, if nvidia { ", NVIDIA's headers" } else { "" }, begun.elapsed());
        match output.status.success() && found == wanted {
            true => Ok(()),
            false => Err(format!("{command:?}: {}, {found} of {wanted} are ok\n{said}", output.status)),
        }
    }
}

fn play_all(what: &[(&[usize], &[usize], &[bool])]) {
    let bench = Bench::new();
    let is_there = |nvidia: bool| !nvidia || nvidia_headers().is_some();
    let mut failed = Vec::new();
    for &(shape, programs, headers) in what {
        let Some(machines) = Machines::new(shape.len()) else { return };
        for &nvidia in headers.iter().filter(|&&nvidia| is_there(nvidia)) {
            let fits = |program: &&Program| shape.iter().sum::<usize>() >= program.least;
            for program in programs.iter().map(|&at| &PROGRAMS[at]).filter(fits) {
                failed.extend(bench.play(program, shape, nvidia, &machines).err());
            }
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n\n"));
}

/// Uneven machines, and as many as there are in the long run, each with some of the programs.
#[test]
fn some_programs_on_a_few_machines() {
    play_all(&[(&[1, 2], &[3, 4], &[false]), (&[1, 3, 2], &[3, 5], &[true]), (&[1; 8], &[4], &[true]), (&[2, 2], &[2], &[true])]);
}

/// `make machines`; GINRS_TEST_SHAPES=3,7: these of them.
#[test]
#[ignore = "an hour"]
fn all_programs_on_all_machines() {
    let all: Vec<usize> = (0..PROGRAMS.len()).collect();
    let chosen = std::env::var("GINRS_TEST_SHAPES").unwrap_or_default();
    let wanted = |at: usize| chosen.is_empty() || chosen.split(',').any(|number| number.parse() == Ok(at));
    let shapes: Vec<_> = SHAPES.iter().enumerate().filter(|(at, _)| wanted(*at)).map(|(_, shape)| *shape).collect();
    play_all(&shapes.iter().map(|shape| (*shape, &all[..], &[false, true][..])).collect::<Vec<_>>());
}
