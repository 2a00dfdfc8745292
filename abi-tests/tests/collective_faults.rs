//! Collectives and messages that cannot end as they should, on the CPU device: a rank is killed or aborts, or counts and sizes differ. The program is
//! `abi-tests/collectives/fault.cu`; those of one group that touch the same memory are `clash.cu`'s. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::programs::{compiled_as, line_of};
use abi_tests::{prefix, text};
use std::path::PathBuf;
use std::process::{Command, Stdio};

#[track_caller]
fn compiled() -> PathBuf {
    abi_tests::programs::compiled("abi-tests/collectives/fault.cu")
}

/// Starts so many processes without a launcher that would end the survivors; what each said.
fn fault(what: &str, ranks: u32, env: &[(&str, &str)]) -> Vec<(bool, String)> {
    let id = abi_tests::programs::job_folder();
    let program = compiled();
    let start = |rank: u32| {
        Command::new("timeout")
            .args(["-s", "ABRT", "60"])
            .arg(&program)
            .envs(
                [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)]
                    .map(|(k, v)| (k, v.to_string())),
            )
            .env("GINRS_RUN_ID", id.path())
            .env("FAULT", what)
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    children.into_iter().map(|child| child.wait_with_output().unwrap()).map(|o| (o.status.success(), text(&o))).collect()
}

/// The last rank is killed: all others hear of it, and which it was.
#[track_caller]
fn ends_and_is_named(what: &str, ranks: u32, env: &[(&str, &str)]) {
    let last = ranks as usize - 1;
    for (rank, (success, said)) in fault(what, ranks, env).iter().enumerate().take(last) {
        assert!(success, "FAULT={what} {env:?} rank {rank}:\n{said}");
        let named = said.contains("remote process exited") && said.contains(&format!("rank {last}"));
        assert!(said.contains(&format!("rank {rank} released")) && named, "FAULT={what} {env:?} rank {rank}:\n{said}");
    }
}

#[test]
fn a_killed_rank_ends_calls_on_mapped_buffers_and_is_named() {
    for what in ["alltoall", "gather"] {
        ends_and_is_named(what, 3, &[("GINRS_COLLECTIVE", "mapped")]);
    }
}

#[test]
fn a_killed_rank_ends_collectives_and_is_named() {
    for what in ["allreduce", "symmetric allreduce", "alltoall", "symmetric gather", "send", "recv"] {
        ends_and_is_named(what, 3, &[]);
    }
    for what in ["tiny", "alltoall"] {
        ends_and_is_named(what, 3, &[("GINRS_COLLECTIVE", "ll")]);
    }
}

/// Two teams of two, straight: one waits for a slot or a message of the rail, one for its team. And a tree of four teams, in which one passes on.
const ALONG_RAILS: [(u32, [(&str, &str); 2]); 2] = [
    (4, [("GINRS_FAKE_NODES", "0,0,1,1"), ("GINRS_COLLECTIVE", "ring")]),
    (8, [("GINRS_FAKE_NODES", "0,0,1,1,2,2,3,3"), ("GINRS_COLLECTIVE", "tree")]),
];

#[test]
fn a_killed_rank_ends_calls_along_rails_and_is_named() {
    let [(two, straight), (four, by_tree)] = &ALONG_RAILS;
    ends_and_is_named("alltoall", *two, straight);
    for what in ["rooted gather", "scatter"] {
        ends_and_is_named(what, *two, straight);
        ends_and_is_named(what, *four, by_tree);
    }
}

#[test]
fn an_abort_ends_calls_on_mapped_buffers() {
    for what in ["abort alltoall", "abort gather"] {
        ends_by_abort(what, 3, &[("GINRS_COLLECTIVE", "mapped")]);
    }
}

#[test]
fn an_abort_ends_calls_along_rails() {
    let [(two, straight), (four, by_tree)] = &ALONG_RAILS;
    ends_by_abort("abort alltoall", *two, straight);
    for what in ["abort rooted gather", "abort scatter"] {
        ends_by_abort(what, *two, straight);
        ends_by_abort(what, *four, by_tree);
    }
}

#[test]
fn an_abort_ends_collectives() {
    ends_by_abort("abort", 3, &[]);
}

/// Rank 0 aborts: all others hear of it.
#[track_caller]
fn ends_by_abort(what: &str, ranks: u32, env: &[(&str, &str)]) {
    let said = fault(what, ranks, env);
    assert!(said[0].1.contains("rank 0 aborted: no error"), "FAULT={what} {env:?}: {}", said[0].1);
    for (rank, (_, said)) in said.iter().enumerate().skip(1) {
        assert!(
            said.contains(&format!("rank {rank} released")) && said.contains("remote process exited"),
            "FAULT={what} {env:?} rank {rank}:\n{said}"
        );
    }
}

#[test]
fn messages_of_other_sizes_than_wanted_are_an_error_that_names_both() {
    let said: String = fault("sizes", 3, &[]).into_iter().map(|(_, said)| said).collect();
    assert!(said.contains("1000") && said.contains("600"), "{said}");
}

