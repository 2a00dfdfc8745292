//! Ranks that die or abort on the CUDA device: every other one is released, and told of whom.

use super::{DIRECT, Env, FAR, STAGED, on_cuda, program};
use abi_tests::programs::job_folder;
use abi_tests::text;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Processes without a launcher that would end the survivors. Those that are left are killed.
struct Bare {
    _id: tempfile::TempDir,
    children: Vec<Child>,
}

impl Bare {
    fn start(name: &str, ranks: u32, env: Env) -> Self {
        let id = job_folder();
        let program = program(name);
        let start = |rank: u32| {
            let mut command = Command::new(&program);
            on_cuda(&mut command, ranks, env);
            let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)];
            command.envs(numbers.map(|(k, v)| (k, v.to_string()))).env("GINRS_RUN_ID", id.path());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children = (0..ranks).map(start).collect();
        Self { _id: id, children }
    }

    /// All outputs, by rank; a panic if a process has not ended after `limit`.
    #[track_caller]
    fn outputs(mut self, limit: Duration) -> Vec<Output> {
        let end = Instant::now() + limit;
        while self.children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
            assert!(Instant::now() < end, "a process still runs after {limit:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.children.drain(..).map(|child| child.wait_with_output().unwrap()).collect()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const LIMIT: Duration = super::hang_limit::HANG_LIMIT;
#[test]
fn a_killed_rank_releases_every_wait_and_is_named() {
    let cases: [(&str, Env); 10] = [
        ("kill", &[]),
        ("barrier", &[]),
        ("lsa", &[]),
        ("ll", &[]),
        ("kill", &STAGED),
        ("barrier", &STAGED),
        ("kill", &DIRECT),
        ("barrier", &DIRECT),
        ("kill", &FAR),
        ("barrier", &FAR),
    ];
    for (wait, env) in cases {
        let env = [env, &[("FAULT", wait)]].concat();
        for (rank, output) in Bare::start("fault", 3, &env).outputs(LIMIT).iter().enumerate().take(2) {
            let said = text(output);
            let named = said.contains("released: remote process exited") && said.contains("rank 2");
            assert!(output.status.success() && named, "{env:?} rank {rank}: {}\n{said}", output.status);
        }
    }
}

/// At any moment: while it sets up, while copies run, while others wait for it.
#[test]
fn a_rank_killed_among_its_copies_ends_the_others() {
    let plan = ("TORTURE", "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=100000 seed=26");
    let cases: [Env; 4] = [&[], &STAGED, &DIRECT, &FAR];
    for (env, milliseconds) in cases.iter().flat_map(|env| [0, 300].map(|ms| (*env, ms))) {
        let env = [env, &[plan]].concat();
        let mut bare = Bare::start("torture", 3, &env);
        // All have joined, and copy.
        let mut said = BufReader::new(bare.children[1].stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("first round is done")), "{env:?}: it ended before");
        std::thread::sleep(Duration::from_millis(milliseconds));
        bare.children[1].kill().unwrap();
        for (rank, output) in bare.outputs(LIMIT).iter().enumerate().filter(|(rank, _)| *rank != 1) {
            let said = text(output);
            assert!(matches!(output.status.code(), Some(1..100)), "{env:?} rank {rank}: {}\n{said}", output.status);
            assert!(said.contains("GINRS-E") && said.contains("rank 1"), "{env:?} rank {rank} after {milliseconds} ms:\n{said}");
        }
    }
}

#[test]
fn an_abort_releases_every_rank() {
    for env in [&[][..], &STAGED, &DIRECT, &FAR] {
        let env = &[env, &[("FAULT", "abort")]].concat();
        let said = Bare::start("fault", 3, env).outputs(LIMIT).iter().map(text).collect::<String>();
        assert!(said.contains("rank 0 aborted: no error"), "{env:?}\n{said}");
        for rank in [1, 2] {
            assert!(said.contains(&format!("rank {rank} released: remote process exited")), "{env:?}\n{said}");
        }
    }
}
