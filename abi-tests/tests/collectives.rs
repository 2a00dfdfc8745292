//! Host collectives and point-to-point messages on the CPU device: the programs of `abi-tests/collectives`, compiled by the installed
//! `ginrs-cc` and run as threads, as processes and by one thread for all ranks, on one node and on two simulated ones.
//! Needs GINRS_PREFIX (`make test` sets it). `make gpu-test` runs the same programs on GPUs, also on NVIDIA's library.

use abi_tests::{prefix, run, text};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The compiled program of `abi-tests/collectives`.
#[track_caller]
fn compiled(name: &str) -> PathBuf {
    abi_tests::programs::compiled(&format!("abi-tests/collectives/{name}.cu"))
}

/// A process for each rank, a thread for each, or one thread for all.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Processes,
    Threads,
    OneThread,
}
use Mode::{OneThread, Processes, Threads};

const ALL: &[&str] = &["collectives", "streams", "captured", "p2p", "mixed"];

fn suite(programs: &[&str], ranks: u32, mode: Mode, env: &[(&str, &str)]) -> (bool, String) {
    let count = ranks.to_string();
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100"]);
    match mode {
        Processes => command.arg(prefix().join("bin/ginrs-run")).args(["-n", &count]).arg(compiled("suite")),
        Threads => command.arg(compiled("suite")).args(["--threads", &count]),
        OneThread => command.arg(compiled("suite")).args(["--one-thread", &count]),
    };
    let output = command.args(programs).envs(env.iter().copied()).output().expect("timeout starts");
    (output.status.success(), text(&output))
}

/// Runs `programs` and wants every rank's "ok".
#[track_caller]
fn all_ok(programs: &[&str], ranks: u32, mode: Mode, env: &[(&str, &str)]) {
    let (success, said) = suite(programs, ranks, mode, env);
    let ok = |program: &&&str| (0..ranks).all(|rank| said.contains(&format!("{program} rank {rank} of {ranks}: ok,")));
    let bad: Vec<_> = programs.iter().filter(|program| !ok(program)).collect();
    assert!(success && bad.is_empty(), "{bad:?} on {ranks} {mode:?} {env:?}:\n{said}");
}

#[test]
fn all_by_threads() {
    for (ranks, plan) in
        [(1, "sample=40"), (2, "sample=100"), (3, "sample=300 big=9001 seed=2"), (4, "sample=400 big=9001 seed=3")]
    {
        all_ok(ALL, ranks, Threads, &[("COLL", plan)]);
    }
    all_ok(&["collectives", "p2p"], 8, Threads, &[("COLL", "sample=2000 big=5003 seed=4")]);
}

#[test]
fn all_by_processes() {
    all_ok(ALL, 2, Processes, &[("COLL", "sample=200 big=20011 seed=5")]);
    all_ok(ALL, 3, Processes, &[("COLL", "sample=400 big=9001 seed=6")]);
    all_ok(&["collectives", "p2p"], 8, Processes, &[("COLL", "sample=2000 big=5003 seed=7")]);
}

#[test]
fn all_by_one_thread() {
    all_ok(ALL, 1, OneThread, &[("COLL", "sample=200 big=9001 seed=8")]);
    all_ok(ALL, 4, OneThread, &[("COLL", "sample=400 big=9001 seed=9")]);
}

#[test]
fn over_several_nodes() {
    let two = ("GINRS_FAKE_NODES", "0,0,1,1");
    all_ok(ALL, 4, Threads, &[("COLL", "sample=400 big=9001 seed=10"), two]);
    all_ok(ALL, 4, Processes, &[("COLL", "sample=800 big=9001 seed=11"), two]);
    all_ok(ALL, 3, Threads, &[("COLL", "sample=800 big=9001 seed=12"), ("GINRS_FAKE_NODES", "per-rank")]);
}

/// Rails of two, three and five teams, also of one rank each, with many rounds and slices, both ways.
#[test]
fn along_rails() {
    for (ranks, nodes) in [(4, "0,0,1,1"), (6, "0,0,1,1,2,2"), (5, "per-rank")] {
        for how in ["ring", "tree"] {
            let env = [("COLL", "sample=8000 big=50021 seed=14"), ("GINRS_FAKE_NODES", nodes), ("GINRS_COLLECTIVE", how)];
            all_ok(&["collectives"], ranks, Threads, &env);
        }
    }
    // Three ranks on one machine and five on another: teams of one rank, of which neighbours share machines.
    let uneven = [("COLL", "sample=8000 big=9001 seed=15"), ("GINRS_FAKE_NODES", "0,0,0,1,1,1,1,1")];
    all_ok(&["collectives", "captured"], 8, Threads, &uneven);
}

