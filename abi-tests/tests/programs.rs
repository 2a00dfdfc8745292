//! Programs over several ranks, compiled by the installed `ginrs-cc` and run as a user would: as processes under `ginrs-run`
//! and as threads. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::{prefix, text};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The compiled program of `abi-tests/programs`.
#[track_caller]
fn compiled(name: &str) -> PathBuf {
    abi_tests::programs::compiled(&format!("abi-tests/programs/{name}.cu"))
}

/// How ranks are started.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Processes,
    Threads,
}
use Mode::{Processes, Threads};

/// Runs `name` and wants every rank's "ok".
#[track_caller]
fn all_ok(name: &str, ranks: u32, mode: Mode, env: &[(&str, &str)]) {
    said_by_all_ok(name, ranks, mode, env);
}

/// The same, and what it printed.
#[track_caller]
fn said_by_all_ok(name: &str, ranks: u32, mode: Mode, env: &[(&str, &str)]) -> String {
    let program = compiled(name);
    let mut command = match mode {
        Processes => {
            let mut c = Command::new(prefix().join("bin/ginrs-run"));
            c.args(["-n", &ranks.to_string(), "--timeout", "170"]).arg(program);
            c
        }
        Threads => {
            let mut c = Command::new("timeout");
            c.args(["-s", "ABRT", "170"]).arg(program).args(["--threads", &ranks.to_string()]);
            c.env("GINRS_CPU_DEVICES", ranks.max(8).to_string());
            c
        }
    };
    let output = command.envs(env.iter().copied()).output().expect("the program starts");
    let said = text(&output);
    let ok = (0..ranks).filter(|r| said.contains(&format!("rank {r} of {ranks}: ok,"))).count();
    assert!(output.status.success() && ok == ranks as usize, "{name} on {ranks} {mode:?} {env:?}: {}\n{said}", output.status);
    said
}

#[test]
fn every_method_on_odd_and_even_rank_counts() {
    for ranks in [1, 2, 3, 5, 7] {
        all_ok("api", ranks, Threads, &[]);
    }
    for ranks in [1, 2, 4] {
        all_ok("api", ranks, Processes, &[]);
    }
}