/// By the kernel, where the host does not compare. Nobody writes where there is no room for it, also where all ranks see each other's buffers at once.
#[test]
fn other_counts_than_those_of_others_are_an_error() {
    for (how, what) in [
        ("staged", "counts"),
        ("mapped", "counts"),
        ("auto", "sum counts"),
        ("auto", "symmetric counts"),
        ("auto", "symmetric sum counts"),
    ] {
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "60"]).arg(compiled()).args(["--threads", "2"]);
        let said = text(&command.env("FAULT", what).env("GINRS_COLLECTIVE", how).output().unwrap());
        assert!(said.contains("ranks have called different collectives, or with different counts"), "{how}, {what}: {said}");
    }
}

/// Whichever way each of them goes; ranks as threads and as processes.
#[test]
fn collectives_that_differ_are_told_before_a_kernel_begins() {
    const SOURCE: &str = "abi-tests/collectives/differ.cu";
    let program = compiled_as(SOURCE, &["--check=race".into(), "-O1".into(), "-w".into()]);
    let said = |case: &str, (starts, threads): (&[&str], &[&str])| {
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "60"]).arg(prefix().join("bin/ginrs-run")).args(starts).arg(&program).args(threads);
        text(&command.env("CASE", case).output().unwrap())
    };
    let modes: [(&[&str], &[&str]); 2] = [(&["-n", "3"], &[]), (&["-n", "1", "--devices", "3"], &["--threads", "3"])];
    let sum = "ncclAllReduce of 64 x Float32 by ncclSum";
    for (case, one, other) in [
        ("count", sum, "ncclAllReduce of 32 x Float32 by ncclSum"),
        ("op", sum, "ncclAllReduce of 64 x Float32 by ncclMax"),
        ("type", sum, "ncclAllReduce of 64 x Int32 by ncclSum"),
        ("kind", sum, "ncclAllGather of 256 bytes"),
        ("root", "ncclReduce of 64 x Float32 by ncclSum, root 0", "ncclReduce of 64 x Float32 by ncclSum, root 1"),
        ("broadcast root", "ncclBroadcast of 256 bytes, root 0", "ncclBroadcast of 256 bytes, root 1"),
        ("left out", sum, "ncclAllGather of 256 bytes"),
        ("order", sum, "ncclBroadcast of 256 bytes, root 0"),
        ("group", "ncclAllReduce of 16 x Float32 by ncclSum", "ncclBroadcast of 256 bytes, root 0"),
    ] {
        for mode in modes {
            let said = said(case, mode);
            let line =
                said.lines().find(|line| line.contains("GINRS-E141")).unwrap_or_else(|| panic!("{case}, {mode:?}: {said}"));
            let is_called =
                line.contains(if case == "group" { " of the communicator is" } else { "collective 1 of the communicator is" })
                    && line.contains("called by host code at collectives/differ.cu:");
            assert!(is_called && line.contains(one) && line.contains(other), "{case}, {mode:?}: {said}");
            assert_eq!(
                said.matches("rank 0: ").count().min(1) + said.matches("rank 1: ").count().min(1),
                2,
                "{case}, {mode:?}: {said}"
            );
        }
    }
    for mode in modes {
        let said = said("same", mode);
        assert!(!said.contains("E141") && !said.contains("exited with"), "{mode:?}: {said}");
    }
}

/// Each is told once of a communicator, with both lines.
#[test]
fn calls_of_one_group_that_touch_the_same_memory_are_told() {
    const SOURCE: &str = "abi-tests/collectives/clash.cu";
    let program = compiled_as(SOURCE, &["--check=race".into(), "-O1".into(), "-w".into()]);
    let said = |clash: &str| {
        let mut command = Command::new("timeout");
        command
            .args(["-s", "ABRT", "60"])
            .arg(&program)
            .args(["--threads", "2"])
            .env("CLASH", clash)
            .current_dir(abi_tests::root());
        text(&command.env("GINRS_CPU_DEVICES", "2").output().unwrap())
    };
    let recvs = said("recvs");
    let at = |mark| format!(", called by host code at {SOURCE}:{}", line_of(SOURCE, mark));
    let (first, second) = (at("first recv"), at("second recv"));
    let told: Vec<&str> = recvs.lines().filter(|line| line.contains("GINRS-W026")).collect();
    let whole =
        |line: &&&str| line.contains(&format!("{first}; ncclRecv")) && line.contains(&format!("{second}: 4 bytes of both"));
    assert!(told.len() == 2 && told.iter().filter(whole).count() == 2, "{recvs}");
    let output = said("output");
    let told = output.lines().filter(|line| line.contains("GINRS-W026") && line.contains("| ncclAllReduce writes 4000 bytes"));
    assert_eq!(
        told.filter(|line| line.contains("; ncclSend to rank") && line.contains(": 4000 bytes of both")).count(),
        2,
        "{output}"
    );
    let lawful = said("lawful");
    assert!(lawful.matches(": ok").count() >= 2 && !lawful.contains("GINRS-W"), "{lawful}");
}
