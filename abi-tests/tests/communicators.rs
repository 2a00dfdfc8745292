//! Communicators beyond ncclCommInitRank: split, shrink, revoke, several ids, non-blocking ones. Programs compiled by the installed
//! `ginrs-cc`, as processes and as threads, with kernels on every communicator that they make.

#[path = "../../tests/netns/mod.rs"]
mod netns;

use abi_tests::{prefix, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compiled program of `abi-tests/programs`.
#[track_caller]
fn compiled(name: &str) -> PathBuf {
    abi_tests::programs::compiled(&format!("abi-tests/programs/{name}.cu"))
}

const PATIENCE: [(&str, &str); 2] = [("GINRS_INIT_TIMEOUT", "60"), ("GINRS_TIMEOUT", "60")];

/// Ranks as processes and as threads; every one of them has to say "ok".
#[track_caller]
fn all_ok(name: &str, ranks: u32, env: &[(&str, &str)]) {
    let mut processes = Command::new(prefix().join("bin/ginrs-run"));
    processes.args(["-n", &ranks.to_string(), "--timeout", "240"]).arg(compiled(name));
    let mut threads = Command::new("timeout");
    threads.args(["-s", "ABRT", "100"]).arg(compiled(name)).args(["--threads", &ranks.to_string()]);
    for mut command in [processes, threads] {
        command.envs(PATIENCE).env("GINRS_CPU_DEVICES", ranks.max(8).to_string()).envs(env.iter().copied());
        let output = command.output().expect("the program starts");
        let said = text(&output);
        let ok = said.matches(": ok,").count();
        assert!(output.status.success() && ok == ranks as usize, "{command:?}: {}\n{said}", output.status);
    }
}

#[test]
fn children_by_colour_and_key_work_beside_their_parent() {
    for ranks in [2, 4, 5] {
        all_ok("split", ranks, &[]);
    }
    all_ok("split", 4, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
    all_ok("split", 4, &[("GINRS_FAKE_REACH", "0,0,1,1")]);
    all_ok("split", 3, &[("NCCL_GIN_BACKEND", "direct")]);
}

#[test]
fn what_is_left_of_a_communicator_works() {
    for ranks in [3, 5] {
        all_ok("shrink", ranks, &[]);
    }
    all_ok("shrink", 4, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
    all_ok("shrink", 4, &[("SHRINK", "abort")]);
    all_ok("shrink", 4, &[("SHRINK", "revoke")]);
    all_ok("shrink", 4, &[("SHRINK", "unaware")]);
}

#[test]
fn who_is_missed_by_many_threads_is_told_once_and_to_each() {
    // A dedicated address: at 127.0.0.1 another process may use any port.
    let [low, middle, high, _] = std::process::id().to_le_bytes();
    let point = format!("127.{}.{middle}.{low}:4078", 64 + high);
    for missed in [&[][..], &[("MISSED", "root"), ("NCCL_COMM_ID", &point)]] {
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "100"]).arg(compiled("missed")).envs(missed.iter().copied());
        command
            .envs([("GINRS_INIT_TIMEOUT", "5"), ("GINRS_WAIT_WARN", "0"), ("GINRS_CPU_DEVICES", "17")])
            .env_remove("NCCL_DEBUG");
        let said = text(&command.output().unwrap());
        assert!(said.contains("16 of 16 are told") && said.matches("GINRS-E011").count() == 1, "{said}");
    }
}

#[test]
fn several_ids_and_simulated_groups() {
    for ranks in [2, 5] {
        all_ok("scalable", ranks, &[]);
    }
    // Ranks join for as long as GINRS_INIT_TIMEOUT says, whatever a step may take.
    all_ok("scalable", 4, &[("LATE", "6"), ("GINRS_TIMEOUT", "4")]);
}

#[test]
fn a_wrong_call_of_one_rank_is_told_to_the_others_in_groups_too() {
    for ranks in [3, 4] {
        all_ok("declined", ranks, &[]);
    }
}

#[test]
fn non_blocking_communicators() {
    for ranks in [1, 2, 4] {
        all_ok("nonblocking", ranks, &[]);
    }
    all_ok("nonblocking", 4, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
    all_ok("nonblocking", 3, &[("LEAVE", "1")]);
}

/// As many processes, without a launcher that would end the survivors; what all but the dead said.
#[track_caller]
fn survivors_ok(what: &str, ranks: u32, dead: &[u32], env: &[(&str, &str)]) {
    let id = abi_tests::programs::job_folder();
    let program = compiled("shrink");
    let start = |rank: u32| {
        let of = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)];
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "100"]).arg(&program).envs(of.map(|(name, value)| (name, value.to_string())));
        command.env("GINRS_RUN_ID", id.path()).env("SHRINK", what).envs(PATIENCE).envs(env.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    for (rank, child) in (0..).zip(children) {
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        if dead.contains(&rank) {
            assert!(!output.status.success(), "rank {rank} was to die\n{said}");
        } else {
            assert!(
                output.status.success() && said.contains(&format!("shrink rank {rank}: ok, {what}")),
                "{what}, rank {rank}: {said}"
            );
        }
    }
}

