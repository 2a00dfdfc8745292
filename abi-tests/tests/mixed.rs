//! NVIDIA's own 2.28.9 device headers, unmodified on disk, through `ginrs-cc`: alone, and in one job with ours, rank by rank.
//! Needs GINRS_PREFIX, and the headers that `make deps` fetches.
//!
//! `api.cu` is not here: it puts a double by value, which NVIDIA's proxy header converts instead of copying its bits.

use abi_tests::programs::{compiled, compiled_with_theirs};
use abi_tests::{prefix, text};
use std::path::PathBuf;
use std::process::Command;

/// The two binaries of a program: with our headers, and with NVIDIA's.
fn both(source: &str) -> Option<[PathBuf; 2]> {
    let theirs = compiled_with_theirs(source)?;
    Some([compiled(source), theirs])
}

/// Even ranks run the first binary, odd ones the second.
fn mixed(program: &str, source: &str, ranks: u32, env: &[(&str, &str)]) {
    let Some([ours, nvidia]) = both(source) else { return };
    for (even, odd) in [(&nvidia, &nvidia), (&ours, &nvidia), (&nvidia, &ours)] {
        let choose = format!("[ $((RANK % 2)) = 0 ] && exec {} || exec {}", even.display(), odd.display());
        let output = Command::new(prefix().join("bin/ginrs-run"))
            .args(["-n", &ranks.to_string(), "--timeout", "240", "sh", "-c", &choose])
            .envs(env.iter().copied())
            .output()
            .unwrap();
        let said = text(&output);
        let ok = (0..ranks).filter(|rank| said.contains(&format!("rank {rank} of {ranks}: ok,"))).count();
        assert!(output.status.success() && ok == ranks as usize, "{program} {env:?}: {}\n{said}", output.status);
    }
}

const DIRECT: (&str, &str) = ("NCCL_GIN_BACKEND", "direct");

/// Direct contexts are a statement about all kernels of the job. Where it is false the job ends at the first operation, whichever it is,
/// and says why; nothing of it is done. What such kernels only read or reset they find right.
#[test]
fn a_kernel_with_other_headers_on_direct_contexts_is_told_so() {
    let Some([ours, nvidia]) = both("abi-tests/programs/refused.cu") else { return };
    // The last rank operates, rank 0 reads.
    for (reads, operates, what) in [(&ours, &nvidia, "foreign"), (&nvidia, &nvidia, "foreign"), (&nvidia, &ours, "reads")] {
        let choose = format!("[ $RANK = 0 ] && exec {} || exec {}", reads.display(), operates.display());
        let output = Command::new(prefix().join("bin/ginrs-run"))
            .args(["-n", "2", "--timeout", "240", "sh", "-c", &choose])
            .envs([DIRECT, ("REFUSED", what)])
            .output()
            .unwrap();
        let said = text(&output);
        let ok = (0..2).filter(|rank| said.contains(&format!("rank {rank} of 2: ok,"))).count();
        assert!(output.status.success() && ok == 2, "{what}: {}\n{said}", output.status);
        for words in ["rank 1, direct contexts", "compiled with other headers", "NCCL_GIN_BACKEND=proxy"] {
            assert!(what == "reads" || said.contains(words), "{words} is missing:\n{said}");
        }
    }
}

#[test]
fn puts_signals_and_counters() {
    let plan = "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=3 seed=1";
    mixed("torture", "abi-tests/programs/torture.cu", 4, &[("TORTURE", plan)]);
}

#[test]
fn an_expert_parallel_exchange() {
    mixed("moe", "abi-tests/programs/moe.cu", 3, &[]);
}

#[test]
fn lsa_barriers() {
    mixed("lsa-allreduce", "examples-c/05-lsa-allreduce/main.cu", 4, &[]);
}

#[test]
fn ll_all_to_all() {
    mixed("ll-bcast-reduce", "examples-c/06-ll-bcast-reduce/main.cu", 3, &[]);
}

#[test]
fn the_hybrid_barrier_over_two_nodes() {
    mixed("hybrid-alltoall", "examples-c/04-hybrid-alltoall/main.cu", 4, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
}
