//! Host collectives and point-to-point messages on the CPU device: the programs of `abi-tests/collectives`, compiled by the installed
//! `ginrs-cc` and run as threads, as processes and by one thread for all ranks, on one node and on two simulated ones.
//! Needs GINRS_PREFIX (`make test` sets it). `make gpu-test` runs the same programs on GPUs, also on NVIDIA's library.

use abi_tests::{prefix, run, text};
use std::path::PathBuf;
use std::process::Command;

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

const ALL: &[&str] = &["collectives", "streams", "captured", "p2p", "mixed", "groups"];

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

/// The log tells the ways of those that share a launch: on the CPU device mapped calls and LL only where they are asked for.
#[test]
fn calls_of_a_group_go_side_by_side() {
    for (how, seen) in [("auto", "Staged"), ("ll", "Ll"), ("staged", "Staged"), ("mapped", "Mapped and told")] {
        let log = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")];
        let env = [("GINRS_COLLECTIVE", how), ("GINRS_MAP_BUFFERS", "1"), log[0], log[1]];
        let (success, said) = suite(&["groups"], 2, Processes, &env);
        let beside = said.lines().any(|line| line.contains(&format!(": {seen}")) && line.contains(", beside "));
        assert!(success && beside && said.matches("of 2: ok,").count() == 2, "{how}:\n{said}");
    }
}

/// Reductions, one for each rank as root: between memory that all lend, and by messages after all, where a rank has some that it cannot lend.
#[test]
fn reductions_for_each_rank_go_together() {
    let log = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL"), ("GINRS_COLLECTIVE", "mapped"), ("COLL", "seed=3")];
    for ranks in [2, 3] {
        let (success, said) = suite(&["groups"], ranks, Processes, &log);
        let together = format!("one for each of {ranks} ranks");
        let is_said = |how: &str| said.lines().any(|line| line.contains(how) && line.contains(&together));
        let right = success && said.matches(&format!("of {ranks}: ok,")).count() == ranks as usize;
        assert!(right && is_said(": Mapped and told") && is_said(": Mapped and not told"), "{ranks}:\n{said}");
    }
    all_ok(&["groups"], 3, Threads, &[("GINRS_COLLECTIVE", "mapped"), ("COLL", "seed=8")]);
    all_ok(&["groups"], 5, Processes, &[("GINRS_COLLECTIVE", "mapped"), ("COLL", "seed=9")]);
}