#[test]
fn nodes_by_rank() {
    all_ok("api", 6, Threads, &[("GINRS_FAKE_NODES", "0,0,1,1,2,2")]);
    all_ok("api", 3, Threads, &[("GINRS_FAKE_NODES", "per-rank")]);
    all_ok("api", 4, Processes, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
}

#[test]
fn expert_parallel_exchange() {
    for ranks in [1, 3, 4] {
        all_ok("moe", ranks, Threads, &[]);
    }
    all_ok("moe", 4, Threads, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
    all_ok("moe", 4, Processes, &[]);
    all_ok("moe", 3, Processes, &[("GINRS_FAKE_NODES", "0,1,2")]);
}

#[track_caller]
fn torture(ranks: u32, mode: Mode, plan: &str) {
    all_ok("torture", ranks, mode, &[("TORTURE", plan)]);
}

#[test]
fn torture_by_cta_warp_and_thread() {
    torture(4, Threads, "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=3 seed=1");
    torture(4, Processes, "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=3 seed=2");
    torture(3, Threads, "blocks=2 threads=96 coop=warp strip=16384 largest=700 rounds=3 seed=3");
    torture(3, Processes, "blocks=2 threads=96 coop=thread strip=1024 largest=64 rounds=3 seed=4");
}

/// What GPUs use, over the CPU device's copies: between ranks that reach each other, and between ranks that do not.
#[test]
fn transports_that_let_the_device_copy() {
    let plan = "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=2 seed=21";
    let large = "blocks=2 threads=64 coop=cta strip=1048576 largest=400000 rounds=2 seed=22";
    for mode in [Processes, Threads] {
        for transport in ["nvlink", "staged"] {
            for plan in [plan, large] {
                all_ok("torture", 3, mode, &[("TORTURE", plan), ("GINRS_TRANSPORT", transport)]);
            }
        }
        all_ok("torture", 4, mode, &[("TORTURE", plan), ("GINRS_FAKE_REACH", "0,0,1,1")]);
        all_ok("api", 4, mode, &[("GINRS_FAKE_REACH", "0,0,1,1")]);
        all_ok("api", 2, mode, &[("GINRS_TRANSPORT", "staged")]);
    }
    all_ok("moe", 4, Processes, &[("GINRS_FAKE_REACH", "0,1,0,1")]);
}

/// Small copies by a block that the proxy starts: the kernel's own source, beside those that put. It comes and goes, so how much it carries differs.
#[test]
fn a_courier_makes_small_copies() {
    let courier = [("GINRS_TRANSPORT", "nvlink"), ("GINRS_COURIER", "1"), ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "NET")];
    let mut given = 0;
    for (seed, mode) in [(61, Processes), (62, Threads)] {
        for plan in [
            "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=4",
            "blocks=2 threads=96 coop=thread strip=1024 largest=64 rounds=8",
            "blocks=2 threads=64 coop=cta strip=1048576 largest=400000 rounds=2",
        ] {
            let plan = format!("{plan} seed={seed}");
            let env = [&courier[..], &[("TORTURE", &plan)]].concat();
            let said = said_by_all_ok("torture", 3, mode, &env);
            let counts =
                said.split("the courier was started ").skip(1).filter_map(|rest| rest.split("given ").nth(1)?.split(' ').next());
            given += counts.map(|count| count.parse::<u64>().expect("a number")).sum::<u64>();
        }
        all_ok("api", 4, mode, &courier);
    }
    assert!(given > 100, "the courier was given {given} commands in all");
}

/// What a network does, without one: ranks with nothing but messages for each other, landed by the target.
#[test]
fn ranks_that_have_only_messages() {
    let messages = ("GINRS_TRANSPORT", "messages");
    let small = "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=2 seed=41";
    let large = "blocks=2 threads=64 coop=cta strip=1048576 largest=400000 rounds=2 seed=42";
    for mode in [Processes, Threads] {
        for plan in [small, large] {
            all_ok("torture", 3, mode, &[("TORTURE", plan), messages]);
        }
        all_ok("api", 4, mode, &[messages, ("GINRS_FAKE_NODES", "0,0,1,1")]);
    }
    all_ok("moe", 4, Processes, &[messages, ("GINRS_FAKE_NODES", "per-rank")]);
    for ranks in [1, 2, 7] {
        all_ok("api", ranks, Threads, &[messages]);
    }
    for (ranks, mode, plan) in [
        (3, Processes, "blocks=2 threads=96 coop=thread strip=1024 largest=64 rounds=3 seed=45"),
        (2, Processes, "blocks=64 threads=32 coop=cta strip=4096 largest=200 rounds=2 seed=46"),
        (7, Threads, "blocks=5 threads=32 coop=warp strip=8192 largest=900 rounds=2 seed=47"),
        (16, Processes, "blocks=2 threads=32 coop=cta strip=4096 largest=400 rounds=2 seed=49"),
        (64, Threads, "blocks=1 threads=32 coop=cta strip=2048 largest=400 rounds=2 seed=50"),
    ] {
        all_ok("torture", ranks, mode, &[("TORTURE", plan), messages]);
    }
    let full = ("TORTURE", "blocks=4 threads=64 coop=thread strip=2048 largest=8 rounds=2 seed=51");
    all_ok("torture", 2, Processes, &[full, messages, ("NCCL_GIN_PROXY_QUEUE_SIZE", "16")]);
    all_ok("torture", 3, Threads, &[("TORTURE", small), messages, ("NCCL_GIN_NCONTEXTS", "1")]);
    for what in ["bounds", "fine"] {
        all_ok("refused", 3, Threads, &[messages, ("NCCL_GIN_BACKEND", "proxy"), ("REFUSED", what)]);
    }
    all_ok("multimem", 3, Processes, &[messages]);
}

/// One past each end, before each start, wrapping; ids of another device communicator: refused by name, and nothing moves.
#[test]
fn what_leaves_its_window_or_its_ids_is_refused() {
    for backend in ["direct", "proxy"] {
        for (mode, what) in [(Processes, "bounds"), (Threads, "bounds"), (Threads, "fine")] {
            all_ok("refused", 3, mode, &[("NCCL_GIN_BACKEND", backend), ("REFUSED", what)]);
        }
    }
}

/// Puts by the kernels themselves, with all of them below the limit and with most above it.
#[test]
fn direct_contexts() {
    let direct = ("NCCL_GIN_BACKEND", "direct");
    let plans = [
        "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=3 seed=31",
        "blocks=2 threads=96 coop=warp strip=16384 largest=700 rounds=3 seed=32",
        "blocks=2 threads=96 coop=thread strip=1024 largest=64 rounds=3 seed=33",
    ];
    for mode in [Threads, Processes] {
        for ranks in [1, 2, 3] {
            all_ok("api", ranks, mode, &[direct]);
        }
        all_ok("api", 3, mode, &[direct, ("GINRS_DIRECT_LARGEST", "0")]);
        for plan in plans {
            all_ok("torture", 3, mode, &[("TORTURE", plan), direct]);
            all_ok("torture", 3, mode, &[("TORTURE", plan), direct, ("GINRS_DIRECT_LARGEST", "40")]);
        }
        all_ok("moe", 4, mode, &[direct]);
    }
    all_ok("torture", 2, Threads, &[("TORTURE", plans[0]), direct, ("NCCL_GIN_NCONTEXTS", "3")]);
    all_ok(
        "torture",
        3,
        Threads,
        &[("TORTURE", plans[0]), direct, ("GINRS_TRANSPORT", "nvlink"), ("GINRS_DIRECT_LARGEST", "40")],
    );
}

#[test]
fn torture_odd_shapes() {
    torture(1, Threads, "blocks=3 threads=33 coop=thread strip=2048 largest=300 rounds=2 seed=5");
    torture(2, Processes, "blocks=64 threads=32 coop=cta strip=4096 largest=200 rounds=2 seed=6");
    torture(2, Threads, "blocks=1 threads=1024 coop=thread strip=256 largest=16 rounds=2 seed=7");
    torture(7, Threads, "blocks=5 threads=32 coop=cta strip=8192 largest=900 rounds=2 seed=8");
    torture(2, Threads, "blocks=1 threads=32 coop=cta strip=50000000 largest=20000000 rounds=1 seed=9");
}

#[test]
fn torture_contexts_and_a_short_queue() {
    let plan = ("TORTURE", "blocks=4 threads=32 coop=cta strip=16384 largest=900 rounds=2 seed=10");
    for contexts in ["1", "2", "3"] {
        all_ok("torture", 3, Threads, &[plan, ("NCCL_GIN_NCONTEXTS", contexts)]);
    }
    let small = ("TORTURE", "blocks=4 threads=64 coop=thread strip=2048 largest=8 rounds=2 seed=11");
    all_ok("torture", 2, Processes, &[small, ("NCCL_GIN_PROXY_QUEUE_SIZE", "16")]);
}

#[test]
fn many_ranks() {
    torture(64, Threads, "blocks=1 threads=32 coop=cta strip=2048 largest=400 rounds=2 seed=12");
    torture(16, Processes, "blocks=2 threads=32 coop=cta strip=4096 largest=400 rounds=2 seed=13");
}

#[test]
fn one_thread_drives_all_ranks() {
    for ranks in ["1", "2", "5", "8"] {
        let output = Command::new("timeout").args(["120"]).arg(compiled("group")).arg(ranks).output().unwrap();
        let said = text(&output);
        assert!(output.status.success() && said.contains(&format!("group of {ranks}: ok")), "{said}");
    }
}

/// Starts `ranks` processes without a launcher that would end the survivors.
fn bare_processes(name: &str, ranks: u32, env: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Child>) {
    let id = abi_tests::programs::job_folder();
    let program = compiled(name);
    let start = |rank: u32| {
        Command::new("timeout")
            .args(["-s", "ABRT", "100"])
            .arg(&program)
            .envs(
                [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)]
                    .map(|(k, v)| (k, v.to_string())),
            )
            .env("GINRS_RUN_ID", id.path())
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children = (0..ranks).map(start).collect();
    (id, children)
}

#[test]
fn a_killed_rank_releases_every_wait_and_is_named() {
    let direct = ("NCCL_GIN_BACKEND", "direct");
    let proxy = ("NCCL_GIN_BACKEND", "proxy");
    let waits = ["kill", "barrier", "lsa", "ll"].map(|wait| (wait, proxy)).into_iter();
    for (wait, backend) in waits.chain([("kill", direct), ("barrier", direct)]) {
        let (_id, children) = bare_processes("fault", 3, &[("FAULT", wait), backend]);
        for (rank, child) in children.into_iter().enumerate().take(2) {
            let output = child.wait_with_output().unwrap();
            let said = text(&output);
            assert!(output.status.success(), "FAULT={wait} rank {rank}: {}\n{said}", output.status);
            assert!(
                said.contains("released: remote process exited") && said.contains("rank 2"),
                "FAULT={wait} rank {rank}:\n{said}"
            );
        }
    }
}

#[test]
fn an_abort_releases_every_rank() {
    let (_id, children) = bare_processes("fault", 3, &[("FAULT", "abort")]);
    let said = children.into_iter().map(|c| text(&c.wait_with_output().unwrap())).collect::<String>();
    let threads = Command::new("timeout")
        .arg("240")
        .arg(compiled("fault"))
        .args(["--threads", "3"])
        .env("FAULT", "abort")
        .output()
        .unwrap();
    for said in [said, text(&threads)] {
        assert!(said.contains("rank 0 aborted: no error"), "{said}");
        for rank in [1, 2] {
            assert!(said.contains(&format!("rank {rank} released: remote process exited")), "{said}");
        }
    }
}

/// Multicast teams are made once, with windows before and after; NCCL_NVLS_ENABLE=0 refuses them.
#[test]
fn multicast_teams() {
    for mode in [Processes, Threads] {
        all_ok("multicast", 4, mode, &[("MULTICAST", "teams")]);
        all_ok("multicast", 2, mode, &[("MULTICAST", "refused"), ("NCCL_NVLS_ENABLE", "0")]);
    }
}

/// multimem instructions of every type reach all members; barriers and broadcasts by multicast.
#[test]
fn multimem() {
    all_ok("multimem", 2, Processes, &[]);
    all_ok("multimem", 3, Processes, &[]);
    all_ok("multimem", 4, Threads, &[]);
    all_ok("multimem", 4, Threads, &[("TEAMS", "halves")]);
}

#[test]
fn a_plain_store_to_multicast_memory_ends_with_a_line_that_says_so() {
    let output = Command::new(compiled("multimem")).args(["--threads", "2"]).env("FAULT", "1").output().unwrap();
    let said = text(&output);
    assert!(!output.status.success() && said.contains("this is multicast memory"), "{}:\n{said}", output.status);
}