/// What each rank gives GIN for others: no more than a good algorithm needs. Slots' heads, and parts of whole lines, are some parts in a thousand.
#[test]
fn bytes_that_leave_a_team() {
    let (calls, bytes) = (3, 1u64 << 20);
    for (ranks, nodes, teams, size) in [(4, "0,0,1,1", 2, 2), (6, "0,0,1,1,2,2", 3, 2), (4, "per-rank", 4, 1)] {
        let each = bytes / size;
        let kinds = [
            ("AllReduce", 2 * (teams - 1) * each / teams),
            ("ReduceScatter", (teams - 1) * bytes),
            ("AllGather", (teams - 1) * bytes),
            ("Broadcast", each),
            ("Reduce", each),
            ("AlltoAll", (ranks - size) * bytes),
        ];
        for (kind, wanted) in kinds {
            let mut command = Command::new("timeout");
            command.args(["-s", "ABRT", "60"]).arg(compiled("bytes")).args(["--threads", &ranks.to_string()]);
            command.env("KIND", kind).env("BYTES", bytes.to_string()).env("CALLS", calls.to_string());
            command.envs([("GINRS_FAKE_NODES", nodes), ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "NET")]);
            let said = run(&mut command);
            let taken = said.split("GIN of rank ").skip(1).filter_map(|line| line.split(' ').nth(3)?.parse::<u64>().ok());
            let taken: Vec<u64> = taken.collect();
            assert_eq!(taken.len() as u64, ranks, "{said}");
            let most = *taken.iter().max().unwrap();
            let fits = calls * wanted <= most && most <= calls * wanted * 1005 / 1000;
            assert!(fits, "{kind} on {nodes}: {taken:?} bytes, {calls} x {wanted} wanted\n{said}");
        }
    }
}

/// ncclCommDestroy with kernels under way: what they have yet to send arrives, also when the process ends.
#[test]
fn the_last_calls_of_a_destroyed_communicator_end() {
    for (ranks, nodes) in [("2", "per-rank"), ("3", "0,0,0"), ("4", "0,0,1,1")] {
        let mut processes = Command::new(prefix().join("bin/ginrs-run"));
        processes.args(["-n", ranks, "--timeout", "60"]).arg(compiled("unwaited"));
        let mut threads = Command::new("timeout");
        threads.args(["-s", "ABRT", "60"]).arg(compiled("unwaited")).args(["--threads", ranks]);
        for command in [&mut processes, &mut threads] {
            let said = run(command.env("GINRS_FAKE_NODES", nodes));
            assert_eq!(said.matches(&format!("of {ranks}: ok,")).count().to_string(), ranks, "{nodes}:\n{said}");
        }
    }
}

/// Ranks that launch calls on several communicators in opposite orders, on devices with just the room that is promised for: four
/// communicators where 16 blocks run at a time, eight where the program asks for two blocks each.
#[test]
fn calls_on_several_communicators_cross() {
    let crossing = |env: &[(&str, &str)], ranks: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "60"]).arg(compiled("crossing")).args(["--threads", ranks]);
        let said = run(command.env("GINRS_CPU_RESIDENT", "16").envs(env.iter().copied()));
        assert_eq!(said.matches(&format!("of {ranks}: ok,")).count().to_string(), ranks, "{env:?}:\n{said}");
    };
    for how in ["ll", "direct", "buffered", "staged"] {
        crossing(&[("GINRS_COLLECTIVE", how)], "2");
    }
    crossing(&[], "4");
    crossing(&[("GINRS_FAKE_NODES", "per-rank")], "2");
    crossing(&[("COMMS", "8"), ("NCCL_MAX_CTAS", "2")], "2");
}

/// One algorithm for all calls that it can take.
#[test]
fn each_algorithm() {
    for how in ["ll", "direct", "buffered", "tree", "staged"] {
        let forced = ("GINRS_COLLECTIVE", how);
        all_ok(&["collectives", "captured"], 3, Threads, &[("COLL", "sample=800 big=9001 seed=13"), forced]);
    }
}