/// More ranks than a launch has places for where their buffers are seen.
#[test]
fn calls_of_a_group_of_many_ranks_are_all_made() {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100"]).arg(compiled("wide")).env("GINRS_CPU_DEVICES", "40");
    command.envs([("GINRS_COLLECTIVE", "staged"), ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")]);
    let said = text(&command.output().expect("timeout starts"));
    assert!(said.contains(", beside 3 others") && said.matches(": ok").count() == 40, "{said}");
}

#[test]
fn over_several_nodes() {
    let two = ("GINRS_FAKE_NODES", "0,0,1,1");
    all_ok(ALL, 4, Threads, &[("COLL", "sample=400 big=9001 seed=10"), two]);
    all_ok(ALL, 4, Processes, &[("COLL", "sample=800 big=9001 seed=11"), two]);
    all_ok(ALL, 3, Threads, &[("COLL", "sample=800 big=9001 seed=12"), ("GINRS_FAKE_NODES", "per-rank")]);
    let each_to_each = ("GINRS_COLLECTIVE", "staged");
    all_ok(&["collectives"], 4, Threads, &[("COLL", "sample=2000 big=9001 from=6 seed=19"), two, each_to_each]);
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

/// What has other bytes for each rank: all to the rails, of one rank, too, and where neighbours share machines; straight and by trees; with
/// many slices, and with so many small ones that several make a message.
#[test]
fn other_bytes_for_each_rank_along_rails() {
    let shapes = [(2, "0,1"), (4, "0,0,1,1"), (4, "0,1,1,0"), (6, "0,0,1,1,2,2"), (6, "0,0,0,1,1,1"), (5, "0,0,0,1,1")];
    for (ranks, nodes) in shapes {
        for (how, seed) in [("ring", 16), ("tree", 17)] {
            let plan = format!("sample=2000 big=9001 from=6 seed={seed}");
            let env = [("COLL", &*plan), ("GINRS_FAKE_NODES", nodes), ("GINRS_COLLECTIVE", how)];
            let programs = if ranks == 4 { &["collectives", "captured"][..] } else { &["collectives"] };
            all_ok(programs, ranks, Threads, &env);
        }
    }
    // More ranks in a team than slots in a ring, and trees with places that are missing.
    for nodes in ["0,0,0,0,0,0,1,1,1,1,1,1", "0,0,1,1,2,2,3,3,4,4,5,5"] {
        let plan = ("COLL", "sample=100000 big=5003 from=6 seed=18");
        let env = [plan, ("GINRS_COLLECTIVE", "tree"), ("GINRS_FAKE_NODES", nodes), ("GINRS_CPU_DEVICES", "12")];
        all_ok(&["collectives"], 12, Threads, &env);
    }
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
            let taken = given_to_gin(ranks, nodes, &[("KIND", kind), ("BYTES", "1048576"), ("CALLS", "3")]);
            let most = taken.iter().map(|taken| taken.0).max().unwrap();
            let fits = calls * wanted <= most && most <= calls * wanted * 1005 / 1000;
            assert!(fits, "{kind} on {nodes}: {taken:?} bytes and puts, {calls} x {wanted} bytes wanted");
        }
    }
}

/// Bytes of payload and puts that each rank of the program `bytes` gives GIN, most first.
#[track_caller]
fn given_to_gin(ranks: u64, nodes: &str, env: &[(&str, &str)]) -> Vec<(u64, u64)> {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(compiled("bytes")).args(["--threads", &ranks.to_string()]).envs(env.iter().copied());
    command.envs([("GINRS_FAKE_NODES", nodes), ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "NET")]);
    let said = run(&mut command);
    let of_line = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        Some((words.get(3)?.parse().ok()?, words.get(8)?.parse().ok()?))
    };
    let mut taken: Vec<(u64, u64)> = said.split("GIN of rank ").skip(1).filter_map(of_line).collect();
    assert_eq!(taken.len() as u64, ranks, "{said}");
    taken.sort_unstable_by(|a, b| b.cmp(a));
    taken
}

/// Small calls with other bytes for each rank: a message for each pair of ranks of one rail, and none for any other pair.
#[test]
fn messages_that_leave_a_team() {
    let (calls, bytes) = (3, 64);
    for (ranks, nodes, teams, size) in [(4, "0,0,1,1", 2, 2), (6, "0,0,1,1,2,2", 3, 2), (8, "0,0,0,0,1,1,1,1", 2, 4)] {
        // Of all ranks of a gather that are not in the root's team; of those that are, for a scatter. Each rank of an all-to-all.
        let kinds = [("AlltoAll", ranks, teams - 1, size), ("Gather", ranks - size, 1, 1), ("Scatter", size, teams - 1, 1)];
        for (kind, senders, puts, blocks) in kinds {
            let env = [("KIND", kind), ("BYTES", "64"), ("CALLS", "3"), ("GINRS_COLLECTIVE", "ring")];
            let wanted = (calls * puts * (16 + blocks * bytes), calls * puts);
            let mut all = vec![wanted; senders as usize];
            all.resize(ranks as usize, (0, 0));
            assert_eq!(given_to_gin(ranks, nodes, &env), all, "{kind} on {nodes}: bytes and puts of each rank");
        }
    }
}

