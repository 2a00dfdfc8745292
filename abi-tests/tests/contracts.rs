//! Contracts of the device API on the CPU device: a call that names what there is not is told with its line, and the mended call is not.
//! `contracts/contract.cu` has a case for each. So is a call that only a part of its group makes (`contracts/group.cu`).

use abi_tests::programs::{self, compiled};
use abi_tests::{root, text};
use std::process::{Command, Output};

const SOURCE: &str = "abi-tests/contracts/contract.cu";
const GROUP: &str = "abi-tests/contracts/group.cu";

/// Each case, and what is said of it.
const CASES: [(&str, &str); 35] = [
    ("signal", "refused: signal 4: the device communicator was given 4 (ginSignalCount)"),
    ("own", "refused: signal 4: the device communicator was given 4 (ginSignalCount)"),
    ("wait", "refused: signal 4: the device communicator was given 4 (ginSignalCount)"),
    ("reset", "refused: signal 4: the device communicator was given 4 (ginSignalCount)"),
    ("read", "refused: counter 2: the device communicator was given 2 (ginCounterCount)"),
    ("counter", "refused: counter 2: the device communicator was given 2 (ginCounterCount)"),
    ("peer", "refused: world rank 2: the communicator has 2"),
    ("target", "refused: ncclGin::put, target: 64 bytes at offset 9937, but the window has 10000 (the 1st that was registered)"),
    ("source", "refused: ncclGin::put, source: 64 bytes at offset 9937, but the window has 10000"),
    ("value", "refused: ncclGin::putValue: 8 bytes at offset 9993, but the window has 10000"),
    ("null-target", "ncclGin::put: a window is NULL | called at "),
    ("null-value", "ncclGin::putValue: the window is NULL | called at "),
    ("foreign", "refused: ncclGin::put, source: the window is not registered with this communicator"),
    ("gone", "refused: ncclGin::putValue: the window is not registered with this communicator"),
    ("lsa", "ncclLsaBarrierSession: index is not below the handle's nBarriers"),
    ("hybrid", "ncclLsaBarrierSession: index is not below the handle's nBarriers"),
    ("slot", "ncclLLA2ASession: the element's last line"),
    ("gin", "ncclGinBarrierSession: index is not below the number of barriers"),
    ("entry", "ncclGinBarrierSession: index is not below the number of barriers"),
    ("rail", "ncclGinBarrierSession: index is not below the number of barriers"),
    ("block", "ncclLLA2ASession: block is not below the number of blocks"),
    ("foreign-block", "ncclLLA2ASession: block is not below the number of blocks"),
    ("pointer", "refused: ncclGetLsaPointer: offset 10001, but the window has 10000 bytes (the 1st that was registered)"),
    ("before", "refused: ncclGetLocalPointer: offset -1, but the window has 10000 bytes (the 1st that was registered)"),
    ("symptr", "refused: ncclGetPeerPointer: offset 10001, but the window has 10000 bytes (the 1st that was registered)"),
    ("null-pointer", "a pointer into a window: the window is NULL | called at "),
    ("gone-pointer", "a pointer into a window: the window was deregistered | called at "),
    ("destroyed", "the device communicator was destroyed | called at "),
    ("destroyed-lsa", "the device communicator was destroyed | called at "),
    ("destroyed-ll", "the device communicator was destroyed | called at "),
    ("there", "refused: ncclGin::put: rank 1 has deregistered the window (the 2nd that was registered) | fix: "),
    ("value-there", "refused: ncclGin::putValue: rank 1 has deregistered the window (the 2nd that was registered) | fix: "),
    ("elsewhere", "the device communicator is of device 0, and the kernel runs on device 1 | called at "),
    ("elsewhere-lsa", "the device communicator is of device 0, and the kernel runs on device 1 | called at "),
    ("elsewhere-ll", "the device communicator is of device 0, and the kernel runs on device 1 | called at "),
];

/// Of group.cu: the call, its threads, and where the others are, or the mark of their line.
const PARTS: [(&str, &str, &str); 8] = [
    ("cta", "LSA barrier 0", "by threads 0-31; threads 32-63 in __syncthreads at "),
    ("gin", "GIN barrier 0", "by threads 0-31; threads 32-63 in __syncthreads at "),
    ("hybrid", "LSA barrier 1 of a hybrid barrier", "by threads 32-63; threads 0-31 in LSA barrier 0 of a hybrid barrier at "),
    ("warp", "a put or signal to rank 1", "by thread 0; threads 1-31 ended without it"),
    ("lanes", "a put or signal to rank 1", "by thread 0; threads 1-31 in __syncwarp at "),
    ("wait", "a call for signal 0", "by thread 0; threads 1-63 in __syncthreads at "),
    ("flush", "a flush of context 0", "by threads 0-31; threads 32-63 in __syncthreads at "),
    ("ended", "LSA barrier 0", "by threads 0-31; threads 32-63 ended without it"),
];

