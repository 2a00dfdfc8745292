//! GINRS_CHAOS, a lawful adversary between the proxy and the network: `lawful/mistakes.cu` has mistakes that a kind network forgives,
//! which it must find, and their mended twins, which it must never blame; nor may it blame the suite's own programs. `make chaos-net`
//! goes through more seeds. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::programs::{compiled, compiled_with_theirs};
use abi_tests::{prefix, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MISTAKES: [&str; 7] = ["source", "flag", "poll", "context", "halves", "flush", "pressure"];
const SMALL: (&str, &str) = ("TORTURE", "blocks=4 threads=64 coop=cta strip=16384 largest=5000 rounds=2 seed=61");

fn ranks(ranks: u32, program: &Path, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    command.args(["-n", &ranks.to_string(), "--timeout", "240"]).arg(program).envs(env.iter().copied());
    command.output().unwrap()
}

fn threads(ranks: u32, program: &Path, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100"]).arg(program).args(["--threads", &ranks.to_string()]).envs(env.iter().copied());
    command.output().unwrap()
}

#[track_caller]
fn is_ok(output: &Output, what: &str) {
    assert!(output.status.success(), "{what}: {}\n{}", output.status, text(output));
}

/// Found: its own check has failed, and nothing else has gone wrong.
#[track_caller]
fn is_found(output: &Output, mistake: &str) -> bool {
    let said = text(output);
    assert!(!said.contains("NCCL WARN"), "{mistake}: {said}");
    said.contains(": WRONG")
}

fn mistakes() -> Vec<PathBuf> {
    let source = "abi-tests/lawful/mistakes.cu";
    [compiled(source)].into_iter().chain(compiled_with_theirs(source)).collect()
}

#[test]
fn each_mistake_is_found_by_few_seeds_and_no_seed_blames_its_mended_twin() {
    for program in mistakes() {
        for mistake in MISTAKES {
            let found = (1..=8).find(|seed: &u32| {
                is_found(&ranks(2, &program, &[("MISTAKE", mistake), ("GINRS_CHAOS", &seed.to_string())]), mistake)
            });
            assert!(found.is_some(), "{mistake} of {} is not found by 8 seeds", program.display());
            for seed in 1..=4 {
                let env = [("MISTAKE", mistake), ("MENDED", "1"), ("GINRS_CHAOS", &seed.to_string())];
                is_ok(&ranks(2, &program, &env), &format!("mended {mistake} under seed {seed}"));
            }
        }
    }
}

/// Over libfabric, between machines that share nothing.
#[test]
fn the_same_over_a_network() {
    let program = compiled("abi-tests/lawful/mistakes.cu");
    for mistake in MISTAKES {
        // Its LSA barrier spans one machine.
        if mistake == "flush" {
            continue;
        }
        let env = |seed| [("MISTAKE", mistake), ("GINRS_FAKE_MACHINES", "0,1"), ("GINRS_CHAOS", seed)];
        let found = ["1", "2", "3", "4", "5", "6"].into_iter().find(|seed| is_found(&ranks(2, &program, &env(seed)), mistake));
        assert!(found.is_some(), "{mistake} is not found by 6 seeds");
        for seed in ["1", "2"] {
            let output = ranks(2, &program, &[&env(seed)[..], &[("MENDED", "1")]].concat());
            is_ok(&output, &format!("mended {mistake} under seed {seed}"));
        }
    }
}

#[test]
fn programs_of_the_suite_are_right_under_any_seed() {
    for seed in ["1", "18446744073709551615"] {
        let chaos = ("GINRS_CHAOS", seed);
        for name in ["api", "torture", "moe"] {
            let program = compiled(&format!("abi-tests/programs/{name}.cu"));
            for nodes in [&[][..], &[("GINRS_FAKE_NODES", "per-rank")]] {
                let env = [&[chaos, SMALL], nodes].concat();
                is_ok(&ranks(3, &program, &env), &format!("{name}, {env:?}"));
                is_ok(&threads(3, &program, &env), &format!("{name} as threads, {env:?}"));
            }
        }
    }
}

#[test]
fn what_cannot_be_is_told() {
    let program = compiled("abi-tests/programs/api.cu");
    for bad in ["x", "-1", "18446744073709551616", "1.5"] {
        let said = text(&ranks(2, &program, &[("GINRS_CHAOS", bad)]));
        assert!(said.contains("GINRS-E115 GINRS_CHAOS is no seed") && said.contains(&format!("\"{bad}\"")), "{bad}: {said}");
    }
    let said = text(&ranks(2, &program, &[("GINRS_CHAOS", "1"), ("NCCL_GIN_BACKEND", "direct")]));
    assert!(said.contains("GINRS-E115 no direct GIN contexts under GINRS_CHAOS"), "{said}");
    let said = text(&ranks(2, &program, &[("GINRS_CHAOS", "1"), ("NCCL_DEBUG", "INFO")]));
    assert!(said.contains("GINRS_CHAOS=1, a lawful adversary"), "{said}");
    // Each rank has a seed of its own: none goes on.
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    let line = "GINRS_CHAOS=$((5 + ${RANK:-0})) exec \"$0\"";
    let said = text(&command.args(["-n", "2", "--timeout", "240", "sh", "-c", line]).arg(&program).output().unwrap());
    assert!(said.contains("GINRS_CHAOS") && said.contains('5') && said.contains('6'), "{said}");
    assert!(!said.contains(": ok"), "{said}");
}