/// ncclCommDestroy with kernels under way: what they have yet to send arrives, also when the process ends.
#[test]
fn the_last_calls_of_a_destroyed_communicator_end() {
    for (ranks, nodes) in [("2", "per-rank"), ("3", "0,0,0"), ("4", "0,0,1,1")] {
        let mut processes = Command::new(prefix().join("bin/ginrs-run"));
        processes.args(["-n", ranks, "--timeout", "240"]).arg(compiled("unwaited"));
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
    for how in ["ll", "direct", "buffered", "tree", "staged", "mapped"] {
        let forced = ("GINRS_COLLECTIVE", how);
        all_ok(&["collectives", "captured"], 3, Threads, &[("COLL", "sample=800 big=9001 seed=13"), forced]);
    }
}

/// Through the switch, as the CPU device has one: every type and operation that it has, in place and not, and calls of odd lengths beside.
#[test]
fn by_multicast() {
    let multicast = ("GINRS_COLLECTIVE", "multicast");
    all_ok(&["collectives", "captured"], 3, Threads, &[("COLL", "sample=200 big=9001 seed=17"), multicast]);
    let (mut threads, mut processes) = (Command::new("timeout"), Command::new(prefix().join("bin/ginrs-run")));
    threads.args(["-s", "ABRT", "100"]).arg(compiled("nccltests")).args("-t 3 -d all -o sum,max,avg".split(' '));
    processes.args(["-n", "2", "--timeout", "240"]).arg(compiled("nccltests")).args("-d half,int64 -o sum".split(' '));
    for command in [&mut threads, &mut processes] {
        command.args("-b 48K -e 48K -n 1 -w 0 -C AllReduce,ReduceScatter,AllGather -R 2".split(' '));
        let said = run(command.envs([multicast, ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")]));
        let taken = |kind: &str| said.lines().any(|line| line.contains(kind) && line.contains(": Multicast,"));
        assert!(said.contains("# ok") && ["AllReduce", "ReduceScatter", "AllGather"].iter().all(|kind| taken(kind)), "{said}");
    }
}

/// Between buffers in no window, where all ranks see them; staged where one does not: of whatever memory, at offsets of each rank's own,
/// freed and made anew.
#[test]
fn buffers_in_no_window() {
    let mapped = ("GINRS_COLLECTIVE", "mapped");
    all_ok(&["collectives"], 2, Processes, &[("COLL", "sample=4000 big=9001 seed=21"), mapped]);
    for (ranks, mode, least) in [(2, Threads, 100), (3, OneThread, 100), (3, Processes, 20)] {
        let lines = [mapped, ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")];
        let (success, said) = suite(&["mapped"], ranks, mode, &lines);
        let count = |what: &str| said.matches(&format!("Mapped and {what},")).count();
        let told = count("told");
        assert!(success && told > least && count("not told") > 20, "{ranks} {mode:?}: {told} told\n{said}");
    }
    // Ranks of one's own process and of another.
    let mut processes = Command::new(prefix().join("bin/ginrs-run"));
    processes.args(["-n", "2", "--timeout", "240"]).arg(compiled("nccltests"));
    processes.args("-t 2 -b 64K -e 1M -f 16 -n 4 -w 3 -C all -d float -R 1".split(' '));
    processes.envs([mapped, ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL"), ("GINRS_CPU_DEVICES", "4")]);
    let said = run(&mut processes);
    assert!(said.contains("# ok") && said.matches("Mapped and told,").count() > 20, "{said}");
    // What lies in windows is told at once, whatever process sees it.
    let mut processes = Command::new(prefix().join("bin/ginrs-run"));
    processes.args(["-n", "3", "--timeout", "240"]).arg(compiled("nccltests"));
    processes.args("-b 64K -e 1M -f 16 -n 1 -w 0 -C all -d float -R 2".split(' '));
    let said = run(processes.envs([mapped, ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")]));
    let count = |what: &str| said.matches(&format!("Mapped and {what},")).count();
    assert!(
        said.contains("# ok") && count("told") > 80 && count("not told") == 0,
        "{} {}\n{said}",
        count("told"),
        count("not told")
    );
    // By the variable, from 2 MiB on.
    let mut threads = Command::new("timeout");
    threads.args(["-s", "ABRT", "100"]).arg(compiled("nccltests"));
    threads.args("-t 2 -b 1M -e 2M -f 2 -n 1 -w 0 -C AllGather -d float -R 0".split(' '));
    threads.envs([("GINRS_MAP_BUFFERS", "1"), ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "COLL")]);
    let said = run(&mut threads);
    let of = |count: u32, how: &str| said.contains(&format!("AllGather {count} x Float32: {how},"));
    assert!(said.contains("# ok") && of(1 << 17, "Staged") && of(1 << 18, "Mapped and told"), "{said}");
}

/// Several steps, by messages and between windows, of parts that are no longer than others or shorter: every root.
#[test]
fn a_large_broadcast_is_passed_on() {
    for (ranks, bytes) in [("3", "8388609"), ("4", "4194307")] {
        let mut threads = Command::new("timeout");
        threads.args(["-s", "ABRT", "100"]).arg(compiled("nccltests"));
        threads.args("-n 1 -w 0 -C Broadcast -d uint8 -r all -R 0,2 -t".split(' ')).args([ranks, "-b", bytes, "-e", bytes]);
        let said = run(&mut threads);
        assert!(said.contains("# ok"), "{said}");
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
    let said = run(processes.args(["-n", "3", "--timeout", "240"]).arg(compiled("documentation")));
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