/// A bit of one input is wrong: every rank has to see it.
#[test]
fn a_wrong_input_is_found() {
    let (success, said) = suite(&["collectives"], 2, Threads, &[("COLL", "sample=4000 big=9001 planted=1")]);
    assert!(!success, "{said}");
    for rank in 0..2 {
        assert!(said.contains(&format!("rank {rank}: sweep: ")), "{said}");
    }
    assert!(said.contains("AllReduce int32 sum"), "{said}");
}

/// Programs in the manner of NCCL's documentation: one thread, several threads, patterns, refusals, non-blocking, abort.
#[test]
fn documentation() {
    for devices in ["1", "2", "3", "4"] {
        let said = run(Command::new("timeout").args(["-s", "ABRT", "100"]).arg(compiled("documentation")).arg(devices));
        assert!(said.contains(&format!("documentation of {devices}: ok")), "{said}");
    }
    let mut processes = Command::new(prefix().join("bin/ginrs-run"));
    let said = run(processes.args(["-n", "3", "--timeout", "100"]).arg(compiled("documentation")));
    for rank in 0..3 {
        assert!(said.contains(&format!("documentation rank {rank} of 3: ok,")), "{said}");
    }
}

/// A program in the manner of nccl-tests: its table is whole, nothing is wrong, and each size has its line of JSON.
#[test]
fn tables_of_times() {
    let json = tempfile::NamedTempFile::new().unwrap();
    let table = |arguments: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "100"]).arg(compiled("nccltests")).args(arguments.split(' '));
        let said = run(command.arg("--json").arg(json.path()));
        assert!(said.ends_with("# ok\n"), "{said}");
    };
    table("-t 2 -b 8 -e 128K -f 16 -n 3 -w 1 -R 0,1,2 -G 0,2");
    table("-g 3 -b 1K -e 1K -n 2 -w 1 -C all -d float,bfloat16,int8 -o all -r all -m 2");
    table("-t 2 -g 2 -b 64K -e 64K -n 2 -w 1 -C all -N 1");
    let lines = std::fs::read_to_string(json.path()).unwrap();
    assert!(
        lines.lines().filter(|line| line.contains(r#""collective": "AllReduce", "type": "float32""#)).count() >= 2 * 6 * 3,
        "{lines}"
    );
    assert!(!lines.lines().any(|line| !line.contains(r#""wrong": 0"#)), "{lines}");
}

/// Starts three processes without a launcher that would end the survivors; what each said.
fn fault(what: &str) -> Vec<(bool, String)> {
    let id = abi_tests::programs::job_folder();
    let program = compiled("fault");
    let start = |rank: u32| {
        Command::new("timeout")
            .args(["-s", "ABRT", "60"])
            .arg(&program)
            .envs(
                [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", 3), ("LOCAL_WORLD_SIZE", 3)]
                    .map(|(k, v)| (k, v.to_string())),
            )
            .env("GINRS_RUN_ID", id.path())
            .env("FAULT", what)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..3).map(start).collect();
    children.into_iter().map(|child| child.wait_with_output().unwrap()).map(|o| (o.status.success(), text(&o))).collect()
}

#[test]
fn a_killed_rank_ends_collectives_and_is_named() {
    for what in ["allreduce", "tiny", "symmetric allreduce", "symmetric tiny", "alltoall", "symmetric gather", "send", "recv"] {
        for (rank, (success, said)) in fault(what).iter().enumerate().take(2) {
            assert!(success, "FAULT={what} rank {rank}:\n{said}");
            let named = said.contains("remote process exited") && said.contains("rank 2");
            assert!(said.contains(&format!("rank {rank} released")) && named, "FAULT={what} rank {rank}:\n{said}");
        }
    }
}

#[test]
fn an_abort_ends_collectives() {
    let said = fault("abort");
    assert!(said[0].1.contains("rank 0 aborted: no error"), "{}", said[0].1);
    for (rank, (_, said)) in said.iter().enumerate().skip(1) {
        assert!(
            said.contains(&format!("rank {rank} released")) && said.contains("remote process exited"),
            "rank {rank}:\n{said}"
        );
    }
}

#[test]
fn messages_of_other_sizes_than_wanted_are_an_error_that_names_both() {
    let said: String = fault("sizes").into_iter().map(|(_, said)| said).collect();
    assert!(said.contains("1000") && said.contains("600"), "{said}");
}