fn ran(source: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(compiled(source)).args(arguments);
    command.env("GINRS_CPU_DEVICES", "2").output().unwrap()
}

/// `/../contract.cu:42`: where a case calls.
fn line_of(source: &str, case: &str) -> String {
    let line = programs::line_of(source, &format!("call of: {case}"));
    format!("{}:{line}", root().join(source).display())
}

#[test]
fn a_call_that_names_what_there_is_not_is_told_with_its_line() {
    for (case, words) in CASES {
        let output = ran(SOURCE, &[case]);
        let said = text(&output);
        let line = said.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{case}: {}\n{said}", output.status));
        assert!(line.contains(" | called at ") && line.ends_with(&line_of(SOURCE, case)), "{case}: {line}");
        assert!(said.contains("thread (0,0,0) of block (0,0,0) of kernel"), "{case}: {said}");
        assert!(!said.contains("nccl_device"), "{case}: the line is the user's, not one of our headers\n{said}");
        if case.starts_with("elsewhere") {
            let launch = format!(
                "(launched at {}:{})",
                root().join(SOURCE).display(),
                programs::line_of(SOURCE, &format!("launch of: {case}"))
            );
            assert!(said.contains(&launch), "{case}: no {launch}\n{said}");
        }
        // A pointer beyond a window moves nothing yet, and a window that is gone at its target is memory here: the program goes on.
        let end =
            if ["pointer", "before", "symptr", "there", "value-there"].contains(&case) { "rank 0: ok" } else { "rank 0: ended" };
        assert!(output.status.success() && said.contains(end), "{case}: {}\n{said}", output.status);
    }
}

#[test]
fn a_call_of_a_part_of_its_group_is_told_with_its_line() {
    for (case, call, others) in PARTS {
        let said = text(&ran(GROUP, &[case]));
        let line = line_of(GROUP, if case == "ended" { "cta" } else { case });
        let told = format!("ginrs-cpu: {call} at {line} is entered by a part of its group: {others}");
        assert!(said.contains(&told), "{case}: no {told}\n{said}");
        assert!(
            said.contains("of kernel kernel (launched at ") && said.contains("rank 0: cudaErrorLaunchFailure"),
            "{case}: {said}"
        );
    }
    let said = text(&ran(GROUP, &["spans"]));
    let line = line_of(GROUP, "spans");
    let told = "ginrs-cpu: id 3 is that of several ncclCoopWarpSpan at a time: threads ";
    assert!(said.lines().any(|at| at.starts_with(told) && at.ends_with(&line)), "no {told} .. {line}\n{said}");
    assert!(said.contains("fix: give each span that is live at a time an id of its own, 0 to 14"), "{said}");
    let said = text(&ran(GROUP, &["span"]));
    let told = format!("threads 0-31 in a put or signal to rank 1 at {} (barrier 4: 32 of 64 arrived)", line_of(GROUP, "span"));
    assert!(said.contains("deadlock in kernel kernel ") && said.contains(&told), "no {told}\n{said}");
}

/// The lines printed before it, by the same thread too, are not lost.
#[test]
fn an_assertion_is_told_with_its_thread_and_line() {
    let said = text(&ran(GROUP, &["assert"]));
    let told = format!("ginrs-cpu: assertion `here' failed in kernel(Job, int, int) at {}\n", line_of(GROUP, "assert"));
    assert!(said.contains(&told), "no {told}{said}");
    assert!(
        said.contains("thread (32,0,0) of block (0,0,0) of kernel kernel ") && said.contains("rank 0: cudaErrorAssert"),
        "{said}"
    );
    let missing: Vec<_> = (0..=32).filter(|thread| !said.contains(&format!("thread {thread} of rank 0\n"))).collect();
    assert!(missing.is_empty(), "{missing:?}\n{said}");
}

/// The process ends, by the signal of the guard below the stack.
#[test]
fn a_frame_beyond_the_stack_is_told() {
    let output = ran(GROUP, &["stack"]);
    let said = text(&output);
    assert!(
        said.contains("ginrs-cpu: stack overflow in thread (0,0,0) of block (0,0,0) of kernel kernel (launched at "),
        "{said}"
    );
    assert!(said.contains("fix: set GINRS_CPU_STACK above 65536 ") && !output.status.success(), "{}\n{said}", output.status);
}

#[test]
fn the_mended_call_is_not_told() {
    let groups =
        PARTS.map(|(case, ..)| (GROUP, case)).into_iter().chain(["span", "spans", "assert", "stack"].map(|case| (GROUP, case)));
    for (source, case) in CASES.map(|(case, _)| (SOURCE, case)).into_iter().chain(groups) {
        let output = ran(source, &[case, "mended"]);
        let said = text(&output);
        let fine = (0..2).all(|rank| said.contains(&format!("rank {rank}: ok")));
        assert!(output.status.success() && fine && !said.contains("ginrs-cpu: ") && !said.contains("GINRS-"), "{case}: {said}");
    }
}
