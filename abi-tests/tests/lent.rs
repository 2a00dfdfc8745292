//! Buffers in no window that processes lend each other for large collectives, on the CPU device, where that is memory of ncclMemAlloc: freed, made anew,
//! captured. Needs GINRS_PREFIX (`make test` sets it). GPUs run the same program, with cudaMalloc's, too.

use abi_tests::{prefix, programs::compiled, run};
use std::process::Command;

fn lent(ranks: &str, plan: &str) -> String {
    let mut processes = Command::new(prefix().join("bin/ginrs-run"));
    processes.args(["-n", ranks, "--timeout", "240"]).arg(compiled("abi-tests/collectives/lent.cu"));
    processes.envs([("LENT", plan), ("GINRS_MAP_BUFFERS", "1"), ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")]);
    run(&mut processes)
}

/// More buffers than there are loans at a time, each freed behind its last call: the slots of freed ones are used again, and what is at the addresses of old ones
/// is never taken for those.
#[test]
fn what_is_freed_is_given_back_and_others_are_lent_in_its_place() {
    let said = lent("2", "rounds=300 calls=20 bytes=1048576 windows=1");
    let count = |what: &str| said.matches(what).count();
    assert_eq!(count("300 rounds, free again"), 2, "{said}");
    // A rank has 64 loans at a time. All could be lent 400 times; what is freed before the other has opened it is not.
    assert!(count(" maps buffer ") > 2 * 70 && count(" has let go of buffer ") > 2 * 70, "{said}");
    let late: String = said.lines().skip(said.lines().count() * 3 / 4).collect();
    assert!(late.contains("Mapped and told,"), "{said}");
}

/// Large messages go straight to where they are received, and are so under way while others that still come by slots are.
#[test]
fn messages_go_straight_to_buffers_that_are_lent() {
    let said = lent("3", "rounds=40 calls=20 bytes=1048580 windows=1 messages=1 captured=1");
    assert_eq!(said.matches("40 rounds, free again").count(), 3, "{said}");
    for told in [0, 2] {
        let line = format!("messages: 3 sent, 3 received, of which {told} wanted where they belong");
        assert!(said.contains(&line), "no {line}: {said}");
    }
}

/// A captured call tells the others of its buffers when it is captured, at once.
#[test]
fn captured_calls_have_their_buffers_lent() {
    let said = lent("3", "rounds=1 calls=1 bytes=1048576 windows=1 captured=1");
    assert_eq!(said.matches("1 rounds, free again").count(), 3, "{said}");
    assert!(said.matches("Mapped and told,").count() >= 3, "{said}");
}