#[test]
fn killed_ranks_are_left_behind() {
    survivors_ok("kill", 4, &[3], &[]);
    survivors_ok("dead", 3, &[2], &[]);
    survivors_ok("during", 4, &[1], &[]);
    survivors_ok("late", 4, &[2], &[]);
    survivors_ok("late", 4, &[2], &[("GINRS_FAKE_MACHINES", "0,1,2,2")]);
    survivors_ok("split", 4, &[1], &[]);
    survivors_ok("beside", 3, &[1], &[]);
    survivors_ok("lists", 4, &[], &[]);
}

/// What the survivors of `case` say of the rank that was killed before the call; `start` makes the command of each rank.
#[track_caller]
fn killed_before(case: &str, start: impl Fn(u32, &Path) -> Command) {
    let (id, program) = (abi_tests::programs::job_folder(), compiled("killed"));
    let start = |rank: u32| {
        let mut command = start(rank, &program);
        let of = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", 4), ("LOCAL_WORLD_SIZE", 4)];
        command.arg(case).envs(of.map(|(name, value)| (name, value.to_string()))).env("GINRS_RUN_ID", id.path());
        // Of a rank that is missed nobody hears in a test's time.
        command.envs([("GINRS_INIT_TIMEOUT", "600"), ("GINRS_TIMEOUT", "600")]).env_remove("NCCL_DEBUG");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ranks: Vec<_> = (0..4).map(start).collect();
    for (rank, child) in (0..).zip(ranks) {
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        let is_out = rank == 0 && case == "shrink";
        // Another rank may have ended by it before, and that is told, too.
        let own = format!("rank {rank}: 6, GINRS-E04");
        let told = said.lines().any(|line| line.starts_with(&own) && line.contains("E040 rank 3 (pid "));
        // The rank that is left out polls for the failure, and ends when it observes it.
        let ends = is_out && output.status.success();
        assert!(rank == 3 || ends || told, "{case}, rank {rank}: {}\n{said}", output.status);
    }
}

const BEFORE: [&str; 4] = ["split", "shrink", "window", "devcomm"];

fn timed(mut command: Command, program: &Path) -> Command {
    command.args(["-s", "KILL", "240"]).arg(program);
    command
}

#[test]
fn a_rank_that_is_killed_before_a_call_of_all_is_named_at_once() {
    for case in BEFORE {
        for machines in ["0,0,0,0", "0,0,1,1", "per-rank"] {
            killed_before(case, |_, program| {
                let mut command = timed(Command::new("timeout"), program);
                command.env("GINRS_FAKE_MACHINES", machines);
                command
            });
        }
    }
}

#[test]
fn and_on_another_machine() {
    let Some(machines) = netns::Machines::new(3) else { return };
    for case in BEFORE {
        // With a neighbour that sees it, and alone there.
        for places in [[0, 0, 1, 1], [0, 0, 1, 2]] {
            killed_before(case, |rank, program| timed(machines.command(places[rank as usize], "timeout"), program));
        }
    }
}
